//! What a mail looks like on the wire, and what cannot get into it.

use super::*;

fn message() -> Message {
    Message {
        id: "mail_1".to_owned(),
        to: "ada@example.com".to_owned(),
        from_name: None,
        reply_to: None,
        envelope_from: None,
        subject: "Your code".to_owned(),
        text: "Type 1234 5678.\n".to_owned(),
        html: Some("<p>Type <b>1234 5678</b>.</p>".to_owned()),
    }
}

fn sender() -> Sender {
    "Example <mail@example.com>".parse().expect("a sender")
}

fn written(message: &Message) -> String {
    String::from_utf8(message.write(&sender(), 1_764_000_000_000).expect("valid").bytes).expect("ASCII")
}

#[test]
fn a_mail_has_the_headers_that_receivers_want() {
    let mail = written(&message());
    let (head, _) = mail.split_once("\r\n\r\n").expect("a head");
    for line in [
        "From: Example <mail@example.com>",
        "To: ada@example.com",
        "Subject: Your code",
        "Date: Mon, 24 Nov 2025 16:00:00 +0000",
        "Message-ID: <mail_1@example.com>",
        "Auto-Submitted: auto-generated",
        "MIME-Version: 1.0",
    ] {
        assert!(head.lines().any(|known| known == line), "{line} is not in:\n{head}");
    }
    assert!(head.contains("Content-Type: multipart/alternative;"), "{head}");
    assert!(mail.contains("Type 1234 5678.") && mail.contains("<b>1234 5678</b>"), "{mail}");
    assert!(mail.is_ascii() && mail.lines().all(|line| line.len() <= 998));
    let plain = written(&Message { html: None, ..message() });
    assert!(plain.contains("Content-Type: text/plain; charset=utf-8\r\n"), "{plain}");
}

#[test]
fn nothing_that_people_write_becomes_a_header_or_a_recipient() {
    for text in ["Hi\r\nBcc: eve@example.com", "Hi\nX: y", "Hi\rX: y", "Hi\0", "\u{1b}[31m", "a\u{85}b"] {
        let with = |change: fn(&mut Message, String)| {
            let mut message = message();
            change(&mut message, text.to_owned());
            message.write(&sender(), 0).map(|written| String::from_utf8(written.bytes))
        };
        for refused in [
            with(|message, text| message.subject = text),
            with(|message, text| message.from_name = Some(text)),
            with(|message, text| message.to = format!("ada@example.com{text}")),
            with(|message, text| message.to = format!("{text}@example.com")),
            with(|message, text| message.reply_to = Some(format!("ada@example.com{text}"))),
            with(|message, text| message.envelope_from = Some(format!("ada{text}@example.com"))),
            with(|message, text| message.id = text),
        ] {
            let refused = refused.expect_err(text);
            assert!(refused.is_final() && refused.step() == Step::Message, "{refused}");
        }
    }
    for address in [
        "ada@example.com, eve@example.com",
        "ada@example.com> RCPT TO:<eve@example.com",
        "<ada@example.com>",
        "\"a b\"@example.com",
        "ada eve@example.com",
        "@example.com",
        "ada@",
        "ada",
        "",
    ] {
        assert!(Message { to: address.to_owned(), ..message() }.write(&sender(), 0).is_err(), "{address}");
    }
}

#[test]
fn the_body_cannot_end_the_mail_or_open_a_part() {
    let text =
        "one\r\n.\r\nMAIL FROM:<eve@example.com>\r\n--boundary\r\nContent-Type: text/html\r\n\r\n<script>";
    let mail = written(&Message { text: text.to_owned(), html: None, ..message() });
    let (head, _) = mail.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("Content-Type: text/plain") && !head.contains("html"), "{head}");
}

#[test]
fn names_in_any_script_are_encoded_and_invisible_characters_left_out() {
    let mail = written(&Message {
        from_name: Some("Bücher \u{202e}& Co".to_owned()),
        subject: "Ihr Code für \u{200b}Bücher".to_owned(),
        ..message()
    });
    assert!(
        mail.contains("Subject: =?utf-8?b?SWhyIENvZGUgZsO8ciBCw7xjaGVy?=") || mail.contains("=?utf-8?"),
        "{mail}"
    );
    assert!(!mail.contains("4oCu") && !mail.contains("4oCL"), "the invisible ones in base64: {mail}");
}

#[test]
fn a_domain_in_any_script_is_sent_as_its_a_label_and_a_local_part_is_refused_plainly() {
    let written =
        Message { to: "ada@bücher.example".to_owned(), ..message() }.write(&sender(), 0).expect("valid");
    assert_eq!(written.to.to_string(), "ada@xn--bcher-kva.example");
    let refused = Message { to: "ädä@example.com".to_owned(), ..message() }.write(&sender(), 0);
    let refused = refused.err().expect("refused").to_string();
    assert!(refused.contains("SMTPUTF8"), "{refused}");
}

#[test]
fn reports_of_failure_go_where_the_mail_says() {
    let keyed = Message { envelope_from: Some("bounce+k3y@example.com".to_owned()), ..message() };
    let written = keyed.write(&sender(), 0).expect("valid");
    assert_eq!(written.from.to_string(), "bounce+k3y@example.com");
    assert!(
        String::from_utf8(written.bytes).expect("ASCII").contains("From: Example <mail@example.com>\r\n")
    );
    assert_eq!(message().write(&sender(), 0).expect("valid").from.to_string(), "mail@example.com");
}

#[test]
fn a_sender_is_an_address_with_or_without_a_name() {
    for (text, shown) in [
        ("mail@example.com", "mail@example.com"),
        ("Example <mail@example.com>", "Example <mail@example.com>"),
        ("\"Example, Inc.\" <mail@example.com>", "Example, Inc. <mail@example.com>"),
        ("<mail@example.com>", "mail@example.com"),
        ("mail@localhost", "mail@localhost"),
    ] {
        assert_eq!(text.parse::<Sender>().expect("valid").to_string(), shown);
    }
    for wrong in
        ["", "Example", "mail@", "Exa\r\nmple <mail@example.com>", "a@b@c", "Example <mail@example.com> x"]
    {
        assert_eq!(wrong.parse::<Sender>(), Err(InvalidSender), "{wrong}");
    }
}
