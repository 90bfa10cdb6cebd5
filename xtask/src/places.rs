//! Where things are: the root of the tree, the target folder, programs on the search path.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that holds the workspace's Cargo.toml.
pub fn root() -> PathBuf {
    // cargo sets the variable at run time too, so a moved tree still finds itself.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().map(Path::to_path_buf).unwrap_or_default()
}

pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

pub fn outside_tests() -> PathBuf {
    root().join("tests/outside")
}

/// The TypeScript client.
pub fn sdk() -> PathBuf {
    root().join("sdk/typescript")
}

pub fn relying_parties() -> PathBuf {
    root().join("tests/relying_parties")
}

/// The tests of the templates of `sarsen new`.
pub fn templates() -> PathBuf {
    root().join("tests/templates")
}

pub fn edge() -> PathBuf {
    root().join("tests/edge")
}

/// The tests of the packages.
pub fn packages() -> PathBuf {
    root().join("tests/packages")
}

pub fn cost() -> PathBuf {
    root().join("tests/cost")
}

pub fn openid() -> PathBuf {
    root().join("tests/openid")
}

pub fn archives() -> PathBuf {
    root().join("tests/archives")
}

/// What `cargo xtask dist` makes.
pub fn dist() -> PathBuf {
    root().join("dist")
}

/// Compilers of other targets, and bare systems.
pub fn dist_tools() -> PathBuf {
    target().join("dist-tools")
}

/// The Python environment that all tests in `tests` use.
pub fn python() -> PathBuf {
    target().join("outside-venv/bin/python")
}

/// Programs in Go.
pub fn go_programs() -> PathBuf {
    target().join("go")
}

/// A program to be started from the root of the tree.
pub fn at_root(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// In CI nobody builds a second time or steps through the code, so neither is prepared for.
pub fn cargo(args: &[&str]) -> Command {
    let mut cargo = at_root("cargo", args);
    if is_ci() {
        cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "none");
    }
    cargo
}

pub fn is_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

pub fn is_file(path: &str) -> bool {
    Path::new(path).is_file()
}

/// Whether a program of this name is on the search path.
pub fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
