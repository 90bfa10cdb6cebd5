//! The confirmation of an address: by the code or the link of a mail, what it voids and what it leaves, and when it is void.

use crate::forgotten::{enter, mailbox, server_with_mail, settle, words};
use crate::support::*;
use identity::ids::UserId;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer, at_once};
use std::pin::Pin;
use store::{Sql, args, sql};

const BOB: &str = "bob@acme.test";
const PASSWORD: &str = "unrelated words in a row";
const USERS: &str = "/api/organizations/acme/users";
const ACCOUNT: &str = "/o/acme/account";
const ASK: &str = "/o/acme/verify";
const CONFIRM: &str = "/o/acme/confirm";
const BUTTON: &str = "action=\"/o/acme/verify\"";
static MOVE: Sql = sql("UPDATE users SET email = ?2 WHERE id = ?1");

/// Somebody makes an account with this address.
async fn sign_up(browser: &mut TestBrowser<'_>, email: &str) {
    let csrf = browser.get("/o/acme/signup").await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", email), ("name", "Bob"), ("password", PASSWORD)];
    assert_eq!(browser.post("/o/acme/signup", &fields).await.status, 303);
}

async fn ask(browser: &mut TestBrowser<'_>) -> Answer {
    let csrf = browser.get(ACCOUNT).await.input("csrf");
    browser.post(ASK, &[("csrf", &csrf)]).await
}

/// Asks for a mail; its code and its link.
async fn mailed(server: &TestServer, browser: &mut TestBrowser<'_>, email: &str) -> (String, String) {
    let asked = ask(browser).await;
    assert_eq!((asked.status, asked.header("location")), (303, "/o/acme/code?next=%2Fo%2Facme%2Faccount"));
    settle(server).await;
    words(mailbox(server).sent_to(email).first().expect("a mail"))
}

/// Opens the link; the page with the button.
async fn open(browser: &mut TestBrowser<'_>, link: &str) -> Answer {
    let opened = browser.get(link).await;
    assert_eq!((opened.status, opened.header("location")), (303, CONFIRM), "{opened:?}");
    browser.get(CONFIRM).await
}

async fn confirm(browser: &mut TestBrowser<'_>, page: &Answer) -> Answer {
    let (csrf, link, old) = (page.input("csrf"), page.input("link"), page.input("old_password"));
    browser.post(CONFIRM, &[("csrf", &csrf), ("link", &link), ("old_password", &old)]).await
}

async fn user(admin: &Admin<'_>, email: &str) -> Value {
    admin.read(&format!("{USERS}?email={email}")).await["items"][0].clone()
}

async fn confirmations(admin: &Admin<'_>) -> Vec<Value> {
    let trail = admin.read("/api/organizations/acme/audit?action=user.email_verified").await;
    trail["items"].as_array().expect("a list").clone()
}

async fn is_signed_in(browser: &mut TestBrowser<'_>) -> bool {
    browser.get(ACCOUNT).await.status == 200
}

async fn knows_password(server: &TestServer, email: &str) -> bool {
    server.browser().sign_in_with("acme", email, PASSWORD).await.status == 303
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_signed_in_confirms_by_the_code_and_keeps_the_password() {
    let server = server_with_mail().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let (mut browser, mut elsewhere) = (server.browser(), server.browser());
    sign_up(&mut browser, BOB).await;
    assert_eq!(elsewhere.sign_in_with("acme", BOB, PASSWORD).await.status, 303);
    let page = browser.get(ACCOUNT).await;
    assert!(page.body.contains("not confirmed") && page.body.contains(BUTTON), "{page:?}");

    let (code, link) = mailed(&server, &mut browser, BOB).await;
    let mail = &mailbox(&server).sent_to(BOB)[0].message;
    assert!(mail.subject.contains("Confirm your address") && mail.text.contains("voids the password"));
    let page = browser.get("/o/acme/code").await;
    let again = format!("href=\"{ACCOUNT}\"");
    assert!(page.body.contains(BOB) && page.body.contains(&again), "{page:?}");
    assert_eq!(elsewhere.get("/o/acme/code").await.status, 404, "only where it was asked for");
    assert_eq!(enter(&mut browser, "00000000").await.status, 422);
    assert_eq!(user(&admin, BOB).await["email_verified"], false);

    let before = browser.cookies.clone();
    let entered = enter(&mut browser, &code).await;
    assert_eq!((entered.status, entered.header("location")), (303, ACCOUNT), "{entered:?}");
    let after = std::mem::replace(&mut browser.cookies, before);
    let twice = enter(&mut browser, &code).await;
    assert_eq!((twice.status, twice.header("location")), (303, ACCOUNT), "a second click: {twice:?}");
    browser.cookies = after;
    let page = browser.get(ACCOUNT).await;
    assert!(page.body.contains("Your address is confirmed"), "{page:?}");
    assert!(!page.body.contains("not confirmed") && !page.body.contains(BUTTON), "{page:?}");
    assert!(!is_signed_in(&mut elsewhere).await, "the other sessions end");
    assert!(knows_password(&server, BOB).await);

    let bob = user(&admin, BOB).await;
    assert_eq!(bob["email_verified"], true);
    let noted = confirmations(&admin).await;
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!((&noted[0]["actor"], &noted[0]["target"]), (&bob["id"], &bob["id"]), "{noted:?}");
    assert_eq!(server.browser().get(&link).await.status, 404, "the link of the same mail is used up");
    let more = browser.post(ASK, &[("csrf", &page.input("csrf"))]).await;
    assert_eq!((more.status, more.header("location")), (303, ACCOUNT), "there is nothing to confirm");
    settle(&server).await;
    assert_eq!(mailbox(&server).sent_to(BOB).len(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_elsewhere_voids_what_somebody_set_with_the_address_of_another() {
    let server = server_with_mail().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut thief = server.browser();
    sign_up(&mut thief, BOB).await;
    let (_, link) = mailed(&server, &mut thief, BOB).await;
    let secret = link.split_once('.').expect("a secret").1.to_owned();
    for method in ["HEAD", "GET", "GET"] {
        let opened = server.request(method, &link).send().await;
        assert_eq!((opened.status, opened.header("location")), (303, CONFIRM), "{method}: {opened:?}");
    }
    let mut owner = server.browser();
    let page = open(&mut owner, &link).await;
    assert!(page.body.contains("Its password is void") && page.body.contains(BOB), "{page:?}");
    assert!(!page.body.contains(&secret), "the page does not contain the secret");
    assert!(!owner.cookies.header().expect("cookies").contains(&secret), "the cookie is sealed");
    assert_eq!(user(&admin, BOB).await["email_verified"], false, "opening it does nothing");
    assert!(is_signed_in(&mut thief).await);

    let (id, old) = (page.input("link"), page.input("old_password"));
    let forged = owner.post(CONFIRM, &[("csrf", "x"), ("link", &id), ("old_password", &old)]).await;
    assert_eq!(forged.status, 403);
    let mut stranger = server.browser();
    let csrf = stranger.get("/o/acme/login").await.input("csrf");
    let stolen = stranger.post(CONFIRM, &[("csrf", &csrf), ("link", &id), ("old_password", &old)]).await;
    assert_eq!(stolen.status, 404, "the link's id is no secret");
    let foreign = link.replace("/acme/", "/platform/");
    assert_eq!(server.browser().get(&foreign).await.status, 404, "another organization");

    let before = owner.cookies.clone();
    for click in ["first", "second"] {
        owner.cookies = before.clone();
        let done = confirm(&mut owner, &page).await;
        assert_eq!((done.status, done.header("location")), (303, "/o/acme/login"), "{click}: {done:?}");
    }
    let page = owner.get("/o/acme/login").await;
    assert!(page.body.contains("The address is confirmed"), "{page:?}");
    assert!(!is_signed_in(&mut owner).await, "it signs nobody in");
    assert!(
        !is_signed_in(&mut thief).await && !knows_password(&server, BOB).await,
        "what was set before is void"
    );
    assert_eq!(user(&admin, BOB).await["email_verified"], true);
    assert_eq!(confirmations(&admin).await.len(), 1);
    assert_eq!(server.browser().get(&link).await.status, 404, "it works once");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_does_what_its_page_said() {
    let server = server_with_mail().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut asking = server.browser();
    sign_up(&mut asking, BOB).await;
    let (_, link) = mailed(&server, &mut asking, BOB).await;
    let mut browser = server.browser();
    let said_void = open(&mut browser, &link).await;
    assert_eq!(browser.sign_in_with("acme", BOB, PASSWORD).await.status, 303);
    let sent = confirm(&mut browser, &said_void).await;
    assert_eq!((sent.status, sent.header("location")), (303, CONFIRM), "signed in since");
    let said_kept = browser.get(CONFIRM).await;
    assert!(said_kept.body.contains("Your password stays"), "{said_kept:?}");
    let session = browser.cookies.clone();
    let csrf = said_kept.input("csrf");
    assert_eq!(browser.post("/o/acme/logout", &[("csrf", &csrf)]).await.status, 303);
    let sent = confirm(&mut browser, &said_kept).await;
    assert_eq!((sent.status, sent.header("location")), (303, CONFIRM), "signed out since");
    browser.cookies = session;
    assert_eq!(confirm(&mut browser, &said_kept).await.header("location"), CONFIRM, "the session is over");
    assert_eq!(user(&admin, BOB).await["email_verified"], false, "nothing has happened");

    let page = open(&mut asking, &link).await;
    let done = confirm(&mut asking, &page).await;
    assert_eq!((done.status, done.header("location")), (303, ACCOUNT), "{done:?}");
    assert!(is_signed_in(&mut asking).await && knows_password(&server, BOB).await);
    assert_eq!(user(&admin, BOB).await["email_verified"], true);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_code_and_the_link_of_one_mail_one_confirms() {
    let server = server_with_mail().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut asking = server.browser();
    sign_up(&mut asking, BOB).await;
    let (code, link) = mailed(&server, &mut asking, BOB).await;
    let mut other = server.browser();
    let page = open(&mut other, &link).await;
    let answers = at_once([
        Box::pin(enter(&mut asking, &code)) as Pin<Box<dyn Future<Output = Answer>>>,
        Box::pin(confirm(&mut other, &page)),
    ])
    .await;
    assert!(answers.iter().all(|answer| answer.status == 303), "{answers:?}");
    assert_eq!(confirmations(&admin).await.len(), 1, "{answers:?}");
    assert_eq!(
        is_signed_in(&mut asking).await,
        knows_password(&server, BOB).await,
        "all is kept, or all is void"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_waits_for_the_session_of_who_asked() {
    let server = server_with_mail().await;
    let mut browser = server.browser();
    sign_up(&mut browser, BOB).await;
    let (code, _) = mailed(&server, &mut browser, BOB).await;
    let csrf = browser.get(ACCOUNT).await.input("csrf");
    assert_eq!(browser.post("/o/acme/logout", &[("csrf", &csrf)]).await.status, 303);
    let entered = enter(&mut browser, &code).await;
    let to_sign_in = "/o/acme/login?prompt=select_account&next=%2Fo%2Facme%2Fcode";
    assert!(entered.status == 303 && entered.header("location").starts_with(to_sign_in), "{entered:?}");
    // Of another user who is signed in there.
    assert_eq!(browser.sign_in("acme", "ada@acme.test").await.status, 303);
    assert!(enter(&mut browser, &code).await.header("location").starts_with(to_sign_in));
    assert_eq!(browser.sign_in_with("acme", BOB, PASSWORD).await.status, 303);
    assert_eq!(enter(&mut browser, &code).await.header("location"), ACCOUNT);
    let page = browser.get(ACCOUNT).await;
    assert!(page.body.contains("Your address is confirmed") && !page.body.contains(BUTTON), "{page:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_is_void_for_who_was_suspended_or_deleted_or_has_another_address() {
    let server = server_with_mail().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for what in ["suspended", "deleted", "another address"] {
        let email = format!("{}@acme.test", what.replace(' ', "."));
        let mut browser = server.browser();
        sign_up(&mut browser, &email).await;
        let (code, link) = mailed(&server, &mut browser, &email).await;
        let mut other = server.browser();
        let page = open(&mut other, &link).await;
        let bob = user(&admin, &email).await;
        let bob = text(&bob, "id");
        let id = format!("{USERS}/{bob}");
        match what {
            "suspended" => {
                let reason = json!({ "reason": "a test" });
                admin.change("PUT", &format!("{id}/suspension"), reason).await;
            }
            "deleted" => drop(admin.change("DELETE", &id, Value::Null).await),
            _ => {
                let bob = UserId::parse(bob).expect("an id");
                let moved = server.app.store.write("test.move", move |tx| {
                    tx.exec(&MOVE, args![&bob, "moved@acme.test"])?;
                    identity::users::keys(&bob).into_iter().for_each(|key| tx.changed(key));
                    Ok::<_, store::Error>(())
                });
                moved.await.expect("moves");
            }
        }
        assert_eq!(confirm(&mut other, &page).await.status, 404, "{what}");
        assert_eq!(server.browser().get(&link).await.status, 404, "{what}");
        let entered = enter(&mut browser, &code).await;
        assert_eq!(entered.status, 404, "{what}: {entered:?}");
    }
    assert_eq!(confirmations(&admin).await, [Value::Null; 0]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_signed_in_user_asks_and_so_often() {
    let server = server_with_mail().await;
    let mut browser = server.browser();
    sign_up(&mut browser, BOB).await;
    assert_eq!(browser.post(ASK, &[]).await.status, 403);
    let mut nobody = server.browser();
    let csrf = nobody.get("/o/acme/login").await.input("csrf");
    let asked = nobody.post(ASK, &[("csrf", &csrf)]).await;
    assert_eq!((asked.status, asked.header("location")), (303, "/o/acme/login?next=%2Fo%2Facme%2Faccount"));
    let mut asked = 0;
    let refused = loop {
        let answer = ask(&mut browser).await;
        if answer.status != 303 {
            break answer;
        }
        asked += 1;
    };
    assert_eq!((asked, refused.status), (64, 429), "{refused:?}");
    assert!(!refused.header("retry-after").is_empty() && refused.body.contains(ACCOUNT), "{refused:?}");
    settle(&server).await;
    assert_eq!(mailbox(&server).sent_to(BOB).len(), 5, "one address gets few of them");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mail_nothing_is_asked() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    sign_up(&mut browser, BOB).await;
    let page = browser.get(ACCOUNT).await;
    assert!(page.status == 200 && !page.body.contains(BUTTON), "{page:?}");
    let asked = browser.post(ASK, &[("csrf", &page.input("csrf"))]).await;
    assert_eq!((asked.status, asked.header("location")), (303, ACCOUNT));
    assert_eq!(browser.get("/o/acme/code").await.status, 404);
    server.stop().await;
}
