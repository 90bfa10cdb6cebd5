//! A Python environment in the target folder, with pinned packages.

use std::path::PathBuf;
use std::process::Command;

use super::Stamp;
use crate::{places, process};

pub fn is_there() -> bool {
    process::quietly(Command::new("python3").args(["-c", "import venv, ensurepip"]))
}

pub fn has_packages() -> bool {
    outside().fits() && places::python().exists()
}

pub fn install_packages() -> Result<(), String> {
    install_list(&outside())
}

pub fn has_relying_parties() -> bool {
    relying_parties().fits() && places::python().exists()
}

pub fn install_relying_parties() -> Result<(), String> {
    install_list(&relying_parties())
}

pub fn has_package_clients() -> bool {
    package_clients().fits() && places::python().exists()
}

pub fn install_package_clients() -> Result<(), String> {
    install_list(&package_clients())
}

fn install_list(stamp: &Stamp) -> Result<(), String> {
    environment()?;
    install(&["--requirement", &stamp.list.to_string_lossy()])?;
    stamp.set()
}

/// Makes the environment unless it is there.
pub fn environment() -> Result<(), String> {
    if process::quietly(Command::new(places::python()).arg("--version")) {
        return Ok(());
    }
    super::install(places::at_root("python3", &["-m", "venv", "--clear"]).arg(venv()))
}

/// `pip install` with these words.
pub fn install(what: &[&str]) -> Result<(), String> {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    super::install(Command::new(places::python()).args(pip).args(what))
}

fn venv() -> PathBuf {
    places::target().join("outside-venv")
}

fn outside() -> Stamp {
    let list = places::outside_tests().join("requirements.txt");
    Stamp { list, file: venv().join(".installed") }
}

fn relying_parties() -> Stamp {
    let list = places::relying_parties().join("requirements.txt");
    Stamp { list, file: venv().join(".installed-relying-parties") }
}

fn package_clients() -> Stamp {
    let list = places::packages().join("requirements.txt");
    Stamp { list, file: venv().join(".installed-package-clients") }
}
