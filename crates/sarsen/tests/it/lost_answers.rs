//! Answers that a proxy loses: the command line sends a change again, which is made once, and never ends with success
//! without what is shown once.

use crate::signing_in::sign_in;
use crate::support::{Demo, Place};
use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Passes requests on to the server at `port`, and loses the first answer to each change with a key. It ends with the test.
fn lose_first_answers(listener: TcpListener, port: u16) {
    std::thread::spawn(move || {
        let mut seen = HashSet::new();
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("a connection"));
            let (mut head, mut key, mut length) = (String::new(), None, 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                match line.trim_end().split_once(": ") {
                    Some((name, value)) if name.eq_ignore_ascii_case("idempotency-key") => {
                        key = Some(value.to_owned());
                    }
                    Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                        length = value.parse().expect("a length");
                    }
                    None if line.trim_end().is_empty() => break,
                    _ => {}
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let mut server = TcpStream::connect(("127.0.0.1", port)).expect("the server");
            server.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).expect("sends");
            server.write_all(&body).expect("sends");
            let mut answer = Vec::new();
            server.read_to_end(&mut answer).expect("an answer");
            let is_lost = key.is_some_and(|key| seen.insert(key));
            reader.get_mut().write_all(if is_lost { UNAVAILABLE } else { &answer }).expect("answers");
        }
    });
}

#[test]
fn a_command_whose_secret_or_link_was_lost_fails_and_says_what_to_do() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let proxy = format!("http://{}", listener.local_addr().expect("an address"));
    let port = demo.issuer().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    lose_first_answers(listener, port);
    let file = place.path("config/sarsen/credentials.json");
    let saved = std::fs::read_to_string(&file).expect("a sign-in");
    std::fs::write(&file, saved.replace(demo.issuer(), &proxy)).expect("written");

    let web = ["client", "create", "--service", "sketch", "--kind", "web", "--name", "Lost"];
    let web = [&web[..], &["--redirect-uri", "https://sketch.example.com/callback"]].concat();
    let spa = ["client", "create", "--service", "sketch", "--kind", "spa", "--name", "Public"];
    let spa = [&spa[..], &["--redirect-uri", "https://sketch.example.com/callback"]].concat();
    let new_user = ["user", "create", "hedy@acme.test", "--password-link"];
    let cases: [(&[&str], &str); 6] = [
        (
            &web,
            "the secret was made, but the answer with it was lost; add another with sarsen client secret add",
        ),
        (
            &["key", "create", "Lost", "--scope", "users:read"],
            "the key was made, but the answer with it was lost",
        ),
        (&["member", "invite", "hedy@acme.test", "--role", "member"], "invite the address again"),
        (&["user", "link", "ada@acme.test"], "repeat the command"),
        (&["user", "password-link", "ada@acme.test"], "repeat the command"),
        (&new_user, "run sarsen user password-link hedy@acme.test for another"),
    ];
    for (command, advice) in cases {
        for flags in [&[][..], &["--json"]] {
            // What was made before is in the way of one command only.
            let is_second_user = command == new_user && !flags.is_empty();
            let ended = place.run(&[command, flags].concat());
            assert_eq!(ended.code, 1, "{command:?}: {}", ended.seen());
            let expected = if is_second_user { "hedy@acme.test" } else { advice };
            assert!(ended.stderr.contains(expected), "{command:?}: {}", ended.seen());
        }
    }
    let made = place.run(&spa);
    assert_eq!(made.code, 0, "nothing of it is shown once: {}", made.seen());
    let clients = place.json(&["client", "list"]);
    let named =
        |name: &str| clients.as_array().into_iter().flatten().filter(|client| client["name"] == name).count();
    assert_eq!((named("Lost"), named("Public")), (2, 1), "each command has made one");
}
