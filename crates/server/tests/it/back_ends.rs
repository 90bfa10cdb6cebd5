//! Tokens at the back ends of products that are written with `live`: by the keys that the server publishes.

#![allow(clippy::disallowed_methods, reason = "tests connect to their own server")]

use crate::support::*;
use live::auth::{Accept, Issuer, Sarsen, TokenType};
use live::{App, Problem, Query, Subject};
use serde_json::{Value, json};
use server::testing::{TestServer, free_port};
use server::{Clock as _, Limits, Running};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::{Key, Snapshot};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A server that listens where its issuer is.
async fn start() -> (TestServer, Running, String) {
    let port = free_port();
    let issuer = format!("http://127.0.0.1:{port}");
    let chosen = issuer.clone();
    let server = TestServer::start_with(move |settings| settings.issuer = chosen, |_| {}).await;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let running = server::serve(server.app.clone(), &[address], Limits::default()).await.expect("serves");
    (server, running, issuer)
}

fn accept(server: &TestServer, audience: &str) -> Accept {
    let clock = server.clock.clone();
    Accept::audience(audience).clock(Arc::new(move || clock.now()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_token_opens_the_back_end_of_its_service_only() {
    let (server, running, url) = start().await;
    let tokens = tokens(&server, "ada@acme.test", "openid profile email").await;
    let (access, id) = (tokens.text("access_token"), tokens.text("id_token"));
    let of = |audience: &str| Issuer::discover(&url, accept(&server, audience)).expect("an issuer");
    let sketch = of("service:acme/sketch");
    sketch.ready().await.expect("the server publishes keys");
    let caller = sketch.verify(&access).await.expect("its audience");
    assert_eq!(caller.subject.as_deref(), Some(text(&claims(&access), "sub")));
    assert_eq!(caller.claims["org"], "acme");
    for other in ["service:acme/notes", "org:acme", "platform", "service:acme", server.client("spa")] {
        assert_eq!(of(other).verify(&access).await.expect_err(other).status.as_u16(), 401);
    }
    // An ID token is for the client, and says so.
    for token_type in [TokenType::AccessToken, TokenType::Jwt] {
        for audience in ["service:acme/sketch", server.client("spa")] {
            let accept = accept(&server, audience).token_type(token_type);
            let issuer = Issuer::discover(&url, accept).expect("an issuer");
            assert_eq!(issuer.verify(&id).await.expect_err("an ID token").status.as_u16(), 401);
        }
    }
    let signed_in = accept(&server, server.client("spa")).token_type(TokenType::IdToken);
    let signed_in = Issuer::discover(&url, signed_in).expect("an issuer");
    assert_eq!(signed_in.verify(&id).await.expect("signed by RSA").subject, caller.subject);

    server.clock.advance(Duration::from_secs(601));
    assert!(sketch.verify(&access).await.expect_err("expired").detail.contains("expired"));
    running.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_signing_key_is_known_before_it_signs() {
    let (server, running, url) = start().await;
    let issuer = Issuer::discover(&url, accept(&server, "service:acme/sketch")).expect("an issuer");
    let kids = async || {
        let keys = server.get("/.well-known/jwks.json").send().await.json()["keys"].clone();
        keys.as_array().expect("keys").iter().map(|key| text(key, "kid").to_owned()).collect::<Vec<_>>()
    };
    let first = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    issuer.verify(&first).await.expect("valid");
    let before = kids().await;
    server.clock.advance(Duration::from_secs(91 * 24 * 3600));
    server.tidy().await.expect("tidies");
    assert!(kids().await.len() > before.len(), "a new key is published");
    // It signs an hour later.
    server.clock.advance(Duration::from_secs(2 * 3600));
    let second = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let caller = issuer.verify(&second).await.expect("signed with the new key");
    assert_eq!(caller.claims["aud"], json!("service:acme/sketch"));
    let header_of = |token: &str| token.split('.').next().map(str::to_owned);
    assert_ne!(header_of(&first), header_of(&second));
    running.stop().await;
    server.stop().await;
}

/// The id of the user.
#[derive(serde::Deserialize, utoipa::ToSchema)]
struct WhoAmI {}

impl Query for WhoAmI {
    const NAME: &'static str = "who_am_i";
    type Claims = Subject;
    type Value = String;
    fn run(&self, snapshot: &mut Snapshot<'_>, user: &Subject) -> Result<String, Problem> {
        snapshot.depends(|| [Key::row("people", "id", &user.0)]);
        Ok(user.0.clone())
    }
}

async fn send(address: SocketAddr, path: &str, token: &str, body: &Value) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("connects");
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.expect("writes");
    socket
}

async fn status(address: SocketAddr, token: &str) -> String {
    let mut answer = String::new();
    let mut socket = send(address, "/rpc/who_am_i", token, &json!({})).await;
    socket.read_to_string(&mut answer).await.expect("reads");
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// A stream of a back end that shows its first value.
struct Stream {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Stream {
    async fn open(address: SocketAddr, token: &str) -> Stream {
        let wanted = json!({ "subscriptions": [{ "key": "a", "query": "who_am_i", "args": {} }] });
        let mut stream =
            Stream { socket: send(address, "/live", token, &wanted).await, received: Vec::new() };
        while !stream.text().contains("event: value") {
            let read = stream.socket.read_buf(&mut stream.received).await.expect("reads");
            assert_ne!(read, 0, "the stream is open");
        }
        stream
    }

    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.received)
    }

    /// Waits for the end of the stream.
    async fn ends(&mut self) {
        self.socket.read_to_end(&mut self.received).await.expect("the stream ends");
        assert!(self.text().contains("event: bye"));
    }
}

/// An administrator ends the session of a token.
async fn end_session(owner: &Admin<'_>, token: &str) {
    let claims = claims(token);
    let (user, session) = (text(&claims, "sub"), text(&claims, "sid"));
    let path = format!("/api/organizations/acme/users/{user}/sessions/{session}");
    owner.change("DELETE", &path, Value::Null).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_revocations_end_streams_at_back_ends() {
    let (server, running, url) = start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("own.db").display());
    let rules = accept(&server, "service:acme/sketch");
    let sarsen = Sarsen::accepting(&url, rules, &server.demo.api_key).expect("an authenticator");
    let mut settings = live::Settings::new(database, ([127, 0, 0, 1], 0).into());
    let clock = server.clock.clone();
    settings.clock = Arc::new(move || clock.now());
    let app = App::new().query::<WhoAmI>().authenticate(Arc::new(sarsen.clone()));
    let back_end = live::serve(app, settings).await.expect("serves");
    let address = back_end.address;

    let mut tokens_of_ada = Vec::new();
    for _ in 0..3 {
        tokens_of_ada.push(tokens(&server, "ada@acme.test", "openid").await.text("access_token"));
    }
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("platform", "admin@acme.test").await.status, 303);
    let ask = Ask::by("console", &format!("{url}/console")).with("scope", "org:acme");
    let token = tokens_of(&server, &mut browser, &ask).await.text("access_token");
    while !sarsen.is_fresh() {
        tokio::task::yield_now().await;
    }

    // Another instance of the server may be the one that ends a session.
    let other = server.another().await;
    let instances = [Some(&server), other.as_ref()].into_iter().flatten();
    for (instance, token_of_ada) in instances.zip(&tokens_of_ada) {
        let mut stream = Stream::open(address, token_of_ada).await;
        assert_eq!(status(address, token_of_ada).await, "200");
        end_session(&Admin { server: instance, token: token.clone() }, token_of_ada).await;
        stream.ends().await;
        assert_eq!(status(address, token_of_ada).await, "401");
        assert_eq!(status(address, &tokens_of_ada[2]).await, "200", "another session of the user");
    }

    back_end.stop().await;
    if let Some(other) = other {
        other.stop().await;
    }
    running.stop().await;
    server.stop().await;
}
