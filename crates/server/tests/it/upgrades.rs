//! Databases of earlier versions, with rows in every table that the version wrote, upgrade on every kind of database and
//! keep what users have: passwords, sessions, refresh tokens, plans, device codes. They are checked, backed up and restored.
//!
//! A tidy rule asks for a fixture of each schema. A new one is written by
//! `cargo test -p sarsen-server --test it -- --ignored write_the_fixture`; `tests/fixtures/README.md` says what else is there.

use crate::billing::{Stripe, event, subscription};
use crate::device;
use crate::support::*;
use identity::authorization_requests;
use serde_json::json;
use server::testing::fixture::{Fixture, Scripts};
use server::testing::{Answer, TestServer};
use server::{SecretKey, backups};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use store::testing::{Kind, TestPlace, kind};
use store::{Sql, args, sql};

/// The fixtures, oldest first, with the scripts that make the tables as the version itself made them.
const EARLIER: &[(&str, &str, Option<Scripts>)] = &[
    (
        "schema 4 (521e95d)",
        include_str!("../fixtures/schema-4.jsonl"),
        Some(Scripts {
            sqlite: include_str!("../fixtures/schema-4.sqlite.sql"),
            postgres: include_str!("../fixtures/schema-4.postgres.sql"),
            mysql: include_str!("../fixtures/schema-4.mysql.sql"),
        }),
    ),
    ("0.1.0", include_str!("../fixtures/0.1.0.jsonl"), None),
    (
        "schema 18 (b1c6a590)",
        include_str!("../fixtures/schema-18.jsonl"),
        Some(Scripts {
            sqlite: include_str!("../fixtures/schema-18.sqlite.sql"),
            postgres: include_str!("../fixtures/schema-18.postgres.sql"),
            mysql: include_str!("../fixtures/schema-18.mysql.sql"),
        }),
    ),
    ("schema 19", include_str!("../fixtures/schema-19.jsonl"), None),
    ("schema 20", include_str!("../fixtures/schema-20.jsonl"), None),
    ("schema 21", include_str!("../fixtures/schema-21.jsonl"), None),
    ("schema 22", include_str!("../fixtures/schema-22.jsonl"), None),
];
/// The schema since which rows say how their user authenticated.
const LEVELS_SINCE: usize = 20;
/// How many of them, the newest, are tried when the run is not a soak.
const NEWEST: usize = 4;

fn fixtures() -> impl Iterator<Item = (&'static str, serde_json::Value, Fixture)> {
    let is_soak = std::env::vars().any(|(name, _)| name == "SARSEN_SOAK");
    let skipped = if is_soak { 0 } else { EARLIER.len().saturating_sub(NEWEST) };
    EARLIER.iter().skip(skipped).map(|(version, text, scripts)| {
        let (held, rows) = text.split_once('\n').expect("two lines");
        let held = serde_json::from_str(held).expect("what users hold");
        (*version, held, Fixture { scripts: *scripts, ..Fixture::parse(rows) })
    })
}

/// Tables of the schema that no command writes: not yet, or in `authorization_requests` not any more, because posted requests
/// travel in addresses.
const UNUSED: &[&str] = &[
    "customer_members",
    "seats",
    "authorization_requests",
    "leases",
    "live_tasks",
    "live_schedules",
    "live_effects",
    "mails",
    "mail_requests",
];

/// A server on which everything was used once. Returns it with what its users hold.
async fn used() -> (TestServer, serde_json::Value) {
    let server = TestServer::start().await;
    let ask = Ask::of(&server, "spa").with("scope", "openid offline_access");
    let mut ada = device::signed_in(&server, "ada@acme.test").await;
    let tokens = tokens_of(&server, &mut ada, &ask).await;
    let unused_code = code(&mut ada, &ask).await;
    let pending = device::codes(&server).await;
    let device = device::ada_on_a_device(&server).await;
    let consent = ada.get(&ask.clone().with("prompt", "consent").path()).await;
    let fields = [("csrf", consent.input("csrf")), ("next", consent.input("next"))];
    let fields = [
        ("csrf", &*fields[0].1),
        ("next", &*fields[1].1),
        ("session", &*consent.input("session")),
        ("decision", "allow"),
    ];
    assert_eq!(ada.post("/consent", &fields).await.status, 303);

    // A token that was revoked, a user who was suspended, a link, an invitation, another organization that waits and one that was
    // suspended, a rule.
    let machine = [("client_id", server.client("machine")), ("client_secret", server.secret("machine"))];
    let own = server.post("/auth/token", &[&machine[..], &[("grant_type", "client_credentials")]].concat());
    let own = own.send().await.text("access_token");
    let revoked = server.post("/auth/revoke", &[&machine[..], &[("token", &*own)]].concat()).send().await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = "/api/organizations/acme/users";
    let bob = admin.make(users, json!({ "email": "bob@acme.test", "name": "Bob" })).await;
    let bob = format!("{users}/{}", text(&bob, "id"));
    admin.make(&format!("{bob}/sign-in-link"), json!(null)).await;
    admin.invite("carol@acme.test", "member").await;
    admin.change("PUT", &format!("{bob}/suspension"), json!({ "reason": "a fixture" })).await;
    let short = admin.request("PATCH", "/api/organizations/acme").header("idempotency-key", "once");
    assert_eq!(short.json(&json!({ "device_flow": "short" })).send().await.status, 200);
    admin.change("PUT", "/api/organizations/acme/branding", json!({ "contact": "Ada in room 12" })).await;
    // A client that a program made, and that an owner has to look at.
    let key = json!({ "name": "a fixture", "scopes": ["clients:redirects", "clients:write"] });
    let key = admin.make("/api/organizations/acme/keys", key).await;
    let program = Admin { server: &server, token: text(&key, "key").to_owned() };
    program.make_client("spa", &["https://app.example/callback"]).await;
    let stripe = Stripe::connect(&admin).await;
    stripe.set_customer(&admin, "cus_ada", "ada@acme.test").await;
    let (now, end) = (stripe.now(), stripe.now() + 3600);
    let bought = event(
        "evt_1",
        "customer.subscription.created",
        now,
        subscription("sub_1", "price_pro", "active", end),
    );
    assert_eq!(stripe.send(&bought).await, "applied");
    let carol = admin.make(users, json!({ "email": "carol@acme.test" })).await;
    admin.change("DELETE", &format!("{users}/{}", text(&carol, "id")), json!(null)).await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    owner.make("/api/organizations", json!({ "slug": "globex", "name": "Globex" })).await;
    owner.make("/api/organizations", json!({ "slug": "initech", "name": "Initech" })).await;
    owner.change("PUT", "/api/platform/organizations/globex/suspension", json!({})).await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "org:initech").await;
    owner.change("DELETE", "/api/organizations/initech", json!(null)).await;
    // Written in the background.
    assert_eq!(server.get("/api/user").bearer(&device.text("access_token")).send().await.status, 200);
    let found = admin.read(&format!("{users}?email=ada@acme.test")).await;
    let ada_s = format!("{users}/{}", text(&found["items"][0], "id"));
    while admin.read(&ada_s).await["last_seen_at"].is_null() {
        tokio::task::yield_now().await;
    }
    let spa = format!("/api/organizations/acme/clients/{}", server.client("spa"));
    while admin.read(&spa).await["pkce_used_at"].is_null() {
        tokio::task::yield_now().await;
    }
    let held = json!({
        "cookie": ada.cookies.header(),
        "refresh": tokens.text("refresh_token"),
        "device_refresh": device.text("refresh_token"),
        "code": unused_code,
        "pending": pending.text("device_code"),
        "user_code": pending.text("user_code"),
    });
    (server, held)
}

async fn refresh(server: &TestServer, client: &str, token: &str) -> Answer {
    let fields =
        [("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", server.client(client))];
    server.post("/auth/token", &fields).send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_used_has_rows_in_every_table() {
    let (server, _) = used().await;
    let fixture = Fixture::of(&server.app.store, &server.demo).await;
    let empty = fixture.tables.iter().filter(|(_, rows)| rows.is_empty());
    let empty: Vec<&str> = empty.map(|(table, _)| table.name.as_str()).collect();
    assert_eq!(empty, UNUSED, "make the fixture use these");
    let copy = Fixture::parse(&fixture.to_text());
    let filled: Vec<_> = fixture.tables.into_iter().filter(|(_, rows)| !rows.is_empty()).collect();
    assert_eq!(copy.tables, filled);
    server.stop().await;
}

async fn posted_requests(server: &TestServer) -> i64 {
    static COUNT: Sql = sql("SELECT COUNT(*) FROM authorization_requests");
    let count = server.app.store.read(|snapshot| snapshot.one(&COUNT, args![], |row| row.get(0)));
    count.await.map_err(|error: store::Error| error).expect("reads").expect("a row")
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_databases_of_earlier_versions_upgrade_with_all_that_their_users_hold() {
    for (version, held, fixture) in fixtures() {
        let server = TestServer::start_upgraded(&fixture).await;
        let now = Fixture::of(&server.app.store, &server.demo).await;
        for (table, rows) in &fixture.tables {
            let kept = now.tables.iter().find(|(found, _)| found.name == table.name);
            assert!(kept.is_some_and(|(_, kept)| kept.len() >= rows.len()), "{version}: {}", table.name);
        }

        let account = server.get("/o/acme/account").header("cookie", text(&held, "cookie"));
        assert_eq!(account.send().await.status, 200, "{version}: ada is signed in");
        for (client, name) in [("spa", "refresh"), ("cli", "device_refresh")] {
            let refreshed = refresh(&server, client, text(&held, name)).await;
            assert_eq!(refreshed.status, 200, "{version}: {name}: {refreshed:?}");
            // What was granted before levels were stored has none, and keeps what it has.
            let acr = &claims(&refreshed.text("access_token"))["acr"];
            let expected = if fixture.schema < LEVELS_SINCE { json!(null) } else { json!("1") };
            assert_eq!(*acr, expected, "{version}: {name}");
            let plan = server.get("/api/subscription").bearer(&refreshed.text("access_token")).send().await;
            assert_eq!(plan.json()["plan"], "pro", "{version}: {plan:?}");
        }
        let redeemed = redeem(&server, server.client("spa"), CALLBACK, text(&held, "code")).await;
        assert_eq!(redeemed.status, 200, "{version}: {redeemed:?}");
        let mut ada = device::signed_in(&server, "ada@acme.test").await;
        let decided = ada.decide(text(&held, "user_code"), "allow").await;
        assert!(decided.body.contains("signed in"), "{version}: {decided:?}");
        let polled = device::polling(&server, text(&held, "pending"), server.client("cli")).send().await;
        assert_eq!(polled.status, 200, "{version}: {polled:?}");
        assert_eq!(server.browser().sign_in("acme", "bob@acme.test").await.status, 422, "{version}");
        let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
        assert_eq!(admin.read("/api/organizations/acme").await["device_flow"], "short", "{version}");

        // Posted requests that the old version stored go when they have ended.
        let had_some = fixture.tables.iter().any(|(table, _)| table.name == "authorization_requests");
        assert_eq!(posted_requests(&server).await > 0, had_some, "{version}");
        server.clock.advance(authorization_requests::LIFE + Duration::from_secs(1));
        server.tidy().await.expect("tidies");
        assert_eq!(posted_requests(&server).await, 0, "{version}");
        server.stop().await;
    }
}

/// A copy of an upgraded database by the tools that the documents name, in a place of its own; `None` where they are
/// not installed.
async fn copied(server: &TestServer) -> Option<(TestPlace, String)> {
    let (from, place) = (server.database_url(), TestPlace::create());
    let to = place.url();
    let pipe = match kind() {
        Kind::Sqlite => {
            let file = |url: &str| url.strip_prefix("sqlite:").map(PathBuf::from).expect("a file");
            let (backup, database) = (file(&from).with_extension("backup"), file(&to));
            let key = SecretKey::parse(&Fixture::secret_key()).expect("a key");
            backups::copy(&file(&from), &backup, &key).expect("a backup");
            let made = backups::check_made(&backup, &key).expect("reads");
            assert_eq!((made.problems.len(), made.warnings.len()), (0, 0), "{made:?}");
            let whole = |copy: &Path| -> Result<(), store::Error> {
                let found = backups::check_file(copy, &[key])?;
                assert!(found.problems.is_empty() && found.sealed > 0, "{found:?}");
                Ok(())
            };
            let kept = database.with_extension("kept");
            backups::restore(&backup, &database, &kept, whole).expect("a restore");
            return Some((place, to));
        }
        Kind::Postgres => "pg_dump --dbname=\"$FROM\" | psql -q -v ON_ERROR_STOP=1 --dbname=\"$TO\"",
        Kind::Mysql => {
            "mariadb-dump --single-transaction --hex-blob $LOGIN \"${FROM##*/}\" | mariadb $LOGIN \"${TO##*/}\""
        }
    };
    // mysql://USER:PASSWORD@HOST:PORT/NAME
    let parts: Vec<&str> = to.split(['/', ':', '@']).filter(|part| !part.is_empty()).collect();
    let login = match parts.as_slice() {
        ["mysql", user, password, host, port, _] => {
            format!("--protocol=tcp --host={host} --port={port} --user={user} --password={password}")
        }
        _ => String::new(),
    };
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", pipe]).env("FROM", from).env("TO", &to).env("LOGIN", login);
    let ended = tokio::task::spawn_blocking(move || shell.output()).await.expect("ends").expect("bash runs");
    if ended.status.code() == Some(127) {
        store::testing::say_skipped("the dump of an upgraded database: its tools are not installed");
        return None;
    }
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    Some((place, to))
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_databases_of_earlier_versions_are_checked_backed_up_and_restored() {
    for (version, _, fixture) in fixtures() {
        let server = TestServer::start_upgraded(&fixture).await;
        let key = SecretKey::parse(&Fixture::secret_key()).expect("a key");
        let found = backups::check_store(&server.app.store, &key).await.expect("reads");
        assert!(found.problems.is_empty() && found.sealed > 0, "{version}: {found:?}");
        let Some((_place, url)) = copied(&server).await else { return server.stop().await };
        server.stop().await;
        let restored = store::Store::open(server::store_options(url)).expect("opens");
        let found = backups::check_store(&restored, &key).await.expect("reads");
        assert!(found.problems.is_empty() && found.sealed > 0, "{version}: {found:?}");
        let now = Fixture::of(&restored, &fixture.demo).await;
        for (table, rows) in &fixture.tables {
            let kept = now.tables.iter().find(|(found, _)| found.name == table.name);
            assert!(kept.is_some_and(|(_, kept)| kept.len() >= rows.len()), "{version}: {}", table.name);
        }
        restored.close();
    }
}

/// The fixtures with scripts have a row in every table of their version.
#[test]
fn fixtures_with_scripts_have_rows_in_every_table() {
    for (version, text, _) in EARLIER.iter().filter(|(_, _, scripts)| scripts.is_some()) {
        let (_, rows) = text.split_once('\n').expect("two lines");
        let fixture = Fixture::parse(rows);
        let tables = store::transfer::tables(fixture.migrations()).expect("tables");
        let filled =
            |name: &str| fixture.tables.iter().any(|(table, rows)| table.name == name && !rows.is_empty());
        let empty: Vec<_> =
            tables.iter().filter(|table| !filled(&table.name)).map(|table| &table.name).collect();
        assert!(empty.is_empty(), "{version}: {empty:?}");
    }
}

/// Writes the fixture of this version's schema.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "not a test: it writes a file of the tree"]
async fn write_the_fixture_of_this_version() {
    let (server, held) = used().await;
    let fixture = Fixture::of(&server.app.store, &server.demo).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let path = folder.join(format!("schema-{}.jsonl", fixture.schema));
    std::fs::write(path, format!("{held}\n{}", fixture.to_text())).expect("writes");
    server.stop().await;
}
