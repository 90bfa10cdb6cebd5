//! Invitations: who gets a role by a link, and who does not.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer, at_once};
use std::collections::BTreeSet;
use std::time::Duration;
use store::{Sql, args, sql};

const PASSWORD: &str = "correct horse battery";
const OWNERS: &str = "/api/platform/owners";

static ADDRESSES: Sql = sql("SELECT email FROM invitations");

/// The roles at the demo's organization, by e-mail address.
async fn roles(owner: &Admin<'_>) -> Vec<(String, String)> {
    let all = owner.read("/api/organizations/acme/administrators").await;
    let all = all["items"].as_array().expect("a list").iter();
    all.map(|one| (text(one, "email").to_owned(), text(one, "role").to_owned())).collect()
}

async fn role(owner: &Admin<'_>, email: &str) -> Option<String> {
    roles(owner).await.into_iter().find(|(one, _)| one == email).map(|(_, role)| role)
}

/// The account of `platform` with this address.
async fn account(server: &TestServer, email: &str) -> Value {
    let owner = Admin::sign_in(server, "owner@sarsen.test", "org:platform").await;
    owner.read(&format!("/api/organizations/platform/users?email={email}")).await["items"]
        .as_array()
        .and_then(|found| found.first().cloned())
        .unwrap_or_default()
}

async fn accept(browser: &mut TestBrowser<'_>, link: &str) -> Answer {
    let page = open_invitation(browser, link).await;
    send_invitation(browser, &page, &[]).await
}

/// Whether a link leads to the page of the invitation. If not, its page says that the invitation is not valid.
async fn is_valid(server: &TestServer, link: &str) -> bool {
    let answer = server.get(link).send().await;
    let is_void = answer.status == 404 && answer.body.contains("This invitation is not valid");
    assert!(answer.status == 303 || is_void, "{answer:?}");
    answer.status == 303
}

fn problem(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text("code"))
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invited_person_creates_an_account_and_gets_that_one_role() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let made = owner.make(INVITATIONS, json!({ "email": " Grace@Navy.TEST", "role": "admin" })).await;
    assert_eq!((&made["email"], &made["role"]), (&json!("grace@navy.test"), &json!("admin")));
    assert_eq!(made["invited_by_email"], "admin@acme.test");
    let link = path_of(text(&made, "url"));
    let secret = link.split_once('.').expect("a token").1.to_owned();
    let listed = owner.read(INVITATIONS).await;
    assert_eq!(listed["items"][0]["id"], made["id"]);
    assert!(!listed.to_string().contains(&secret), "the link is shown once: {listed}");

    // Opening the link moves its secret out of the address.
    let mut grace = server.browser();
    let opened = grace.get(&link).await;
    assert_eq!((opened.status, opened.header("location")), (303, "/invitation"), "{opened:?}");
    assert_eq!(
        (opened.header("referrer-policy"), opened.header("cache-control")),
        ("no-referrer", "no-store")
    );
    assert!(!format!("{opened:?}").contains(&secret), "sealed: {opened:?}");
    let page = grace.get("/invitation").await;
    assert_eq!(page.status, 200);
    assert!(!page.body.contains(&secret) && page.body.contains("grace@navy.test"), "{page:?}");
    assert_eq!(role(&owner, "grace@navy.test").await, None, "opening gives nothing");
    let mut copied = server.browser();
    copied.get("/login").await;
    let kept = grace.cookies.get("sarsen_7070__invitation").expect("kept").to_owned();
    copied.cookies.set("sarsen_7070__invitation", &kept);
    assert_eq!(copied.get("/invitation").await.status, 404, "the cookie belongs to one browser");

    let fields = [("csrf", "forged"), ("name", "Grace"), ("password", PASSWORD)];
    assert_eq!(grace.post("/invitation", &fields).await.status, 403);
    let weak = send_invitation(&mut grace, &page, &[("name", "Grace"), ("password", "short")]).await;
    assert!(weak.status == 422 && weak.input("name") == "Grace", "{weak:?}");
    // The address is the invitation's, whatever the form says.
    let typed = [("name", "Grace"), ("email", "mallory@evil.test"), ("password", PASSWORD)];
    let accepted = send_invitation(&mut grace, &page, &typed).await;
    assert_eq!((accepted.status, accepted.header("location")), (303, "/console"), "{accepted:?}");
    assert!(grace.get("/console").await.body.contains("you are an admin"));
    assert_eq!(role(&owner, "grace@navy.test").await.as_deref(), Some("admin"));
    let user = account(&server, "grace@navy.test").await;
    assert_eq!((&user["name"], &user["email_verified"]), (&json!("Grace"), &json!(false)), "{user}");
    assert_eq!(account(&server, "mallory@evil.test").await, Value::Null);

    // It is used up, in this browser and elsewhere.
    assert_eq!(grace.get("/invitation").await.status, 404);
    assert!(!is_valid(&server, &link).await);
    assert_eq!(owner.read(INVITATIONS).await["items"], json!([]));
    let trail = owner.read("/api/organizations/acme/audit?limit=50").await;
    for action in ["invitation.created", "invitation.accepted", "administrator.added"] {
        let entries = trail["items"].as_array().expect("a list").iter();
        let found: Vec<&Value> = entries.filter(|entry| entry["action"] == action).collect();
        assert_eq!(found.len(), 1, "{action}: {trail}");
        assert_eq!(found[0]["target_name"], "grace@navy.test", "{action}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_account_with_the_invited_address_can_accept() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let link = owner.invite("owner@sarsen.test", "member").await;
    let before = roles(&owner).await;

    let mut other = server.browser();
    other.sign_in("platform", "admin@acme.test").await;
    let page = open_invitation(&mut other, &link).await;
    assert!(page.body.contains("You are signed in as") && !page.body.contains("<form"), "{page:?}");
    // A form that was shown before somebody else signed in.
    let shown = open_invitation(&mut server.browser(), &link).await.input("invitation");
    let csrf = other.get("/login?prompt=login").await.input("csrf");
    let refused = other.post("/invitation", &[("csrf", &*csrf), ("invitation", &shown)]).await;
    assert_eq!((refused.status, refused.header("location")), (303, "/invitation"), "{refused:?}");
    assert_eq!(roles(&owner).await, before, "another address gets nothing");

    // An account that exists is not created again, and its password stays.
    let taken = accept_as_new(&mut server.browser(), &link, PASSWORD).await;
    assert!(taken.status == 422 && taken.body.contains("Sign in to accept"), "{taken:?}");
    let mut invited = server.browser();
    assert_eq!(invited.sign_in_with("platform", "owner@sarsen.test", PASSWORD).await.status, 422);

    // Without a session, the form to accept leads to the sign-in and back.
    let page = open_invitation(&mut invited, &link).await;
    let asked = send_invitation(&mut invited, &page, &[]).await;
    assert_eq!(asked.header("location"), "/login?next=%2Finvitation", "{asked:?}");
    let sign_in = invited.get(asked.header("location")).await;
    let (csrf, next) = (sign_in.input("csrf"), sign_in.input("next"));
    let password = server.password("owner@sarsen.test");
    let fields = [("csrf", &*csrf), ("next", &next), ("email", "owner@sarsen.test"), ("password", password)];
    assert_eq!(invited.post("/login", &fields).await.header("location"), "/invitation");
    let page = invited.get("/invitation").await;
    // Another invitation that was opened in another tab is not accepted by this form.
    let another = owner.make(INVITATIONS, json!({ "email": "hedy@navy.test", "role": "owner" })).await;
    invited.get(&path_of(text(&another, "url"))).await;
    let mixed = send_invitation(&mut invited, &page, &[("password", PASSWORD)]).await;
    assert_eq!((mixed.status, mixed.header("location")), (303, "/invitation"), "{mixed:?}");
    assert_eq!(account(&server, "hedy@navy.test").await, Value::Null);
    let page = open_invitation(&mut invited, &link).await;
    let accepted = send_invitation(&mut invited, &page, &[]).await;
    assert_eq!((accepted.status, accepted.header("location")), (303, "/console"), "{accepted:?}");
    assert_eq!(role(&owner, "owner@sarsen.test").await.as_deref(), Some("member"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inviter_learns_nothing_about_the_account() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut shapes = BTreeSet::new();
    for email in ["owner@sarsen.test", "nobody@sarsen.test"] {
        let made = owner.make(INVITATIONS, json!({ "email": email, "role": "member" })).await;
        let names: Vec<String> = made.as_object().expect("an object").keys().cloned().collect();
        shapes.insert(names);
        assert!(!made.to_string().contains("Olga"), "{made}");
    }
    assert_eq!(shapes.len(), 1, "{shapes:?}");
    // Only who can list the administrators is told that somebody is one of them.
    let again = json!({ "email": "admin@acme.test", "role": "member" });
    assert_eq!(problem(&owner.call("POST", INVITATIONS, &again).await), is(409, "already_administrator"));
    let wrong = owner.call("POST", INVITATIONS, &json!({ "email": "x@y.test", "role": "root" })).await;
    assert_eq!(problem(&wrong), is(422, "invalid"));
    // The owner of a pending organization invites nobody.
    let stranger = Admin::sign_in(&server, "admin@acme.test", "platform").await;
    stranger.make("/api/organizations", json!({ "slug": "pending", "name": "Pending" })).await;
    let stranger = Admin::sign_in(&server, "admin@acme.test", "org:pending").await;
    let body = json!({ "email": "owner@sarsen.test", "role": "member" });
    let refused = stranger.call("POST", "/api/organizations/pending/invitations", &body).await;
    assert_eq!(problem(&refused), is(409, "organization_not_active"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_accept_at_once_one_wins() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let link = owner.invite("grace@navy.test", "owner").await;
    let mut browsers = Vec::new();
    for _ in 0..6 {
        let mut browser = server.browser();
        let page = open_invitation(&mut browser, &link).await;
        browsers.push((browser, page));
    }
    let answers = at_once(browsers.iter_mut().enumerate().map(async |(number, (browser, page))| {
        let password = format!("{PASSWORD} {number}");
        send_invitation(browser, page, &[("name", "Grace"), ("password", &password)]).await
    }))
    .await;
    let won: Vec<usize> = (0..answers.len()).filter(|number| answers[*number].status == 303).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| matches!(answer.status, 303 | 404)), "{answers:?}");
    // The winner's first: after as many wrong ones as there are others the account waits.
    for number in won.iter().copied().chain((0..answers.len()).filter(|number| !won.contains(number))) {
        let password = format!("{PASSWORD} {number}");
        let signed_in = server.browser().sign_in_with("platform", "grace@navy.test", &password).await;
        assert_eq!(signed_in.status == 303, won == [number], "the winner's password counts");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_ends_with_what_it_rests_on() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;

    let first = owner.invite("grace@navy.test", "member").await;
    let second = owner.invite("GRACE@navy.test", "admin").await;
    assert!(!is_valid(&server, &first).await, "a newer one for the same address replaces it");
    assert!(is_valid(&server, &second).await);

    let made = owner.make(INVITATIONS, json!({ "email": "hedy@navy.test", "role": "member" })).await;
    let mut hedy = server.browser();
    let page = open_invitation(&mut hedy, &path_of(text(&made, "url"))).await;
    let path = format!("{INVITATIONS}/{}", text(&made, "id"));
    owner.change("DELETE", &path, Value::Null).await;
    assert_eq!(problem(&owner.call("DELETE", &path, &Value::Null).await), is(404, "not_found"));
    let late = send_invitation(&mut hedy, &page, &[("name", "Hedy"), ("password", PASSWORD)]).await;
    assert_eq!(late.status, 404, "revoked while the page was open");
    assert_eq!(account(&server, "hedy@navy.test").await, Value::Null);

    // While the organization is suspended, and for as long as the inviter is no owner.
    let suspension = "/api/platform/organizations/acme/suspension";
    platform.change("PUT", suspension, json!({})).await;
    assert!(!is_valid(&server, &second).await);
    platform.change("DELETE", suspension, Value::Null).await;
    assert!(is_valid(&server, &second).await);
    let heir = owner.invite("heir@navy.test", "owner").await;
    let mut browser = server.browser();
    assert_eq!(accept_as_new(&mut browser, &heir, PASSWORD).await.status, 303);
    let ask = Ask::by("console", CONSOLE).with("scope", "org:acme");
    let heir =
        Admin { server: &server, token: tokens_of(&server, &mut browser, &ask).await.text("access_token") };
    let own = format!("/api/organizations/acme/administrators/{}", text(&claims(&owner.token), "sub"));
    heir.change("PATCH", &own, json!({ "role": "admin" })).await;
    assert!(!is_valid(&server, &second).await, "its inviter may invite nobody any more");
    heir.change("PATCH", &own, json!({ "role": "owner" })).await;
    assert!(is_valid(&server, &second).await);

    server.clock.advance(Duration::from_secs(7 * 24 * 3600));
    assert!(!is_valid(&server, &second).await, "a week later");
    server.clock.advance(Duration::from_secs(25 * 3600));
    assert!(server.tidy().await.expect("tidies"));
    let left = server.app.store.read(|snapshot| snapshot.all(&ADDRESSES, args![], |row| row.get(0)));
    let left: Vec<String> = left.await.map_err(|error: store::Error| error).expect("reads");
    assert!(left.is_empty(), "the addresses are deleted a day later: {left:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_has_a_hundred_open_invitations_at_most() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for number in 0..100 {
        owner.invite(&format!("user{number}@navy.test"), "member").await;
    }
    let one_more = json!({ "email": "grace@navy.test", "role": "member" });
    let refused = owner.call("POST", INVITATIONS, &one_more).await;
    assert_eq!(problem(&refused), is(409, "too_many_invitations"), "{refused:?}");
    owner.invite("user7@navy.test", "admin").await;
    server.stop().await;
}

/// Somebody registers an address that is not theirs, where sign-up is open.
async fn hijacker<'s>(server: &'s TestServer, email: &str) -> TestBrowser<'s> {
    open_sign_up(server, "platform").await;
    let mut browser = server.browser();
    let csrf = browser.get("/o/platform/signup").await.input("csrf");
    let fields =
        [("csrf", &*csrf), ("name", "Not The Boss"), ("email", email), ("password", "hijacker's own")];
    assert_eq!(browser.post("/o/platform/signup", &fields).await.status, 303);
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_a_stranger_registered_gets_no_role_and_no_proof() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut stranger = hijacker(&server, "boss@bigcorp.test").await;
    let link = owner.invite("boss@bigcorp.test", "owner").await;
    assert_eq!(role(&owner, "boss@bigcorp.test").await, None, "the stranger gets nothing without the link");
    assert!(!stranger.get("/console").await.body.contains("you are an"));
    // An administrator's link proves no address: the account stays the one of who knows its password.
    let mut boss = server.browser();
    let refused = accept_as_new(&mut boss, &link, PASSWORD).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(account(&server, "boss@bigcorp.test").await["email_verified"], false);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_a_stranger_at_their_address_accepts_with_the_help_of_an_owner_of_the_server() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let mut stranger = hijacker(&server, "boss@bigcorp.test").await;
    let link = owner.invite("boss@bigcorp.test", "owner").await;
    let mut boss = server.browser();
    let refused = accept_as_new(&mut boss, &link, PASSWORD).await;
    assert!(refused.status == 422 && refused.body.contains("ask an owner of this server"), "{refused:?}");

    let squatted = account(&server, "boss@bigcorp.test").await;
    let users = "/api/organizations/platform/users";
    let path = format!("{users}/{}/password-link", text(&squatted, "id"));
    let made = platform.make(&path, Value::Null).await;
    let page = open_link(&mut boss, &path_of(text(&made, "url"))).await;
    let (csrf, id) = (page.input("csrf"), page.input("link"));
    let fields = [("csrf", &*csrf), ("link", &*id), ("password", PASSWORD)];
    assert_eq!(boss.post("/password", &fields).await.status, 303);
    assert_eq!(accept(&mut boss, &link).await.status, 303, "the invitation is still good");
    assert_eq!(role(&owner, "boss@bigcorp.test").await.as_deref(), Some("owner"));
    assert!(stranger.get("/console").await.header("location").starts_with("/login"), "the session ended");
    let old = server.browser().sign_in_with("platform", "boss@bigcorp.test", "hijacker's own").await;
    assert_eq!(old.status, 422, "{old:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_platform_owners_link_proves_the_address_and_voids_what_was_set_before() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let mut stranger = hijacker(&server, "boss@bigcorp.test").await;
    let made = platform.make(OWNERS, json!({ "email": "boss@bigcorp.test" })).await;
    assert_eq!(made["role"], "platform_owner");
    let link = path_of(text(&made, "url"));

    // Even the session of the account cannot accept without a new password.
    let page = open_invitation(&mut stranger, &link).await;
    let refused = send_invitation(&mut stranger, &page, &[]).await;
    assert_eq!((refused.status, refused.header("location")), (303, "/invitation"));
    assert!(stranger.get("/invitation").await.body.contains("Set password and accept"));

    let mut boss = server.browser();
    assert_eq!(accept_as_new(&mut boss, &link, PASSWORD).await.status, 303);
    assert!(boss.get("/console").await.body.contains("an owner of this server"));
    let user = account(&server, "boss@bigcorp.test").await;
    assert_eq!((&user["name"], &user["email_verified"]), (&json!("Somebody New"), &json!(true)), "{user}");
    assert!(stranger.get("/console").await.header("location").starts_with("/login"), "the session ended");
    let with = async |password: &str| {
        server.browser().sign_in_with("platform", "boss@bigcorp.test", password).await.status
    };
    assert_eq!((with("hijacker's own").await, with(PASSWORD).await), (422, 303));
    let trail = Admin::sign_in(&server, "owner@sarsen.test", "org:platform").await;
    let trail = trail.read("/api/organizations/platform/audit?limit=50").await.to_string();
    for action in ["user.email_verified", "invitation.accepted", "platform.owner_added"] {
        assert!(trail.contains(action), "{action}: {trail}");
    }

    // A verified account keeps its password: it signs in to accept.
    let made = platform.make(OWNERS, json!({ "email": "admin@acme.test" })).await;
    let link = path_of(text(&made, "url"));
    let refused = accept_as_new(&mut server.browser(), &link, PASSWORD).await;
    assert!(refused.status == 422 && refused.body.contains("Sign in to accept"), "{refused:?}");
    let mut admin = server.browser();
    admin.sign_in("platform", "admin@acme.test").await;
    assert_eq!(accept(&mut admin, &link).await.status, 303);
    assert!(admin.get("/console").await.body.contains("an owner of this server"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_several_platform_owners_and_the_last_one_stays() {
    let server = TestServer::start().await;
    let first = Admin::sign_in(&server, "owner@sarsen.test", "platform org:platform").await;
    let own = format!("{OWNERS}/{}", text(&claims(&first.token), "sub"));
    let emails = async |caller: &Admin<'_>| {
        let listed = caller.read(OWNERS).await;
        let items = listed["items"].as_array().expect("a list").iter();
        items.map(|one| text(one, "email").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(emails(&first).await, ["owner@sarsen.test"]);
    let last = first.call("DELETE", &own, &Value::Null).await;
    assert_eq!(problem(&last), is(409, "last_owner"), "{last:?}");
    // Other roles at `platform` cannot be given to anybody.
    let body = json!({ "email": "x@sarsen.test", "role": "admin" });
    let refused = first.call("POST", "/api/organizations/platform/invitations", &body).await;
    assert_eq!(problem(&refused), is(409, "platform_owners_only"));
    // Nor changed or taken: there would be no way back.
    let role = format!("/api/organizations/platform/administrators/{}", text(&claims(&first.token), "sub"));
    for (method, body) in [("PATCH", json!({ "role": "member" })), ("DELETE", Value::Null)] {
        assert_eq!(
            problem(&first.call(method, &role, &body).await),
            is(409, "platform_owners_only"),
            "{method}"
        );
    }
    let again = first.call("POST", OWNERS, &json!({ "email": "owner@sarsen.test" })).await;
    assert_eq!(problem(&again), is(409, "already_administrator"));

    let made = first.make(OWNERS, json!({ "email": "second@sarsen.test" })).await;
    let listed = first.read("/api/organizations/platform/invitations").await;
    assert_eq!(listed["items"][0]["id"], made["id"]);
    let mut browser = server.browser();
    let link = path_of(text(&made, "url"));
    assert_eq!(accept_as_new(&mut browser, &link, PASSWORD).await.status, 303);
    let ask = Ask::by("console", CONSOLE).with("scope", "platform");
    let second =
        Admin { server: &server, token: tokens_of(&server, &mut browser, &ask).await.text("access_token") };
    // Ids of one millisecond have no order among them.
    let both = BTreeSet::from(["owner@sarsen.test".to_owned(), "second@sarsen.test".to_owned()]);
    assert_eq!(emails(&second).await.into_iter().collect::<BTreeSet<_>>(), both);
    second.make("/api/organizations", json!({ "slug": "globex", "name": "Globex" })).await;
    second.change("PUT", "/api/platform/organizations/acme/suspension", json!({})).await;

    // The first leaves: the second has all power, the first none.
    second.change("DELETE", &own, Value::Null).await;
    assert_eq!(emails(&second).await, ["second@sarsen.test"]);
    for (method, path) in
        [("GET", OWNERS), ("DELETE", "/api/platform/organizations/acme/suspension"), ("DELETE", &own)]
    {
        let answer = first.call(method, path, &Value::Null).await;
        assert_eq!(problem(&answer), is(403, "forbidden"), "{method} {path}: {answer:?}");
    }
    let gone = first.call("GET", "/api/organizations/platform", &Value::Null).await;
    assert_eq!(problem(&gone), is(404, "not_found"), "no role at platform either: {gone:?}");
    assert_eq!(problem(&second.call("DELETE", &own, &Value::Null).await), is(404, "not_found"));
    let own = format!("{OWNERS}/{}", text(&claims(&second.token), "sub"));
    assert_eq!(problem(&second.call("DELETE", &own, &Value::Null).await), is(409, "last_owner"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_platform_owners_who_remove_each_other_one_stays() {
    let server = TestServer::start().await;
    let first = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let made = first.make(OWNERS, json!({ "email": "second@sarsen.test" })).await;
    let mut browser = server.browser();
    accept_as_new(&mut browser, &path_of(text(&made, "url")), PASSWORD).await;
    let ask = Ask::by("console", CONSOLE).with("scope", "platform");
    let second =
        Admin { server: &server, token: tokens_of(&server, &mut browser, &ask).await.text("access_token") };
    let own = |caller: &Admin<'_>| format!("{OWNERS}/{}", text(&claims(&caller.token), "sub"));
    let (of_first, of_second) = (own(&first), own(&second));
    let (removed_second, removed_first) = tokio::join!(
        first.call("DELETE", &of_second, &Value::Null),
        second.call("DELETE", &of_first, &Value::Null),
    );
    let mut statuses = [removed_second.status, removed_first.status];
    statuses.sort_unstable();
    assert!(statuses[0] == 200 && matches!(statuses[1], 403 | 409), "{statuses:?}");
    server.stop().await;
}
