//! The sums over everything in the folder, and the signature over the sums.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::source::{done, names, of};

const SUMS: &str = "SHA256SUMS";
const SIGNATURE: &str = "SHA256SUMS.sig";

/// Sums of all files, and of the programs in the unpacked archives, so that an installed program can be looked up.
pub fn write(folder: &Path, key: Option<&Path>) -> Result<(), String> {
    let mut files = Vec::new();
    for name in names(folder)? {
        let path = folder.join(&name);
        if path.is_file() && name != SUMS && name != SIGNATURE {
            files.push(name);
        } else if path.join("sarsen").is_file() {
            let is_program = |inner: &String| inner.starts_with("sarsen");
            files.extend(names(&path)?.into_iter().filter(is_program).map(|inner| format!("{name}/{inner}")));
        }
    }
    let mut command = Command::new("sha256sum");
    let output = command.arg("--").args(&files).current_dir(folder).output();
    let output = output.map_err(|error| format!("`sha256sum` cannot be started ({error}); dist needs it"))?;
    if !output.status.success() {
        return Err(format!("`sha256sum` failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let sums = folder.join(SUMS);
    fs::write(&sums, &output.stdout).map_err(of(&sums))?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let signature = folder.join(SIGNATURE);
    if signature.exists() {
        fs::remove_file(&signature).map_err(of(&signature))?;
    }
    match key {
        Some(key) => sign(&sums, key, &signature),
        None => {
            println!("{SIGNATURE} is not made: --key FILE names an Ed25519 key");
            Ok(())
        }
    }
}

/// Ed25519 (RFC 8032) over the bytes of the file. The key never leaves `openssl`.
fn sign(sums: &Path, key: &Path, signature: &Path) -> Result<(), String> {
    let openssl = |args: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(args);
        command
    };
    let kind = openssl(&["pkey", "-noout", "-text_pub", "-in"]).arg(key).output();
    let kind = kind.map_err(|error| format!("`openssl` cannot be started ({error}); dist --key needs it"))?;
    if !String::from_utf8_lossy(&kind.stdout).starts_with("ED25519 ") {
        return Err(format!(
            "--key {}: not an Ed25519 private key in PEM; `openssl genpkey -algorithm ed25519 -out FILE` makes one",
            key.display()
        ));
    }
    let sign = ["pkeyutl", "-sign", "-rawin", "-inkey"];
    done(openssl(&sign).arg(key).arg("-in").arg(sums).arg("-out").arg(signature))?;
    // The public part, for whoever publishes it; it proves nothing where the files lie.
    done(openssl(&["pkey", "-pubout", "-in"]).arg(key))
}
