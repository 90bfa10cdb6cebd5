//! What lies under the requests: TCP, or TLS over it; HTTP/1.1 or HTTP/2.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How a target is reached.
#[derive(Clone, Default)]
pub struct Wire {
    tls: Option<Arc<ClientConfig>>,
    is_http2: bool,
}

impl Wire {
    /// Over TLS, with a server whose certificate is for `localhost` and signed by one in this PEM.
    pub fn tls(certificate: &[u8]) -> io::Result<Wire> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let mut roots = RootCertStore::empty();
        for found in CertificateDer::pem_slice_iter(certificate) {
            let added = roots.add(found.map_err(|error| invalid(error.to_string()))?);
            added.map_err(|error| invalid(error.to_string()))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Wire { tls: Some(Arc::new(config)), is_http2: false })
    }

    /// The same by HTTP/2; without TLS by prior knowledge.
    #[must_use]
    pub fn http2(&self) -> Wire {
        let mut wire = self.clone();
        wire.is_http2 = true;
        if let Some(config) = &mut wire.tls {
            Arc::make_mut(config).alpn_protocols = vec![b"h2".to_vec()];
        }
        wire
    }

    pub(super) fn is_http2(&self) -> bool {
        self.is_http2
    }

    /// Does the handshake, if there is one.
    pub(super) async fn wrap(&self, stream: TcpStream) -> io::Result<Io> {
        let Some(config) = &self.tls else { return Ok(Io::Tcp(stream)) };
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
        Ok(Io::Tls(Box::new(stream)))
    }
}

/// Two wires are the same if what is on them looks the same.
impl PartialEq for Wire {
    fn eq(&self, other: &Wire) -> bool {
        (self.tls.is_some(), self.is_http2) == (other.tls.is_some(), other.is_http2)
    }
}

impl Eq for Wire {}

impl std::fmt::Debug for Wire {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tls = if self.tls.is_some() { "TLS, " } else { "" };
        write!(out, "{tls}{}", if self.is_http2 { "HTTP/2" } else { "HTTP/1.1" })
    }
}

/// An open connection.
pub(super) enum Io {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Io {
    /// Sends all of `bytes`. Over TCP it is one call, unless the kernel's buffer is full.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Io::Tcp(stream) => {
                let mut sent = 0;
                while sent < bytes.len() {
                    match stream.try_write(&bytes[sent..]) {
                        Ok(count) => sent += count,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
            Io::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Io::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Io::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }

    /// Whether the server has closed this idle connection of HTTP/1.1 over TCP; others are not looked at.
    pub(super) fn is_closed(&self) -> bool {
        let Io::Tcp(stream) = self else { return false };
        let mut byte = [0];
        !matches!(stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}
