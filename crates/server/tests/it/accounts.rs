//! Accounts: what signing in, signing up and one-time links tell, cost and refuse.

use crate::support::*;
use identity::ids::UserId;
use identity::users::{self, NewUser};
use identity::{organizations, passwords};
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer, at_once};
use std::time::{Duration, Instant};
use store::{Key, Sql, args, sql};

const PASSWORD: &str = "correct horse battery";

/// Counts how many passwords were hashed. A job is counted a moment after its answer went out.
struct Lane<'s> {
    server: &'s TestServer,
    hashed: u64,
}

impl Lane<'_> {
    /// A lane that has hashed this many passwords since the server started.
    fn after(server: &TestServer, hashed: u64) -> Lane<'_> {
        Lane { server, hashed }
    }

    /// Exactly this many more were hashed; one too many shows at the next call at the latest.
    async fn has_hashed(&mut self, more: u64, what: &str) {
        self.hashed += more;
        let until = Instant::now() + Duration::from_secs(10);
        let mut counted = metric(self.server, "sarsen_hash_done_total").await;
        while counted < self.hashed && Instant::now() < until {
            tokio::task::yield_now().await;
            counted = metric(self.server, "sarsen_hash_done_total").await;
        }
        assert_eq!(counted, self.hashed, "{what}");
    }
}

async fn sign_up(browser: &mut TestBrowser<'_>, organization: &str, email: &str, password: &str) -> Answer {
    let path = format!("/o/{organization}/signup");
    let csrf = browser.get(&path).await.input("csrf");
    browser.post(&path, &[("csrf", &csrf), ("email", email), ("name", ""), ("password", password)]).await
}

async fn ada_of(server: &TestServer) -> UserId {
    let found = server.app.store.read(|snapshot| {
        let acme = identity::organizations::find(snapshot, "acme")?.id;
        users::find(snapshot, &acme, "ada@acme.test")
    });
    found.await.expect("reads").expect("ada").id
}

async fn put_hash(server: &TestServer, user: &UserId, hash: &'static str) {
    let (user, now) = (user.clone(), server.app.now());
    let put = server.app.store.write("test.password", move |tx| passwords::put(tx, &user, hash, now));
    put.await.expect("puts");
}

async fn hash_of(server: &TestServer, user: &UserId) -> String {
    let user = user.clone();
    let found = server.app.store.read(move |snapshot| passwords::get(snapshot, &user));
    found.await.expect("reads").expect("a hash")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_sign_in_does_not_tell_why() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = "/api/organizations/acme/users";
    admin.make(users, json!({ "email": "passwordless@acme.test" })).await;
    let grace =
        text(&admin.read(&format!("{users}?email=grace@acme.test")).await["items"][0], "id").to_owned();
    admin.change("PUT", &format!("{users}/{grace}/suspension"), json!({})).await;
    let (ada, grace) = (server.password("ada@acme.test"), server.password("grace@acme.test"));
    let long = "x".repeat(5_000);
    let mut lane = Lane::after(&server, 1);

    let mut browser = server.browser();
    let csrf = browser.get("/o/acme/login").await.input("csrf");
    let mut first: Option<Answer> = None;
    for (what, email, password) in [
        ("wrong password", "ada@acme.test", "wrong horse battery"),
        ("unknown", "nobody@acme.test", "wrong horse battery"),
        ("unknown, with a password that somebody has", "nobody@acme.test", ada),
        ("suspended", "grace@acme.test", grace),
        ("suspended and wrong", "grace@acme.test", "wrong horse battery"),
        ("passwordless", "passwordless@acme.test", "wrong horse battery"),
        ("passwordless, with nothing", "passwordless@acme.test", ""),
        ("of another organization", "admin@acme.test", server.password("admin@acme.test")),
        ("no address", "nobody", "wrong horse battery"),
        ("blank", " ", ""),
        ("too long", "ada@acme.test", &long),
        ("too long, and unknown", "nobody@acme.test", &long),
        ("the right one and more", "ada@acme.test", &format!("{ada}x")),
        ("the right one and a space", "ada@acme.test", &format!("{ada} ")),
        ("the right one in capitals", "ada@acme.test", &ada.to_uppercase()),
    ] {
        let fields = [("csrf", &*csrf), ("email", email), ("password", password)];
        let mut answer = browser.post("/o/acme/login", &fields).await;
        lane.has_hashed(1, &format!("{what}: each goes through the lane, once")).await;
        answer.body = answer.body.replace(&format!("value=\"{email}\""), "value=\"…\"");
        let differs = ["date", "content-length", "x-request-id"];
        answer.headers.retain(|(name, _)| !differs.contains(&name.as_str()));
        assert!(
            password.is_empty() || !answer.body.contains(password),
            "{what}: a password is not sent back"
        );
        let first = first.get_or_insert_with(|| answer.clone());
        assert_eq!((answer.status, &answer.body), (422, &first.body), "{what}");
        assert_eq!(answer.headers, first.headers, "{what}");
    }
    assert_eq!(browser.cookies.iter().count(), 1, "nobody got a session");

    // A form that did not come from our page costs nothing.
    let mut other = server.browser();
    let foreign = other.get("/o/acme/login").await.input("csrf");
    for csrf in ["", "x", &foreign] {
        let fields = [("csrf", csrf), ("email", "ada@acme.test"), ("password", ada)];
        assert_eq!(browser.post("/o/acme/login", &fields).await.status, 403);
        assert_eq!(browser.post("/login", &fields).await.status, 403);
        assert_eq!(browser.post("/o/acme/signup", &fields).await.status, 403);
    }
    let fields = [("csrf", &*csrf), ("email", "ada@acme.test"), ("password", ada)];
    assert_eq!(server.post("/o/acme/login", &fields).send().await.status, 403, "without the cookie");
    assert_eq!(browser.post("/o/nobody/login", &fields).await.status, 404);
    assert_eq!(browser.post("/o/acme/login", &fields).await.status, 303);
    lane.has_hashed(1, "the last one only").await;
    let names: Vec<&str> = browser.cookies.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["sarsen_7070__browser", "sarsen_7070_acme", "sarsen_7070__known"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_in_the_audit_trail_once_a_minute() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let failed = async |count: usize| {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            let trail = admin.read("/api/organizations/acme/audit").await;
            let entries = trail["items"].as_array().expect("entries").clone();
            let failed = entries.into_iter().filter(|entry| text(entry, "action") == "user.sign_in_failed");
            let failed: Vec<Value> = failed.collect();
            if failed.len() >= count {
                return failed;
            }
            assert!(Instant::now() < limit, "{failed:?}");
        }
    };
    let mut browser = server.browser();
    for _ in 0..3 {
        for email in ["ada@acme.test", "nobody@acme.test"] {
            assert_eq!(browser.sign_in_with("acme", email, "wrong horse battery").await.status, 422);
        }
    }
    assert_eq!(browser.sign_in("acme", "ada@acme.test").await.status, 303);
    let entries = failed(1).await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    let entry = &entries[0];
    let said = ["actor", "target_name", "address", "details"].map(|name| text(entry, name));
    assert_eq!(said, ["unknown", "ada@acme.test", "127.0.0.1", "1 failed, from 127.0.0.1"], "{entry}");

    server.clock.advance(Duration::from_secs(60));
    assert_eq!(browser.sign_in_with("acme", "ada@acme.test", "wrong").await.status, 422);
    let entries = failed(2).await;
    assert_eq!((entries.len(), text(&entries[0], "details")), (2, "3 failed, from 127.0.0.1"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_what_its_owner_typed() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    let longest = "ab".repeat(64);
    let heaviest = "𝒳𝒴".repeat(64);
    let good = [
        ("eight", "12 stone", "12 stone"),
        ("longest", &longest, &longest),
        ("heaviest", &heaviest, &heaviest),
        ("spaces", "  two  spaces  ", "  two  spaces  "),
        ("marks", "\"'<>&=%00;--日本語", "\"'<>&=%00;--日本語"),
        // One keyboard writes é as one letter, another as two.
        ("composed", "r\u{e9}sum\u{e9} 2027", "re\u{301}sume\u{301} 2027"),
        ("decomposed", "re\u{301}sume\u{301} 2028", "r\u{e9}sum\u{e9} 2028"),
    ];
    for (name, chosen, typed) in good {
        let email = format!("{name}@acme.test");
        let made = sign_up(&mut browser, "acme", &email, chosen).await;
        assert_eq!(made.status, 303, "{name}: {made:?}");
        assert_eq!(browser.sign_in_with("acme", &email, typed).await.status, 303, "{name}");
        let cut: String = chosen.chars().take(chosen.chars().count() - 1).collect();
        assert_eq!(browser.sign_in_with("acme", &email, &cut).await.status, 422, "{name}: all of it counts");
        assert_eq!(browser.sign_in_with("acme", &email, &format!("{typed}x")).await.status, 422, "{name}");
    }
    let mut lane = Lane::after(&server, good.len() as u64 * 4);
    let mut nobody = server.browser();
    for (what, wrong) in [
        ("short", "1234567"),
        ("empty", ""),
        ("129 letters", &"a".repeat(129)),
        ("more than 512 bytes", &"𝒳".repeat(129)),
        ("a NUL", "before\0after"),
    ] {
        let refused = sign_up(&mut nobody, "acme", "new@acme.test", wrong).await;
        let expected = if wrong.contains('\0') { 400 } else { 422 };
        assert_eq!(refused.status, expected, "{what}: {refused:?}");
        assert!(wrong.is_empty() || !refused.body.contains(wrong), "{what}");
        lane.has_hashed(0, &format!("{what}: not worth a hash")).await;
    }
    assert_eq!(nobody.cookies.iter().count(), 1);
    let csrf = nobody.get("/o/acme/login").await.input("csrf");
    let huge = "x".repeat(1 << 20);
    let fields = [("csrf", &*csrf), ("email", "ada@acme.test"), ("password", &huge)];
    assert_eq!(nobody.post("/o/acme/login", &fields).await.status, 413, "a megabyte is not read");
    browser.sign_in("acme", "ada@acme.test").await;
    lane.has_hashed(1, "the last one only").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_no_case_and_one_owner_in_each_organization() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    assert_eq!(sign_up(&mut browser, "acme", " New.User@ACME.Test ", PASSWORD).await.status, 303);
    for spelled in ["new.user@acme.test", "NEW.USER@ACME.TEST", "  New.User@acme.TEST\t"] {
        assert_eq!(browser.sign_in_with("acme", spelled, PASSWORD).await.status, 303, "{spelled:?}");
    }
    assert!(browser.get("/o/acme/account").await.body.contains("new.user@acme.test"));
    // Other addresses are other people.
    for other in [
        "new.user+x@acme.test",
        "newuser@acme.test",
        "new.user@acme.test.evil.example",
        "nеw.user@acme.test",
        "new.user@аcme.test",
    ] {
        assert_eq!(browser.sign_in_with("acme", other, PASSWORD).await.status, 422, "{other:?}");
    }
    assert_eq!(sign_up(&mut browser, "acme", "new.user+x@acme.test", PASSWORD).await.status, 303);

    let mut lane = Lane::after(&server, 10);
    let mut other = server.browser();
    for taken in ["new.user@acme.test", "NEW.USER@acme.test", "ada@acme.test"] {
        let refused = sign_up(&mut other, "acme", taken, "another password").await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.body.contains("There is an account with this e-mail address already"), "{refused:?}");
        lane.has_hashed(1, "taken or not costs the same").await;
    }
    assert_eq!(other.cookies.iter().count(), 1, "no session");
    assert_eq!(other.sign_in_with("acme", "new.user@acme.test", "another password").await.status, 422);
    assert_eq!(other.sign_in("acme", "ada@acme.test").await.status, 303, "ada's password is still hers");
    // Letters that only look alike are refused, and so is what is no address. In a domain they are another address, which
    // no page shows in its letters.
    for wrong in [
        "аda@acme.test",
        "ada@acme",
        "ada",
        "ada@acme.test\r\nbcc: x@evil.example",
        "<ada>@acme.test ",
        "a@b@acme.test",
    ] {
        let refused = sign_up(&mut server.browser(), "acme", wrong, PASSWORD).await;
        assert_eq!(refused.status, 422, "{wrong:?}: {refused:?}");
    }
    // The same address elsewhere is another account.
    open_sign_up(&server, "platform").await;
    assert_eq!(sign_up(&mut other, "platform", "ada@acme.test", "another password").await.status, 303);
    assert_eq!(other.sign_in("platform", "ada@acme.test").await.status, 422, "with its own password");
    server.stop().await;
}

/// Whether people can create accounts: offered at sign-in, shown as a form, and done. All three agree.
async fn allows_sign_up(server: &TestServer, organization: &str) -> bool {
    let mut browser = server.browser();
    let path = format!("/o/{organization}/signup");
    let offered = browser.get(&format!("/o/{organization}/login")).await;
    let shown = browser.get(&path).await;
    let email = format!("{}@new.test", identity::secrets::secret(server.app.random()));
    let fields = [("csrf", &*offered.input("csrf")), ("email", &email), ("password", PASSWORD)];
    let made = browser.post(&path, &fields).await;
    let is_open = made.status == 303;
    assert_eq!((offered.body.contains("signup"), shown.status == 200), (is_open, is_open), "{made:?}");
    assert!(is_open || (shown.status, made.status) == (403, 403), "{shown:?} {made:?}");
    assert!(is_open || made.body.contains("Sign-up is closed"), "{made:?}");
    let signed_in = browser.sign_in_with(organization, &email, PASSWORD).await;
    assert_eq!(signed_in.status == 303, is_open, "{signed_in:?}");
    is_open
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_up_is_open_where_the_organization_says_so() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let made = owner.make("/api/organizations", json!({ "slug": "globex", "name": "Globex" })).await;
    assert_eq!(made["sign_up"], false, "a new organization is closed: {made}");
    for (organization, is_open) in [("acme", true), ("platform", false), ("globex", false)] {
        assert_eq!(allows_sign_up(&server, organization).await, is_open, "{organization}");
    }
    assert_eq!(server.get("/o/nobody/signup").send().await.status, 404);
    let globex = Admin::sign_in(&server, "owner@sarsen.test", "org:globex").await;
    for is_open in [true, false] {
        // A change of another setting keeps this one.
        for change in [json!({ "sign_up": is_open }), json!({ "device_flow": "short" })] {
            let changed = globex.change("PATCH", "/api/organizations/globex", change).await.json();
            assert_eq!((&changed["sign_up"], &changed["slug"]), (&json!(is_open), &json!("globex")));
        }
        assert_eq!(allows_sign_up(&server, "globex").await, is_open);
        globex.change("PATCH", "/api/organizations/globex", json!({ "device_flow": "allowed" })).await;
    }
    let listed = owner.read("/api/platform/organizations").await;
    let said: Vec<&Value> =
        listed["items"].as_array().expect("a list").iter().map(|one| &one["sign_up"]).collect();
    assert_eq!(said, [&json!(true), &json!(false), &json!(false)], "acme, globex, platform: {listed}");
    server.stop().await;
}

static FORGET_SIGN_UP: Sql = sql("UPDATE organization_rules SET sign_up = NULL");

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_from_before_the_setting_follows_the_configuration_but_platform_does_not() {
    for configured in [true, false] {
        let server = TestServer::start_with(|settings| settings.sign_up = configured, |_| {}).await;
        let forgotten = server.app.store.write("test", |tx| {
            tx.changed(Key::table("organization_rules"));
            tx.exec(&FORGET_SIGN_UP, args![])
        });
        forgotten.await.map_err(|error: store::Error| error).expect("forgets");
        assert_eq!(allows_sign_up(&server, "acme").await, configured);
        assert!(!allows_sign_up(&server, "platform").await);
        server.stop().await;
    }
}

/// The hash of "old" with parameters that nobody would use today.
const OLD: &str = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0$GCU2WK14XHOhIK5Cj9laNQAmK0doXVdTpuIi4SzPK4o";

#[tokio::test(flavor = "multi_thread")]
async fn an_old_hash_is_renewed_by_the_next_sign_in() {
    let server = TestServer::start().await;
    let ada = ada_of(&server).await;
    put_hash(&server, &ada, OLD).await;
    let mut browser = server.browser();
    assert_eq!(browser.sign_in_with("acme", "ada@acme.test", "wrong").await.status, 422);
    assert_eq!(hash_of(&server, &ada).await, OLD, "a wrong password renews nothing");
    let mut lane = Lane::after(&server, 1);
    assert_eq!(browser.sign_in_with("acme", "ada@acme.test", "old").await.status, 303);
    lane.has_hashed(2, "compared, and hashed anew").await;
    let renewed = hash_of(&server, &ada).await;
    assert!(renewed.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{renewed}");
    assert_eq!(browser.sign_in_with("acme", "ada@acme.test", "old").await.status, 303);
    assert_eq!(hash_of(&server, &ada).await, renewed, "once");
    assert_eq!(browser.sign_in_with("acme", "ada@acme.test", "older").await.status, 422);
    lane.has_hashed(2, "compared only").await;

    // Who may not sign in is not told by the time it takes.
    put_hash(&server, &ada, OLD).await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    admin.change("PUT", &format!("/api/organizations/acme/users/{ada}/suspension"), json!({})).await;
    lane.has_hashed(1, "the administrator's own").await;
    assert_eq!(browser.sign_in_with("acme", "ada@acme.test", "old").await.status, 422);
    lane.has_hashed(1, "compared only").await;
    assert_eq!(hash_of(&server, &ada).await, OLD);
    assert_eq!(browser.sign_in_with("acme", "ada@acme.test", "old").await.status, 422);
    lane.has_hashed(1, "compared only").await;
    server.stop().await;
}

/// Accounts of acme without a password.
async fn make_users(server: &TestServer, count: usize) {
    let (now, random) = (server.app.now(), server.app.random());
    let new: Vec<NewUser> =
        (0..count).map(|number| NewUser::new(format!("user-{number}@acme.test"), now, random)).collect();
    let actor = server.app.system();
    let made = server.app.store.write("test.users", move |tx| {
        let acme = organizations::find(tx.snapshot(), "acme")?;
        let actor = actor.clone();
        new.iter().try_for_each(|new| users::create(tx, &acme.id, new, &actor).map(|_| ()))
    });
    made.await.expect("made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_sign_ins_is_refused_quickly_and_others_are_served() {
    let server = TestServer::start_with(|settings| settings.hash_threads = Some(1), |_| {}).await;
    let mut browser = server.browser();
    let csrf = browser.get("/o/acme/login").await.input("csrf");
    let cookie = browser.cookies.header().expect("a cookie");
    let refused_before = metric(&server, "sarsen_hash_refused_total").await;
    make_users(&server, 200).await;
    // The storm comes from many networks, at one organization: half of it at accounts that exist.
    let attempt = async |number: usize| {
        let email = match number % 2 {
            0 => format!("user-{}@acme.test", number / 2),
            _ => format!("nobody-{number}@acme.test"),
        };
        let fields = [("csrf", &*csrf), ("email", &*email), ("password", "wrong horse battery")];
        let request = server.post("/o/acme/login", &fields).header("cookie", &cookie);
        let began = Instant::now();
        let answer = request
            .header("x-forwarded-for", &format!("10.1.{}.{}", number / 250, number % 250))
            .send()
            .await;
        (email, answer, began.elapsed())
    };
    let storm = at_once((0..400).map(attempt));
    let mut others = Vec::new();
    let in_between = async {
        // Not before the storm has filled the lane.
        while metric(&server, "sarsen_hash_refused_total").await == refused_before {
            tokio::task::yield_now().await;
        }
        for path in ["/healthz", "/o/acme/login", "/.well-known/jwks.json", "/activate"] {
            let began = Instant::now();
            others.push((path, server.get(path).send().await.status, began.elapsed()));
        }
        // Another organization's sign-in gets its place: at once, where the processor has time for the lane.
        let mut owner = server.browser();
        loop {
            let answer = owner.sign_in("platform", "owner@sarsen.test").await;
            if answer.status == 303 {
                break;
            }
            assert_eq!(answer.status, 429, "{answer:?}");
        }
    };
    let (answers, ()) = tokio::join!(storm, in_between);

    let (full, wrong): (Vec<_>, Vec<_>) = answers.iter().partition(|(_, answer, _)| answer.status == 429);
    assert!(full.len() >= 100 && !wrong.is_empty(), "{} refused, {} served", full.len(), wrong.len());
    assert!(wrong.iter().all(|(_, answer, _)| answer.status == 422));
    let known = full.iter().filter(|(email, ..)| email.starts_with("user")).count();
    assert!(
        known * 4 > full.len() && known * 4 < full.len() * 3,
        "it tells nothing about accounts: {known} of {}",
        full.len()
    );
    let mut quick: Vec<Duration> = full.iter().map(|(.., took)| *took).collect();
    quick.sort_unstable();
    let mut slow: Vec<Duration> = wrong.iter().map(|(.., took)| *took).collect();
    slow.sort_unstable();
    assert!(quick[quick.len() / 2] < slow[slow.len() / 2], "refusals do not wait: {quick:?} {slow:?}");
    for (_, answer, _) in &full {
        let wait: u64 = answer.header("retry-after").parse().expect("seconds");
        assert!((1..=10).contains(&wait), "{answer:?}");
        assert!(answer.header("content-type").starts_with("text/html"));
        assert!(answer.body.contains("Many people are signing in"), "{answer:?}");
    }
    let refused = metric(&server, "sarsen_hash_refused_total").await - refused_before;
    assert!(refused >= full.len() as u64, "{refused} of {}", full.len());
    let last = slow.last().copied().unwrap_or_default();
    for (path, status, took) in others {
        assert_eq!(status, 200, "{path}");
        assert!(took < last, "{path} waited behind the lane: {took:?} of {last:?}");
    }
    // Afterwards everything is as before.
    assert_eq!(browser.sign_in("acme", "ada@acme.test").await.status, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_link_lets_in_once() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let users = "/api/organizations/acme/users";
    let made = admin.make(users, json!({ "email": "passwordless@acme.test" })).await;
    let user = format!("{users}/{}", text(&made, "id"));
    let link = async || path_of(text(&admin.make(&format!("{user}/sign-in-link"), Value::Null).await, "url"));
    let send = async |browser: &mut TestBrowser<'_>, csrf: &str, id: &str| {
        browser.post("/o/acme/link", &[("csrf", csrf), ("link", id)]).await
    };

    let first = link().await;
    let mut scanner = server.browser();
    for _ in 0..3 {
        let page = open_link(&mut scanner, &first).await;
        assert_eq!((page.status, page.header("referrer-policy")), (200, "no-referrer"), "{page:?}");
        assert_eq!(scanner.get("/o/acme/account").await.status, 303, "opening it does nothing");
    }
    let mut user_browser = server.browser();
    let page = open_link(&mut user_browser, &first).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    assert!(!page.body.contains(first.rsplit('.').next().expect("a secret")), "{page:?}");
    for wrong in ["", "x"] {
        assert_eq!(send(&mut user_browser, wrong, &id).await.status, 403);
        assert_eq!(send(&mut user_browser, &csrf, wrong).await.status, 403, "of another link");
    }
    let (mut stranger, csrf_of_stranger) =
        (server.browser(), scanner.get("/o/acme/login").await.input("csrf"));
    stranger
        .cookies
        .set("sarsen_7070__browser", scanner.cookies.get("sarsen_7070__browser").expect("a browser"));
    stranger
        .cookies
        .set("sarsen_7070__sign_in", user_browser.cookies.get("sarsen_7070__sign_in").expect("a link"));
    assert_eq!(send(&mut stranger, &csrf_of_stranger, &id).await.status, 404, "a copy of the cookie");

    // Of all browsers that try at once, one gets in.
    let mut tries = Vec::new();
    for _ in 0..4 {
        let mut browser = server.browser();
        let page = open_link(&mut browser, &first).await;
        tries.push((page.input("csrf"), browser.cookies.header().expect("cookies")));
    }
    let use_it = async |(csrf, cookies): &(String, String)| {
        let fields = [("csrf", &**csrf), ("link", &id)];
        server.post("/o/acme/link", &fields).header("cookie", cookies).send().await
    };
    let answers = at_once(tries.iter().map(use_it)).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 404, 404, 404]);
    for browser in [&mut user_browser, &mut scanner] {
        assert_eq!(open_link(browser, &first).await.status, 404, "used");
    }
    assert_eq!(send(&mut user_browser, &csrf, &id).await.status, 404, "used");
    let done = use_sign_in_link(&mut user_browser, &link().await).await;
    assert_eq!((done.status, done.header("location")), (303, "/o/acme/account"), "{done:?}");
    assert!(user_browser.get("/o/acme/account").await.body.contains("passwordless@acme.test"));
    assert_eq!(user_browser.cookies.get("sarsen_7070__sign_in"), None, "the secret is forgotten");

    let good = link().await;
    for (what, wrong) in [
        ("of another organization", &*good.replace("/o/acme/", "/o/platform/")),
        ("cut", &good[..good.len() - 1]),
        ("unknown", "/o/acme/link?token=link_01h00000000000000000000000.x"),
        ("no set-up link", &good.replace("/o/acme/link", "/setup")),
        ("without a secret", "/o/acme/link"),
    ] {
        assert_eq!(open_link(&mut user_browser, wrong).await.status, 404, "{what}");
    }
    let page = open_link(&mut user_browser, &good).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    admin.change("PUT", &format!("{user}/suspension"), json!({})).await;
    assert_eq!(send(&mut user_browser, &csrf, &id).await.status, 404, "suspended");
    assert_eq!(open_link(&mut user_browser, &good).await.status, 404, "suspended");
    let refused = admin.call("POST", &format!("{user}/sign-in-link"), &Value::Null).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    admin.change("DELETE", &format!("{user}/suspension"), Value::Null).await;

    let old = link().await;
    server.clock.advance(Duration::from_secs(3599));
    let page = open_link(&mut user_browser, &old).await;
    assert_eq!(page.status, 200, "an hour");
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(send(&mut user_browser, &csrf, &page.input("link")).await.status, 404, "expired");
    assert_eq!(open_link(&mut user_browser, &old).await.status, 404, "expired");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_click_on_the_form_of_a_sign_in_link_signs_in_too() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let made = admin.make("/api/organizations/acme/users", json!({ "email": "new@acme.test" })).await;
    let user = format!("/api/organizations/acme/users/{}", text(&made, "id"));
    let link = path_of(text(&admin.make(&format!("{user}/sign-in-link"), Value::Null).await, "url"));
    let sessions = async || {
        let all = admin.read(&format!("{user}/sessions")).await;
        all["items"]
            .as_array()
            .expect("sessions")
            .iter()
            .map(|one| text(one, "id").to_owned())
            .collect::<Vec<_>>()
    };
    let (mut browser, mut other) = (server.browser(), server.browser());
    let page = open_link(&mut browser, &link).await;
    let elsewhere = open_link(&mut other, &link).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let cookies = browser.cookies.header().expect("cookies");
    let click = async || {
        let fields = [("csrf", &*csrf), ("link", &id)];
        server.post("/o/acme/link", &fields).header("cookie", &cookies).send().await
    };
    let answers = at_once((0..4).map(|_| click())).await;
    assert!(answers.iter().all(|answer| answer.status == 303), "{answers:?}");
    let first = sessions().await;
    assert_eq!(first.len(), 1, "one session");

    // The answer was lost: the browser sends the form again, and the session has a new secret.
    server.clock.advance(Duration::from_secs(59));
    let again = click().await;
    assert_eq!((again.status, again.header("location")), (303, "/o/acme/account"), "{again:?}");
    assert_eq!(sessions().await, first, "the same session");
    let mut late = server.browser();
    for (name, value) in
        answers.iter().flat_map(|answer| &answer.headers).filter(|(name, _)| name == "set-cookie")
    {
        late.cookies.take_from([(name.as_str(), value)]);
    }
    assert_eq!(late.get("/o/acme/account").await.status, 303, "the secrets from before are void");
    browser.cookies.take_from(again.headers.iter().map(|(name, value)| (name.as_str(), value)));
    assert_eq!(browser.get("/o/acme/account").await.status, 200);
    let fields = [("csrf", &*elsewhere.input("csrf")), ("link", &id)];
    assert_eq!(other.post("/o/acme/link", &fields).await.status, 404, "another browser");

    server.clock.advance(Duration::from_secs(1));
    assert_eq!(click().await.status, 404, "a minute is over");
    let second = path_of(text(&admin.make(&format!("{user}/sign-in-link"), Value::Null).await, "url"));
    let page = open_link(&mut other, &second).await;
    let cookies = other.cookies.header().expect("cookies");
    let fields = [("csrf", &*page.input("csrf")), ("link", &*page.input("link"))];
    assert_eq!(other.post("/o/acme/link", &fields).await.status, 303);
    admin.change("DELETE", &format!("{user}/sessions"), Value::Null).await;
    let ended = server.post("/o/acme/link", &fields).header("cookie", &cookies).send().await;
    assert_eq!(ended.status, 404, "its session has ended");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_up_link_makes_the_first_owner_and_no_other() {
    let server = TestServer::start_empty().await;
    let link = async || server::first_start::link(&server.app).await.expect("asks").map(|url| path_of(&url));
    let expired = link().await.expect("no owner yet");
    server.clock.advance(Duration::from_secs(3600));
    let mut browser = server.browser();
    assert_eq!(open_link(&mut browser, &expired).await.status, 404, "an hour is over");

    let first = link().await.expect("no owner yet");
    let second = link().await.expect("no owner yet");
    for _ in 0..3 {
        assert_eq!(open_link(&mut browser, &first).await.status, 200, "opening it does nothing");
    }
    let page = open_link(&mut browser, &first).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let post = async |browser: &mut TestBrowser<'_>, csrf: &str, id: &str, email: &str, password: &str| {
        let fields =
            [("csrf", csrf), ("link", id), ("email", email), ("name", "Olga"), ("password", password)];
        browser.post("/setup", &fields).await
    };
    assert_eq!(post(&mut browser, "", &id, "olga@sarsen.test", PASSWORD).await.status, 403);
    assert_eq!(post(&mut browser, &csrf, &id, "olga@sarsen.test", "short").await.status, 422);
    assert_eq!(post(&mut browser, &csrf, &id, "olga", PASSWORD).await.status, 422);
    for wrong in ["", "x", "link_01h00000000000000000000000"] {
        assert_eq!(
            post(&mut browser, &csrf, wrong, "olga@sarsen.test", PASSWORD).await.status,
            403,
            "{wrong:?}"
        );
    }
    for wrong in ["x", "link_01h00000000000000000000000.x", &first["/setup?token=".len()..first.len() - 1]] {
        let opened = open_link(&mut browser, &format!("/setup?token={wrong}")).await;
        assert_eq!(opened.status, 404, "{wrong:?}");
    }
    let mut other = server.browser();
    let csrf_of_other = other.get("/login").await.input("csrf");
    assert_eq!(post(&mut other, &csrf_of_other, &id, "olga@sarsen.test", PASSWORD).await.status, 404);
    assert_eq!(browser.get("/console").await.status, 303, "nobody is signed in by trying");
    assert!(other.get("/login").await.body.contains("has no owner yet"), "the sign-in says why nobody can");
    // Two links at once make one owner.
    let page = open_link(&mut other, &second).await;
    let (csrf_of_other, second_id) = (page.input("csrf"), page.input("link"));
    let (one, two) = tokio::join!(
        post(&mut browser, &csrf, &id, "olga@sarsen.test", PASSWORD),
        post(&mut other, &csrf_of_other, &second_id, "mallory@evil.example", PASSWORD)
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [303, 404], "{one:?} {two:?}");
    let (winner, email) =
        if one.status == 303 { (one, "olga@sarsen.test") } else { (two, "mallory@evil.example") };
    assert_eq!(winner.header("location"), "/console");
    assert!(!server.browser().get("/login").await.body.contains("has no owner yet"));
    for (browser, csrf, link, id) in
        [(&mut browser, &csrf, &first, &id), (&mut other, &csrf_of_other, &second, &second_id)]
    {
        assert_eq!(post(browser, csrf, id, "third@sarsen.test", PASSWORD).await.status, 404);
        assert_eq!(open_link(browser, link).await.status, 404);
    }
    assert_eq!(link().await, None, "there is an owner");
    assert_eq!(browser.sign_in_with("platform", email, PASSWORD).await.status, 303);
    let ask = Ask::by("console", CONSOLE).with("scope", "platform");
    let token = tokens_of(&server, &mut browser, &ask).await.text("access_token");
    let owner = Admin { server: &server, token };
    owner.read("/api/platform/organizations").await;
    for loser in ["olga@sarsen.test", "mallory@evil.example", "third@sarsen.test"] {
        let tried = server.browser().sign_in_with("platform", loser, PASSWORD).await;
        assert_eq!(tried.status == 303, loser == email, "{loser}");
    }
    server.stop().await;
}
