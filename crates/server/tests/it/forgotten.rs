//! A forgotten password: from the form to a new password, by a mailed code or link, and what others can do with either.

use crate::support::*;
use outgoing::{KeptMail, Mailbox, Refused, Relay, Step};
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer, at_once};
use std::time::Duration;
use store::{Sql, args, sql};

const ADA: &str = "ada@acme.test";
const NEW: &str = "unrelated words in a row";
const USERS: &str = "/api/organizations/acme/users";
const PATIENCE: Duration = Duration::from_secs(30);
static QUEUED: Sql = sql("SELECT COUNT(*) FROM live_effects");
static STATES: Sql = sql("SELECT state FROM mails ORDER BY id");

/// A server that keeps its mails in memory, and sends them by itself.
pub async fn server_with_mail() -> TestServer {
    let mail = |settings: &mut server::Settings| {
        settings.mail = Some(Relay::kept());
        settings.housekeeping = true;
    };
    TestServer::start_with(mail, |_| {}).await
}

pub fn mailbox(server: &TestServer) -> &Mailbox {
    server.app.relay().and_then(Relay::mailbox).expect("a mailbox")
}

/// Waits until everything that was asked for is decided and sent.
pub async fn settle(server: &TestServer) {
    let settled = async {
        loop {
            let queued =
                server.app.store.read(|snapshot| snapshot.one(&QUEUED, args![], |row| row.get::<i64>(0)));
            let queued: Result<_, store::Error> = queued.await;
            if queued.expect("reads") == Some(0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("all is sent");
}

async fn forget(browser: &mut TestBrowser<'_>, email: &str) -> Answer {
    let page = browser.get("/o/acme/forgot").await;
    assert_eq!(page.status, 200, "{page:?}");
    let fields = [("csrf", &*page.input("csrf")), ("next", &page.input("next")), ("email", email)];
    browser.post("/o/acme/forgot", &fields).await
}

pub async fn enter(browser: &mut TestBrowser<'_>, code: &str) -> Answer {
    let page = browser.get("/o/acme/code").await;
    let fields = [("csrf", &*page.input("csrf")), ("next", &page.input("next")), ("code", code)];
    browser.post("/o/acme/code", &fields).await
}

async fn set(browser: &mut TestBrowser<'_>, page: &Answer, password: &str) -> Answer {
    let (csrf, link, next) = (page.input("csrf"), page.input("link"), page.input("next"));
    let fields = [("csrf", &*csrf), ("link", &link), ("next", &next), ("password", password)];
    browser.post("/o/acme/reset", &fields).await
}

/// The code and the path of the link in a mail.
pub fn words(mail: &KeptMail) -> (String, String) {
    let lines = || mail.message.text.lines().map(str::trim);
    let code = lines()
        .find(|line| line.len() == 9 && line.bytes().all(|byte| byte == b' ' || byte.is_ascii_digit()));
    let link = lines().find(|line| line.starts_with("http")).expect("a link");
    (code.expect("a code").to_owned(), path_of(link))
}

/// Asks for a reset; the newest mail.
async fn mailed(server: &TestServer, browser: &mut TestBrowser<'_>, email: &str) -> (String, String) {
    assert_eq!(forget(browser, email).await.status, 303);
    settle(server).await;
    words(mailbox(server).sent_to(email).first().expect("a mail"))
}

async fn is_signed_in(browser: &mut TestBrowser<'_>) -> bool {
    browser.get("/o/acme/account").await.status == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn three_forms_lead_from_a_forgotten_password_to_a_session() {
    let server = server_with_mail().await;
    let mut elsewhere = server.browser();
    assert_eq!(elsewhere.sign_in("acme", ADA).await.status, 303);
    let mut browser = server.browser();
    let sign_in = browser.get("/o/acme/login").await;
    assert!(sign_in.body.contains("href=\"/o/acme/forgot?next="), "{sign_in:?}");

    let asked = forget(&mut browser, " Ada@Acme.test ").await;
    assert_eq!((asked.status, asked.header("location")), (303, "/o/acme/code?next=%2Fo%2Facme%2Faccount"));
    settle(&server).await;
    let mails = mailbox(&server).sent_to(ADA);
    assert_eq!(mails.len(), 1);
    let mail = &mails[0].message;
    assert!(mail.subject.contains("new password"), "{}", mail.subject);
    let html = mail.html.as_deref().expect("HTML");
    for part in [mail.text.as_str(), html] {
        assert!(!part.contains("Ada"), "no text of who asked");
        let addresses: Vec<&str> = part.split("http").skip(1).collect();
        assert!(
            addresses.iter().all(|rest| rest.starts_with("://127.0.0.1:7070/o/acme/link?token=link_")),
            "{part}"
        );
    }
    let (code, link) = words(&mails[0]);

    server.clock.advance(Duration::from_secs(60));
    let entered = enter(&mut browser, &code).await;
    assert_eq!(
        (entered.status, entered.header("location")),
        (303, "/o/acme/reset?next=%2Fo%2Facme%2Faccount")
    );
    let page = browser.get(entered.header("location")).await;
    assert!(page.body.contains(ADA), "{page:?}");
    let before = browser.cookies.clone();
    assert_eq!(set(&mut browser, &page, "short").await.status, 422);
    let done = set(&mut browser, &page, NEW).await;
    assert_eq!((done.status, done.header("location")), (303, "/o/acme/account"), "{done:?}");
    assert!(is_signed_in(&mut browser).await);
    let after = std::mem::replace(&mut browser.cookies, before);
    let twice = set(&mut browser, &page, NEW).await;
    assert_eq!(
        (twice.status, twice.header("location")),
        (303, "/o/acme/account"),
        "a second click: {twice:?}"
    );
    browser.cookies = after;

    assert!(!is_signed_in(&mut elsewhere).await, "the other sessions end");
    let old = server.password(ADA).to_owned();
    assert_eq!(server.browser().sign_in_with("acme", ADA, &old).await.status, 422);
    assert_eq!(server.browser().sign_in_with("acme", ADA, NEW).await.status, 303);
    assert_eq!(server.browser().get(&link).await.status, 404, "the link of the same mail is used up");
    settle(&server).await;
    let told = mailbox(&server).sent_to(ADA);
    assert!(
        told.len() == 2 && told[0].message.subject.contains("was changed"),
        "{}",
        told[0].message.subject
    );

    let ask = Ask::of(&server, "spa").with("scope", "openid");
    let tokens = tokens_of(&server, &mut browser, &ask).await;
    let claims = claims(&tokens.text("id_token"));
    assert_eq!((&claims["amr"], &claims["acr"]), (&json!(["email"]), &json!("1")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailed_link_works_in_any_browser_once_and_only_by_its_form() {
    let server = server_with_mail().await;
    let (_, link) = mailed(&server, &mut server.browser(), ADA).await;
    let secret = link.split_once('.').expect("a secret").1.to_owned();
    for method in ["HEAD", "GET", "GET"] {
        let opened = server.request(method, &link).send().await;
        assert_eq!(
            (opened.status, opened.header("location")),
            (303, "/o/acme/reset"),
            "{method}: {opened:?}"
        );
    }
    let mut browser = server.browser();
    let opened = browser.get(&link).await;
    let page = browser.get(opened.header("location")).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(!page.body.contains(&secret), "the page does not contain the secret");
    assert!(!browser.cookies.header().expect("cookies").contains(&secret), "the cookie is sealed");
    let fields =
        |csrf: &str| [("csrf", csrf.to_owned()), ("link", page.input("link")), ("password", NEW.to_owned())];
    let forged = fields("x");
    let forged: Vec<(&str, &str)> = forged.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(browser.post("/o/acme/reset", &forged).await.status, 403);
    let mut stranger = server.browser();
    let csrf = stranger.get("/o/acme/login").await.input("csrf");
    let stolen = fields(&csrf);
    let stolen: Vec<(&str, &str)> = stolen.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(stranger.post("/o/acme/reset", &stolen).await.status, 404, "the link's id is no secret");

    assert_eq!(
        server.browser().get(&link.replace("/acme/", "/platform/")).await.status,
        404,
        "another organization"
    );
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(set(&mut browser, &page, NEW).await.status, 303);
    assert!(is_signed_in(&mut browser).await);
    assert_eq!(server.browser().get(&link).await.status, 404, "it works once");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_opened_by_two_sets_one_password() {
    let server = server_with_mail().await;
    let mut asking = server.browser();
    let (code, link) = mailed(&server, &mut asking, ADA).await;
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(enter(&mut asking, &code).await.status, 303);
    let by_code = asking.get("/o/acme/reset").await;
    let mut other = server.browser();
    other.get(&link).await;
    let by_link = other.get("/o/acme/reset").await;
    assert_eq!(by_code.input("link"), by_link.input("link"), "one mail");
    let answers = at_once([
        Box::pin(set(&mut asking, &by_code, "the words of the one browser"))
            as std::pin::Pin<Box<dyn Future<Output = Answer>>>,
        Box::pin(set(&mut other, &by_link, "the words of the other browser")),
    ])
    .await;
    assert!(answers.iter().all(|answer| answer.status == 303), "both end at the account: {answers:?}");
    let signed_in = [is_signed_in(&mut asking).await, is_signed_in(&mut other).await];
    assert_eq!(signed_in.iter().filter(|signed_in| **signed_in).count(), 1, "{answers:?}");
    server.stop().await;
}

/// An answer without what is random in it, or the browser's own.
fn shape(answer: &Answer, email: &str) -> String {
    let headers = answer
        .headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "date" | "x-request-id" | "set-cookie"));
    let headers: Vec<String> = headers.map(|(name, value)| format!("{name}: {value}")).collect();
    let csrf = if answer.body.contains("name=\"csrf\"") { answer.input("csrf") } else { "-".to_owned() };
    let body = answer.body.replace(&csrf, "CSRF").replace(email, "ADDRESS");
    format!("{} {headers:?} {body}", answer.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_form_tells_who_has_an_account() {
    let server = server_with_mail().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    admin.make(USERS, json!({ "email": "bar@acme.test" })).await;
    let gone = admin.make(USERS, json!({ "email": "gon@acme.test" })).await;
    let suspension = format!("{USERS}/{}/suspension", text(&gone, "id"));
    admin.change("PUT", &suspension, json!({ "reason": "a test" })).await;
    // Without a password, suspended, unknown; of one length, which the page has.
    let emails = [ADA, "nob@acme.test", "gon@acme.test", "bar@acme.test"];
    let mut shapes: Vec<Vec<String>> = Vec::new();
    for email in emails {
        let mut browser = server.browser();
        let mut answers = vec![forget(&mut browser, email).await];
        settle(&server).await;
        answers.push(browser.get("/o/acme/code").await);
        for _ in 0..6 {
            answers.push(enter(&mut browser, "00000000").await);
        }
        answers.push(browser.get("/o/acme/reset").await);
        shapes.push(answers.iter().map(|answer| shape(answer, email)).collect());
    }
    for (email, shape) in emails.iter().zip(&shapes) {
        assert_eq!(*shape, shapes[0], "{email}");
    }
    let sent = |email: &str| mailbox(&server).sent_to(email).len();
    assert_eq!(emails.map(sent), [1, 0, 0, 1], "only a mailbox of an account learns it");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_worth_nothing_elsewhere_later_or_after_five_tries() {
    let server = server_with_mail().await;
    let mut browser = server.browser();
    let (code, _) = mailed(&server, &mut browser, ADA).await;
    let mut thief = server.browser();
    assert_eq!(forget(&mut thief, "nobody@acme.test").await.status, 303);
    assert_eq!(enter(&mut thief, &code).await.status, 422, "another browser, with a request of its own");
    let mut bare = server.browser();
    assert_eq!(bare.get("/o/acme/code").await.status, 404, "without one");
    assert_eq!(enter(&mut browser, "1234").await.status, 422, "is no code, and no try");
    for _ in 0..5 {
        assert_eq!(enter(&mut browser, "00000000").await.status, 422);
    }
    let ended = enter(&mut browser, &code).await;
    assert!(ended.status == 422 && ended.body.contains("does not work any more"), "{ended:?}");
    assert_eq!(browser.get("/o/acme/reset").await.status, 404);

    let (code, link) = mailed(&server, &mut browser, ADA).await;
    server.clock.advance(Duration::from_secs(9 * 60));
    let mut other = server.browser();
    assert_eq!(other.get(&link).await.status, 303, "nine minutes later, in another browser");
    let page = other.get("/o/acme/reset").await;
    server.clock.advance(Duration::from_secs(60));
    assert_eq!(enter(&mut browser, &code).await.status, 422, "ten minutes later");
    assert_eq!(set(&mut other, &page, NEW).await.status, 404);
    assert_eq!(server.browser().get(&link).await.status, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mails_and_links_of_a_suspended_or_deleted_user_stop() {
    let server = server_with_mail().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let ada = admin.read(&format!("{USERS}?email={ADA}")).await;
    let ada = format!("{USERS}/{}", text(&ada["items"][0], "id"));
    let (_, link) = mailed(&server, &mut server.browser(), ADA).await;
    // The relay is away, so the next mail waits.
    mailbox(&server).refuse(Some(Refused::new(Step::Connect, None, None)));
    assert_eq!(forget(&mut server.browser(), ADA).await.status, 303);
    admin.change("PUT", &format!("{ada}/suspension"), json!({ "reason": "a test" })).await;
    assert_eq!(server.browser().get(&link).await.status, 404, "suspended");
    mailbox(&server).refuse(None);
    server.clock.advance(Duration::from_secs(120));
    settle(&server).await;
    assert_eq!(mailbox(&server).sent_to(ADA).len(), 1, "only the first");

    assert_eq!(admin.call("DELETE", &format!("{ada}/suspension"), &Value::Null).await.status, 204);
    assert_eq!(server.browser().get(&link).await.status, 303);
    admin.change("DELETE", &ada, Value::Null).await;
    assert_eq!(server.browser().get(&link).await.status, 404, "deleted");
    let states = server.app.store.read(|snapshot| snapshot.all(&STATES, args![], |row| row.get::<String>(0)));
    let states: Result<Vec<String>, store::Error> = states.await;
    assert!(states.expect("reads").is_empty(), "nothing of the user is kept");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_the_relay_refuses_for_good_is_not_tried_again() {
    let server = server_with_mail().await;
    mailbox(&server).refuse(Some(Refused::new(Step::RcptTo, Some(550), Some("5.1.1"))));
    assert_eq!(forget(&mut server.browser(), ADA).await.status, 303);
    settle(&server).await;
    let states = server.app.store.read(|snapshot| snapshot.all(&STATES, args![], |row| row.get::<String>(0)));
    let states: Result<Vec<String>, store::Error> = states.await;
    assert_eq!(states.expect("reads"), ["refused"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_network_asks_for_so_many_mails() {
    let server = server_with_mail().await;
    let mut browser = server.browser();
    let mut sent = 0;
    let refused = loop {
        let answer = forget(&mut browser, "nobody@acme.test").await;
        if answer.status != 303 {
            break answer;
        }
        sent += 1;
    };
    assert_eq!((sent, refused.status), (64, 429), "{refused:?}");
    assert!(!refused.header("retry-after").is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mail_the_page_says_whom_to_ask() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    let sign_in = browser.get("/o/acme/login").await;
    assert!(!sign_in.body.contains("/forgot"), "{sign_in:?}");
    let page = browser.get("/o/acme/forgot").await;
    assert!(page.status == 404 && page.body.contains("Ask an administrator"), "{page:?}");
    let sent = browser.post("/o/acme/forgot", &[("csrf", &*sign_in.input("csrf")), ("email", ADA)]).await;
    assert_eq!(sent.status, 404);
    server.stop().await;
}
