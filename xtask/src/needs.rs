//! What the tests need of the machine. Only what is missing is installed: Debian packages when we are
//! root (otherwise the line to type is shown), node packages and a Python environment in the tree.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{places, process};

const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);
const NODE_MAJOR_MIN: u32 = 20;

/// Something that a Debian package brings.
#[derive(Clone, Copy)]
pub struct Need {
    packages: &'static [&'static str],
    present: fn() -> bool,
}

pub const CHROMIUM: Need =
    Need { packages: &["chromium"], present: || Path::new("/usr/bin/chromium").exists() };
pub const POSTGRES: Need = Need { packages: &["postgresql"], present: || postgres_programs().is_some() };
pub const MARIADB: Need = Need { packages: &["mariadb-server"], present: || mariadb_programs().is_some() };
pub const PGBOUNCER: Need =
    Need { packages: &["pgbouncer"], present: || Path::new("/usr/sbin/pgbouncer").exists() };
pub const OPENSSL: Need = Need { packages: &["openssl"], present: || places::on_path("openssl") };
pub const STRACE: Need = Need { packages: &["strace"], present: || places::on_path("strace") };
pub const NODE: Need =
    Need { packages: &["nodejs", "npm"], present: || places::on_path("node") && places::on_path("npm") };
pub const VENV: Need = Need {
    packages: &["python3", "python3-venv"],
    present: || process::quietly(Command::new("python3").args(["-c", "import venv, ensurepip"])),
};

/// Sees to it that each need is met, or says what to type.
pub fn packages(needs: &[Need]) -> Result<bool, String> {
    let missing: Vec<&str> =
        needs.iter().filter(|need| !(need.present)()).flat_map(|need| need.packages).copied().collect();
    if missing.is_empty() {
        return Ok(true);
    }
    let list = missing.join(" ");
    if !places::on_path("apt-get") {
        return Err(format!("missing on this machine (names of the Debian packages): {list}"));
    }
    if !is_root() {
        return Err(format!("please run this once, then start again:\n    sudo apt-get install {list}"));
    }
    println!("installing Debian packages: {list}");
    install(&mut apt(&["update"]))?;
    install(apt(&["install", "--yes", "--no-install-recommends"]).args(&missing))?;
    match needs.iter().find(|need| !(need.present)()) {
        None => Ok(true),
        Some(need) => Err(format!("installed, but still not found: {}", need.packages.join(" "))),
    }
}

/// `cargo fmt` and `cargo clippy` are parts of the toolchain that may be left out.
pub fn rust_component(verb: &str, component: &str) -> Result<bool, String> {
    if process::quietly(&mut places::cargo(&[verb, "--version"])) {
        return Ok(true);
    }
    println!("installing the Rust component {component}");
    install(&mut places::at_root("rustup", &["component", "add", component]))
}

/// Exactly what `package-lock.json` says, again only when that file has changed.
pub fn node_packages() -> Result<bool, String> {
    let version =
        Command::new("node").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|text| text.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_MAJOR_MIN) {
        return Err(format!("node {NODE_MAJOR_MIN} or newer is needed, and this is {version}"));
    }
    let folder = places::outside_tests();
    let stamp = Stamp::new(&folder.join("package-lock.json"), &folder.join("node_modules/.installed"))?;
    if stamp.fits() {
        return Ok(true);
    }
    println!("installing node packages: npm ci in tests/outside");
    install(places::at_root("npm", &["ci", "--ignore-scripts"]).current_dir(&folder))?;
    stamp.set()
}

/// A Python environment in the target folder, with the pinned requirements.
pub fn python_packages() -> Result<bool, String> {
    let requirements = places::outside_tests().join("requirements.txt");
    let venv = places::target().join("outside-venv");
    let stamp = Stamp::new(&requirements, &venv.join(".installed"))?;
    if stamp.fits() && places::python().exists() {
        return Ok(true);
    }
    println!("installing Python packages into {}", venv.display());
    install(places::at_root("python3", &["-m", "venv", "--clear"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    install(Command::new(places::python()).args(pip).arg(&requirements))?;
    stamp.set()
}

/// The folder with `initdb` and `postgres`: on the search path, or the newest that Debian installed.
pub fn postgres_programs() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let newest_first = versions.into_iter().rev().map(|(_, folder)| folder);
    newest_first
        .chain(env::split_paths(&path))
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
}

/// The programs that make the files of a MariaDB server and serve them.
pub struct MariaDbPrograms {
    pub install: PathBuf,
    pub server: PathBuf,
}

/// On the search path, or where Debian puts what only administrators run.
pub fn mariadb_programs() -> Option<MariaDbPrograms> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]).collect();
    let find = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    Some(MariaDbPrograms { install: find("mariadb-install-db")?, server: find("mariadbd")? })
}

pub fn is_root() -> bool {
    // The owner of our own entry in /proc is who we are.
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

fn apt(args: &[&str]) -> Command {
    let mut command = places::at_root("apt-get", args);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn install(command: &mut Command) -> Result<bool, String> {
    let text = format!("{command:?}");
    match process::run(command, INSTALL_LIMIT)?.success {
        true => Ok(true),
        false => Err(format!("this did not work: {text}")),
    }
}

/// A copy of the list of wanted packages, left beside what was installed from it.
struct Stamp {
    wanted: String,
    file: PathBuf,
}

impl Stamp {
    fn new(list: &Path, file: &Path) -> Result<Stamp, String> {
        let wanted = fs::read_to_string(list).map_err(|error| format!("{}: {error}", list.display()))?;
        Ok(Stamp { wanted, file: file.to_path_buf() })
    }

    fn fits(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|installed| installed == self.wanted)
    }

    fn set(&self) -> Result<bool, String> {
        fs::write(&self.file, &self.wanted).map_err(|error| format!("{}: {error}", self.file.display()))?;
        Ok(true)
    }
}
