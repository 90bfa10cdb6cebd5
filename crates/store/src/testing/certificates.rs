//! Certificates for tests over TLS, made when they are needed, so that none can run out.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Puts into a folder: a private authority (`ca.pem`), a certificate of it for `localhost` and its key (`server.pem`,
/// `server.key`), and another authority of the same name (`foreign.pem`). None without the program that makes them.
pub fn make(folder: &Path) -> Option<()> {
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").ok()?;
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    let sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names";
    for line in [
        format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"),
        format!("req -x509 {key} -keyout foreign.key -out foreign.pem -days 2 -subj /CN=authority"),
        format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
        format!("{sign} -days 2 -out server.pem"),
    ] {
        let output =
            Command::new("openssl").args(line.split_whitespace()).current_dir(folder).output().ok()?;
        output.status.success().then_some(())?;
    }
    Some(())
}
