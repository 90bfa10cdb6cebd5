//! `sarsen` as a library: a crate outside of this workspace depends on it by path and builds, with SQLite only.

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = r#"//! Embeds the server, and has the commands of `sarsen`.

use clap::Parser;
use sarsen::program::{self, Context};
use sarsen::server::{App, Limits, SecretKey, Settings, Store, SystemClock, SystemRandom};
use std::sync::Arc;

#[derive(Parser)]
enum Command {
    Embedded,
    #[command(flatten)]
    Sarsen(Box<program::Command>),
}

async fn embedded() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(sarsen::server::store_options("sqlite:own.db"))?;
    let key = SecretKey::parse(&SecretKey::generate(&SystemRandom))?;
    let settings = Settings::new("http://localhost:7070");
    let app = App::new(store, settings, key, Arc::new(SystemClock), Arc::new(SystemRandom), None)?;
    sarsen::server::first_start::prepare(&app).await?;
    sarsen::server::serve(app, &["127.0.0.1:7070".parse()?], Limits::default()).await?.stop().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match Command::parse() {
        Command::Embedded => sarsen::server_process::runtime()?.block_on(embedded()),
        Command::Sarsen(command) => Ok(program::run(*command, &Context::of_this_process()?)?),
    }
}
"#;

#[test]
fn a_crate_of_another_workspace_builds_with_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("src")).expect("made");
    std::fs::write(path("src/main.rs"), PROGRAM).expect("written");
    std::fs::write(path("Cargo.toml"), manifest(&root)).expect("written");
    // The same versions as here, so that cargo needs no network.
    std::fs::copy(root.join("Cargo.lock"), path("Cargo.lock")).expect("copied");

    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["check", "--offline", "--quiet", "--target-dir"]).arg(target_folder().join("embedding"));
    let built = cargo.current_dir(folder.path()).output().expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

fn manifest(root: &Path) -> String {
    let sarsen = toml::Value::from(root.join("crates/sarsen").display().to_string());
    format!(
        "[package]\nname = \"embedding\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         clap = {{ version = \"4\", features = [\"derive\"] }}\n\
         sarsen = {{ path = {sarsen}, default-features = false }}\n\n\
         # Nothing of it is run.\n[profile.dev]\ndebug = false\n"
    )
}

/// The folder in which cargo has built this test.
fn target_folder() -> PathBuf {
    let program = Path::new(crate::PROGRAM);
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.expect("a target folder").to_owned()
}
