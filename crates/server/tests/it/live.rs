//! `GET /api/live` and `GET /api/service/state`: what changes is on the open stream at once, in its order, and nothing from
//! after the end of a session, a key or an organization.

use crate::support::{Admin, Ask, CALLBACK, admin_token, claims, text, tokens, tokens_of};
use serde_json::{Value, json};
use server::testing::{TestServer, at_once};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const STATE: &str = "/api/service/state";

/// An event as a client dispatches it. A sign of life has no name.
#[derive(Debug, Clone)]
struct Event {
    name: String,
    id: Option<String>,
    retry: Option<u64>,
    data: Value,
}

/// A client of a stream: HTTP/1.1 and Server-Sent Events, and nothing that hides what came.
struct Live {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// The head of the response.
    head: String,
    /// The decoded body that is not read yet.
    body: String,
    is_over: bool,
}

impl Live {
    /// Opens a stream that may be refused.
    async fn request(server: &TestServer, token: &str, cursor: Option<&str>) -> Live {
        let mut socket = TcpStream::connect(server.address).await.expect("connects");
        let cursor = cursor.map(|cursor| format!("last-event-id: {cursor}\r\n")).unwrap_or_default();
        let request = format!(
            "GET /api/live HTTP/1.1\r\nhost: localhost\r\norigin: https://app.test\r\nauthorization: Bearer {token}\r\n{cursor}\r\n"
        );
        socket.write_all(request.as_bytes()).await.expect("writes");
        let mut live =
            Live { socket, buffer: Vec::new(), head: String::new(), body: String::new(), is_over: false };
        while live.head.is_empty() {
            if let Some(end) = live.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                live.head = String::from_utf8_lossy(&live.buffer[..end]).to_ascii_lowercase();
                live.buffer.drain(..end + 4);
            } else if live.read().await == 0 {
                panic!("no response");
            }
        }
        live
    }

    async fn open(server: &TestServer, token: &str, cursor: Option<&str>) -> Live {
        let live = Live::request(server, token, cursor).await;
        assert!(live.head.starts_with("http/1.1 200"), "{}", live.head);
        for header in
            ["content-type: text/event-stream", "cache-control: no-store", "access-control-allow-origin: *"]
        {
            assert!(live.head.contains(header), "{header} in {}", live.head);
        }
        live
    }

    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    async fn read(&mut self) -> usize {
        let read = tokio::time::timeout(Duration::from_secs(20), self.socket.read_buf(&mut self.buffer));
        read.await.expect("the stream went on").unwrap_or(0)
    }

    /// Decodes the chunks that are complete.
    fn decode(&mut self) {
        while let Some(line) = self.buffer.windows(2).position(|window| window == b"\r\n") {
            let length = String::from_utf8_lossy(&self.buffer[..line]).into_owned();
            let length = usize::from_str_radix(&length, 16).expect("a chunk");
            if self.buffer.len() < line + 2 + length + 2 {
                return;
            }
            if length == 0 {
                self.is_over = true;
                return;
            }
            self.body += std::str::from_utf8(&self.buffer[line + 2..line + 2 + length]).expect("UTF-8");
            self.buffer.drain(..line + 2 + length + 2);
        }
    }

    /// The next event, or sign of life; `None` at the end of the stream.
    async fn next_or_beat(&mut self) -> Option<Event> {
        loop {
            self.decode();
            if let Some((block, rest)) = self.body.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.body = rest;
                return Some(Event::parse(&block));
            }
            if self.is_over || self.read().await == 0 {
                return None;
            }
        }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.next_or_beat().await?;
            if !event.name.is_empty() {
                return Some(event);
            }
        }
    }

    /// The next event, which has this name.
    async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await.unwrap_or_else(|| panic!("the stream ended before {name}"));
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// Waits until the stream has joined the others: its first sign of life has its cursor.
    async fn joined(&mut self) -> String {
        let event = self.next_or_beat().await.expect("a sign of life");
        assert!(event.name.is_empty(), "{event:?}");
        event.id.expect("a cursor")
    }
}

impl Event {
    fn parse(block: &str) -> Event {
        let mut event = Event { name: String::new(), id: None, retry: None, data: Value::Null };
        for line in block.lines() {
            match line.split_once(':').unwrap_or((line, "")) {
                ("event", name) => name.trim().clone_into(&mut event.name),
                ("id", id) => event.id = Some(id.trim().to_owned()),
                ("retry", retry) => event.retry = retry.trim().parse().ok(),
                ("data", data) => event.data = serde_json::from_str(data).expect("JSON"),
                ("", _) => {}
                other => panic!("{other:?}"),
            }
        }
        event
    }
}

/// The back end of the service, and its key.
fn back_end(server: &TestServer) -> Admin<'_> {
    Admin { server, token: server.demo.api_key.clone() }
}

async fn owner(server: &TestServer) -> Admin<'_> {
    Admin::sign_in(server, "admin@acme.test", "org:acme").await
}

/// Ada's id and the path of her subscription.
async fn ada(owner: &Admin<'_>) -> (String, String) {
    let user = owner.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let user = text(&user["items"][0], "id").to_owned();
    let found = owner.read(&format!("/api/organizations/acme/subscriptions?user={user}")).await;
    (user, format!("/api/organizations/acme/subscriptions/{}", text(&found["items"][0], "id")))
}

async fn set_plan(owner: &Admin<'_>, subscription: &str, plan: &str) {
    owner.change("PATCH", subscription, json!({ "plan": plan })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_stream_begins_with_the_state_and_has_each_change() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let (user, subscription) = ada(&owner).await;
    let token = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let mut live = Live::open(&server, &token, None).await;
    let state = live.expect("state").await;
    assert!(state.id.is_some(), "{state:?}");
    assert_eq!((text(&state.data["user"], "id"), text(&state.data["subscription"], "plan")), (&*user, "pro"));
    assert_eq!(state.data["administers"], json!([]));
    assert_eq!(text(&state.data["service"], "service"), "sketch");
    let session = text(&state.data["session"], "id").to_owned();

    set_plan(&owner, &subscription, "starter").await;
    let changed = live.expect("subscription.changed").await;
    assert_eq!(text(&changed.data["subscription"], "plan"), "starter");
    // A change of the plan, not of the subscription.
    owner.change("PATCH", "/api/organizations/acme/plans/starter", json!({ "features": ["teleport"] })).await;
    let changed = live.expect("subscription.changed").await;
    assert_eq!(changed.data["subscription"]["features"], json!(["teleport"]));
    owner
        .change("PATCH", &format!("/api/organizations/acme/users/{user}"), json!({ "name": "Countess" }))
        .await;
    assert_eq!(text(&live.expect("user.changed").await.data["user"], "name"), "Countess");
    owner.change("PATCH", "/api/organizations/acme/services/sketch", json!({ "name": "Sketchbook" })).await;
    assert_eq!(text(&live.expect("service.changed").await.data["service"], "name"), "Sketchbook");

    // The session ends: one last event, and nothing of what comes later.
    owner
        .change("DELETE", &format!("/api/organizations/acme/users/{user}/sessions/{session}"), Value::Null)
        .await;
    set_plan(&owner, &subscription, "pro").await;
    let last = live.expect("session.revoked").await;
    assert_eq!(last.data["sessions"], json!([session]));
    assert!(live.next().await.is_none());
    assert_eq!(Live::request(&server, &token, None).await.status(), 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_stream_ends_with_its_grant_its_token_and_its_organization() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let ada = tokens(&server, "ada@acme.test", "openid offline_access").await;
    let grace = tokens(&server, "grace@acme.test", "openid").await;
    let mut of_ada = Live::open(&server, &ada.text("access_token"), None).await;
    let mut of_grace = Live::open(&server, &grace.text("access_token"), None).await;
    of_ada.expect("state").await;
    of_grace.expect("state").await;
    let form = [("client_id", server.client("spa")), ("token", &*ada.text("refresh_token"))];
    assert_eq!(server.post("/auth/revoke", &form).send().await.status, 200);
    let revoked = of_ada.expect("session.revoked").await;
    assert_eq!(revoked.data["sessions"], json!([]), "the session goes on");
    assert_eq!(revoked.data["grants"].as_array().map(Vec::len), Some(1));
    assert!(of_ada.next().await.is_none(), "the grant is revoked");

    // Other users' streams live on, until their organization is suspended.
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let path = "/api/platform/organizations/acme/suspension";
    let mut of_key = Live::open(&server, &server.demo.api_key, None).await;
    of_key.joined().await;
    platform.change("PUT", path, json!({})).await;
    of_grace.expect("session.revoked").await;
    assert!(of_grace.next().await.is_none());
    assert_eq!(of_key.expect("bye").await.data["reason"], "key_ended");
    assert!(of_key.next().await.is_none());
    platform.change("DELETE", path, Value::Null).await;
    drop(owner);
    server.stop().await;

    // A token that expires ends its stream, with the invitation to come back.
    let quick = |settings: &mut server::Settings| settings.stream_heartbeat = Duration::from_millis(20);
    let server = TestServer::start_with(quick, |_| {}).await;
    let token = tokens(&server, "grace@acme.test", "openid").await.text("access_token");
    let mut live = Live::open(&server, &token, None).await;
    live.expect("state").await;
    assert!(live.next_or_beat().await.expect("a sign of life").name.is_empty());
    server.clock.advance(Duration::from_secs(601));
    let bye = live.expect("bye").await;
    assert_eq!((text(&bye.data, "reason"), bye.retry.is_some()), ("token_expired", true));
    assert!(live.next().await.is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_many_users_share_reaches_all_of_them() {
    // More than the store accepts as background queries.
    const STREAMS: usize = 1300;
    let server = TestServer::start_with(|settings| settings.streams_per_caller_max = STREAMS, |_| {}).await;
    let owner = owner(&server).await;
    let token = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let mut all = at_once((0..STREAMS).map(|_| Live::open(&server, &token, None))).await;
    for live in &mut all {
        live.expect("state").await;
    }
    let mut of_key = Live::open(&server, &server.demo.api_key, None).await;
    of_key.joined().await;
    owner.change("PATCH", "/api/organizations/acme/services/sketch", json!({ "name": "Sketchbook" })).await;
    for live in &mut all {
        let changed = live.expect("service.changed").await;
        assert_eq!(text(&changed.data["service"], "name"), "Sketchbook");
    }
    assert_eq!(text(&of_key.expect("service.changed").await.data, "name"), "Sketchbook");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_gets_each_event_of_its_users_and_resumes() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (user, subscription) = ada(&owner).await;
    let state = sketch.read(STATE).await;
    let found = state["users"].as_array().expect("users").iter().find(|one| text(one, "id") == user);
    assert_eq!(found.map(|one| text(one, "plan")), Some("pro"));
    let plans = state["service"]["plans"].as_array().expect("plans");
    let pro = plans.iter().find(|plan| text(plan, "plan") == "pro").expect("pro");
    assert_eq!(pro["features"], json!(["export", "history", "priority support"]));
    let cursor = text(&state, "last_event_id").to_owned();

    // What happens between the state and the stream is in the stream.
    set_plan(&owner, &subscription, "starter").await;
    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    let first = live.expect("subscription.changed").await;
    assert_eq!((text(&first.data, "user"), text(&first.data["state"], "plan")), (&*user, "starter"));
    live.joined().await;
    let signed_in = tokens(&server, "grace@acme.test", "openid offline_access").await;
    let grace = owner.read("/api/organizations/acme/users?email=grace@acme.test").await;
    let grace = text(&grace["items"][0], "id").to_owned();
    let users = "/api/organizations/acme/users";
    owner.change("PATCH", &format!("{users}/{grace}"), json!({ "name": "Admiral" })).await;
    let changed = live.expect("user.changed").await;
    assert_eq!((text(&changed.data, "user"), text(&changed.data["state"], "name")), (&*grace, "Admiral"));
    assert_eq!(text(&changed.data["state"], "plan"), "free");
    let form = [("client_id", server.client("spa")), ("token", &*signed_in.text("refresh_token"))];
    assert_eq!(server.post("/auth/revoke", &form).send().await.status, 200);
    let revoked = live.expect("session.revoked").await;
    assert_eq!((text(&revoked.data, "user"), &revoked.data["sessions"]), (&*grace, &json!([])));
    assert_eq!(revoked.data["grants"].as_array().map(Vec::len), Some(1));
    tokens(&server, "grace@acme.test", "openid").await;
    owner.change("PUT", &format!("{users}/{grace}/suspension"), json!({})).await;
    let suspended = live.expect("user.changed").await;
    assert_eq!(suspended.data["state"]["suspended"], true);
    let ended = live.expect("session.revoked").await;
    assert_eq!(ended.data["sessions"].as_array().map(Vec::len), Some(2), "{ended:?}");
    owner.change("PATCH", "/api/organizations/acme/plans/pro", json!({ "features": ["teleport"] })).await;
    let service = live.expect("service.changed").await;
    let plans = service.data["plans"].as_array().cloned().unwrap_or_default();
    assert!(plans.iter().any(|plan| text(plan, "plan") == "pro" && plan["features"] == json!(["teleport"])));
    owner.change("DELETE", &subscription, Value::Null).await;
    let gone = live.expect("subscription.changed").await;
    assert_eq!((text(&gone.data, "user"), &gone.data["state"]), (&*user, &Value::Null), "she is no user");

    // The state has what was revoked within the lifetime of a token.
    let later = sketch.read(STATE).await;
    let revoked = later["revoked"].as_array().expect("a list");
    assert!(revoked.iter().any(|one| one["sessions"] == ended.data["sessions"]), "{revoked:?}");

    // From any cursor the rest comes again, once and in its order.
    drop(live);
    let mut again = Live::open(&server, &sketch.token, suspended.id.as_deref()).await;
    for name in ["session.revoked", "service.changed", "subscription.changed"] {
        again.expect(name).await;
    }
    again.joined().await;

    // A user of another service, and one of another organization, are not there.
    owner.make(users, json!({ "email": "new@acme.test" })).await;
    owner.change("PATCH", &format!("{users}/{grace}"), json!({ "name": "Rear Admiral" })).await;
    assert_eq!(text(&again.expect("user.changed").await.data["state"], "name"), "Rear Admiral");

    // Her grants are gone from the list of those that count, but the service may still have data of hers.
    owner.change("DELETE", &format!("{users}/{grace}"), Value::Null).await;
    let deleted = again.expect("user.changed").await;
    assert_eq!((text(&deleted.data, "user"), &deleted.data["state"]), (&*grace, &Value::Null));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_refresh_tokens_is_revoked_after_weeks() {
    let server = TestServer::start().await;
    let sketch = back_end(&server);
    // She has no subscription: the service knows her by the grant alone.
    tokens(&server, "grace@acme.test", "openid").await;
    server.clock.advance(Duration::from_secs(8 * 24 * 3600));
    server.tidy().await.expect("tidies");
    let mut live = Live::open(&server, &sketch.token, None).await;
    live.joined().await;
    let owner = owner(&server).await;
    let grace = owner.read("/api/organizations/acme/users?email=grace@acme.test").await;
    let path = format!("/api/organizations/acme/users/{}/suspension", text(&grace["items"][0], "id"));
    owner.change("PUT", &path, json!({})).await;
    assert_eq!(live.expect("user.changed").await.data["state"]["suspended"], true);
    let ended = live.expect("session.revoked").await;
    assert_eq!(ended.data["sessions"].as_array().map(Vec::len), Some(1), "{ended:?}");
    server.stop().await;
}

/// The slugs and roles in a list of administered organizations.
fn administered(list: &Value) -> Vec<(String, String)> {
    let role = |one: &Value| (text(one, "org").to_owned(), text(one, "role").to_owned());
    list.as_array().expect("a list").iter().map(role).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_platform_follows_the_roles_of_administrators() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let base = "/api/organizations/platform";
    platform.make(&format!("{base}/services"), json!({ "slug": "ops", "name": "Ops" })).await;
    let spa = json!({ "service": "ops", "kind": "spa", "name": "Ops", "redirect_uris": [CALLBACK] });
    let spa = platform.make(&format!("{base}/clients"), spa).await;
    let key = platform.make(&format!("{base}/keys"), json!({ "name": "Ops", "service": "ops" })).await;
    let ops = Admin { server: &server, token: text(&key, "key").to_owned() };

    // An administrator of acme signs in to the service.
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("platform", "admin@acme.test").await.status, 303);
    let ask = Ask::by(text(&spa, "client_id"), CALLBACK).with("scope", "openid org:acme platform");
    let token = tokens_of(&server, &mut browser, &ask).await.text("access_token");
    let aud = claims(&token)["aud"].clone();
    assert!(aud == json!("service:platform/ops") || aud == json!(["service:platform/ops"]), "{aud}");
    let mut of_user = Live::open(&server, &token, None).await;
    let state = of_user.expect("state").await;
    let user = text(&state.data["user"], "id").to_owned();
    assert_eq!(administered(&state.data["administers"]), [("acme".to_owned(), "owner".to_owned())]);
    let mut of_key = Live::open(&server, &ops.token, None).await;
    of_key.joined().await;
    let mut of_acme = Live::open(&server, &server.demo.api_key, None).await;
    of_acme.joined().await;

    let administrator = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    administrator.make("/api/organizations", json!({ "slug": "initech", "name": "Initech" })).await;
    let both = [("acme".to_owned(), "owner".to_owned()), ("initech".to_owned(), "owner".to_owned())];
    assert_eq!(administered(&of_user.expect("member.changed").await.data["administers"]), both);
    let changed = of_key.expect("member.changed").await;
    assert_eq!(
        (text(&changed.data, "user"), administered(&changed.data["administers"])),
        (&*user, both.to_vec())
    );

    // A copy that begins now has the roles of those who have a plan.
    let plan = json!({ "slug": "staff", "name": "Staff", "services": ["ops"], "price_cents": 0, "currency": "EUR",
                       "features": [], "limits": {} });
    platform.make(&format!("{base}/plans"), plan).await;
    let bought = json!({ "user": user, "plan": "staff", "status": "active" });
    platform.make(&format!("{base}/subscriptions"), bought).await;
    of_key.expect("service.changed").await;
    let subscribed = of_key.expect("subscription.changed").await;
    assert_eq!(administered(&subscribed.data["state"]["administers"]), both);
    let whole = ops.read(STATE).await;
    assert_eq!(
        (text(&whole["users"][0], "id"), administered(&whole["users"][0]["administers"])),
        (&*user, both.to_vec())
    );

    // Other services learn of no roles.
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (ada, subscription) = ada(&owner).await;
    assert_eq!(sketch.read(STATE).await["users"][0]["administers"], json!([]));
    set_plan(&owner, &subscription, "starter").await;
    let first = of_acme.expect("subscription.changed").await;
    assert_eq!((text(&first.data, "user"), &first.data["state"]["administers"]), (&*ada, &json!([])));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_before_its_client_was_deleted_is_delivered() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (user, _) = ada(&owner).await;
    for _ in 0..2 {
        tokens(&server, "ada@acme.test", "openid").await;
    }
    let grace = tokens(&server, "grace@acme.test", "openid offline_access").await;
    let sessions = format!("/api/organizations/acme/users/{user}/sessions");
    let listed = owner.read(&sessions).await;
    let first = text(&listed["items"][0], "id").to_owned();
    let cursor = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    owner.change("DELETE", &format!("{sessions}/{first}"), Value::Null).await;
    server.clock.advance(Duration::from_secs(1));
    owner.change("DELETE", &sessions, Value::Null).await;
    let form = [("client_id", server.client("spa")), ("token", &*grace.text("refresh_token"))];
    assert_eq!(server.post("/auth/revoke", &form).send().await.status, 200);
    let spa = format!("/api/organizations/acme/clients/{}", server.client("spa"));
    owner.change("DELETE", &spa, Value::Null).await;

    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    let one = live.expect("session.revoked").await;
    assert_eq!((text(&one.data, "user"), &one.data["sessions"]), (&*user, &json!([first])));
    let all = live.expect("session.revoked").await;
    assert_eq!(all.data["sessions"].as_array().map(Vec::len), Some(1), "{all:?}");
    let of_grant = live.expect("session.revoked").await;
    assert_eq!(of_grant.data["grants"].as_array().map(Vec::len), Some(1), "{of_grant:?}");
    live.joined().await;
    let state = sketch.read(STATE).await;
    assert_eq!(state["revoked"].as_array().map(Vec::len), Some(3), "{state}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_catches_up_shows_how_far_it_is() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (_, subscription) = ada(&owner).await;
    let cursor = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    let foreign =
        r#"{"kind":"user","user":"user_01kdzyqw3xft5r0000000000pq","organization":"org_of_others"}"#;
    let now = server.app.now();
    let append = move |tx: &mut store::Tx<'_>| {
        (0..1000).try_for_each(|_| tx.append(&identity::events::EVENTS, now, foreign))
    };
    let appended = server.app.store.write("test", append).await;
    appended.map_err(|error: store::Error| error).expect("appends");
    set_plan(&owner, &subscription, "starter").await;

    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    let mut cursors = Vec::new();
    let changed = loop {
        let event = live.next().await.expect("the stream goes on");
        match &*event.name {
            "progress" => cursors.push(event.id.expect("a cursor")),
            _ => break event,
        }
    };
    assert_eq!(changed.name, "subscription.changed");
    assert_eq!(cursors.len(), 5, "{cursors:?}");
    cursors.dedup();
    assert_eq!(cursors.len(), 5, "each is further");
    let end = live.joined().await;
    assert!(!cursors.contains(&end));
    // From there on it comes back.
    drop(live);
    let mut live = Live::open(&server, &sketch.token, Some(&cursors[3])).await;
    assert_eq!(live.expect("progress").await.id.as_ref(), Some(&cursors[4]));
    live.expect("subscription.changed").await;
    assert_eq!(live.joined().await, end);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waits_for_its_place_reads_by_itself() {
    let quick = |settings: &mut server::Settings| settings.stream_heartbeat = Duration::from_millis(20);
    let server = TestServer::start_with(quick, |_| {}).await;
    let owner = owner(&server).await;
    let (_, subscription) = ada(&owner).await;
    server.hold_events();
    let mut live = Live::open(&server, &server.demo.api_key, None).await;
    for plan in ["starter", "pro"] {
        // Signs of life without a cursor: the stream has not joined.
        for _ in 0..3 {
            let beat = live.next_or_beat().await.expect("a sign of life");
            assert_eq!((&*beat.name, beat.id), ("", None));
        }
        set_plan(&owner, &subscription, plan).await;
        assert_eq!(text(&live.expect("subscription.changed").await.data["state"], "plan"), plan);
    }
    server.release_events();
    loop {
        let beat = live.next_or_beat().await.expect("a sign of life");
        assert_eq!(beat.name, "", "{beat:?}");
        if beat.id.is_some() {
            break;
        }
    }
    set_plan(&owner, &subscription, "starter").await;
    assert_eq!(text(&live.expect("subscription.changed").await.data["state"], "plan"), "starter");
    server.stop().await;
}

/// Each user is a member of their own customer, as if it were a team.
static MEMBER: store::Sql = store::sql(
    "INSERT INTO customer_members (customer_id, user_id, role, created_at)
     SELECT id, user_id, 'member', created_at FROM customers WHERE user_id IS NOT NULL",
);

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_go_on_from_its_cursor_is_reset() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (_, subscription) = ada(&owner).await;
    let cursor = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    for wrong in ["rubbish", "0-1-1", "ffff-0-0", "0-999999-5"] {
        let mut live = Live::open(&server, &sketch.token, Some(wrong)).await;
        let reset = live.expect("reset").await;
        assert_eq!(reset.id.as_deref(), Some(""), "the client forgets its cursor");
        assert!(live.next().await.is_none());
    }
    // Without teams a user has one subscription for a service, and a price decides nothing.
    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    live.joined().await;
    owner.change("PATCH", "/api/organizations/acme/plans/pro", json!({ "price_cents": 1 })).await;
    live.expect("service.changed").await;
    // Of the several ones of a member it decides which one counts.
    let joined = server.app.store.write("test.member", |tx| {
        tx.changed(store::Key::table("customer_members"));
        tx.exec(&MEMBER, store::args![]).map(drop)
    });
    joined.await.map_err(|error: store::Error| error).expect("a member");
    owner.change("PATCH", "/api/organizations/acme/plans/pro", json!({ "price_cents": 2 })).await;
    assert_eq!(live.expect("reset").await.data["reason"], "plan_changed");
    assert!(live.next().await.is_none());

    // Older than what is kept.
    set_plan(&owner, &subscription, "starter").await;
    let quiet = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    server.tidy().await.expect("tidies");
    let mut live = Live::open(&server, &sketch.token, Some(&quiet)).await;
    live.joined().await;
    drop(live);
    server.clock.advance(Duration::from_secs(8 * 24 * 3600));
    // The newest entry stays until there is a newer one, such as that of the day.
    for _ in 0..2 {
        server.tidy().await.expect("tidies");
    }
    let mut live = Live::open(&server, &sketch.token, Some(&quiet)).await;
    assert_eq!(live.expect("reset").await.data["reason"], "cursor_too_old");
    let fresh = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    Live::open(&server, &sketch.token, Some(&fresh)).await.joined().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_gets_nothing_more() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let (_, subscription) = ada(&owner).await;
    let key =
        owner.make("/api/organizations/acme/keys", json!({ "name": "Copy", "service": "sketch" })).await;
    let (id, token) = (text(&key, "id").to_owned(), text(&key, "key").to_owned());
    let mut live = Live::open(&server, &token, None).await;
    live.joined().await;
    owner.change("DELETE", &format!("/api/organizations/acme/keys/{id}"), Value::Null).await;
    set_plan(&owner, &subscription, "starter").await;
    assert_eq!(live.expect("bye").await.data["reason"], "key_ended");
    assert!(live.next().await.is_none());
    assert_eq!(Live::request(&server, &token, None).await.status(), 401);
    // Both scopes are needed, and a key of a service.
    let half = json!({ "name": "Half", "service": "sketch", "scopes": ["users:read"] });
    let half = owner.make("/api/organizations/acme/keys", half).await;
    let admin = admin_token(&server, "admin@acme.test", "org:acme").await;
    for token in [text(&half, "key"), &admin] {
        assert_eq!(Live::request(&server, token, None).await.status(), 403);
        assert_eq!(server.get(STATE).bearer(token).send().await.status, 403);
    }
    assert_eq!(server.get("/api/live").send().await.status, 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_limited_and_say_goodbye_at_the_end() {
    let server = TestServer::start_with(|settings| settings.streams_per_caller_max = 2, |_| {}).await;
    let key = server.demo.api_key.clone();
    let mut first = Live::open(&server, &key, None).await;
    let mut second = Live::open(&server, &key, None).await;
    first.joined().await;
    second.joined().await;
    let refused = server.get("/api/live").bearer(&key).send().await;
    assert_eq!((refused.status, refused.text("code")), (429, "too_many_streams".to_owned()));
    drop(first);
    let began = Instant::now();
    let mut third = loop {
        let live = Live::request(&server, &key, None).await;
        if live.status() == 200 {
            break live;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "the place of a client that has gone is free");
        tokio::task::yield_now().await;
    };
    third.joined().await;
    let ends = tokio::spawn(async move {
        let (one, other) = (second.expect("bye").await, third.expect("bye").await);
        assert!(second.next().await.is_none() && third.next().await.is_none());
        (one, other)
    });
    server.stop().await;
    let (one, other) = ends.await.expect("ends");
    assert_eq!((text(&one.data, "reason"), text(&other.data, "reason")), ("stopping", "stopping"));
    assert_ne!(one.retry, other.retry, "they do not come back at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_has_pages() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let mut expected = vec![ada(&owner).await.0];
    for number in 0..5 {
        let user = json!({ "email": format!("u{number}@acme.test") });
        let user = owner.make("/api/organizations/acme/users", user).await;
        let plan = if number % 2 == 0 { "pro" } else { "starter" };
        let bought = json!({ "user": text(&user, "id"), "plan": plan, "status": "active" });
        owner.make("/api/organizations/acme/subscriptions", bought).await;
        expected.push(text(&user, "id").to_owned());
    }
    let whole = sketch.read(STATE).await;
    let ids = |state: &Value| -> Vec<String> {
        let users = state["users"].as_array().cloned().unwrap_or_default();
        users.iter().map(|user| text(user, "id").to_owned()).collect()
    };
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = sketch.read(&format!("{STATE}?limit=2{next}")).await;
        all.extend(ids(&page));
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(all, ids(&whole));
    for user in expected {
        assert!(all.contains(&user), "{user} in {all:?}");
    }
    let wrong = server.get(&format!("{STATE}?cursor=x")).bearer(&sketch.token).send().await;
    assert_eq!((wrong.status, wrong.text("code")), (400, "invalid_query".to_owned()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_another_instance_comes_within_250_ms() {
    let server = TestServer::start().await;
    let Some(other) = server.another().await else { return server.stop().await };
    let owner = owner(&server).await;
    let (_, subscription) = ada(&owner).await;
    let token = tokens(&server, "ada@acme.test", "openid").await.text("access_token");
    let mut of_user = Live::open(&other, &token, None).await;
    of_user.expect("state").await;
    let mut of_key = Live::open(&other, &server.demo.api_key, None).await;
    of_key.joined().await;
    let mut delays = Vec::new();
    for round in 0..20 {
        let plan = if round % 2 == 0 { "starter" } else { "pro" };
        set_plan(&owner, &subscription, plan).await;
        let acknowledged = Instant::now();
        let event = of_user.expect("subscription.changed").await;
        assert_eq!(text(&event.data["subscription"], "plan"), plan);
        let of_this = acknowledged.elapsed();
        let event = of_key.expect("subscription.changed").await;
        assert_eq!(text(&event.data["state"], "plan"), plan);
        delays.push(of_this.max(acknowledged.elapsed()));
    }
    delays.sort_unstable();
    // A busy machine delays single ones.
    assert!(delays[delays.len() / 2] < Duration::from_millis(250), "{delays:?}");
    println!("median {:?}, longest {:?}", delays[delays.len() / 2], delays.last());
    other.stop().await;
    server.stop().await;
}
