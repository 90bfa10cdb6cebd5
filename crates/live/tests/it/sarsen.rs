//! A back end for the users of an identity server: sessions that end there end here, and silence is no permission.

use crate::app;
use crate::client::Client;
use aws_lc_rs::encoding::{AsBigEndian as _, EcPublicKeyUncompressedBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use live::auth::{Sarsen, WhenStale};
use live::{Anyone, Given, Mutation, Problem, Running, Settings};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use store::testing::TestPlace;
use store::{Tx, Uptime};
use tokio::sync::mpsc;
use utoipa::ToSchema;

const KEY: &str = "sk_test";
/// Longer than the stream may be silent.
const TOO_LONG: Duration = Duration::from_secs(31);

/// A clock that stands still until the test moves it.
#[derive(Default)]
struct TestUptime(Mutex<Duration>);

impl TestUptime {
    fn advance(&self, span: Duration) {
        *self.0.lock() += span;
    }
}

impl Uptime for TestUptime {
    fn now(&self) -> Duration {
        *self.0.lock()
    }
}

/// An identity server as far as back ends see it: keys, the state of a service, and its events.
struct Identity {
    url: String,
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    pair: EcdsaKeyPair,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    revoked: Vec<Value>,
    events: Vec<String>,
    streams: Vec<mpsc::UnboundedSender<String>>,
    /// The cursors with which streams were opened.
    opened_at: Vec<String>,
    last_opened: Option<Instant>,
    states_read: usize,
    is_down: bool,
    /// New streams send nothing by themselves.
    is_holding: bool,
    /// New streams end at once.
    is_cutting: bool,
}

struct Stream(mpsc::UnboundedReceiver<String>);

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|text| text.map(|text| Ok(http_body::Frame::data(Bytes::from(text)))))
    }
}

impl Identity {
    async fn start() -> Identity {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let shared = Arc::new(Shared { url: url.clone(), pair, inner: Mutex::default() });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/api/service/state", get(state))
            .route("/api/live", get(events))
            .with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.expect("serves") });
        Identity { url, shared }
    }

    fn token(&self, user: &str, session: &str, grant: &str) -> String {
        let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({ "typ": "at+jwt", "alg": "ES256", "kid": "k" });
        let exp = app::now().seconds() + 600;
        let claims = json!({ "iss": self.url, "aud": "service:acme/sketch", "sub": user, "sid": session,
                             "jti": format!("{grant}.x"), "exp": exp });
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.shared.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("signs");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Revokes as the server does: in the state, and on the streams.
    fn revoke(&self, sessions: &[&str], grants: &[&str]) {
        let data = json!({ "user": "u", "sessions": sessions, "grants": grants });
        let mut inner = self.shared.inner.lock();
        inner.revoked.push(data.clone());
        let text = format!("event: session.revoked\nid: {}\ndata: {data}\n\n", inner.events.len() + 1);
        inner.events.push(text.clone());
        inner.streams.retain(|stream| stream.send(text.clone()).is_ok());
    }

    /// Changes what a user administers, as the server does.
    fn change_administers(&self, user: &str, administers: Value) {
        let data = json!({ "user": user, "administers": administers });
        let mut inner = self.shared.inner.lock();
        let text = format!("event: member.changed\nid: {}\ndata: {data}\n\n", inner.events.len() + 1);
        inner.events.push(text.clone());
        inner.streams.retain(|stream| stream.send(text.clone()).is_ok());
    }

    /// Sends something else to the streams.
    fn send(&self, text: &str) {
        self.shared.send(text);
    }

    fn set_down(&self, is_down: bool) {
        let mut inner = self.shared.inner.lock();
        inner.is_down = is_down;
        inner.streams.clear();
    }

    /// Ends the streams in the middle.
    fn cut(&self) {
        self.shared.inner.lock().streams.clear();
    }

    async fn until(&self, what: impl Fn(&Inner) -> bool) {
        while !what(&self.shared.inner.lock()) {
            tokio::task::yield_now().await;
        }
    }
}

/// The sign that a stream has sent everything up to here, and knew no more.
fn heartbeat(cursor: usize) -> String {
    format!("id: {cursor}\n:\n\n")
}

/// The sign that a stream has sent everything up to here, and is behind.
fn progress(cursor: usize) -> String {
    format!("event: progress\nid: {cursor}\ndata: {{}}\n\n")
}

impl Shared {
    fn send(&self, text: &str) {
        self.inner.lock().streams.retain(|stream| stream.send(text.to_owned()).is_ok());
    }
}

async fn discovery(State(shared): State<Arc<Shared>>) -> String {
    json!({ "issuer": shared.url, "jwks_uri": format!("{}/keys", shared.url) }).to_string()
}

async fn keys(State(shared): State<Arc<Shared>>) -> String {
    let point: EcPublicKeyUncompressedBin<'_> = shared.pair.public_key().as_be_bytes().expect("a point");
    let (x, y) = point.as_ref()[1..].split_at(32);
    let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
    json!({ "keys": [{ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "k" }] }).to_string()
}

fn is_allowed(headers: &HeaderMap, inner: &Inner) -> bool {
    !inner.is_down && headers.get("authorization").is_some_and(|value| value == &format!("Bearer {KEY}"))
}

async fn state(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut inner = shared.inner.lock();
    if !is_allowed(&headers, &inner) {
        return axum::http::StatusCode::UNAUTHORIZED.into_response();
    }
    inner.states_read += 1;
    let cursor = inner.events.len().to_string();
    let state = json!({ "service": {}, "users": [], "revoked": inner.revoked, "last_event_id": cursor, "next": null });
    state.to_string().into_response()
}

async fn events(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let mut inner = shared.inner.lock();
    if !is_allowed(&headers, &inner) {
        return axum::http::StatusCode::UNAUTHORIZED.into_response();
    }
    let cursor = headers.get("last-event-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let (sender, receiver) = mpsc::unbounded_channel();
    let seen: usize = cursor.parse().expect("a cursor");
    if !inner.is_holding {
        for text in inner.events.iter().skip(seen) {
            sender.send(text.clone()).expect("open");
        }
        sender.send(heartbeat(inner.events.len())).expect("open");
    }
    if !inner.is_cutting {
        inner.streams.push(sender);
    }
    inner.opened_at.push(cursor);
    inner.last_opened = Some(Instant::now());
    Body::new(Stream(receiver)).into_response()
}

/// Increments a counter, also without a token.
#[derive(Deserialize, ToSchema)]
struct Touch {
    id: i64,
}

impl Mutation for Touch {
    const NAME: &'static str = "touch";
    type Claims = Anyone;
    type Value = i64;
    fn run(&self, tx: &mut Tx<'_>, _: &Anyone, _: &Given) -> Result<i64, Problem> {
        app::Increment { id: self.id }.add(tx)
    }
}

async fn serve(
    identity: &Identity,
    database: &TestPlace,
    change: impl FnOnce(Sarsen) -> Sarsen,
) -> (Running, Sarsen) {
    let sarsen = change(Sarsen::new(&identity.url, "acme/sketch", KEY).expect("an authenticator"));
    let mut settings = Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    settings.check = true;
    let app = app::app().mutation::<Touch>().authenticate(Arc::new(sarsen.clone()));
    (live::serve(app, settings).await.expect("the app is served"), sarsen)
}

async fn until_fresh(sarsen: &Sarsen, is_fresh: bool) {
    while sarsen.is_fresh() != is_fresh {
        tokio::task::yield_now().await;
    }
}

/// Waits until a token is accepted again. Until then the answer is "not now": 401 would sign the user out.
async fn until_let_in(running: &Running, token: &str) {
    loop {
        match status(running, token) {
            200 => return,
            503 => tokio::task::yield_now().await,
            other => panic!("{other}"),
        }
    }
}

fn own() -> Value {
    json!([{ "key": "a", "query": "own_counters", "args": {} }])
}

fn status(running: &Running, token: &str) -> u16 {
    Client::new(running.address, token).call("own_counters", json!({})).status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_ends_at_the_server_ends_its_streams_here() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen).await;
    until_fresh(&sarsen, true).await;
    assert_eq!(Client::new(running.address, "").send("GET", "/readyz", &[], "").status, 200);
    let tokens =
        [("s1", "g1"), ("s1", "g2"), ("s2", "g3"), ("s3", "g4")].map(|(s, g)| identity.token("ada", s, g));
    let mut streams = tokens.each_ref().map(|token| Client::new(running.address, token).live(own()));
    for events in &mut streams {
        events.expect("hello");
        events.expect("value");
    }
    let [first, second, third, fourth] = &mut streams;
    identity.revoke(&["s1"], &["g3"]);
    for events in [first, second, third] {
        assert_eq!(events.expect("bye").name, "bye");
        assert_eq!(events.next(), None);
    }
    assert_eq!(tokens.each_ref().map(|token| status(&running, token)), [401, 401, 401, 200]);
    Client::new(running.address, &tokens[3]).value("create", json!({ "id": 1 }));
    fourth.until(|value| value[0]["id"] == 1);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_role_that_changes_at_the_server_decides_anew_what_streams_show() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen).await;
    until_fresh(&sarsen, true).await;
    let tokens =
        ["ada", "grace"].map(|user| identity.token(user, &format!("s-{user}"), &format!("g-{user}")));
    let [ada, grace] = tokens.each_ref().map(|token| Client::new(running.address, token));
    ada.value("create", json!({ "id": 1 }));
    let wanted = json!([{ "key": "a", "query": "staff_secret", "args": { "id": 1 } }]);
    let (mut of_ada, mut of_grace) = (ada.live(wanted.clone()), grace.live(wanted));
    for events in [&mut of_ada, &mut of_grace] {
        events.expect("hello");
        assert_eq!(events.expect("error").data["problem"]["code"], "forbidden");
    }
    let admin = json!([{ "org": "acme", "role": "admin" }]);
    identity.change_administers("ada", admin.clone());
    assert_eq!(of_ada.expect("value").value(), 0);
    assert_eq!(ada.value("staff_secret", json!({ "id": 1 })), 0);
    // The roles go: nothing of a later version is shown, and calls are refused.
    identity.change_administers("ada", json!([]));
    assert_eq!(of_ada.expect("error").data["problem"]["code"], "forbidden");
    assert_eq!(ada.call("staff_secret", json!({ "id": 1 })).status, 403);
    ada.value("increment", json!({ "id": 1 }));
    identity.change_administers("grace", admin);
    assert_eq!(of_grace.expect("value").value(), 1, "the role of one user is not that of another");
    assert_eq!(ada.call("staff_secret", json!({ "id": 1 })).status, 403);

    // An instance that begins does not know what changed before it.
    if database.is_shared() {
        let (other, sarsen) = serve(&identity, &database, |sarsen| sarsen).await;
        until_fresh(&sarsen, true).await;
        let there = Client::new(other.address, &tokens[1]);
        assert_eq!(there.call("staff_secret", json!({ "id": 1 })).status, 403);
        other.stop().await;
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_role_that_changed_while_the_back_end_was_away_is_not_believed() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen).await;
    until_fresh(&sarsen, true).await;
    let token = identity.token("ada", "s", "g");
    Client::new(running.address, &token).value("create", json!({ "id": 1 }));
    let wanted = json!([{ "key": "a", "query": "staff_secret", "args": { "id": 1 } }]);
    let mut events = Client::new(running.address, &token).live(wanted);
    events.expect("hello");
    events.expect("error");
    identity.change_administers("ada", json!([{ "org": "acme", "role": "admin" }]));
    assert_eq!(events.expect("value").value(), 0);
    running.stop().await;
    identity.change_administers("ada", json!([]));
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen).await;
    until_fresh(&sarsen, true).await;
    let ada = Client::new(running.address, &token);
    assert_eq!(ada.call("staff_secret", json!({ "id": 1 })).status, 403);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_revoked_while_the_back_end_was_away_is_known() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    identity.revoke(&["before"], &[]);
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen).await;
    until_fresh(&sarsen, true).await;
    let token = |session: &str| identity.token("ada", session, "g");
    assert_eq!([status(&running, &token("before")), status(&running, &token("later"))], [401, 200]);

    // The stream breaks, and is resumed where it was.
    identity.set_down(true);
    identity.revoke(&["meanwhile"], &[]);
    identity.set_down(false);
    identity.until(|inner| inner.opened_at.len() == 2).await;
    assert_eq!(identity.shared.inner.lock().opened_at, ["1", "1"]);
    while status(&running, &token("meanwhile")) != 401 {
        tokio::task::yield_now().await;
    }
    assert_eq!(identity.shared.inner.lock().states_read, 1);

    // The server has lost the cursor: the whole state is read again.
    identity.send("event: reset\nid\ndata: {\"reason\":\"cursor_too_old\"}\n\n");
    identity.until(|inner| inner.states_read == 2 && inner.opened_at.len() == 3).await;
    assert_eq!(identity.shared.inner.lock().opened_at[2], "2");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_the_stream_is_silent_nobody_is_let_in() {
    let identity = Identity::start().await;
    let (closed_place, open_place) = (TestPlace::create(), TestPlace::create());
    let uptime = Arc::new(TestUptime::default());
    let (closed, sarsen) = serve(&identity, &closed_place, |sarsen| sarsen.uptime(uptime.clone())).await;
    let accept = |sarsen: Sarsen| sarsen.uptime(uptime.clone()).when_stale(WhenStale::Accept);
    let (open, _) = serve(&identity, &open_place, accept).await;
    until_fresh(&sarsen, true).await;
    let token = identity.token("ada", "s", "g");
    let mut events = Client::new(closed.address, &token).live(own());
    events.expect("hello");
    events.expect("value");
    identity.set_down(true);
    uptime.advance(TOO_LONG);
    assert_eq!([status(&closed, &token), status(&open, &token)], [503, 200]);
    events.expect("bye");
    assert_eq!(events.next(), None);
    identity.set_down(false);
    until_let_in(&closed, &token).await;
    closed.stop().await;
    open.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pages_of_callers_without_a_token_outlast_an_outage_of_the_server() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let uptime = Arc::new(TestUptime::default());
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen.uptime(uptime.clone())).await;
    until_fresh(&sarsen, true).await;
    let token = identity.token("ada", "s", "g");
    let (ada, anybody) = (Client::new(running.address, &token), Client::new(running.address, ""));
    ada.value("create", json!({ "id": 1 }));
    let wanted = json!([{ "key": "a", "query": "get_counter", "args": { "id": 1 } }]);
    let [mut of_ada, mut before] = [ada, anybody].map(|client| client.live(wanted.clone()));
    for events in [&mut of_ada, &mut before] {
        events.expect("hello");
        events.until(|counter| counter["value"] == 0);
    }
    identity.set_down(true);
    uptime.advance(TOO_LONG);
    assert_eq!(of_ada.expect("bye").name, "bye");
    assert_eq!(anybody.value("touch", json!({ "id": 1 })), 1);
    before.until(|counter| counter["value"] == 1);
    let mut later = anybody.live(wanted);
    later.until(|counter| counter["value"] == 1);
    assert_eq!(status(&running, &token), 503);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_back_end_that_catches_up_lets_nobody_in_before_it_has_read_all() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let uptime = Arc::new(TestUptime::default());
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen.uptime(uptime.clone())).await;
    until_fresh(&sarsen, true).await;
    let [revoked, other] = ["revoked", "other"].map(|session| identity.token("ada", session, "g"));
    assert_eq!([status(&running, &revoked), status(&running, &other)], [200, 200]);

    identity.set_down(true);
    uptime.advance(TOO_LONG);
    // An older event, what is no event of this service, and the one that counts.
    identity.revoke(&["older"], &[]);
    identity.shared.inner.lock().events.push(progress(2));
    identity.revoke(&["revoked"], &[]);
    identity.shared.inner.lock().is_holding = true;
    identity.set_down(false);
    for read in 0..2 {
        identity.until(|inner| inner.opened_at.len() == read + 2).await;
        let text = identity.shared.inner.lock().events[read].clone();
        identity.send(&text);
        identity.cut();
        // The next stream goes on behind it, so it has been read.
        identity.until(|inner| inner.opened_at.len() == read + 3).await;
        assert_eq!(identity.shared.inner.lock().opened_at[read + 2], (read + 1).to_string());
        assert!(!sarsen.is_fresh(), "{text}");
        assert_eq!([status(&running, &revoked), status(&running, &other)], [503, 503], "{text}");
    }
    identity.shared.inner.lock().is_holding = false;
    identity.cut();
    until_fresh(&sarsen, true).await;
    until_let_in(&running, &other).await;
    assert_eq!(status(&running, &revoked), 401);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn events_of_a_server_that_is_behind_do_not_show_that_sessions_are_fresh() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let uptime = Arc::new(TestUptime::default());
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen.uptime(uptime.clone())).await;
    until_fresh(&sarsen, true).await;
    let [revoked, other] = ["revoked", "other"].map(|session| identity.token("ada", session, "g"));
    identity.send(&progress(0));
    uptime.advance(TOO_LONG / 2);
    identity.revoke(&["revoked"], &[]);
    while status(&running, &revoked) != 401 {
        tokio::task::yield_now().await;
    }
    assert_eq!(status(&running, &other), 200);
    uptime.advance(TOO_LONG / 2);
    assert!(!sarsen.is_fresh());
    assert_eq!(status(&running, &other), 503);
    identity.send(&heartbeat(1));
    until_fresh(&sarsen, true).await;
    assert_eq!(identity.shared.inner.lock().opened_at.len(), 1, "it is the same stream");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_waits_in_a_socket_of_before_a_suspension_is_no_sign_of_life() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let uptime = Arc::new(TestUptime::default());
    let (running, sarsen) = serve(&identity, &database, |sarsen| sarsen.uptime(uptime.clone())).await;
    until_fresh(&sarsen, true).await;
    let token = identity.token("ada", "s", "g");
    assert_eq!(status(&running, &token), 200);
    // The stream is read only after the machine runs again.
    uptime.advance(TOO_LONG);
    assert!(!sarsen.is_fresh());
    assert_eq!(status(&running, &token), 503);
    identity.send(&heartbeat(0));
    until_fresh(&sarsen, true).await;
    assert_eq!(identity.shared.inner.lock().opened_at.len(), 2, "by a new stream");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_whose_streams_end_at_once_is_asked_less_and_less() {
    let identity = Identity::start().await;
    identity.shared.inner.lock().is_cutting = true;
    let database = TestPlace::create();
    let started = Instant::now();
    let (running, _) = serve(&identity, &database, |sarsen| sarsen).await;
    identity.until(|inner| inner.opened_at.len() == 4).await;
    let took = identity.shared.inner.lock().last_opened.expect("opened") - started;
    // Half of 250, 500 and 1,000 ms at least.
    assert!(took >= Duration::from_millis(875), "{took:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wrong_key_lets_nobody_in() {
    let identity = Identity::start().await;
    let database = TestPlace::create();
    let wrong = Sarsen::new(&identity.url, "acme/sketch", "sk_wrong").expect("an authenticator");
    let settings = Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    let running =
        live::serve(app::app().authenticate(Arc::new(wrong.clone())), settings).await.expect("served");
    let token = identity.token("ada", "s", "g");
    let answer = Client::new(running.address, &token).call("own_counters", json!({}));
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(!wrong.is_fresh());
    // A deploy notices, and so does who watches the page.
    let operator = Client::new(running.address, "");
    assert_eq!(operator.send("GET", "/readyz", &[], "").status, 503);
    assert!(operator.send("GET", "/metrics", &[], "").body.contains("live_sessions_fresh 0\n"));
    for (url, key) in [("http://id.example.com", KEY), (&*identity.url, ""), (&*identity.url, "a b")] {
        Sarsen::new(url, "acme/sketch", key).err().expect(url);
    }
    running.stop().await;
}
