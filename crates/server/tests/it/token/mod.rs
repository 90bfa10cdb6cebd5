//! The token endpoint with its sisters, introspection and revocation: every attack on them (SECURITY,
//! sections 2 and 4).

mod authentication;
mod clients;
mod codes;
mod introspection;
mod known_signatures;
mod options;
mod overload;
mod refresh;
mod resource;
mod userinfo;

use crate::support::{Ask, CALLBACK, VERIFIER, code};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use server::testing::{Answer, Request, TestBrowser, TestServer};

fn token<'s>(server: &'s TestServer, fields: &[(&str, &str)]) -> Request<'s> {
    server.post("/auth/token", fields)
}

/// The single-page app sends Ada here for a code.
async fn spa_code(ada: &mut TestBrowser<'_>, server: &TestServer) -> String {
    code(ada, &Ask::of(server, "spa").with("scope", "offline_access profile")).await
}

/// What the single-page app presents.
fn presenting<'a>(server: &'a TestServer, code: &'a str) -> [(&'a str, &'a str); 5] {
    [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
        ("client_id", server.client("spa")),
    ]
}

/// The same with another value in one field; an empty one counts as left out.
fn but<'a, const N: usize>(
    mut fields: [(&'a str, &'a str); N],
    name: &str,
    value: &'a str,
) -> [(&'a str, &'a str); N] {
    for (known, sent) in &mut fields {
        if *known == name {
            *sent = value;
        }
    }
    fields
}

async fn refresh(server: &TestServer, refresh_token: &str) -> Answer {
    refreshing(server, "cli", refresh_token).send().await
}

fn refreshing<'s>(server: &'s TestServer, client: &str, refresh_token: &str) -> Request<'s> {
    let client = server.client(client);
    token(server, &[("grant_type", "refresh_token"), ("refresh_token", refresh_token), ("client_id", client)])
}

/// The status that the holder of these tokens gets from the API.
async fn reads(server: &TestServer, tokens: &Answer) -> u16 {
    server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await.status
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

fn introspecting<'s>(server: &'s TestServer, client: &str, token: &str) -> Request<'s> {
    let credentials = basic(server.client(client), server.secret(client));
    server.post("/auth/introspect", &[("token", token)]).header("authorization", &credentials)
}

async fn introspect(server: &TestServer, client: &str, token: &str) -> Answer {
    let answer = introspecting(server, client, token).send().await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, "no-store"), "{answer:?}");
    answer
}

const INACTIVE: &str = r#"{"active":false}"#;
