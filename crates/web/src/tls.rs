//! TLS: a certificate that can be replaced while the server runs. It is given, or a resolver has it, which also answers the
//! challenges of a certificate authority (TLS-ALPN-01, RFC 8737).

use super::certificate;
use metrics::{Labels, Page};
use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The time limit for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// HTTP/2, and what every client speaks.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// A certificate authority asks for the certificate of its challenge.
const CHALLENGE: &[u8] = b"acme-tls/1";

/// A certificate with its key. Clones share it.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Loaded>>);

/// What connections use.
struct Loaded {
    config: Arc<ServerConfig>,
    ends: Ends,
    /// The server's own certificate, if it was given.
    own: Option<CertificateDer<'static>>,
}

/// When the first certificate of the chain ends, in Unix seconds; 0 while that is not known.
type Ends = Arc<AtomicI64>;

/// Notes the end of the certificates that a resolver returns.
#[derive(Debug)]
struct Noting {
    resolver: Arc<dyn ResolvesServerCert>,
    ends: Ends,
}

impl ResolvesServerCert for Noting {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_challenge = hello.alpn().is_some_and(|mut names| names.any(|name| name == CHALLENGE));
        let pair = self.resolver.resolve(hello)?;
        if !is_challenge {
            self.ends.store(end_of(&pair.cert), Relaxed);
        }
        Some(pair)
    }
}

fn end_of(chain: &[CertificateDer<'_>]) -> i64 {
    chain.iter().filter_map(|certificate| certificate::not_after(certificate)).min().unwrap_or_default()
}

/// What the client has chosen in a handshake.
pub(crate) enum Protocol {
    Http1,
    Http2,
    /// It has seen the certificate of its challenge, and that is all.
    Challenge,
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

    /// Uses the certificates of `resolver`. A handshake fails as long as it has none; [`Tls::ends`] is known from the first
    /// one on.
    pub fn with_resolver(resolver: Arc<dyn ResolvesServerCert>) -> Result<Tls, TlsError> {
        let unusable = |error: rustls::Error| TlsError::Certificate(format!("cannot be used: {error}"));
        let builder = builder().map_err(unusable)?;
        let ends = Ends::default();
        let mut config = builder.with_cert_resolver(Arc::new(Noting { resolver, ends: ends.clone() }));
        config.alpn_protocols = PROTOCOLS.iter().chain([&CHALLENGE]).map(|name| name.to_vec()).collect();
        Ok(Tls(Arc::new(RwLock::new(Loaded { config: Arc::new(config), ends, own: None }))))
    }

    /// Uses another certificate from the next connection on. Open connections keep theirs. After an error the old one stays.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let loaded = load(certificate, key)?;
        *self.0.write() = loaded;
        Ok(())
    }

    /// When the certificate ends, or the first one of its chain, in Unix seconds. None if that is not known.
    pub fn ends(&self) -> Option<i64> {
        Some(self.0.read().ends.load(Relaxed)).filter(|ends| *ends != 0)
    }

    /// Whether clients accept the certificate for a host. True if that is not known.
    pub fn is_for(&self, host: &str) -> bool {
        let loaded = self.0.read();
        let Some(own) = &loaded.own else { return true };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let (Ok(own), Ok(host)) = (ParsedCertificate::try_from(own), ServerName::try_from(host)) else {
            return true;
        };
        verify_server_name(&own, &host).is_ok()
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

    /// Does the handshake. Returns the connection and its protocol.
    pub(crate) async fn accept<I: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: I,
    ) -> std::io::Result<(TlsStream<I>, Protocol)> {
        let config = self.0.read().config.clone();
        let stream = tokio::time::timeout(HANDSHAKE_TIME, TlsAcceptor::from(config).accept(io)).await??;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(name) if name == PROTOCOLS[0] => Protocol::Http2,
            Some(CHALLENGE) => Protocol::Challenge,
            _ => Protocol::Http1,
        };
        Ok((stream, protocol))
    }
}

type Builder = rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>;

fn builder() -> Result<Builder, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_no_client_auth())
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
    let ends = Arc::new(AtomicI64::new(end_of(&chain)));
    let own = chain.first().cloned();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        TlsError::Key(format!("is not a private key in PEM ({error}); use the key without a passphrase"))
    })?;
    let made = builder().and_then(|builder| builder.with_single_cert(chain, key));
    let mut config = made.map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Key(
            "is not the key of the certificate; use the pair that was issued together".to_owned(),
        ),
        error => TlsError::Certificate(format!("cannot be used with the key: {error}")),
    })?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Loaded { config: Arc::new(config), ends, own })
}
