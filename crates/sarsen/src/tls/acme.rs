//! Certificates of an ACME server such as Let's Encrypt (RFC 8555), which checks the names by a handshake at port 443
//! (TLS-ALPN-01, RFC 8737).
//!
//! The key of the account, and the certificate with its key, are files in a folder that only this user may read. A
//! certificate is renewed after two thirds of its life. While an order fails, it is tried again, later each time, and the
//! certificate that is there stays.

use crate::config::Config;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::files;
use futures_core::Stream as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_acme::caches::DirCache;
use rustls_acme::{AcmeConfig, AcmeState, EventOk};
use server::Tls;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

/// A certificate that an ACME server issues.
pub struct Acme {
    state: AcmeState<std::io::Error>,
    tls: Tls,
    names: String,
}

impl Acme {
    /// Opens the folder of the configuration. Nothing is sent yet.
    pub fn open(config: &Config, environment: &Environment) -> Result<Acme> {
        let folder = config.acme_cache.value.clone();
        files::private_folder(&folder)?;
        let client = client(environment.get("SSL_CERT_FILE"))?;
        let names = &config.acme_domains.value;
        let state = AcmeConfig::new_with_client_config(names, Arc::new(client))
            .directory(&config.acme_directory.value)
            .contact(config.acme_email.value.iter().map(|address| format!("mailto:{address}")))
            .cache(DirCache::new(folder))
            .state();
        let tls = Tls::with_resolver(state.resolver()).map_err(|error| Error::failed(error.to_string()))?;
        Ok(Acme { state, tls, names: names.join(", ") })
    }

    /// The certificate that connections use, as soon as there is one.
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Gets certificates as they are needed.
    pub async fn follow(mut self) {
        let names = self.names;
        while let Some(event) = poll_fn(|context| Pin::new(&mut self.state).poll_next(context)).await {
            match event {
                Ok(EventOk::DeployedCachedCert) => tracing::info!(names, "the TLS certificate was read"),
                Ok(EventOk::DeployedNewCert) => tracing::info!(names, "the TLS certificate was replaced"),
                Ok(EventOk::CertCacheStore | EventOk::AccountCacheStore) => {}
                Err(error) => tracing::warn!(
                    names,
                    %error,
                    "no new TLS certificate; it is tried again. The ACME server must reach port 443 of these names"
                ),
            }
        }
    }
}

/// Trusts the certificates of the file, or the public authorities without one.
fn client(file: Option<&str>) -> Result<ClientConfig> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = file {
        let pem = std::fs::read(path).map_err(Error::file("read", path.as_ref()))?;
        roots = RootCertStore::empty();
        let found = CertificateDer::pem_slice_iter(&pem).flatten();
        if roots.add_parsable_certificates(found).0 == 0 {
            return Err(Error::usage(format!("{path} (SSL_CERT_FILE) has no certificate; use a PEM file")));
        }
    }
    let builder =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::failed(format!("TLS cannot be set up: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
