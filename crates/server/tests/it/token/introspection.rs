//! Introspection and revocation: what is told to whom, and what ends with a token.

use super::{INACTIVE, basic, introspect, introspecting, presenting, reads, refresh, token};
use crate::device::{ada_on_a_device, end_sessions_of_ada, error, refusal, signed_in};
use crate::support::{Admin, Ask, code, text};
use serde_json::json;
use server::testing::{Rows, TestServer};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn introspection_tells_the_own_service_only() {
    let server = TestServer::start().await;
    let tokens = ada_on_a_device(&server).await;
    let (access, refresh_token) = (tokens.text("access_token"), tokens.text("refresh_token"));
    let seen = introspect(&server, "machine", &access).await.json();
    assert_eq!((&seen["active"], &seen["client_id"]), (&json!(true), &json!(server.client("cli"))), "{seen}");
    assert_eq!((&seen["scope"], &seen["aud"]), (&json!("profile email"), &json!("service:acme/cli")));

    let mut rows = Rows::new();
    for (what, client, token) in [
        ("foreign", "web", &*access),
        ("foreign", "web", &refresh_token),
        ("of another client", "machine", &refresh_token),
        ("unknown", "machine", "x"),
        ("cut", "machine", &access[..access.len() - 2]),
        ("without signature", "machine", &access[..=access.rfind('.').expect("a dot")]),
        ("too long", "machine", &"x".repeat(8192)),
    ] {
        let row = async {
            assert_eq!(introspect(&server, client, token).await.body, INACTIVE, "{what}");
        };
        rows.row(what, row).await;
    }
    let fields = [("token", &*access), ("client_id", server.client("cli"))];
    for (what, request) in [
        ("nobody", server.post("/auth/introspect", &fields[..1])),
        ("a public client", server.post("/auth/introspect", &fields)),
        ("a token", server.post("/auth/introspect", &fields[..1]).bearer(&access)),
        (
            "a wrong secret",
            server
                .post("/auth/introspect", &fields[..1])
                .header("authorization", &basic(server.client("machine"), "x")),
        ),
    ] {
        let row = async {
            assert_eq!(refusal(&request.send().await), error(401, "invalid_client"), "{what}");
        };
        rows.row(what, row).await;
    }
    assert_eq!(refusal(&introspecting(&server, "machine", "").send().await), error(400, "invalid_request"));

    end_sessions_of_ada(&server).await;
    assert_eq!(introspect(&server, "machine", &access).await.body, INACTIVE, "revoked");
    let machine = token(&server, &[("grant_type", "client_credentials")]);
    let machine = machine.header("authorization", &basic(server.client("machine"), server.secret("machine")));
    let access = machine.send().await.text("access_token");
    assert_eq!(introspect(&server, "machine", &access).await.json()["active"], true);
    server.clock.advance(Duration::from_secs(600));
    assert_eq!(introspect(&server, "machine", &access).await.body, INACTIVE, "expired");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_administers_is_none_for_the_service() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let service = &server.demo.services["web"];
    let new = json!({ "service": service, "kind": "machine", "name": "Program" });
    let made = owner.make("/api/organizations/acme/clients", new).await;
    let (id, secret) = (text(&made, "client_id"), text(&made, "client_secret"));
    let scopes = format!("/api/organizations/acme/clients/{id}/scopes");
    owner.change("PUT", &scopes, json!({ "scopes": ["users:read"] })).await;
    let credentials = basic(id, secret);
    let own = async |scope: &[(&str, &str)]| {
        let fields = [&[("grant_type", "client_credentials")], scope].concat();
        let sent = token(&server, &fields).header("authorization", &credentials).send().await;
        assert_eq!(sent.status, 200, "{sent:?}");
        sent.text("access_token")
    };
    let seen_by_itself = async |access: &str| {
        let asked = server.post("/auth/introspect", &[("token", access)]);
        asked.header("authorization", &credentials).send().await.json()
    };
    let for_service = own(&[]).await;
    assert_eq!(introspect(&server, "web", &for_service).await.json()["active"], true);
    assert_eq!(seen_by_itself(&for_service).await["active"], true);
    let administers = own(&[("scope", "users:read")]).await;
    assert_eq!(introspect(&server, "web", &administers).await.body, INACTIVE);
    let seen = seen_by_itself(&administers).await;
    assert_eq!((&seen["active"], &seen["aud"]), (&json!(true), &json!("org:acme")), "{seen}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_is_known_to_its_own_client_until_it_is_used() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = code(&mut ada, &Ask::of(&server, "web").with("scope", "offline_access profile")).await;
    let credentials = basic(server.client("web"), server.secret("web"));
    let fields = presenting(&server, &code);
    let tokens = token(&server, &fields[..4]).header("authorization", &credentials).send().await;
    let first = tokens.text("refresh_token");
    assert_eq!(introspect(&server, "web", &first).await.json()["token_type"], "refresh_token");
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*first)];
    let next =
        token(&server, &fields).header("authorization", &credentials).send().await.text("refresh_token");
    assert_eq!(introspect(&server, "web", &first).await.body, INACTIVE);
    assert_eq!(introspect(&server, "web", &next).await.json()["active"], true);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_token_ends_its_whole_grant_at_once() {
    let server = TestServer::start().await;
    let revoke = async |client: &str, fields: &[(&str, &str)]| {
        let all: Vec<_> = [("client_id", server.client(client))].iter().chain(fields).copied().collect();
        server.post("/auth/revoke", &all).send().await
    };
    for name in ["refresh_token", "access_token"] {
        for hint in [None, Some("refresh_token"), Some("access_token"), Some("something_else")] {
            let tokens = ada_on_a_device(&server).await;
            assert_eq!(reads(&server, &tokens).await, 200);
            let sent = tokens.text(name);
            let hint = hint.map(|hint| ("token_type_hint", hint));
            let fields: Vec<_> = [("token", &*sent)].into_iter().chain(hint).collect();
            let foreign = revoke("spa", &fields).await;
            assert_eq!(refusal(&foreign), error(400, "invalid_grant"), "{fields:?}");
            assert_eq!(reads(&server, &tokens).await, 200, "{fields:?}");
            for _ in 0..2 {
                assert_eq!(revoke("cli", &fields).await.status, 200, "{fields:?}");
                assert_eq!(reads(&server, &tokens).await, 401, "{fields:?}");
            }
            let dead = refresh(&server, &tokens.text("refresh_token")).await;
            assert_eq!(refusal(&dead), error(400, "invalid_grant"), "{fields:?}");
        }
    }
    for unknown in ["x", "rt_x.y", &"x".repeat(8192)] {
        assert_eq!(revoke("cli", &[("token", unknown)]).await.status, 200, "{unknown}");
    }
    assert_eq!(refusal(&revoke("cli", &[]).await), error(400, "invalid_request"));
    let nobody = server.post("/auth/revoke", &[("token", "x")]).send().await;
    assert_eq!(refusal(&nobody), error(401, "invalid_client"));
    let wrong =
        server.post("/auth/revoke", &[("token", "x"), ("client_id", server.client("web"))]).send().await;
    assert_eq!(refusal(&wrong), error(401, "invalid_client"), "a confidential client without its secret");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_can_revoke_its_own_token() {
    let server = TestServer::start().await;
    let credentials = basic(server.client("machine"), server.secret("machine"));
    let tokens = token(&server, &[("grant_type", "client_credentials")]);
    let access = tokens.header("authorization", &credentials).send().await.text("access_token");
    let revoked = server.post("/auth/revoke", &[("token", &access)]).header("authorization", &credentials);
    assert_eq!(revoked.send().await.status, 200);
    assert_eq!(introspect(&server, "machine", &access).await.body, INACTIVE);
    server.stop().await;
}
