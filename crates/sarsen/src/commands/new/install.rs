//! Fetches the packages that the lock file of a template names, after saying what is run. No script of a package is run.

use super::template::Template;
use crate::error::{Error, Result};
use crate::output;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// Installs them in the product's folder.
pub fn install(template: Template, folder: &Path) -> Result<()> {
    match template {
        Template::Next | Template::Express => install_node(folder),
        Template::Fastapi => install_python(folder),
        Template::Live => {
            install_node(folder)?;
            run(folder, &["cargo", "fetch"], "install Rust 1.90 or newer, by rustup")
        }
    }
}

fn install_node(folder: &Path) -> Result<()> {
    let line = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    run(folder, &line, "install Node.js 20.19 or newer, which brings npm")
}

/// An environment of the product's own, by uv where that is installed. Packages come as wheels, because building one would run its
/// script.
fn install_python(folder: &Path) -> Result<()> {
    const LOCKED: [&str; 5] = ["--require-hashes", "--only-binary", ":all:", "-r", "requirements.txt"];
    const PYTHON: &str = "install Python 3.11 or newer with its venv (Debian: python3-venv), or uv";
    let uv = Command::new("uv").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if uv.is_ok_and(|status| status.success()) {
        run(folder, &["uv", "venv", "--python", ">=3.11", ".venv"], PYTHON)?;
        let install = ["uv", "pip", "install", "--python", ".venv/bin/python"];
        return run(folder, &[&install[..], &LOCKED].concat(), PYTHON);
    }
    run(folder, &["python3", "-m", "venv", ".venv"], PYTHON)?;
    let install = [".venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(folder, &[&install[..], &LOCKED].concat(), PYTHON)
}

/// Runs a program in the folder. What it prints goes to stderr, because stdout is for our own result.
fn run(folder: &Path, line: &[&str], remedy: &str) -> Result<()> {
    let text = line.join(" ");
    output::tell(&format!("Installing: {text}"));
    let by_hand = format!("The files are written: once that is mended, run `{text}` in {}", folder.display());
    let [program, arguments @ ..] = line else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stdout(std::io::stderr());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::failed(format!("{text} failed ({status}); it says above why. {by_hand}"))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Error::failed(format!("{program} is not on the search path; {remedy}. {by_hand}")))
        }
        Err(error) => Err(Error::failed(format!("cannot run {program}: {error}. {by_hand}"))),
    }
}
