//! Deleted users: out at once, and soon nothing names them any more.

use crate::support::*;
use identity::audit::{self, Actor};
use identity::audit_trail;
use identity::authentication::{Authentication, Method};
use identity::ids::{SessionId, UserId};
use identity::organizations;
use identity::sessions::{self, NewSession};
use serde_json::{Value, json};
use server::SystemRandom;
use server::testing::{Answer, Kind, TestServer, kind};
use std::time::Duration;
use store::{Sql, args};

const USERS: &str = "/api/organizations/acme/users";
const PASSWORD: &str = "correct horse battery";
const ADDRESS: &str = "203.0.113.77";
const AGENT: &str = "ErikaBrowser/7";

/// Tables and columns in which a text occurs.
pub(crate) async fn places_of(server: &TestServer, needle: &str) -> Vec<String> {
    let columns = match kind() {
        Kind::Sqlite => {
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND c.type = 'TEXT'"
        }
        Kind::Postgres => {
            "SELECT table_name::text, column_name::text FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name <> 'change_log' AND data_type = 'text'"
        }
        Kind::Mysql => {
            "SELECT table_name, column_name FROM information_schema.columns
             WHERE table_schema = DATABASE() AND table_name <> 'change_log' AND data_type IN ('varchar', 'text', 'mediumtext')"
        }
    };
    let needle = format!("%{needle}%");
    let found = server.app.store.read(move |snapshot| {
        let columns: Vec<(String, String)> =
            snapshot.all(&Sql::dynamic(columns.to_owned()), args![], |row| Ok((row.get(0)?, row.get(1)?)))?;
        assert!(columns.len() > 100, "{columns:?}");
        let mut found = Vec::new();
        for (table, column) in columns {
            let sql = Sql::dynamic(format!("SELECT COUNT(*) FROM {table} WHERE {column} LIKE ?1"));
            let count: Option<i64> = snapshot.one(&sql, args![&needle], |row| row.get(0))?;
            if count != Some(0) {
                found.push(format!("{table}.{column}"));
            }
        }
        Ok::<_, store::Error>(found)
    });
    let mut found = found.await.expect("reads");
    found.sort();
    found
}

/// Signs in from erika's address and browser; the session's cookie.
async fn sign_in(server: &TestServer, email: &str, password: &str) -> (Answer, String) {
    let mut browser = server.browser();
    let csrf = browser.get("/o/acme/login").await.input("csrf");
    let cookie = browser.cookies.header().expect("a cookie");
    let fields = [("csrf", &*csrf), ("email", email), ("password", password)];
    let request = server.post("/o/acme/login", &fields).header("cookie", &cookie);
    let answer = request.header("x-forwarded-for", ADDRESS).header("user-agent", AGENT).send().await;
    browser.cookies.take_from(answer.headers.iter().map(|(name, value)| (name.as_str(), value)));
    (answer, browser.cookies.header().expect("cookies"))
}

/// More sessions, up to a limit, and audit entries of a user than fit on a page.
async fn fill(server: &TestServer, user: &UserId, how_many: usize, sessions_max: usize) {
    let (user, now) = (user.clone(), server.app.now());
    let ids: Vec<SessionId> = (0..how_many).map(|_| SessionId::new(now, &SystemRandom)).collect();
    let actors: Vec<Actor> = (0..how_many).map(|_| Actor::user(&user, ADDRESS, now, &SystemRandom)).collect();
    let filled = server.app.store.write("test.fill", move |tx| {
        let acme = organizations::find(tx.snapshot(), "acme")?.id;
        let mut made = Vec::new();
        for (id, actor) in ids.iter().zip(&actors) {
            let new = NewSession {
                id: id.clone(),
                organization: acme.clone(),
                user: user.clone(),
                kind: "browser",
                hash: None,
                address: ADDRESS.to_owned(),
                agent: AGENT.to_owned(),
                created_at: now,
                authentication: Authentication::new(now, &[Method::Password]),
                expires_at: now + Duration::from_secs(3600),
            };
            audit::note(tx, &acme, &actor.clone(), "session.created", id.as_str(), "")?;
            made.push(new);
        }
        for new in made.iter().take(sessions_max) {
            sessions::create(tx, new)?;
        }
        Ok::<_, identity::Error>(())
    });
    filled.await.expect("fills");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_user_is_out_at_once_and_soon_nothing_names_them() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let body = json!({ "email": "erika@acme.test", "name": "Erika Mustermann", "password_link": true });
    let made = admin.make(USERS, body).await;
    let id = text(&made, "id").to_owned();
    let user = format!("{USERS}/{id}");
    let mut browser = server.browser();
    browser.get(&path_of(text(&made["password_link"], "url"))).await;
    let page = browser.get("/password").await;
    let fields = [("csrf", &*page.input("csrf")), ("link", &*page.input("link")), ("password", PASSWORD)];
    assert_eq!(browser.post("/password", &fields).await.status, 303);

    // A life: sessions, tokens, consent, a plan, a wrong password, a reason, a link.
    let (signed_in, cookie) = sign_in(&server, "erika@acme.test", PASSWORD).await;
    assert_eq!(signed_in.status, 303, "{signed_in:?}");
    assert_eq!(sign_in(&server, "erika@acme.test", "wrong horse battery").await.0.status, 422);
    let ask = Ask::of(&server, "spa").with("scope", "openid email offline_access");
    let tokens = tokens_of(&server, &mut browser, &ask).await;
    assert_eq!(server.get("/auth/userinfo").bearer(&tokens.text("access_token")).send().await.status, 200);
    let plan = json!({ "user": id, "plan": "pro" });
    let subscription = admin.make("/api/organizations/acme/subscriptions", plan).await;
    let suspension = format!("{user}/suspension");
    for _ in 0..5 {
        fill(&server, &UserId::parse(&id).expect("an id"), 90, 90).await;
    }
    let link = path_of(text(&admin.make(&format!("{user}/password-link"), Value::Null).await, "url"));
    assert_eq!(places_of(&server, ADDRESS).await, ["audit.address", "audit.details", "sessions.address"]);

    // Entries of one millisecond have no order among them.
    server.clock.advance(Duration::from_millis(1));
    admin.change("DELETE", &user, Value::Null).await;
    assert_eq!(admin.call("GET", &user, &Value::Null).await.status, 404);
    for (method, path) in [("DELETE", &user), ("DELETE", &suspension), ("PATCH", &user)] {
        let body = if method == "PATCH" { json!({ "name": "Back" }) } else { Value::Null };
        assert_eq!(admin.call(method, path, &body).await.status, 404, "{method} {path}");
    }
    let listed = admin.read(USERS).await;
    assert!(!listed.to_string().contains(&id), "{listed}");
    assert_eq!(server.get("/o/acme/account").header("cookie", &cookie).send().await.status, 303);
    assert_eq!(browser.get("/o/acme/account").await.status, 303);
    assert_eq!(server.get("/auth/userinfo").bearer(&tokens.text("access_token")).send().await.status, 401);
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", server.client("spa")),
        ("refresh_token", &*tokens.text("refresh_token")),
    ];
    assert_eq!(server.post("/auth/token", &refresh).send().await.error(), (400, "invalid_grant".to_owned()));
    for email in ["erika@acme.test", &id] {
        assert_eq!(sign_in(&server, email, PASSWORD).await.0.status, 422, "{email}");
    }
    browser.get(&link).await;
    assert_eq!(browser.get("/password").await.status, 404, "the link is void");
    let path = format!("/api/organizations/acme/subscriptions/{}", text(&subscription, "id"));
    let ended = admin.read(&path).await;
    assert_eq!((text(&ended, "status"), &ended["user_email"]), ("canceled", &Value::Null), "{ended}");
    assert_eq!(places_of(&server, "Erika Muster").await, [""; 0], "the name is gone at once");
    assert_eq!(places_of(&server, "erika@").await, [""; 0], "and the e-mail address");

    assert!(server.tidy().await.expect("erases"));
    for needle in [ADDRESS, AGENT, "Erika", "erika"] {
        assert_eq!(places_of(&server, needle).await, [""; 0], "{needle}");
    }
    let trail = admin.read("/api/organizations/acme/audit?limit=200").await;
    let rows = trail["items"].as_array().expect("entries");
    let deleted = rows.iter().find(|row| text(row, "action") == "user.deleted").expect("a row");
    assert_eq!((text(deleted, "target"), text(deleted, "address")), (&*id, "127.0.0.1"), "{deleted}");
    assert_eq!(deleted["target_name"], Value::Null, "{deleted}");
    assert!(rows.iter().any(|row| text(row, "actor") == id), "ids stay in the trail");
    assert!(!places_of(&server, "127.0.0.1").await.is_empty(), "others keep their addresses");
    assert!(server.tidy().await.expect("has nothing to do"));

    // The address is free again, for somebody else.
    let again = admin.make(USERS, json!({ "email": "erika@acme.test", "name": "Erika II" })).await;
    assert_ne!(text(&again, "id"), id);
    assert_eq!(sign_in(&server, "erika@acme.test", PASSWORD).await.0.status, 422);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_administers_is_deleted_from_every_trail_but_not_as_the_last_owner() {
    let server = TestServer::start().await;
    let acme = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let users = "/api/organizations/platform/users";
    let of = async |email: &str| {
        let found = owner.read(&format!("{users}?email={email}")).await;
        format!("{users}/{}", text(&found["items"][0], "id"))
    };
    let refusal = async |path: &str| {
        let answer = owner.call("DELETE", path, &Value::Null).await;
        (answer.status, answer.text("code"), answer.text("detail"))
    };
    let own = refusal(&of("owner@sarsen.test").await).await;
    assert_eq!((own.0, &*own.1), (409, "own_account"), "{own:?}");
    let admin = of("admin@acme.test").await;
    let last = refusal(&admin).await;
    assert_eq!((last.0, &*last.1), (409, "last_owner"), "{last:?}");
    assert!(last.2.contains("the last owner of acme"), "{last:?}");

    // With another owner it works, and acme's trail loses the address.
    let second = owner.make(users, json!({ "email": "second@acme.test", "email_verified": true })).await;
    let (second, now) = (UserId::parse(text(&second, "id")).expect("an id"), server.app.now());
    let added = server.app.store.write("test.owner", move |tx| {
        let acme = organizations::find(tx.snapshot(), "acme")?;
        let actor = Actor::system(now, &SystemRandom);
        identity::administrators::add_creator(tx, &acme, &second, &actor)
    });
    added.await.expect("an owner");
    acme.change("PATCH", "/api/organizations/acme", json!({ "name": "Acme Works" })).await;
    owner.change("DELETE", &admin, Value::Null).await;
    let gone = acme.call("GET", "/api/organizations/acme", &Value::Null).await;
    assert_eq!(gone.status, 401, "{gone:?}");
    let addresses = async || {
        let read = server.app.store.read(|snapshot| {
            let acme = organizations::find(snapshot, "acme")?.id;
            audit_trail::list(snapshot, &acme, &audit_trail::Filter::default(), None, 200)
        });
        let rows = read.await.expect("reads");
        let row = rows.iter().find(|row| row.action == "organization.renamed").expect("a row");
        (row.address.clone(), row.actor_email.clone())
    };
    assert_eq!(addresses().await.0, "127.0.0.1");
    assert!(server.tidy().await.expect("erases"));
    assert_eq!(addresses().await, (String::new(), None));
    assert_eq!(places_of(&server, "admin@acme.test").await, [""; 0]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_interrupted_goes_on() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let found = admin.read(&format!("{USERS}?email=ada@acme.test")).await;
    let id = text(&found["items"][0], "id").to_owned();
    // More than one turn reads.
    for _ in 0..26 {
        fill(&server, &UserId::parse(&id).expect("an id"), 400, 1).await;
    }
    admin.change("DELETE", &format!("{USERS}/{id}"), Value::Null).await;
    assert!(server.tidy().await.expect("a first turn"));
    assert!(!places_of(&server, ADDRESS).await.is_empty(), "it is not finished");
    for _ in 0..3 {
        assert!(server.tidy().await.expect("a turn"));
    }
    assert_eq!(places_of(&server, ADDRESS).await, [""; 0]);
    let left = server.app.store.read(identity::user_deletions::next);
    assert!(left.await.expect("reads").is_none());
    server.stop().await;
}

/// Tables that have rows of an organization, apart from its own row and what is kept with it.
async fn tables_of(server: &TestServer, organization: &str) -> Vec<String> {
    let mut found = places_of(server, organization).await;
    let kept =
        ["organizations.id", "organization_reviews", "organization_suspensions", "organization_deletions"];
    found.retain(|place| !kept.iter().any(|kept| place.starts_with(kept)));
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_organization_comes_back_for_thirty_days() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let tokens = tokens(&server, "ada@acme.test", "openid offline_access").await;
    let mut ada = server.browser();
    assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
    let acme = "/api/organizations/acme";
    let restore = format!("{acme}/deletion");
    let early = owner.call("DELETE", &restore, &Value::Null).await;
    assert_eq!((early.status, early.text("code")), (409, "not_restorable".to_owned()), "{early:?}");

    owner.change("DELETE", acme, Value::Null).await;
    assert_eq!(owner.read(acme).await["status"], "deleted");
    let userinfo =
        async || server.get("/auth/userinfo").bearer(&tokens.text("access_token")).send().await.status;
    assert_eq!(userinfo().await, 401);
    assert_eq!(server.get("/o/acme/login").send().await.status, 403);
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", server.client("spa")),
        ("refresh_token", &*tokens.text("refresh_token")),
    ];
    assert_eq!(server.post("/auth/token", &refresh).send().await.status, 400);
    let machine = [("grant_type", "client_credentials"), ("client_id", server.client("machine"))];
    let secret = ("client_secret", server.secret("machine"));
    assert_eq!(server.post("/auth/token", &[machine[0], machine[1], secret]).send().await.status, 400);
    for (method, path) in [("DELETE", acme), ("PATCH", acme), ("POST", &format!("{acme}/services"))] {
        let body = match method {
            "PATCH" => json!({ "name": "Back" }),
            "POST" => json!({ "slug": "new", "name": "New" }),
            _ => Value::Null,
        };
        let refused = owner.call(method, path, &body).await;
        assert_eq!(
            (refused.status, refused.text("code")),
            (409, "organization_not_active".to_owned()),
            "{path}"
        );
    }
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let activate = "/api/platform/organizations/acme/suspension";
    let refused = platform.call("DELETE", activate, &Value::Null).await;
    assert_eq!((refused.status, refused.text("code")), (409, "organization_not_active".to_owned()));

    server.clock.advance(Duration::from_secs(30 * 24 * 3600 - 1));
    assert!(server.tidy().await.expect("erases nothing"));
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    assert_eq!(owner.change("DELETE", &restore, Value::Null).await.json()["status"], "active");
    assert_eq!(server.browser().sign_in("acme", "ada@acme.test").await.status, 303);
    assert_eq!(owner.read(&format!("{USERS}?email=ada@acme.test")).await["items"][0]["name"], "Ada");
    let own = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let refused = own.call("DELETE", "/api/organizations/platform", &Value::Null).await;
    assert_eq!((refused.status, refused.text("code")), (409, "platform_stays".to_owned()));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_thirty_days_nothing_of_an_organization_is_left_but_its_slug() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let found = owner.read(&format!("{USERS}?email=ada@acme.test")).await;
    let ada = text(&found["items"][0], "id").to_owned();
    for _ in 0..5 {
        fill(&server, &UserId::parse(&ada).expect("an id"), 90, 90).await;
    }
    for number in 0..60 {
        owner.make(USERS, json!({ "email": format!("user{number}@acme.test") })).await;
    }
    let deleted = owner.read(&format!("{USERS}?email=user7@acme.test")).await;
    owner.change("DELETE", &format!("{USERS}/{}", text(&deleted["items"][0], "id")), Value::Null).await;
    let id = text(&owner.read("/api/organizations/acme").await, "id").to_owned();
    owner.change("PUT", "/api/organizations/acme/branding", json!({ "contact": "Erika, room 12" })).await;
    owner.change("DELETE", "/api/organizations/acme", Value::Null).await;
    assert!(tables_of(&server, &id).await.len() > 8);

    // The clock of another instance, which could still restore it, may be some minutes behind.
    server.clock.advance(Duration::from_secs(30 * 24 * 3600));
    assert!(server.tidy().await.expect("a turn"));
    assert!(tables_of(&server, &id).await.len() > 8);
    server.clock.advance(Duration::from_secs(600));
    for _ in 0..3 {
        assert!(server.tidy().await.expect("a turn"));
    }
    assert_eq!(tables_of(&server, &id).await, [""; 0]);
    for needle in ["ada@acme.test", "user1@acme.test", "Sketch", "room 12", ADDRESS] {
        assert_eq!(places_of(&server, needle).await, [""; 0], "{needle}");
    }
    let owner = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    let taken = owner.call("POST", "/api/organizations", &json!({ "slug": "acme", "name": "Thief" })).await;
    assert_eq!((taken.status, taken.text("code")), (409, "taken".to_owned()), "{taken:?}");
    assert_eq!(server.get("/o/acme/login").send().await.status, 403);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_rejected_or_deleted_organization_can_leave_and_be_deleted() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform org:platform").await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    let id = text(&claims(&admin.token), "sub").to_owned();
    for slug in ["initech", "globex-2"] {
        admin.make("/api/organizations", json!({ "slug": slug, "name": slug })).await;
    }
    let own = Admin::sign_in(&server, "admin@acme.test", "org:*").await;
    let leaves = async |slug: &str| {
        let path = format!("/api/organizations/{slug}/administrators/{id}");
        own.call("DELETE", &path, &Value::Null).await
    };
    let last_owner = |answer: &Answer| (answer.status, answer.text("code")) == (409, "last_owner".to_owned());
    let pending = leaves("initech").await;
    assert!(last_owner(&pending), "{pending:?}");
    for slug in ["initech", "globex-2"] {
        let review = format!("/api/platform/organizations/{slug}/review");
        platform.change("POST", &review, json!({ "decision": "rejected" })).await;
    }
    assert_eq!(leaves("initech").await.status, 200);

    // They own acme too.
    let account = format!("/api/organizations/platform/users/{id}");
    let kept = platform.call("DELETE", &account, &Value::Null).await;
    assert!(last_owner(&kept) && kept.text("detail").contains("last owner of acme"), "{kept:?}");
    own.change("DELETE", "/api/organizations/acme", Value::Null).await;
    platform.change("DELETE", &account, Value::Null).await;
    assert_eq!(own.call("DELETE", "/api/organizations/acme/deletion", &Value::Null).await.status, 401);
    server.stop().await;
}
