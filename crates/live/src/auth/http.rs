//! HTTP to an issuer: GET over HTTPS, or over HTTP on this machine. Redirects are not followed.
//!
//! The issuer's address comes from the program, but the address of its keys comes from the issuer's answer. So an
//! issuer elsewhere must not name an address on this machine, and nothing may be read without TLS.

use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use web::host::is_loopback;

/// The time for a whole document, which is small.
const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(5);
/// The time for a connection to an address, if there are others.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// The time until the headers of an answer arrive.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// An address that may be read: `https`, or `http` on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    uri: Uri,
    host: String,
    is_tls: bool,
    is_loopback: bool,
}

impl Address {
    /// Parses an address. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Address, String> {
        let wrong = |why: &str| Err(format!("{text:?} is not allowed: {why}"));
        let Ok(uri) = text.parse::<Uri>() else { return wrong("it is not a URL") };
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return wrong("it is not an absolute URL");
        };
        if text.contains('#') || authority.as_str().contains('@') {
            return wrong("it has a fragment or a user name");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let (is_tls, is_loopback) = (scheme == "https", is_loopback(&host));
        match scheme {
            "https" => {}
            "http" if is_loopback => {}
            "http" => return wrong("http is for this machine only; use https"),
            _ => return wrong("use https"),
        }
        Ok(Address { uri, host, is_tls, is_loopback })
    }

    /// An address that an answer from this one names. It must be as safe as this one.
    pub(super) fn named(&self, text: &str) -> Result<Address, String> {
        let other = Address::parse(text)?;
        match (other.is_tls || !self.is_tls) && (!other.is_loopback || self.is_loopback) {
            true => Ok(other),
            false => Err(format!("{text:?} is not allowed: {} must not name it", self.uri)),
        }
    }

    fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_tls { 443 } else { 80 })
    }
}

/// A document, and for how long its server allows to keep it.
pub(super) struct Document {
    /// The body.
    pub(super) bytes: Bytes,
    /// `max-age` of `Cache-Control`; zero for `no-store` and `no-cache`.
    pub(super) max_age: Option<Duration>,
}

/// A client. Clones share it.
#[derive(Clone)]
pub(super) struct Http {
    tls: TlsConnector,
}

impl Http {
    /// Trusts the public certificate authorities, or those of a PEM file.
    pub(super) fn new(authorities: Option<&[u8]>) -> Result<Http, String> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(pem) = authorities {
            roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let added = certificate.map(|certificate| roots.add(certificate));
                match added {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Err(format!("a certificate authority is not valid: {error}")),
                    Err(error) => return Err(format!("the certificate authorities are not PEM: {error}")),
                }
            }
            if roots.is_empty() {
                return Err("the PEM file has no certificate".to_owned());
            }
        }
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| format!("TLS cannot be set up: {error}"))?
                .with_root_certificates(roots)
                .with_no_client_auth();
        Ok(Http { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Reads a JSON document of at most `size_max` bytes.
    pub(super) async fn document(&self, address: &Address, size_max: usize) -> Result<Document, String> {
        self.document_with(address, &[(ACCEPT, "application/json")], size_max, DOCUMENT_TIME_MAX).await
    }

    /// The same with these headers, within this time.
    pub(super) async fn document_with(
        &self,
        address: &Address,
        headers: &[(HeaderName, &str)],
        size_max: usize,
        time_max: Duration,
    ) -> Result<Document, String> {
        let read = async {
            let answer = self.open(address, headers).await?;
            let max_age = max_age(answer.response.headers());
            let status = answer.response.status();
            if status != StatusCode::OK {
                return Err(format!("the answer is {status}"));
            }
            let body = Limited::new(answer.response.into_body(), size_max).collect().await;
            let bytes = body.map_err(|error| format!("the body cannot be read: {error}"))?.to_bytes();
            Ok(Document { bytes, max_age })
        };
        let document = timeout(time_max, read).await;
        document
            .unwrap_or_else(|_| Err(format!("no whole answer within {} s", time_max.as_secs())))
            .map_err(|error| format!("{}: {error}", address.uri))
    }

    /// Sends a GET, and returns the answer with a body to be read.
    pub(super) async fn open(
        &self,
        address: &Address,
        headers: &[(HeaderName, &str)],
    ) -> Result<Answer, String> {
        let answer = timeout(ANSWER_TIME_MAX, self.send(address, headers)).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER_TIME_MAX.as_secs())))
    }

    async fn send(&self, address: &Address, headers: &[(HeaderName, &str)]) -> Result<Answer, String> {
        let mut request = Request::get(address.uri.path_and_query().map_or("/", |path| path.as_str()))
            .header(HOST, address.uri.authority().map_or("", |authority| authority.as_str()))
            .header(USER_AGENT, concat!("sarsen-live/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Empty::new()).map_err(|error| format!("not a request: {error}"))?;
        let stream = connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
        if !address.is_tls {
            return exchange(stream, request).await;
        }
        let name = ServerName::try_from(address.host.clone()).map_err(|error| error.to_string())?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| format!("TLS failed: {error}"))?;
        exchange(stream, request).await
    }
}

/// A response, whose connection ends with it.
pub(super) struct Answer {
    /// Status, headers and body.
    pub(super) response: Response<Incoming>,
    _connection: Connection,
}

struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn connect(address: &Address) -> std::io::Result<TcpStream> {
    let places = lookup_host((address.host.as_str(), address.port())).await?;
    // A name such as app.localhost may be answered by a name server with any address.
    let places: Vec<SocketAddr> =
        places.filter(|place| !address.is_loopback || place.ip().is_loopback()).collect();
    first_of(&places, TcpStream::connect).await
}

/// The first of several places that can be connected to. All but the last must answer soon: a network may drop
/// everything to the addresses of one family, and there would be no time left for the other.
async fn first_of<S, C>(places: &[SocketAddr], connect: impl Fn(SocketAddr) -> C) -> std::io::Result<S>
where
    C: Future<Output = std::io::Result<S>>,
{
    let Some((last, others)) = places.split_last() else {
        return Err(std::io::Error::other("the host has no address"));
    };
    for place in others {
        if let Ok(Ok(stream)) = timeout(CONNECT_TIME_MAX, connect(*place)).await {
            return Ok(stream);
        }
    }
    connect(*last).await
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: hyper::Error| format!("the connection failed: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Its errors also reach the request and the body.
    let connection = Connection(tokio::spawn(async move { drop(connection.await) }).abort_handle());
    let response = sender.send_request(request).await.map_err(failed)?;
    Ok(Answer { response, _connection: connection })
}

fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(http::header::CACHE_CONTROL)?.to_str().ok()?;
    let mut directives = text.split(',').map(|directive| directive.trim().to_ascii_lowercase());
    directives.find_map(|directive| match directive.split_once('=') {
        Some(("max-age", seconds)) => seconds.trim_matches('"').parse().ok().map(Duration::from_secs),
        None if directive == "no-store" || directive == "no-cache" => Some(Duration::ZERO),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn an_address_is_https_or_on_this_machine() {
        for good in [
            "https://id.example.com",
            "https://id.example.com/tenant/?a=b",
            "http://localhost:7070",
            "http://127.0.0.1/x",
            "http://[::1]:80",
            "http://app.localhost",
        ] {
            Address::parse(good).expect(good);
        }
        for bad in [
            "",
            "/x",
            "id.example.com",
            "http://id.example.com",
            "http://localhost.example.com",
            "http://10.0.0.1",
            "ftp://id.example.com",
            "file:///etc/passwd",
            "https://ada@id.example.com",
            "https://id.example.com#x",
            "https://",
        ] {
            Address::parse(bad).expect_err(bad);
        }
    }

    #[test]
    fn an_issuer_cannot_name_a_less_safe_address() {
        let named = |from: &str, to: &str| Address::parse(from).expect(from).named(to).is_ok();
        assert!(named("https://id.example.com", "https://keys.example.net/jwks"));
        assert!(named("http://localhost:1", "http://127.0.0.1:2/jwks"));
        assert!(named("http://localhost:1", "https://id.example.com/jwks"));
        assert!(!named("https://id.example.com", "http://localhost/jwks"));
        assert!(!named("https://id.example.com", "https://localhost/jwks"));
        assert!(!named("https://localhost", "http://localhost/jwks"));
    }

    /// Connects where the second byte of the address says so: 0 never answers, 1 refuses, 2 accepts.
    async fn reach(addresses: &[[u8; 2]]) -> std::io::Result<u8> {
        let places: Vec<SocketAddr> = addresses.iter().map(|[a, b]| ([192, 0, *a, *b], 443).into()).collect();
        let connect = async |place: SocketAddr| {
            let IpAddr::V4(address) = place.ip() else { unreachable!("all are IPv4") };
            let [_, _, name, behaviour] = address.octets();
            match behaviour {
                0 => std::future::pending().await,
                1 => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                _ => Ok(name),
            }
        };
        let reached = timeout(DOCUMENT_TIME_MAX, first_of(&places, connect)).await;
        reached.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_leaves_time_for_the_others() {
        assert_eq!(reach(&[[1, 2], [2, 2]]).await.expect("the first"), 1);
        assert_eq!(reach(&[[1, 0], [2, 2]]).await.expect("the second"), 2);
        assert_eq!(reach(&[[1, 0], [2, 1], [3, 0], [4, 2]]).await.expect("the last"), 4);
        let kind = async |addresses: &[[u8; 2]]| reach(addresses).await.expect_err("an error").kind();
        assert_eq!(kind(&[[1, 0], [2, 1]]).await, std::io::ErrorKind::ConnectionRefused);
        assert_eq!(kind(&[[1, 1], [2, 0]]).await, std::io::ErrorKind::TimedOut);
        assert_eq!(kind(&[]).await, std::io::ErrorKind::Other);
    }

    #[test]
    fn cache_control_is_read() {
        let of = |text: &'static str| {
            max_age(&HeaderMap::from_iter([(
                http::header::CACHE_CONTROL,
                http::HeaderValue::from_static(text),
            )]))
        };
        assert_eq!(of("public, max-age=300"), Some(Duration::from_secs(300)));
        assert_eq!(of("Max-Age=\"5\""), Some(Duration::from_secs(5)));
        assert_eq!(of("no-store"), Some(Duration::ZERO));
        assert_eq!(of("public"), None);
        assert_eq!(of("max-age=x"), None);
    }
}
