//! Whose certificates a peer may show.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// The authorities that are trusted.
#[derive(Clone)]
pub struct Trust(TlsConnector);

impl Trust {
    /// Trusts the public authorities, or those of a PEM file. The error says what is wrong with it.
    pub fn new(authorities: Option<&[u8]>) -> Result<Trust, String> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(pem) = authorities {
            roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| format!("it is not PEM: {error}"))?;
                roots.add(certificate).map_err(|error| format!("a certificate is not valid: {error}"))?;
            }
            if roots.is_empty() {
                return Err("it has no certificate".to_owned());
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Trust(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) fn connector(&self) -> &TlsConnector {
        &self.0
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Trust")
    }
}
