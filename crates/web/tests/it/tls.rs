//! TLS: both protocols by ALPN with a stock client, and a certificate that is renewed under load.

use crate::service::{Seen, start, until};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use web::{Running, Tls, TlsError};

/// A certificate for `localhost` that signs itself, and its key.
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

fn pair(folder: &Path, name: &str) -> Pair {
    let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '))
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .args([&key, Path::new("-out"), &certificate])
        .output()
        .expect("openssl makes certificates");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Pair { certificate: std::fs::read(certificate).expect("made"), key: std::fs::read(key).expect("made") }
}

async fn start_with(tls: &Tls) -> (Running, SocketAddr, Arc<Seen>) {
    start(|limits| limits.tls = Some(tls.clone())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_client_gets_the_protocol_that_it_asks_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = pair(folder.path(), "own");
    let tls = Tls::new(&own.certificate, &own.key).expect("a certificate");
    let (running, address, seen) = start_with(&tls).await;
    let (plain, plain_address, _) = start(|_| {}).await;
    let curl = |scheme: &str, address: SocketAddr, option: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "20", option, "--cacert"])
            .arg(folder.path().join("own.pem"))
            .args(["--write-out", " %{http_version}", "--resolve"])
            .arg(format!("localhost:{}:127.0.0.1", address.port()))
            .arg(format!("{scheme}://localhost:{}/", address.port()));
        async move {
            let output =
                tokio::task::spawn_blocking(move || curl.output()).await.expect("runs").expect("curl");
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        }
    };
    assert_eq!(curl("https", address, "--http2").await, "ok 2");
    assert_eq!(curl("https", address, "--http1.1").await, "ok 1.1");
    assert_eq!(curl("http", plain_address, "--http2-prior-knowledge").await, "ok 2");
    assert_eq!(curl("http", plain_address, "--http1.1").await, "ok 1.1");
    assert_eq!(
        curl("http", plain_address, "--http2").await,
        "ok 1.1",
        "no upgrade over plain HTTP (RFC 9113)"
    );
    let mut unencrypted = TcpStream::connect(address).await.expect("connects");
    unencrypted.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    // An alert, or a reset.
    let _ = unencrypted.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(seen.counts.failed_handshakes(), 1);
    until("all are closed", || seen.counts.open() == 0).await;
    running.stop().await;
    plain.stop().await;
}

/// Asks over a connection of its own. Returns the server's certificate.
async fn ask(address: SocketAddr, connector: &TlsConnector) -> std::io::Result<Vec<u8>> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = connector.connect(name, TcpStream::connect(address).await?).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"), "{answer}");
    Ok(stream.get_ref().1.peer_certificates().expect("certificates")[0].to_vec())
}

/// A client that trusts these certificates and speaks these protocols.
fn connector(trusted: &[CertificateDer<'static>], protocols: &[&[u8]]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Has a certificate for challenges, and for HTTP/1.1 when it is issued.
#[derive(Debug)]
struct Challenged(Arc<CertifiedKey>, Arc<AtomicBool>);

impl ResolvesServerCert for Challenged {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_challenge = hello.alpn()?.eq([b"acme-tls/1"]);
        (is_challenge || self.1.load(SeqCst)).then(|| self.0.clone())
    }
}

#[tokio::test]
async fn a_challenge_is_answered_before_there_is_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = pair(folder.path(), "own");
    let der = CertificateDer::from_pem_slice(&own.certificate).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(&own.key).expect("PEM");
    let pair = CertifiedKey::from_der(vec![der.clone()], key, &aws_lc_rs::default_provider());
    let is_issued = Arc::new(AtomicBool::new(false));
    let resolver = Challenged(Arc::new(pair.expect("a pair")), is_issued.clone());
    let tls = Tls::with_resolver(Arc::new(resolver)).expect("usable");
    let (running, address, seen) = start_with(&tls).await;
    let connect = async |protocol: &[u8]| {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        connector(std::slice::from_ref(&der), &[protocol]).connect(name, stream).await
    };
    assert!(connect(b"h2").await.is_err());
    let mut challenged = connect(b"acme-tls/1").await.expect("a handshake");
    let mut answer = Vec::new();
    // The server says nothing more; whether it says goodbye does not matter.
    let _ = challenged.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
    until("all are closed", || seen.counts.open() == 0).await;
    assert_eq!(
        (seen.counts.failed_handshakes(), tls.ends()),
        (1, None),
        "the end of a challenge does not count"
    );
    is_issued.store(true, SeqCst);
    connect(b"http/1.1").await.expect("a handshake");
    assert_eq!(tls.ends(), Tls::new(&own.certificate, &own.key).expect("a certificate").ends());
    assert!(tls.ends().is_some());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_under_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let pairs = [pair(folder.path(), "old"), pair(folder.path(), "new")];
    let der = pairs.each_ref().map(|pair| CertificateDer::from_pem_slice(&pair.certificate).expect("PEM"));
    let connector = connector(&der, &[]);
    let tls = Tls::new(&pairs[0].certificate, &pairs[0].key).expect("a certificate");
    let (running, address, _) = start_with(&tls).await;
    let (asked, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (connector, asked, is_over) = (connector.clone(), asked.clone(), is_over.clone());
            tokio::spawn(async move {
                while !is_over.load(SeqCst) {
                    ask(address, &connector).await.expect("no request fails");
                    asked.fetch_add(1, SeqCst);
                }
            })
        })
        .collect();
    for round in 1..=20 {
        let before = asked.load(SeqCst);
        let pair = &pairs[round % 2];
        tls.replace(&pair.certificate, &pair.key).expect("renewed");
        assert_eq!(
            ask(address, &connector).await.expect("answered"),
            der[round % 2].to_vec(),
            "the next connection"
        );
        until("requests go on", || asked.load(SeqCst) > before + 8).await;
    }
    assert_eq!(
        tls.replace(&pairs[1].certificate, &pairs[0].key),
        Err(TlsError::Key(
            "is not the key of the certificate; use the pair that was issued together".to_owned()
        ))
    );
    assert!(matches!(tls.replace(b"", &pairs[0].key), Err(TlsError::Certificate(_))));
    assert!(matches!(tls.replace(&pairs[0].certificate, b"rubbish"), Err(TlsError::Key(_))));
    assert_eq!(ask(address, &connector).await.expect("answered"), der[0].to_vec(), "the old one stays");
    is_over.store(true, SeqCst);
    for client in clients {
        client.await.expect("no request failed");
    }
    running.stop().await;
}
