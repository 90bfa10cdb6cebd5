//! The TLS certificate of the server: from files, or from an ACME server.

#[cfg(feature = "acme")]
mod acme;
mod files;

pub use files::Files;

use crate::config::Config;
use crate::environment::Environment;
use crate::error::Result;
use server::Tls;

/// Where the certificate comes from.
pub enum Certificate {
    /// Files that others renew.
    Files(Files),
    /// An ACME server.
    #[cfg(feature = "acme")]
    Acme(acme::Acme),
}

impl Certificate {
    /// What the configuration names; none if the server speaks plain HTTP.
    #[cfg_attr(not(feature = "acme"), expect(unused_variables, reason = "the certificates that ACME trusts"))]
    pub fn open(config: &Config, environment: &Environment) -> Result<Option<Certificate>> {
        #[cfg(feature = "acme")]
        if !config.acme_domains.value.is_empty() {
            return acme::Acme::open(config, environment).map(|acme| Some(Certificate::Acme(acme)));
        }
        Ok(Files::read(config)?.map(Certificate::Files))
    }

    /// The certificate that connections use; it follows its source.
    pub fn tls(&self) -> Tls {
        match self {
            Certificate::Files(files) => files.tls(),
            #[cfg(feature = "acme")]
            Certificate::Acme(acme) => acme.tls(),
        }
    }

    /// Follows its source until it is dropped.
    pub async fn follow(self) {
        match self {
            Certificate::Files(files) => files.follow().await,
            #[cfg(feature = "acme")]
            Certificate::Acme(acme) => acme.follow().await,
        }
    }
}
