//! Whose certificates are good, as far as the drivers share it.

use crate::Error;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::path::Path;

/// Certificates that were read from a file.
pub(crate) struct Certificates {
    /// The file's content.
    pub(crate) pem: Vec<u8>,
    pub(crate) roots: RootCertStore,
}

/// The certificates of a file that a URL names with `word`.
pub(crate) fn load(word: &str, file: &Path) -> Result<Certificates, Error> {
    let failed = |what: String| Error::Open(format!("{word} {}: {what}", file.display()));
    let pem = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(failed("there is no certificate in it; expected PEM".to_owned())),
        false => Ok(Certificates { pem, roots }),
    }
}

/// For a driver that takes what the process has chosen: there must be a choice, whatever else is compiled in.
pub(crate) fn install_crypto_provider() {
    // A provider that the program installed before stays.
    let _ = aws_lc_rs::default_provider().install_default();
}
