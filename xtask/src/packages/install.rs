//! `install.sh`: the script of `packaging/install.sh` with the version, the addresses and the public key in it.

use std::path::PathBuf;

use super::names::Names;
use super::release::Release;
use super::tools;
use crate::places;

pub fn build(release: &Release) -> Result<Vec<PathBuf>, String> {
    let key = public_key(&release.names);
    if key.is_empty() {
        println!("no public key in packaging/names.toml: this install.sh verifies no signature, and says so");
    }
    let file = release.folder.join("install.sh");
    tools::write(&file, script(&release.names, &release.version)?.as_bytes(), 0o755)?;
    Ok(vec![file])
}

/// Empty as long as there is no key.
fn public_key(names: &Names) -> &str {
    names.get("signing.public_key").unwrap_or_default()
}

fn script(names: &Names, version: &str) -> Result<String, String> {
    let template = tools::read_text(&places::root().join("packaging/install.sh"))?;
    let values = [
        ("VERSION", version),
        ("RELEASE", &names.release(version)?),
        ("INSTALL", names.get("addresses.install")?),
        ("PUBLIC_KEY", public_key(names)),
    ];
    // They stand between single quotes there.
    if values.iter().any(|(_, value)| value.contains(['\'', '\n'])) {
        return Err("a name or an address has a quote or a line break".into());
    }
    tools::fill(&template, &values)
}

#[cfg(test)]
mod tests;
