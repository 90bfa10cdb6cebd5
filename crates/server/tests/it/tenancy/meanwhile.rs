//! A user who is suspended or signed out while their request is under way changes nothing with it.

#![allow(clippy::disallowed_methods, reason = "tests connect to their own server")]

use super::roles::{commands_wait, hire, hired};
use super::{PASSWORD, is, problem};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A write whose headers have come and whose body lacks the last byte.
struct Withheld {
    stream: TcpStream,
    last: u8,
}

impl Withheld {
    /// Returns after the caller was checked: only then the server asks for the body.
    async fn begin(admin: &Admin<'_>, method: &str, path: &str, body: &Value) -> Withheld {
        let mut stream = TcpStream::connect(admin.server.address).await.expect("connects");
        let body = body.to_string();
        let (last, most) = body.as_bytes().split_last().expect("a body");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {}\r\nexpect: 100-continue\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            admin.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("sends");
        let mut answer = [0; 25];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(most).await.expect("sends");
        Withheld { stream, last: *last }
    }

    async fn finish(mut self) -> Answer {
        self.stream.write_all(&[self.last]).await.expect("sends");
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).await.expect("an answer");
        Answer::parse(&answer)
    }
}

/// The second owner of the server, with a token for this scope, and the path of their account.
async fn second_owner<'s>(owner: &Admin<'s>, scope: &str) -> (Admin<'s>, String) {
    let made = owner.make("/api/platform/owners", json!({ "email": "second@sarsen.test" })).await;
    let link = path_of(text(&made, "url"));
    assert_eq!(accept_as_new(&mut owner.server.browser(), &link, PASSWORD).await.status, 303);
    let second = hired(owner.server, "second@sarsen.test", scope).await;
    let path = account(&second);
    (second, path)
}

/// The account of a user of `platform`.
fn account(admin: &Admin<'_>) -> String {
    format!("/api/organizations/platform/users/{}", text(&claims(&admin.token), "sub"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_is_suspended_while_a_body_is_on_its_way_changes_nothing() {
    let server = TestServer::start().await;
    let scope = "platform org:platform";
    let owner = Admin::sign_in(&server, "owner@sarsen.test", scope).await;
    let (rogue, path_of_rogue) = second_owner(&owner, scope).await;
    let path_of_owner = account(&owner);
    let suspension = format!("{path_of_owner}/suspension");
    let organization = json!({ "slug": "initech", "name": "Initech" });
    let review = json!({ "decision": "rejected" });
    let withheld = [
        Withheld::begin(&rogue, "PUT", &suspension, &json!({ "reason": "revenge" })).await,
        Withheld::begin(&rogue, "PATCH", "/api/organizations/platform", &json!({ "name": "Mine" })).await,
        Withheld::begin(&rogue, "POST", "/api/organizations", &organization).await,
        Withheld::begin(&rogue, "POST", "/api/platform/organizations/acme/review", &review).await,
    ];

    owner.change("PUT", &format!("{path_of_rogue}/suspension"), json!({ "reason": "rogue" })).await;
    for withheld in withheld {
        let answer = withheld.finish().await;
        assert_eq!(problem(&answer), is(401, "invalid_token"), "{answer:?}");
    }
    assert_eq!(owner.read(&path_of_owner).await["suspended_at"], Value::Null);
    assert_eq!(owner.read("/api/organizations/platform").await["name"], "Sarsen");

    // The same for a session that ends while the user stays active.
    owner.change("DELETE", &format!("{path_of_rogue}/suspension"), Value::Null).await;
    let rogue = hired(&server, "second@sarsen.test", scope).await;
    let withheld = Withheld::begin(&rogue, "PUT", &suspension, &json!({})).await;
    owner.change("DELETE", &format!("{path_of_rogue}/sessions"), Value::Null).await;
    assert_eq!(problem(&withheld.finish().await), is(401, "invalid_token"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_who_is_suspended_or_signed_out_while_a_command_waits_changes_nothing() {
    if store::testing::kind() != store::testing::Kind::Sqlite {
        // Only SQLite has a single writer, so that the order of commands can be arranged.
        return;
    }
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    hire(&acme, "suspended@acme.test", "admin").await;
    hire(&acme, "signed-out@acme.test", "admin").await;
    let suspended = hired(&server, "suspended@acme.test", "org:acme").await;
    let signed_out = hired(&server, "signed-out@acme.test", "org:acme").await;
    let service = "/api/organizations/acme/services/sketch";
    let before = acme.read(service).await;

    let writer = HeldWriters::of(&server).await;
    let suspension = format!("{}/suspension", account(&suspended));
    let sessions = format!("{}/sessions", account(&signed_out));
    let (no_reason, renamed) = (json!({}), json!({ "name": "Changed" }));
    let (suspends, of_suspended, signs_out, of_signed_out, ()) = tokio::join!(
        owner.call("PUT", &suspension, &no_reason),
        async {
            commands_wait(&server, 1).await;
            suspended.call("PATCH", service, &renamed).await
        },
        async {
            commands_wait(&server, 2).await;
            owner.call("DELETE", &sessions, &Value::Null).await
        },
        async {
            commands_wait(&server, 3).await;
            signed_out.call("PATCH", service, &renamed).await
        },
        async {
            commands_wait(&server, 4).await;
            writer.release().await;
        },
    );
    assert_eq!((suspends.status, signs_out.status), (200, 204), "{suspends:?} {signs_out:?}");
    assert_eq!(problem(&of_suspended), is(401, "invalid_token"), "{of_suspended:?}");
    assert_eq!(problem(&of_signed_out), is(401, "invalid_token"), "{of_signed_out:?}");
    assert_eq!(acme.read(service).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_owners_who_suspend_or_remove_each_other_at_once_one_stays() {
    for (method, path_of) in [
        (
            "PUT",
            (|user: &str| format!("/api/organizations/platform/users/{user}/suspension")) as fn(&str) -> _,
        ),
        ("DELETE", |user| format!("/api/platform/owners/{user}")),
    ] {
        let server = TestServer::start().await;
        let scope = "platform org:platform";
        let first = Admin::sign_in(&server, "owner@sarsen.test", scope).await;
        let (second, _) = second_owner(&first, scope).await;
        let user = |admin: &Admin<'_>| text(&claims(&admin.token), "sub").to_owned();
        let suspension = format!("{}/suspension", account(&first));
        let (no_reason, path) = (json!({}), path_of(&user(&second)));
        let body = if method == "PUT" { &no_reason } else { &Value::Null };
        let (of_first, of_second) =
            tokio::join!(first.call(method, &path, body), second.call("PUT", &suspension, &no_reason));
        let done = [&of_first, &of_second].into_iter().filter(|answer| answer.status < 300).count();
        assert_eq!(done, 1, "{method}: {of_first:?} {of_second:?}");
        server.stop().await;
    }
}
