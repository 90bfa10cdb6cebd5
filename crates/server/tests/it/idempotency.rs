//! `Idempotency-Key`: a write that is sent again is done once, and gets the first answer. Every write of the API is sent
//! twice in `tenancy/sent_twice.rs`.

use crate::instances::{at, instances, stop};
use crate::support::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::ids::IdempotentWriteId;
use identity::secrets::testing::Seeded;
use identity::secrets::{SecretKey, hash};
use serde_json::{Value, json};
use server::testing::{Answer, Kind, Request, Rows, TestServer, at_once, kind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use store::{Sql, Tx, args, sql};

const SERVICES: &str = "/api/organizations/acme/services";

/// A write with a key.
fn keyed<'s>(admin: &Admin<'s>, key: &str, method: &str, path: &str, body: &Value) -> Request<'s> {
    let request = admin.request(method, path).header("idempotency-key", key);
    if body.is_null() { request } else { request.json(body) }
}

fn problem(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text("code"))
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

fn service(slug: &str) -> Value {
    json!({ "slug": slug, "name": "A service" })
}

/// How many services there are with this slug.
async fn count(admin: &Admin<'_>, slug: &str) -> usize {
    let list = admin.read(SERVICES).await;
    let items = list["items"].as_array().expect("a list");
    items.iter().filter(|service| service["slug"] == slug).count()
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == "true"
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_write_gets_the_first_answer_again() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let first = keyed(&admin, "k1", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!((first.status, is_replay(&first)), (201, false), "{first:?}");
    // What happens in between does not change the answer.
    admin.change("PATCH", &format!("{SERVICES}/atlas"), json!({ "name": "Renamed" })).await;
    let again = keyed(&admin, "k1", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!((again.status, &again.body, is_replay(&again)), (201, &first.body, true), "{again:?}");
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert_eq!(count(&admin, "atlas").await, 1);

    // Another body is refused, another route or another key is another write.
    for body in [service("borea"), json!({ "slug": "atlas", "name": "Another name" })] {
        let other = keyed(&admin, "k1", "POST", SERVICES, &body).send().await;
        assert_eq!(problem(&other), is(422, "idempotency_key_reused"), "{other:?}");
    }
    assert_eq!(count(&admin, "borea").await, 0);
    let other = keyed(&admin, "k2", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!(problem(&other), is(409, "taken"), "{other:?}");

    // The other methods. The second time, what they change is gone.
    let path = format!("{SERVICES}/atlas");
    for (method, body, status) in
        [("PATCH", json!({ "name": "Last name" }), 200), ("DELETE", Value::Null, 204)]
    {
        let first = keyed(&admin, "k1", method, &path, &body).send().await;
        let again = keyed(&admin, "k1", method, &path, &body).send().await;
        assert_eq!((first.status, again.status), (status, status), "{method}: {first:?} {again:?}");
        assert_eq!((&again.body, is_replay(&again)), (&first.body, true), "{method}");
    }
    let gone = admin.call("DELETE", &path, &Value::Null).await;
    assert_eq!(problem(&gone), is(404, "not_found"));
    let reading = admin.request("GET", SERVICES).header("idempotency-key", "k1").send().await;
    assert_eq!((reading.status, is_replay(&reading)), (200, false), "reads ignore it");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_of_its_caller_who_is_checked_each_time() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let body = json!({ "name": "Program", "scopes": ["services:write"] });
    let made = owner.make("/api/organizations/acme/keys", body).await;
    let program = Admin { server: &server, token: text(&made, "key").to_owned() };
    assert_eq!(keyed(&owner, "k", "POST", SERVICES, &service("atlas")).send().await.status, 201);
    let taken = keyed(&program, "k", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!(problem(&taken), is(409, "taken"), "another caller: {taken:?}");

    assert_eq!(keyed(&program, "p", "POST", SERVICES, &service("borea")).send().await.status, 201);
    assert!(is_replay(&keyed(&program, "p", "POST", SERVICES, &service("borea")).send().await));
    let key = format!("/api/organizations/acme/keys/{}", text(&made, "id"));
    owner.change("DELETE", &key, Value::Null).await;
    let revoked = keyed(&program, "p", "POST", SERVICES, &service("borea")).send().await;
    assert_eq!(problem(&revoked), is(401, "invalid_token"), "{revoked:?}");
    let nobody = server.request("POST", SERVICES).header("idempotency-key", "k").json(&service("atlas"));
    assert_eq!(problem(&nobody.send().await), is(401, "unauthenticated"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_may_be_sent_again_with_its_key() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let wrong = keyed(&admin, "k", "POST", SERVICES, &json!({ "slug": "X X", "name": "x" })).send().await;
    assert_eq!(problem(&wrong), is(422, "invalid"));
    let taken = keyed(&admin, "k", "POST", SERVICES, &service("notes")).send().await;
    assert_eq!(problem(&taken), is(409, "taken"));
    let made = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!((made.status, is_replay(&made)), (201, false), "nothing was written before: {made:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_shows_no_secret() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = admin.read("/api/organizations/acme/users?email=ada@acme.test").await;
    let user = text(&users["items"][0], "id").to_owned();
    let client = json!({ "service": "sketch", "kind": "web", "name": "Web", "redirect_uris": ["http://127.0.0.1:9/cb"] });
    let secrets = format!("clients/{}/secrets", server.client("web"));
    let mut rows = Rows::new();
    let new = json!({ "email": "new@acme.test", "password_link": true });
    for (path, body, holder, secret) in [
        ("keys", json!({ "name": "Back end", "service": "sketch" }), "", "key"),
        ("clients", client, "", "client_secret"),
        (&secrets, Value::Null, "", "client_secret"),
        (&format!("users/{user}/sign-in-link"), Value::Null, "", "url"),
        ("users", new, "/password_link", "url"),
    ] {
        let row = async {
            let path = format!("/api/organizations/acme/{path}");
            let first = keyed(&admin, "k", "POST", &path, &body).send().await;
            let again = keyed(&admin, "k", "POST", &path, &body).send().await;
            assert_eq!((first.status, again.status), (201, 201), "{first:?} {again:?}");
            let mut rest = first.json();
            let fields = rest.pointer_mut(holder).and_then(Value::as_object_mut);
            let shown = fields.and_then(|fields| fields.remove(secret)).expect("a secret");
            assert!(shown.as_str().is_some_and(|secret| secret.len() > 20), "{shown}");
            assert_eq!(again.json(), rest, "everything else");
        };
        rows.row(path.to_owned(), row).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_and_too_many_are_refused() {
    let server = TestServer::start_with(|settings| settings.keyed_writes_max = 3, |_| {}).await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut rows = Rows::new();
    for key in ["", "two words", "caf\u{e9}", &"x".repeat(256)] {
        let row = async {
            let answer = keyed(&admin, key, "POST", SERVICES, &service("atlas")).send().await;
            assert_eq!(problem(&answer), is(400, "invalid_idempotency_key"), "{answer:?}");
        };
        rows.row(format!("{key:?}"), row).await;
    }
    let twice = keyed(&admin, "a", "POST", SERVICES, &service("atlas")).header("idempotency-key", "b");
    assert_eq!(problem(&twice.send().await), is(400, "invalid_idempotency_key"));
    assert_eq!(count(&admin, "atlas").await, 0);
    for (number, slug) in ["atlas", "borea", "cirrus"].into_iter().enumerate() {
        let key = "x".repeat(255 - number);
        assert_eq!(keyed(&admin, &key, "POST", SERVICES, &service(slug)).send().await.status, 201);
    }
    let refused = keyed(&admin, "y", "POST", SERVICES, &service("dorado")).send().await;
    assert_eq!(problem(&refused), is(429, "too_many_idempotency_keys"), "{refused:?}");
    assert_eq!(
        refused.header("retry-after"),
        "900",
        "the clock of the test begins with a quarter of an hour"
    );
    assert_eq!(count(&admin, "dorado").await, 0);
    admin.make(SERVICES, service("dorado")).await;
    server.clock.advance(Duration::from_secs(16 * 60));
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(keyed(&admin, "y", "POST", SERVICES, &service("elara")).send().await.status, 201);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_at_once_one_is_done() {
    let instances = instances().await;
    let admins: Vec<Admin<'_>> = {
        let token = admin_token(at(&instances, 0), "admin@acme.test", "org:acme").await;
        instances.iter().map(|server| Admin { server, token: token.clone() }).collect()
    };
    let send = async |number: usize| {
        let admin = &admins[number % admins.len()];
        keyed(admin, "k", "POST", SERVICES, &service("atlas")).send().await
    };
    let answers = at_once((0..100).map(send)).await;
    let first = answers.iter().find(|answer| !is_replay(answer)).expect("one is the first");
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (201, &first.body), "{answer:?}");
    }
    assert_eq!(answers.iter().filter(|answer| !is_replay(answer)).count(), 1);
    assert_eq!(count(&admins[0], "atlas").await, 1);
    let audit = admins[0].read("/api/organizations/acme/audit?limit=200").await;
    let made = audit["items"].as_array().expect("a list").iter();
    let made = made.filter(|entry| entry["action"] == "service.created" && entry["target_name"] == "atlas");
    assert_eq!(made.count(), 1);
    drop(admins);
    stop(instances).await;
}

/// A commit that has made a service, and whose command has not got its result yet.
struct HeldCommit {
    made: Receiver<()>,
    release: Sender<()>,
}

impl HeldCommit {
    /// Holds the next one.
    fn of(server: &TestServer) -> HeldCommit {
        let ((making, made), (release, released)) = (channel(), channel());
        let once = Mutex::new(Some((making, released)));
        // It runs on the committing thread, before the result is passed on.
        server.app.store.on_change(move |change| {
            if change.keys.iter().any(|key| key.table_name() == "services")
                && let Some((making, released)) = once.lock().expect("one at a time").take()
            {
                making.send(()).expect("the test waits");
                // It ends when the test lets go of the other end.
                let _ = released.recv();
            }
        });
        HeldCommit { made, release }
    }

    async fn is_made(&self) {
        while self.made.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
    }
}

/// The status and the sealed body in the one row, as any process finds them.
async fn kept(server: &TestServer) -> (Option<i64>, Option<Vec<u8>>) {
    static ROW: Sql = sql("SELECT status, answer FROM idempotent_writes");
    let read =
        server.app.store.read(|snapshot| snapshot.one(&ROW, args![], |row| Ok((row.get(0)?, row.get(1)?))));
    let row: Result<_, store::Error> = read.await;
    row.expect("reads").expect("a row")
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_gone_after_the_commit_gets_the_answer_later() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let commit = HeldCommit::of(&server);
    let sent = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).spawn();
    commit.is_made().await;
    // A process that is killed at this moment, or any later one, has left the answer.
    let (status, answer) = kept(&server).await;
    assert_eq!((status, answer.is_some()), (Some(201), true), "the answer is committed with the write");
    sent.abort();
    // The request for the metrics has a connection too.
    while metric(&server, "sarsen_http_connections").await > 1 {
        tokio::task::yield_now().await;
    }
    drop(commit.release);
    let answer = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
    assert_eq!((answer.status, is_replay(&answer)), (201, true), "{answer:?}");
    let found = admin.read(&format!("{SERVICES}/atlas")).await;
    assert_eq!(answer.json(), found, "the whole answer");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_waited_when_its_client_hung_up_nothing_is_half_done() {
    if kind() != Kind::Sqlite {
        // Only SQLite has a single writer, so that a command can be held back.
        return;
    }
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let writer = HeldWriters::of(&server).await;
    let sent = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).spawn();
    while server.app.store.stats().queue_depth < 1 {
        tokio::task::yield_now().await;
    }
    sent.abort();
    while metric(&server, "sarsen_http_connections").await > 1 {
        tokio::task::yield_now().await;
    }
    writer.release().await;
    let answers = [
        keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await,
        keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await,
    ];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [201, 201], "{answers:?}");
    assert!(answers[0].body == answers[1].body && is_replay(&answers[1]), "{answers:?}");
    assert_eq!(count(&admin, "atlas").await, 1);
    server.stop().await;
}

/// A statement of the previous release (`identity/tests/previous_release/`).
fn old(name: &str) -> Sql {
    const STATEMENTS: &str = include_str!("../../../identity/tests/previous_release/statements.tsv");
    let wanted = format!("identity::idempotent_writes::{name}\t");
    let line = STATEMENTS.lines().find_map(|line| line.strip_prefix(&wanted)).expect("a statement");
    let texts: Vec<&str> = line.split('\t').collect();
    let own = match kind() {
        Kind::Sqlite => 0,
        Kind::Postgres => 1,
        Kind::Mysql => 2,
    };
    Sql::dynamic((*texts.get(own).unwrap_or(&texts[0])).to_owned())
}

/// A write of the service `atlas` with a key, as the previous release has it in its table.
#[derive(Clone)]
struct OldWrite {
    id: IdempotentWriteId,
    caller: String,
    name: String,
    fingerprint: [u8; 32],
}

impl OldWrite {
    fn of(admin: &Admin<'_>, key: &str) -> OldWrite {
        let app = &admin.server.app;
        let sent = [b"\n", service("atlas").to_string().as_bytes()].concat();
        OldWrite {
            id: IdempotentWriteId::new(app.now(), app.random()),
            caller: text(&claims(&admin.token), "sub").to_owned(),
            name: URL_SAFE_NO_PAD.encode(hash(format!("POST\n{SERVICES}\n{key}").as_bytes())),
            fingerprint: hash(&sent),
        }
    }

    /// Its first command, with what was written. Returns whether it is the first with its key.
    async fn begin(&self, server: &TestServer) -> bool {
        let (write, insert, now) = (self.clone(), old("INSERT"), server.app.now());
        let begun = server.app.store.write("test", move |tx: &mut Tx<'_>| {
            let OldWrite { id, caller, name, fingerprint } = &write;
            tx.exec(&insert, args![id, caller, name, fingerprint, now])
        });
        let rows: Result<u64, store::Error> = begun.await;
        rows.expect("writes") == 1
    }

    /// Its second command.
    async fn answer(&self, server: &TestServer, body: &str, key: &SecretKey) {
        let binding = format!("idempotent_writes/{}/answer", self.id);
        let sealed = key.seal(&binding, body.as_bytes(), &Seeded::new(7)).expect("seals");
        let (id, set) = (self.id.clone(), old("SET_ANSWER"));
        let stored = server
            .app
            .store
            .write("test", move |tx: &mut Tx<'_>| tx.exec(&set, args![&id, 201_i64, &sealed]));
        let rows: Result<u64, store::Error> = stored.await;
        assert_eq!(rows.expect("writes"), 1);
    }

    /// What it finds of an earlier write with its key: whether that is the same, its status, and its answer.
    async fn find(&self, server: &TestServer) -> (bool, Option<i64>, String) {
        let (caller, name, find) = (self.caller.clone(), self.name.clone(), old("FIND"));
        let read = server.app.store.read(move |snapshot| {
            snapshot.one(&find, args![&caller, &name], |row| {
                Ok((
                    row.get::<String>(0)?,
                    row.get::<Vec<u8>>(1)?,
                    row.get(3)?,
                    row.get::<Option<Vec<u8>>>(4)?,
                ))
            })
        });
        let found: Result<_, store::Error> = read.await;
        let (id, fingerprint, status, sealed) = found.expect("reads").expect("a row");
        let binding = format!("idempotent_writes/{id}/answer");
        let opened = server.app.secret_key.open(&binding, &sealed.expect("an answer")).expect("opens");
        (fingerprint == self.fingerprint, status, String::from_utf8(opened).expect("text"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_at_an_instance_of_the_previous_release_and_at_a_new_one_is_one_write() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let send = async |key: &str| keyed(&admin, key, "POST", SERVICES, &service("atlas")).send().await;
    // The old one was first. It answers after its commit.
    let first = OldWrite::of(&admin, "old");
    assert!(first.begin(&server).await);
    let running = send("old").await;
    assert_eq!(problem(&running), is(409, "idempotency_in_progress"), "{running:?}");
    assert_eq!(running.header("retry-after"), "1");
    let stored = json!({
        "id": "service_00000000000000000000000000", "slug": "atlas", "name": "Of the old one",
        "access_token_typ": "JWT", "created_at": "2026-11-28T00:00:00Z",
    });
    first.answer(&server, &stored.to_string(), &server.app.secret_key).await;
    let again = send("old").await;
    assert_eq!((again.status, is_replay(&again), again.json()), (201, true, stored), "{again:?}");
    let other = keyed(&admin, "old", "POST", SERVICES, &service("borea")).send().await;
    assert_eq!(problem(&other), is(422, "idempotency_key_reused"));
    // It was killed in between: only an instance of that release leaves no answer.
    let killed = OldWrite::of(&admin, "killed");
    assert!(killed.begin(&server).await);
    server.clock.advance(Duration::from_secs(60));
    let lost = send("killed").await;
    assert_eq!(problem(&lost), is(409, "idempotency_answer_lost"), "{lost:?}");
    assert_eq!(count(&admin, "atlas").await, 0, "whatever was done before, nothing was done now");

    // The new one was first.
    let made = send("new").await;
    assert_eq!((made.status, is_replay(&made)), (201, false), "{made:?}");
    let second = OldWrite::of(&admin, "new");
    assert!(!second.begin(&server).await, "the old one does nothing");
    let (is_same, status, body) = second.find(&server).await;
    assert_eq!((is_same, status, body), (true, Some(201), made.body), "and gives the answer");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_is_sealed_with_another_key_is_not_done_again() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let elsewhere = OldWrite::of(&admin, "k");
    assert!(elsewhere.begin(&server).await);
    elsewhere.answer(&server, "{}", &SecretKey::new(&[9; 32])).await;
    for body in [service("atlas"), service("borea")] {
        let answer = keyed(&admin, "k", "POST", SERVICES, &body).send().await;
        let expected = match body["slug"] == "atlas" {
            true => is(409, "idempotency_answer_lost"),
            false => is(422, "idempotency_key_reused"),
        };
        assert_eq!(problem(&answer), expected, "{answer:?}");
    }
    assert_eq!((count(&admin, "atlas").await, count(&admin, "borea").await), (0, 0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_forgotten_after_a_day() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await.status, 201);
    for (hours, is_tidied, expected) in
        [(23, true, is(201, "")), (2, false, is(409, "taken")), (1, true, is(409, "taken"))]
    {
        server.clock.advance(Duration::from_secs(hours * 3600));
        assert!(!is_tidied || server.tidy().await.expect("tidies"));
        let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
        let answer = keyed(&admin, "k", "POST", SERVICES, &service("atlas")).send().await;
        assert_eq!(problem(&answer), expected, "after {hours} more hours: {answer:?}");
    }
    server.stop().await;
}
