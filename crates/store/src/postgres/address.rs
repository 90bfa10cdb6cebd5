//! The URL of a database on PostgreSQL, and how to get there.
//!
//! It is libpq's, with these words of our own:
//! - `sslmode=verify-full`: encrypted, and the server shows a certificate for its name.
//! - `sslrootcert=FILE`: who signs that certificate; without it, those whom browsers trust. A file means
//!   `verify-full` whenever TLS is spoken. Otherwise TLS is spoken as with libpq: `prefer` (where the
//!   server offers it, the default), `require`, `disable`; the certificate is then not looked at.
//! - `pooler=transaction`: what listens there is a pooler that lends a connection for one transaction
//!   (PgBouncer). Then nothing may live on a session, prepared statements included.

use super::tls::{Tls, Verify};
use crate::Error;
use ::postgres::config::{Host, SslMode};
use ::postgres::{Client, Config};
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::time::Duration;

/// A URL that was read.
pub(super) struct Address {
    config: Config,
    pooled: bool,
    verified: bool,
    roots: Option<PathBuf>,
}

/// Where to connect to, with everything that takes.
pub(super) struct Server {
    config: Config,
    tls: Tls,
    /// Nothing may live on a session.
    pub(super) pooled: bool,
}

impl Address {
    /// None for what is no URL of PostgreSQL.
    pub(super) fn parse(url: &str) -> Option<Address> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let mut known = vec![];
        let (mut pooled, mut verified, mut roots) = (false, false, None);
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=')? {
                ("sslmode", "verify-full") => {
                    verified = true;
                    known.push("sslmode=require");
                }
                ("sslrootcert", file) => roots = Some(PathBuf::from(unescaped(file)?)),
                ("pooler", "transaction") => pooled = true,
                ("pooler", _) => return None,
                _ => known.push(setting),
            }
        }
        let url = if known.is_empty() { place.to_owned() } else { format!("{place}?{}", known.join("&")) };
        Some(Address { config: url.parse().ok()?, pooled, verified, roots })
    }

    /// Reads the certificates, and settles what the URL leaves open.
    pub(super) fn server(self) -> Result<Server, Error> {
        let verify = match (self.config.get_ssl_mode(), self.roots) {
            (SslMode::Disable, _) => Verify::Nothing,
            (_, Some(file)) => Verify::CaFile(file),
            (_, None) if self.verified => Verify::PublicRoots,
            (_, None) => Verify::Nothing,
        };
        Ok(Server { tls: Tls::new(verify)?, config: settings(self.config), pooled: self.pooled })
    }
}

impl Server {
    pub(super) fn connect(&self) -> Result<Client, ::postgres::Error> {
        self.config.connect(self.tls.clone())
    }

    /// Where it is, and nothing that is secret.
    pub(super) fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        });
        let ports = self.config.get_ports().iter().map(|port| format!(":{port}"));
        hosts
            .zip(ports.chain(std::iter::repeat(String::new())))
            .map(|(host, port)| host + &port)
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// What the URL leaves open. A dead server is noticed in seconds, not when TCP gives up.
fn settings(mut config: Config) -> Config {
    if config.get_application_name().is_none() {
        config.application_name("sarsen");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(2));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(5));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_idle(Duration::from_secs(5));
        config.keepalives_interval(Duration::from_secs(1));
        config.keepalives_retries(5);
    }
    config.notice_callback(|notice| tracing::debug!(message = notice.message(), "the database says"));
    config
}

/// `%2F` → `/`.
fn unescaped(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn our_own_words_are_taken_out_of_the_url() {
        let url = "postgres://ada:x@db.test/sarsen?pooler=transaction&sslmode=verify-full\
                   &sslrootcert=%2Fetc%2Four%20ca.pem&connect_timeout=3";
        let address = Address::parse(url).expect("reads");
        assert!(address.pooled && address.verified);
        assert_eq!(address.roots.as_deref(), Some(Path::new("/etc/our ca.pem")));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        let address = Address::parse("postgres://ada:x@db.test/sarsen").expect("reads");
        assert!(!address.pooled && !address.verified && address.roots.is_none());
        for wrong in ["pooler=session", "pooler", "sslmode=verify-ca", "what=ever"] {
            assert!(Address::parse(&format!("postgres://db.test/sarsen?{wrong}")).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_repeated() {
        let refused = crate::postgres::parse("postgres://ada:hun@host?ter2=1@db/x").err().expect("refused");
        let text = refused.to_string();
        assert!(text.contains("%XX") && !text.contains("ter2"), "{text}");
    }
}
