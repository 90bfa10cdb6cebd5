//! The way out, against names, addresses and proxies that lead elsewhere.

use super::*;
use crate::trust::Trust;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

const USUAL: [u16; 2] = [465, 587];

fn policy(allowed: &[&str]) -> Policy {
    let allowed = allowed.iter().map(|text| text.parse().expect("an exception")).collect();
    let trust = Trust::new(None).expect("ciphers");
    Policy { allowed, proxy: None, dns_servers: Vec::new(), trust }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// Whether somebody connects within a moment is not asked: a connection that was made is there at once.
fn is_untouched(listener: TcpListener) -> bool {
    let listener = listener.into_std().expect("a socket");
    listener.accept().is_err()
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_connected_to() {
    let (listener, address) = listener().await;
    // The port alone opens nothing, and another port of this machine neither.
    let connector = Connector::new(policy(&["10.99.0.0/16", &format!("127.0.0.9:{}", address.port())]));
    for host in [
        "127.0.0.1",
        "127.0.0.53",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "localhost",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.0.1",
        "168.63.129.16",
        "fd00:ec2::254",
        "fe80::1",
        "ff02::1",
        "255.255.255.255",
    ] {
        for port in [587, address.port()] {
            match connector.open(host, port, &[587, address.port()]).await {
                Err(ConnectError::Forbidden(why)) => assert!(why.contains("outgoing_allow"), "{host}: {why}"),
                // The system's resolver takes no such spelling: then it leads nowhere either.
                Err(ConnectError::Name(_)) => {}
                other => panic!("{host}: {other:?}"),
            }
        }
    }
    assert!(is_untouched(listener), "somebody connected");
}

#[tokio::test]
async fn an_exception_opens_its_address_and_its_port() {
    let (listener, address) = listener().await;
    let connector = Connector::new(policy(&[&address.to_string()]));
    let opened = connector.open("localhost", address.port(), &USUAL).await.expect("a connection");
    assert!(opened.is_listed && opened.is_local);
    drop(listener);
    let beside = connector.open("127.0.0.1", 587, &USUAL).await.expect_err("the exception is for one port");
    assert!(beside.to_string().contains("127.0.0.1 is not a public address (this machine)"), "{beside}");
}

#[tokio::test]
async fn an_unusual_port_needs_an_exception_that_names_it() {
    let connector = Connector::new(policy(&["10.0.0.0/8"]));
    for host in ["1.1.1.1", "10.0.0.1"] {
        let refused = connector.open(host, 6379, &USUAL).await.expect_err("no port of mails");
        let expected = format!("its port is not one of 465, 587; outgoing_allow must list {host}:6379");
        assert!(refused.to_string().ends_with(&expected), "{refused}");
    }
}

/// A DNS server that answers every question for an address with these, the first question with the first and so on.
#[expect(clippy::disallowed_methods, reason = "it listens on this machine")]
async fn dns(answers: Vec<Ipv4Addr>) -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let (address, asked) = (socket.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let counter = asked.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let question = &buffer[12..length];
            let end = question.iter().position(|byte| *byte == 0).expect("a name") + 5;
            let is_a = question[end - 4..end - 2] == [0, 1];
            let mut reply = buffer[..2].to_vec();
            reply.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            reply.extend(&question[..end]);
            if is_a {
                let count = counter.fetch_add(1, SeqCst);
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]);
                reply.extend(answers[count.min(answers.len() - 1)].octets());
            }
            socket.send_to(&reply, from).await.expect("sends");
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_and_asked_for_once() {
    let (listener, place) = listener().await;
    let inside = Ipv4Addr::LOCALHOST;
    let (server, asked) = dns(vec![inside]).await;
    let connector = Connector::new(Policy { dns_servers: vec![server], ..policy(&[]) });
    let refused = connector.open("mail.example.com", place.port(), &[place.port()]).await;
    assert!(matches!(refused, Err(ConnectError::Forbidden(_))), "{refused:?}");
    assert_eq!(asked.load(SeqCst), 1);
    assert!(is_untouched(listener));
}

#[tokio::test]
async fn what_was_judged_is_what_is_connected_to() {
    // The second answer is another one, as an attacker's server gives it: nobody asks for it.
    let (listener, place) = listener().await;
    let (server, asked) = dns(vec![Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)]).await;
    let policy = Policy { dns_servers: vec![server], ..policy(&[&place.to_string()]) };
    let opened = Connector::new(policy).open("mail.example.com", place.port(), &[]).await.expect("connects");
    assert_eq!(opened.stream.peer_addr().expect("a peer"), place);
    assert_eq!(asked.load(SeqCst), 1, "the name is resolved once");
    drop(listener);
}

/// A proxy that gives one answer, and then what the machine behind it says.
async fn proxy(answer: &'static str) -> (Proxy, tokio::task::JoinHandle<String>) {
    let (listener, address) = listener().await;
    let asked = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.expect("a head"));
        }
        socket.write_all(answer.as_bytes()).await.expect("writes");
        String::from_utf8(head).expect("text")
    });
    (format!("http://ada:secret@{address}").parse().expect("a proxy"), asked)
}

#[tokio::test]
async fn a_proxy_gets_the_judged_address_and_is_not_judged_itself() {
    let (through, asked) = proxy("HTTP/1.1 200 OK\r\n\r\n220 hello\r\n").await;
    let connector = Connector::new(Policy { proxy: Some(through), ..policy(&[]) });
    let mut opened = connector.open("192.88.98.1", 587, &USUAL).await.expect("a way");
    let mut greeting = String::new();
    opened.stream.read_to_string(&mut greeting).await.expect("reads");
    assert_eq!(greeting, "220 hello\r\n", "what follows the head is of the machine behind");
    let head = asked.await.expect("asked");
    assert!(head.starts_with("CONNECT 192.88.98.1:587 HTTP/1.1\r\nHost: 192.88.98.1:587\r\n"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic YWRhOnNlY3JldA==\r\n"), "{head}");
    let refused = connector.open("10.0.0.1", 587, &USUAL).await;
    assert!(
        matches!(refused, Err(ConnectError::Forbidden(_))),
        "the proxy opens nothing private: {refused:?}"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    for (answer, expected) in [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "it answers 403 to CONNECT"),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", "its answer is not that of an HTTP proxy"),
    ] {
        let (through, _) = proxy(answer).await;
        let connector = Connector::new(Policy { proxy: Some(through), ..policy(&[]) });
        let refused = connector.open("192.88.98.1", 587, &USUAL).await.expect_err("no way").to_string();
        assert!(refused.contains(expected) && !refused.contains("secret"), "{refused}");
    }
}
