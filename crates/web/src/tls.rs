//! TLS: a certificate that can be replaced while the server runs, and limits for handshakes.
//!
//! A handshake costs the server a signature, thousands of times what a packet costs the client. So one network has a
//! bounded number of them at once, and each has a time limit. Addresses without a share of places have none here either.

use super::certificate;
use super::cidr::Cidr;
use super::network::network;
use metrics::{Labels, Page};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The time limit for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Handshakes of one network at once.
const HANDSHAKES_MAX: usize = 64;
/// HTTP/2, and what every client speaks.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate with its key. Clones share it.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Loaded>>);

/// What was read of the files.
struct Loaded {
    config: Arc<ServerConfig>,
    /// When the first certificate of the chain ends.
    ends: Option<i64>,
}

/// Why a certificate cannot be used: what is wrong, then what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// About the certificate.
    Certificate(String),
    /// About the key.
    Key(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (TlsError::Certificate(text) | TlsError::Key(text)) = self;
        out.write_str(text)
    }
}

impl std::error::Error for TlsError {}

impl fmt::Debug for Tls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Tls")
    }
}

impl Tls {
    /// Reads the chain of certificates, the server's first, and its private key, both in PEM.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Tls, TlsError> {
        Ok(Tls(Arc::new(RwLock::new(load(certificate, key)?))))
    }

    /// Uses another certificate from the next connection on. Open connections keep theirs. After an error the old one stays.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let loaded = load(certificate, key)?;
        *self.0.write() = loaded;
        Ok(())
    }

    /// When the certificate ends, or the first one of its chain, in Unix seconds. None if it cannot be read.
    pub fn ends(&self) -> Option<i64> {
        self.0.read().ends
    }

    /// Adds the end of the certificate to a page, if there is one.
    pub fn show(tls: Option<&Tls>, page: &mut Page) {
        let ends = tls.and_then(Tls::ends).map(|ends| (Labels::new(), ends.unsigned_abs().into()));
        page.gauges(
            "tls_certificate_not_after_timestamp_seconds",
            "Unix time at which the TLS certificate ends",
            ends,
        );
    }

    /// Does the handshake. Returns the connection, and whether it is one of HTTP/2.
    pub(crate) async fn accept<I: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: I,
    ) -> std::io::Result<(TlsStream<I>, bool)> {
        let config = self.0.read().config.clone();
        let stream = tokio::time::timeout(HANDSHAKE_TIME, TlsAcceptor::from(config).accept(io)).await??;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(PROTOCOLS[0]);
        Ok((stream, is_http2))
    }
}

fn load(certificate: &[u8], key: &[u8]) -> Result<Loaded, TlsError> {
    let broken = |error: &dyn fmt::Display| {
        TlsError::Certificate(format!("is not a chain of certificates in PEM ({error}); use the full chain"))
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| broken(&error))?;
    if chain.is_empty() {
        return Err(broken(&"it has no certificate"));
    }
    let ends = chain.iter().filter_map(|certificate| certificate::not_after(certificate)).min();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        TlsError::Key(format!("is not a private key in PEM ({error}); use the key without a passphrase"))
    })?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let made = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    let mut config = made.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Key(
            "is not the key of the certificate; use the pair that was issued together".to_owned(),
        ),
        error => TlsError::Certificate(format!("cannot be used with the key: {error}")),
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Loaded { config: Arc::new(config), ends })
}

/// The handshakes of each network.
pub(crate) struct Handshakes {
    exempt: Vec<Cidr>,
    running: Mutex<HashMap<IpAddr, usize>>,
}

/// A handshake; dropping it ends it.
pub(crate) struct Handshake<'a>(&'a Handshakes, Option<IpAddr>);

impl Handshakes {
    pub(crate) fn new(exempt: Vec<Cidr>) -> Handshakes {
        Handshakes { exempt, running: Mutex::default() }
    }

    /// Begins a handshake with a client. None if its network has too many.
    pub(crate) fn begin(&self, address: IpAddr) -> Option<Handshake<'_>> {
        if self.exempt.iter().any(|block| block.contains(address)) {
            return Some(Handshake(self, None));
        }
        let network = network(address.to_canonical());
        let mut running = self.running.lock();
        let count = running.entry(network).or_default();
        if *count >= HANDSHAKES_MAX {
            return None;
        }
        *count += 1;
        Some(Handshake(self, Some(network)))
    }
}

impl Drop for Handshake<'_> {
    fn drop(&mut self) {
        let Some(network) = self.1 else { return };
        let mut running = self.0.running.lock();
        if let Some(count) = running.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                running.remove(&network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_a_number_of_handshakes_at_once() {
        let handshakes = Handshakes::new(Cidr::LOOPBACK.to_vec());
        let begin = |text: &str| handshakes.begin(text.parse().expect("an address"));
        let running: Vec<_> =
            (0..HANDSHAKES_MAX).map(|_| begin("2001:db8::1").expect("a handshake")).collect();
        assert!(begin("2001:db8::2").is_none(), "the same network");
        assert!(begin("203.0.113.9").is_some());
        let own: Vec<_> = (0..2 * HANDSHAKES_MAX).map(|_| begin("127.0.0.1")).collect();
        assert!(own.iter().all(Option::is_some), "this machine");
        drop(running);
        assert!(begin("2001:db8::2").is_some());
        assert!(handshakes.running.lock().is_empty());
    }
}
