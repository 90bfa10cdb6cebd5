//! What a run needs of the machine: said before anything else happens, and installed where it is missing. Debian
//! packages when we are root (otherwise the line to type is shown), everything else inside the tree.

mod debian;
mod go;
mod node;
mod python;

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::report::Report;
use crate::{places, process};

pub use debian::{MariaDbPrograms, mariadb_programs, postgres_programs};
pub use go::caddy;
pub use node::node;

const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);

/// One thing that some tests cannot do without.
pub struct Need {
    name: &'static str,
    from: From,
    /// What it takes on the disk, roughly, with all that it brings along.
    megabytes: u32,
    present: fn() -> bool,
}

/// Where it comes from.
enum From {
    Debian(&'static [&'static str]),
    /// A way of its own; in the order of the needs, after Debian's packages.
    Own(fn() -> Result<(), String>),
}

pub static RUSTFMT: Need = Need {
    name: "rustfmt, from rustup",
    from: From::Own(|| rust_component("rustfmt")),
    megabytes: 10,
    present: || process::quietly(&mut places::cargo(&["fmt", "--version"])),
};
pub static CLIPPY: Need = Need {
    name: "clippy, from rustup",
    from: From::Own(|| rust_component("clippy")),
    megabytes: 25,
    present: || process::quietly(&mut places::cargo(&["clippy", "--version"])),
};
pub static POSTGRES: Need = debian::package(&["postgresql"], 60, || postgres_programs().is_some());
pub static MARIADB: Need = debian::package(&["mariadb-server"], 220, || mariadb_programs().is_some());
/// Part of it, but not of every package of MariaDB.
pub static GALERA: Need =
    debian::package(&["galera-4"], 30, || places::is_file("/usr/lib/galera/libgalera_smm.so"));
pub static PGBOUNCER: Need = debian::package(&["pgbouncer"], 5, || places::is_file("/usr/sbin/pgbouncer"));
pub static CURL: Need = debian::package(&["curl"], 2, || places::on_path("curl"));
pub static OPENSSL: Need = debian::package(&["openssl"], 2, || places::on_path("openssl"));
pub static STRACE: Need = debian::package(&["strace"], 5, || places::on_path("strace"));
pub static VALGRIND: Need =
    debian::package(&["valgrind"], 85, || places::on_path("valgrind") && places::on_path("vgdb"));
pub static PROMTOOL: Need = debian::package(&["prometheus"], 100, || places::on_path("promtool"));
pub static CHROMIUM: Need = debian::package(&["chromium"], 400, || places::is_file("/usr/bin/chromium"));
pub static PYTHON: Need = debian::package(&["python3", "python3-venv"], 50, python::is_there);
pub static PYTHON_PACKAGES: Need = Need {
    name: "Python packages",
    from: From::Own(python::install_packages),
    megabytes: 110,
    present: python::has_packages,
};
pub static NODE: Need =
    Need { name: "Node.js", from: From::Own(node::install), megabytes: 200, present: node::is_there };
pub static NODE_PACKAGES: Need = Need {
    name: "Node packages",
    from: From::Own(node::install_packages),
    megabytes: 15,
    present: node::has_packages,
};

pub static APACHE: Need = debian::package(&["apache2", "libapache2-mod-auth-openidc"], 15, || {
    places::is_file("/usr/sbin/apache2") && places::is_file("/usr/lib/apache2/modules/mod_auth_openidc.so")
});
pub static NGINX: Need = debian::package(&["nginx"], 3, || places::is_file("/usr/sbin/nginx"));
pub static CADDY: Need = debian::package(&["caddy"], 40, || places::is_file("/usr/bin/caddy"));
pub static CADDY_FOR_INSTANCES: Need = Need {
    name: "Caddy, newer than Debian's",
    from: From::Own(go::install_caddy),
    megabytes: 60,
    present: || go::caddy().is_file(),
};
pub static LINTIAN: Need = debian::package(&["lintian"], 130, || places::on_path("lintian"));
pub static SKOPEO: Need = debian::package(&["skopeo"], 45, || places::on_path("skopeo"));
pub static UMOCI: Need = debian::package(&["umoci"], 15, || places::on_path("umoci"));
pub static BINUTILS: Need = debian::package(&["binutils"], 25, || places::on_path("readelf"));
pub static H2LOAD: Need = debian::package(&["nghttp2-client"], 5, || places::on_path("h2load"));
pub static IPROUTE: Need =
    debian::package(&["iproute2"], 3, || places::is_file("/usr/sbin/ip") || places::on_path("ip"));
pub static MMDEBSTRAP: Need = debian::package(&["mmdebstrap"], 5, || places::on_path("mmdebstrap"));
pub static QEMU: Need =
    debian::package(&["qemu-user-static"], 150, || places::is_file("/usr/bin/qemu-aarch64-static"));
pub static PEBBLE: Need = Need {
    name: "Pebble, an ACME server",
    from: From::Own(go::install_pebble),
    megabytes: 30,
    present: go::has_pebble,
};
pub static MAVEN: Need = debian::package(&["maven", "default-jdk-headless"], 400, || {
    places::on_path("mvn") && places::on_path("javac")
});
pub static JAVA: Need = debian::package(&["default-jdk-headless"], 300, || places::on_path("javac"));
pub static DJANGO: Need = Need {
    name: "Django and playwright",
    from: From::Own(python::install_relying_parties),
    megabytes: 60,
    present: python::has_relying_parties,
};
pub static AUTHJS: Need = Need {
    name: "Auth.js",
    from: From::Own(node::install_relying_party),
    megabytes: 15,
    present: node::has_relying_party,
};

pub static PYTHON_CLIENTS: Need = Need {
    name: "uv and twine",
    from: From::Own(python::install_package_clients),
    megabytes: 90,
    present: python::has_package_clients,
};
pub static VERDACCIO: Need = Need {
    name: "Verdaccio, a registry of npm",
    from: From::Own(node::install_registry),
    megabytes: 60,
    present: node::has_registry,
};

/// In this order: the Python environment may carry Node.js.
pub static RELYING_PARTIES: [&Need; 10] =
    [&APACHE, &CHROMIUM, &CURL, &MAVEN, &OPENSSL, &PYTHON, &PYTHON_PACKAGES, &DJANGO, &NODE, &AUTHJS];

/// What the step `templates` of a soak runs with; in this order, as above.
pub static TEMPLATES: [&Need; 5] = [&CHROMIUM, &PYTHON, &PYTHON_PACKAGES, &DJANGO, &NODE];

/// What the step `edge` of a soak runs with; in this order, as in `OUTSIDE`.
pub static EDGE: [&Need; 11] = [
    &NGINX,
    &CADDY,
    &H2LOAD,
    &IPROUTE,
    &CURL,
    &CHROMIUM,
    &PYTHON,
    &PYTHON_PACKAGES,
    &NODE,
    &NODE_PACKAGES,
    &PEBBLE,
];
/// What the step `packages` of a soak runs with; in this order, as in `OUTSIDE`.
pub static PACKAGES: [&Need; 12] = [
    &MMDEBSTRAP,
    &LINTIAN,
    &SKOPEO,
    &UMOCI,
    &BINUTILS,
    &IPROUTE,
    &OPENSSL,
    &PYTHON,
    &PYTHON_PACKAGES,
    &PYTHON_CLIENTS,
    &NODE,
    &VERDACCIO,
];
/// What the step `long` of a soak runs with, beside the databases.
pub static LONG: [&Need; 3] = [&NGINX, &CADDY_FOR_INSTANCES, &PROMTOOL];

/// What the tests of this program run, beside what every machine has: they sign a release, and read packages.
pub static TIDY: [&Need; 2] = [&OPENSSL, &PYTHON];

/// What the step `cost` of a soak runs with.
pub static COST: [&Need; 3] = [&VALGRIND, &PYTHON, &PYTHON_PACKAGES];

/// What the step `openid` of a soak runs with.
pub static OPENID: [&Need; 3] = [&JAVA, &PYTHON, &PYTHON_PACKAGES];

/// What the step `archives` of a soak runs with.
pub static ARCHIVES: [&Need; 5] = [&MMDEBSTRAP, &QEMU, &IPROUTE, &PYTHON, &PYTHON_PACKAGES];

/// In this order: Python's environment may carry Node.js, and that brings its packages.
pub static OUTSIDE: [&Need; 6] = [&CHROMIUM, &CURL, &PYTHON, &PYTHON_PACKAGES, &NODE, &NODE_PACKAGES];

/// Prints which of these are missing, and installs them. Duplicates count once.
pub fn meet(report: &mut Report, needs: &[&Need]) {
    report.check("what this run needs", || {
        let mut missing: Vec<&Need> = Vec::new();
        for need in needs {
            if !missing.iter().any(|known| std::ptr::eq(*known, *need)) && !(need.present)() {
                missing.push(need);
            }
        }
        if missing.is_empty() {
            println!("nothing is missing");
            return Ok(true);
        }
        println!("{}", announcement(&missing));
        debian::install(&missing)?;
        for need in missing {
            if let From::Own(install) = need.from {
                println!("installing {}", need.name);
                install()?;
            }
            if !(need.present)() {
                return Err(format!("installed, but still not found: {}", need.name));
            }
        }
        Ok(true)
    });
}

fn announcement(missing: &[&Need]) -> String {
    let line = |need: &&Need| match need.from {
        From::Debian(packages) => format!("  {} (Debian, {} MB)", packages.join(" "), need.megabytes),
        From::Own(_) => format!("  {} ({} MB, inside the tree)", need.name, need.megabytes),
    };
    let lines: Vec<String> = missing.iter().map(line).collect();
    let megabytes: u32 = missing.iter().map(|need| need.megabytes).sum();
    format!(
        "This machine lacks what follows. It is installed now, about {megabytes} MB on the disk:\n{}",
        lines.join("\n")
    )
}

/// `cargo fmt` and `cargo clippy` are parts of the toolchain that may be left out.
fn rust_component(name: &str) -> Result<(), String> {
    install(&mut places::at_root("rustup", &["component", "add", name]))
}

pub fn is_root() -> bool {
    // The owner of our own entry in /proc is who we are.
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

fn install(command: &mut Command) -> Result<(), String> {
    let text = format!("{command:?}");
    match process::run(command, INSTALL_LIMIT)?.success {
        true => Ok(()),
        false => Err(format!("this did not work: {text}")),
    }
}

/// A copy of the list of wanted packages, left beside what was installed from it.
struct Stamp {
    list: std::path::PathBuf,
    file: std::path::PathBuf,
}

impl Stamp {
    fn fits(&self) -> bool {
        let installed = fs::read_to_string(&self.file);
        installed
            .is_ok_and(|installed| fs::read_to_string(&self.list).is_ok_and(|wanted| wanted == installed))
    }

    fn set(&self) -> Result<(), String> {
        let copied = fs::copy(&self.list, &self.file).map(drop);
        copied.map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

#[test]
fn it_says_what_is_missing_and_how_much_it_takes() {
    let text = announcement(&[&POSTGRES, &NODE]);
    assert!(text.contains("about 260 MB"), "{text}");
    assert!(text.contains("\n  postgresql (Debian, 60 MB)\n"), "{text}");
    assert!(text.ends_with("  Node.js (200 MB, inside the tree)"), "{text}");
}
