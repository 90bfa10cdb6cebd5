//! The exchange with relays that take mails, refuse them, stall, lie or never stop.

use super::*;
use crate::connector::Policy;
use crate::trust::Trust;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// A relay that says what a test wants, on an address that is not this machine's usual one where it is encrypted.
struct Fake {
    /// The beginnings of commands, and what it answers instead of the usual.
    replies: &'static [(&'static str, &'static str)],
    acceptor: Option<TlsAcceptor>,
}

impl Fake {
    async fn start(self, ip: &str) -> (SocketAddr, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind((ip, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let heard = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.expect("a connection");
            let mut heard = Vec::new();
            // A client that goes away ends the story.
            let _ = self.talk(Box::new(socket), &mut heard).await;
            heard
        });
        (address, heard)
    }

    async fn talk(&self, socket: Box<dyn Socket>, heard: &mut Vec<String>) -> std::io::Result<()> {
        let (mut socket, mut is_encrypted) = (BufReader::new(socket), self.acceptor.is_none());
        socket.write_all(&self.reply("greeting", "220 fake ESMTP")).await?;
        loop {
            let mut line = String::new();
            if socket.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_owned();
            heard.push(line.clone());
            let usual = match line.split(' ').next().unwrap_or_default() {
                "EHLO" if is_encrypted => "250-fake\r\n250 AUTH LOGIN PLAIN",
                "EHLO" => "250-fake\r\n250-AUTH PLAIN LOGIN\r\n250 STARTTLS",
                "STARTTLS" => "220 go on",
                "AUTH" => "235 2.7.0 welcome",
                "DATA" => "354 go on",
                "QUIT" => "221 bye",
                _ => "250 2.1.0 fine",
            };
            socket.write_all(&self.reply(&line, usual)).await?;
            if line == "DATA" {
                self.take_mail(&mut socket, heard).await?;
            }
            if line == "STARTTLS" {
                let acceptor = self.acceptor.as_ref().expect("it offers encryption");
                let encrypted: Box<dyn Socket> = Box::new(acceptor.accept(socket.into_inner()).await?);
                (socket, is_encrypted) = (BufReader::new(encrypted), true);
            }
        }
    }

    async fn take_mail(
        &self,
        socket: &mut BufReader<Box<dyn Socket>>,
        heard: &mut Vec<String>,
    ) -> std::io::Result<()> {
        let mut mail = Vec::new();
        while !mail.ends_with(b"\r\n.\r\n") {
            mail.push(socket.read_u8().await?);
        }
        heard.push(String::from_utf8_lossy(&mail).into_owned());
        socket.write_all(&self.reply("end", "250 2.0.0 queued as 4711")).await
    }

    /// In Latin-1, as old relays write.
    fn reply(&self, line: &str, usual: &str) -> Vec<u8> {
        let own = self.replies.iter().find(|(start, _)| line.starts_with(start));
        let text = own.map_or(usual, |(_, reply)| reply);
        text.chars().map(|letter| letter as u8).chain(*b"\r\n").collect()
    }
}

fn plain(replies: &'static [(&'static str, &'static str)]) -> Fake {
    Fake { replies, acceptor: None }
}

fn client(scheme: &str, address: SocketAddr, trusted: Option<&[u8]>) -> Smtp {
    let policy = Policy {
        allowed: vec![address.to_string().parse().expect("an exception")],
        proxy: None,
        dns_servers: Vec::new(),
        trust: Trust::new(trusted).expect("authorities"),
    };
    let relay = format!("{scheme}{address}").parse().expect("a relay");
    let sender = "Example <mail@example.com>".parse().expect("a sender");
    Smtp::new(Connector::new(policy), relay, Some("pass word".to_owned()), sender)
}

fn message() -> Message {
    Message {
        id: "mail_1".to_owned(),
        to: "ada@example.com".to_owned(),
        from_name: None,
        reply_to: None,
        envelope_from: Some("bounce+1@example.com".to_owned()),
        subject: "Hello".to_owned(),
        text: "A line.\n.\nMAIL FROM:<eve@example.com>\n".to_owned(),
        html: None,
    }
}

#[tokio::test]
async fn a_relay_on_this_machine_takes_a_mail() {
    let (address, heard) = plain(&[]).start("127.0.0.1").await;
    let accepted = client("smtp://", address, None).send(&message(), 0).await.expect("taken");
    assert_eq!(accepted.reply, "2.0.0 queued as 4711");
    let heard = heard.await.expect("a story");
    let commands: Vec<&str> = heard.iter().filter(|line| !line.contains('\n')).map(String::as_str).collect();
    assert_eq!(
        commands,
        ["EHLO example.com", "MAIL FROM:<bounce+1@example.com>", "RCPT TO:<ada@example.com>", "DATA", "QUIT"]
    );
    let mail = heard.iter().find(|line| line.contains('\n')).expect("a mail");
    assert!(mail.contains("\r\n..\r\n") && mail.ends_with("\r\n.\r\n"), "a dot ends no mail: {mail}");
}

#[tokio::test]
async fn a_refusal_says_where_and_whether_for_good() {
    type Case = (&'static [(&'static str, &'static str)], Step, &'static str, bool);
    let cases: [Case; 10] = [
        (
            &[("RCPT", "550 5.1.1 <ada@example.com> no such user")],
            Step::RcptTo,
            "the relay refuses the recipient (550 5.1.1)",
            true,
        ),
        (
            &[("RCPT", "550 kein Postfach f\u{fc}r ada")],
            Step::RcptTo,
            "the relay refuses the recipient (550)",
            true,
        ),
        (&[("RCPT", "450 4.2.1 later")], Step::RcptTo, "the relay refuses the recipient (450 4.2.1)", false),
        (
            &[("RCPT", "421 4.3.2 closing")],
            Step::RcptTo,
            "the relay refuses the recipient (421 4.3.2)",
            false,
        ),
        (
            &[("end", "554-5.7.1 looks\r\n554 5.7.1 like spam")],
            Step::Data,
            "the relay refuses the mail (554 5.7.1)",
            true,
        ),
        (&[("DATA", "451 4.3.0 disk")], Step::Data, "the relay refuses the mail (451 4.3.0)", false),
        (
            &[("MAIL", "553 5.7.1 not yours")],
            Step::MailFrom,
            "the relay refuses the sender (553 5.7.1)",
            false,
        ),
        (
            &[("greeting", "554 5.7.1 go away")],
            Step::Greeting,
            "the relay refuses the connection (554 5.7.1)",
            false,
        ),
        (
            &[("EHLO", "502 5.5.1 what")],
            Step::Greeting,
            "the relay refuses the connection (502 5.5.1)",
            false,
        ),
        (
            &[("greeting", "SSH-2.0-OpenSSH_9.2")],
            Step::Greeting,
            "the relay does not answer as an SMTP server",
            false,
        ),
    ];
    for (replies, step, shown, is_final) in cases {
        let (address, _) = plain(replies).start("127.0.0.1").await;
        let refused = client("smtp://", address, None).send(&message(), 0).await.expect_err(shown);
        assert_eq!((refused.step(), &*refused.to_string(), refused.is_final()), (step, shown, is_final));
    }
}

#[tokio::test]
async fn user_and_password_are_sent_and_never_shown() {
    for (offer, answers) in [
        ("250-fake\r\n250 AUTH PLAIN", vec!["AUTH PLAIN AGFkYQBwYXNzIHdvcmQ="]),
        ("250-fake\r\n250 AUTH LOGIN", vec!["AUTH LOGIN", "YWRh", "cGFzcyB3b3Jk"]),
    ] {
        let replies: &[(&str, &str)] = match answers.len() {
            1 => &[("EHLO", "250-fake\r\n250 AUTH PLAIN")],
            _ => &[
                ("EHLO", "250-fake\r\n250 AUTH LOGIN"),
                ("AUTH", "334 VXNlcm5hbWU6"),
                ("YWRh", "334 UGFzc3dvcmQ6"),
                ("cGFz", "235 2.7.0 welcome"),
            ],
        };
        let (address, heard) = plain(replies).start("127.0.0.1").await;
        let relay = client("smtp://ada@", address, None);
        relay.send(&message(), 0).await.expect(offer);
        let heard = heard.await.expect("a story");
        assert_eq!(heard[1..=answers.len()], answers);
        assert!(!format!("{relay:?}").contains("pass"), "{relay:?}");
    }
    let (address, _) = plain(&[("AUTH", "535 5.7.8 AGFkYQBwYXNzIHdvcmQ= is wrong")]).start("127.0.0.1").await;
    let refused =
        client("smtp://ada@", address, None).send(&message(), 0).await.expect_err("a wrong password");
    assert_eq!(refused.to_string(), "the relay refuses user and password (535 5.7.8)");
    assert!(!refused.is_final(), "an operator mends it, and the mail waits");
}

#[test]
fn only_a_listed_relay_gets_mails_without_encryption_and_never_a_password() {
    assert!(not_plain(false, false).is_some() && not_plain(false, true).is_some());
    assert!(not_plain(true, true).is_some() && not_plain(true, false).is_none());
}

#[tokio::test]
async fn a_password_is_not_sent_in_plain_to_another_machine() {
    let (address, heard) = plain(&[]).start("127.0.0.2").await;
    let refused = client("smtp://ada@", address, None).send(&message(), 0).await.expect_err("no encryption");
    assert_eq!(
        refused.to_string(),
        "the relay offers no STARTTLS; a password is not sent without encryption"
    );
    assert_eq!(heard.await.expect("a story"), ["EHLO example.com"]);
}

/// A certificate for 127.0.0.2 that signs itself, and what accepts connections with it.
fn certificate() -> (Vec<u8>, TlsAcceptor) {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("relay.pem"), folder.path().join("relay.key"));
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '))
        .args(["-subj", "/CN=relay", "-addext", "subjectAltName=IP:127.0.0.2"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .args([&key, std::path::Path::new("-out"), &certificate])
        .output()
        .expect("openssl makes certificates");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let pem = std::fs::read(certificate).expect("made");
    let chain = vec![CertificateDer::from_pem_slice(&pem).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ciphers")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair");
    (pem, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn the_connection_is_encrypted_before_a_password_or_a_mail_is_sent() {
    let (pem, acceptor) = certificate();
    let fake = Fake { replies: &[], acceptor: Some(acceptor) };
    let (address, heard) = fake.start("127.0.0.2").await;
    client("smtp://ada@", address, Some(&pem)).send(&message(), 0).await.expect("taken");
    let heard = heard.await.expect("a story");
    assert_eq!(
        heard[..4],
        ["EHLO example.com", "STARTTLS", "EHLO example.com", "AUTH PLAIN AGFkYQBwYXNzIHdvcmQ="]
    );
}

#[tokio::test]
async fn a_certificate_of_a_stranger_and_an_injected_answer_end_the_exchange() {
    let (pem, acceptor) = certificate();
    let strange: (Option<&[u8]>, &'static [(&'static str, &'static str)]) = (None, &[]);
    let injected: (Option<&[u8]>, _) =
        (Some(&pem), &[("STARTTLS", "220 go on\r\n250-fake\r\n250 AUTH PLAIN")][..]);
    for (trusted, replies) in [strange, injected] {
        let (address, heard) = Fake { replies, acceptor: Some(acceptor.clone()) }.start("127.0.0.2").await;
        let refused =
            client("smtp://ada@", address, trusted).send(&message(), 0).await.expect_err("no trust");
        assert_eq!((refused.step(), refused.is_final()), (Step::Tls, false), "{refused}");
        assert_eq!(heard.await.expect("a story"), ["EHLO example.com", "STARTTLS"]);
    }
}

#[tokio::test]
async fn smtps_is_encrypted_from_the_first_byte() {
    let (pem, acceptor) = certificate();
    let listener = TcpListener::bind("127.0.0.2:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let heard = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.expect("a connection");
        let mut heard = Vec::new();
        let socket = acceptor.accept(socket).await.expect("encrypted");
        let _ = plain(&[]).talk(Box::new(socket), &mut heard).await;
        heard
    });
    client("smtps://ada@", address, Some(&pem)).check().await.expect("all before a recipient");
    let heard = heard.await.expect("a story");
    assert_eq!(
        heard,
        ["EHLO example.com", "AUTH PLAIN AGFkYQBwYXNzIHdvcmQ=", "MAIL FROM:<mail@example.com>", "QUIT"]
    );
}

/// A peer that greets with `bytes` again and again, with a pause between.
async fn peer(bytes: &'static [u8], pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        while socket.write_all(bytes).await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    });
    address
}

#[tokio::test]
async fn a_relay_that_stalls_or_trickles_ends_by_the_deadline() {
    for (bytes, pause) in [(&b""[..], 3_600_000), (b"2", 5), (b"220-more\r\n", 5)] {
        let address = peer(bytes, Duration::from_millis(pause)).await;
        let mut relay = client("smtp://", address, None);
        relay.time_max = Duration::from_millis(200);
        let refused = relay.send(&message(), 0).await.expect_err("no greeting");
        assert_eq!(refused.to_string(), "the exchange with the relay takes longer than 200ms");
        assert!(!refused.is_final() && refused.code().is_none());
    }
}

#[tokio::test]
async fn a_relay_that_never_stops_talking_is_left() {
    let address = peer(&[b'2'; 4096], Duration::ZERO).await;
    let refused = client("smtp://", address, None).send(&message(), 0).await.expect_err("too much");
    assert_eq!(refused.to_string(), "the connection to the relay broke: the peer sends too much");
}
