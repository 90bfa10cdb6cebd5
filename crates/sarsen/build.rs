//! Tells the program what `sarsen version` prints and the compiler does not tell it: the target it is built for, and the
//! commit, which `cargo xtask dist` sets. It asks no git: the program is not to be built again after each commit.

#![allow(clippy::disallowed_methods, reason = "what cargo tells a build script is in the environment")]
#![allow(clippy::print_stdout, reason = "what a build script tells cargo is what it prints")]

fn main() {
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".into());
    println!("cargo:rustc-env=SARSEN_BUILT_FOR={target}");
    println!("cargo:rerun-if-changed=build.rs");
}
