//! The crates that a back end on `live` is built from, as `cargo package` packs them: `sarsen new … --crates dist` takes them
//! until a registry has them.
//!
//! They are packed from a copy of the commit whose manifests say that they may be published. In the tree itself that stays
//! forbidden, so that nobody does it by mistake. The licences and the dependencies of a crate are in it as cargo writes them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::names::Names;
use super::release::Release;
use super::tools;
use crate::{places, process};

/// Folders of `crates`; each is packed as `sarsen-NAME`.
const CRATES: [&str; 7] = ["browser", "endpoint", "live", "metrics", "store", "store-derive", "web"];
const FORBIDDEN: &str = "publish.workspace = true\n";
const LIMIT: Duration = Duration::from_secs(300);

pub fn build(release: &Release) -> Result<Vec<PathBuf>, String> {
    let tree = copy_of_the_commit()?;
    for name in CRATES {
        let file = tree.join("crates").join(name).join("Cargo.toml");
        let manifest = publishable(&tools::read_text(&file)?, name, &release.names)?;
        tools::write(&file, manifest.as_bytes(), 0o644)?;
    }
    let target = places::target().join("packages/crates");
    let mut cargo = Command::new("cargo");
    cargo.args(["package", "--quiet", "--no-verify", "--allow-dirty", "--target-dir"]).arg(&target);
    cargo.args(CRATES.map(|name| format!("--package=sarsen-{name}"))).current_dir(&tree);
    if !process::run(&mut cargo, LIMIT)?.success {
        return Err("`cargo package` failed; it needs the index of the registry".into());
    }
    let mut files = Vec::new();
    for name in CRATES {
        let name = format!("sarsen-{name}-{}.crate", release.version);
        let bytes = tools::read(&target.join("package").join(&name))?;
        let file = release.folder.join(name);
        tools::write(&file, &bytes, 0o644)?;
        files.push(file);
    }
    Ok(files)
}

/// Changes that are not committed are left out.
fn copy_of_the_commit() -> Result<PathBuf, String> {
    let tree = places::target().join("packages/tree");
    let wrong = |error: std::io::Error| format!("{}: {error}", tree.display());
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(wrong)?;
    }
    fs::create_dir_all(&tree).map_err(wrong)?;
    let root = places::root();
    let git = ["-C", &root.to_string_lossy(), "-c", "safe.directory=*", "archive", "HEAD"];
    let archive = tools::filter("git", &git, &[])?;
    tools::filter("tar", &["-x", "-C", &tree.to_string_lossy()], &archive)?;
    Ok(tree)
}

/// A manifest with what a registry asks for in place of the line that forbids it.
fn publishable(manifest: &str, name: &str, names: &Names) -> Result<String, String> {
    if !manifest.contains(FORBIDDEN) {
        return Err(format!("crates/{name}/Cargo.toml has no line `{}`", FORBIDDEN.trim()));
    }
    let line = |key: &str, value: &str| format!("{key} = {}\n", tools::json(value));
    let title = names.get("project.title")?;
    let lines = [
        line("description", &format!("The crate `{name}` of {title}")),
        line("homepage", names.get("addresses.home")?),
        line("repository", names.get("addresses.source")?),
    ];
    Ok(manifest.replacen(FORBIDDEN, &lines.concat(), 1))
}

#[test]
fn only_the_copy_may_be_published() {
    let names = Names::read(&places::root().join(super::names::FILE)).expect("is read");
    for name in CRATES {
        let file = places::root().join("crates").join(name).join("Cargo.toml");
        let manifest = tools::read_text(&file).expect("is read");
        let changed = publishable(&manifest, name, &names).expect("is forbidden before");
        assert!(changed.contains(&format!("description = \"The crate `{name}` of Sarsen\"\n")), "{changed}");
        assert!(changed.contains(&format!("name = \"sarsen-{name}\"")), "{changed}");
        assert!(publishable(&changed, name, &names).is_err());
    }
}
