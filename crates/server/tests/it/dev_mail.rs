//! `/dev/mail`: the mails of a server that keeps them in place of sending them.

use outgoing::{Message, Relay};
use server::testing::TestServer;

/// A mail with markup in it.
pub fn message(id: &str, to: &str) -> Message {
    Message {
        id: id.to_owned(),
        to: to.to_owned(),
        from_name: Some("Acme <b>".to_owned()),
        reply_to: Some("help@acme.test".to_owned()),
        envelope_from: None,
        subject: format!("Your code {id}"),
        text: "Open ISSUER/o/acme/reset?token=t or https://evil.example/ and type 1234 5678.".to_owned(),
        html: Some("<script>alert(1)</script><p>1234 5678</p>".to_owned()),
    }
}

#[tokio::test]
async fn a_server_without_a_mailbox_has_none() {
    let server = TestServer::start().await;
    for path in ["/dev/mail", "/dev/mail.json", "/dev/mail/1", "/dev/mail/1/html"] {
        assert_eq!(server.get(path).send().await.status, 404, "{path}");
    }
    assert!(!server.get("/").send().await.body.contains("/dev/mail"));
    server.stop().await;
}

#[tokio::test]
async fn mails_can_be_read_by_people_and_programs() {
    let relay = Relay::kept();
    let kept = relay.clone();
    let server = TestServer::start_with(|settings| settings.mail = Some(kept), |_| {}).await;
    assert!(server.get("/").send().await.body.contains("href=\"/dev/mail\""));
    assert!(server.get("/dev/mail").send().await.body.contains("There are none yet."));
    let issuer = &server.app.settings.issuer;
    for (id, to) in [("one", "ada@acme.test"), ("two", "grace@acme.test")] {
        let mut message = message(id, to);
        message.text = message.text.replace("ISSUER", issuer);
        relay.send(&message, 1_764_000_000_000).await.expect("kept");
    }

    let all = server.get("/dev/mail.json").send().await;
    let ids: Vec<String> =
        all.json().as_array().expect("a list").iter().map(|mail| mail["id"].to_string()).collect();
    assert_eq!(ids, ["\"two\"", "\"one\""], "newest first");
    let hers = server.get("/dev/mail.json?to=ADA%40acme.test").send().await.json();
    assert_eq!(hers.as_array().map(Vec::len), Some(1));
    for (field, value) in [
        ("to", "ada@acme.test"),
        ("from", "Acme <b> <sarsen@localhost>"),
        ("envelope_from", "sarsen@localhost"),
        ("reply_to", "help@acme.test"),
        ("subject", "Your code one"),
        ("html", "<script>alert(1)</script><p>1234 5678</p>"),
        ("at", "2025-11-24T16:00:00Z"),
    ] {
        assert_eq!(hers[0][field], value, "{field}");
    }
    assert_eq!(server.get("/dev/mail.json?to=nobody%40acme.test").send().await.body, "[]");

    let list = server.get("/dev/mail").send().await.body;
    assert!(
        list.find("Your code two") < list.find("Your code one") && list.contains("/dev/mail/1\""),
        "{list}"
    );
    let mail = server.get("/dev/mail/1").send().await.body;
    assert!(mail.contains(&format!("<a href=\"{issuer}/o/acme/reset?token=t\">")), "{mail}");
    assert!(!mail.contains("href=\"https://evil.example") && mail.contains("Acme &lt;b&gt;"), "{mail}");
    assert!(!mail.contains("<script"), "the HTML is not on this page");
    assert_eq!(server.get("/dev/mail/3").send().await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn the_html_of_a_mail_is_a_document_in_a_sandbox() {
    let relay = Relay::kept();
    let kept = relay.clone();
    let server = TestServer::start_with(|settings| settings.mail = Some(kept), |_| {}).await;
    relay.send(&message("one", "ada@acme.test"), 0).await.expect("kept");
    let html = server.get("/dev/mail/1/html").send().await;
    assert_eq!(html.body, "<script>alert(1)</script><p>1234 5678</p>");
    let policy = html.header("content-security-policy");
    assert!(policy.starts_with("sandbox; default-src 'none';") && !policy.contains("script"), "{policy}");
    assert_eq!(html.header("x-frame-options"), "DENY");
    relay.send(&Message { html: None, ..message("two", "ada@acme.test") }, 0).await.expect("kept");
    assert_eq!(server.get("/dev/mail/2/html").send().await.status, 404);
    server.stop().await;
}
