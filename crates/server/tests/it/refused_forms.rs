//! Forms that are refused because the page was open for too long: the link of the error page leads to the same question.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestBrowser, TestServer};

/// Opens a page, and what it redirects to.
async fn follow(browser: &mut TestBrowser<'_>, path: &str) -> Answer {
    let mut answer = browser.get(path).await;
    while answer.status == 303 && answer.header("location").starts_with('/') {
        let next = answer.header("location").to_owned();
        answer = browser.get(&next).await;
    }
    answer
}

/// The link of an error page that is the answer to `path`.
fn link(answer: &Answer, path: &str) -> String {
    let (_, rest) = answer.body.split_once("<a class=\"button full\" href=\"").expect("a link");
    let (href, _) = rest.split_once('"').expect("its end");
    if href.is_empty() { path.to_owned() } else { href.replace("&amp;", "&") }
}

/// Title and fields of the form that is sent to `action`.
fn question(page: &Answer, action: &str) -> (String, Vec<(String, String)>) {
    let forms = browser::forms(&page.body);
    let form = forms.into_iter().find(|form| form.action == action);
    let form = form.unwrap_or_else(|| panic!("no form to {action}: {page:?}"));
    let fields = form.fields.into_iter().filter(|field| field.name != "csrf");
    let (_, title) = page.body.split_once("<h1>").expect("a title");
    let title = title.split("</h1>").next().unwrap_or_default().to_owned();
    (title, fields.map(|field| (field.name, without_note(&field.value))).collect())
}

/// A value without our own note about when a request came first.
fn without_note(value: &str) -> String {
    value.split("&sarsen_asked").next().unwrap_or_default().to_owned()
}

/// Sends the form to `action` of the page at `path` with a wrong token, and follows the link of the error page.
async fn refused(browser: &mut TestBrowser<'_>, path: &str, action: &str, typed: &[(&str, &str)]) {
    let page = follow(browser, path).await;
    let before = question(&page, action);
    let hidden = before.1.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields: Vec<(&str, &str)> = hidden
        .filter(|(name, _)| !typed.iter().any(|(other, _)| other == name))
        .chain(typed.iter().copied())
        .chain([("csrf", "of-another-time")])
        .collect();
    let answer = browser.post(action, &fields).await;
    assert_eq!(answer.status, 403, "{answer:?}");
    let again = follow(browser, &link(&answer, action)).await;
    assert_eq!(question(&again, action), before, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_was_open_for_too_long_leads_back_to_its_question() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let user = admin.make("/api/organizations/acme/users", json!({ "email": "new@acme.test" })).await;
    let user = format!("/api/organizations/acme/users/{}", text(&user, "id"));
    let made =
        async |what: &str| path_of(text(&admin.make(&format!("{user}/{what}"), Value::Null).await, "url"));
    let invitation = admin.invite("owner@sarsen.test", "admin").await;
    let asked = Ask::of(&server, "spa");
    let consent = asked.clone().with("prompt", "consent").path();
    let hint = tokens(&server, "grace@acme.test", "openid").await.text("id_token");
    let sign_out = form_urlencoded::Serializer::new(String::new())
        .append_pair("id_token_hint", &hint)
        .append_pair("post_logout_redirect_uri", CALLBACK)
        .append_pair("state", "a&b")
        .finish();
    let code = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    let code = format!("/activate?user_code={}", code.text("user_code"));

    let mut rows = Rows::new();
    let somebody = [("email", "x@acme.test"), ("password", "correct horse")];
    let sign_up = format!("/o/acme/signup?next={}", encoded(&asked.path()));
    let away = "/o/acme/logout?next=%2Fo%2Facme%2Flogin";
    for (signs_in, path, action, typed) in [
        (false, asked.path(), "/o/acme/login", &somebody[..]),
        (false, "/login?next=%2Finvitation".to_owned(), "/login", &somebody),
        (false, sign_up, "/o/acme/signup", &somebody),
        (false, made("sign-in-link").await, "/o/acme/link", &[]),
        (false, made("password-link").await, "/password", &[("password", "correct horse")]),
        (false, invitation, "/invitation", &[("name", "x"), ("password", "correct horse")]),
        (false, "/activate".to_owned(), "/activate", &[("user_code", "BCDF-GHJK")]),
        (false, code, "/activate", &[]),
        (true, consent, "/consent", &[("decision", "allow")]),
        (true, format!("/auth/logout?{sign_out}"), "/auth/logout", &[]),
        (true, "/auth/logout?post_logout_redirect_uri=x".to_owned(), "/auth/logout", &[]),
        (true, away.to_owned(), "/o/acme/logout", &[]),
        (true, "/o/acme/account".to_owned(), "/o/acme/account/sessions", &[("end", "others")]),
        (true, "/o/acme/account/password".to_owned(), "/o/acme/account/password", &[]),
    ] {
        let row = async {
            let mut browser = server.browser();
            if signs_in {
                browser.sign_in("acme", "ada@acme.test").await;
            }
            refused(&mut browser, &path, action, typed).await;
            assert_eq!(browser.get("/o/acme/account").await.status, if signs_in { 200 } else { 303 });
        };
        rows.row(format!("{action} at {path}"), row).await;
    }
    // The button of the account page leads to the question whether to sign out.
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let answer = ada.post("/o/acme/logout", &[("csrf", "x")]).await;
    let again = follow(&mut ada, &link(&answer, "/o/acme/logout")).await;
    assert_eq!(question(&again, "/o/acme/logout").0, "Sign out?");
    server.stop().await;

    let empty = TestServer::start_empty().await;
    let url = server::first_start::link(&empty.app).await.expect("asks").expect("no owner yet");
    let typed = [("email", "o@sarsen.test"), ("name", "Olga"), ("password", "correct horse")];
    refused(&mut empty.browser(), &path_of(&url), "/setup", &typed).await;
    empty.stop().await;
}

/// A user on the way to a product makes mistakes, and changes between the forms.
#[tokio::test(flavor = "multi_thread")]
async fn the_way_to_a_product_survives_errors_and_the_change_of_forms() {
    let server = TestServer::start().await;
    let ask = Ask::of(&server, "spa");
    let mut browser = server.browser();
    let form_of =
        |page: &Answer| browser::forms(&page.body).into_iter().find(|form| form.is_post).expect("a form");
    let link_to = |page: &Answer, path: &str| {
        let (_, rest) = page.body.split_once(&format!("href=\"{path}?")).expect("a link");
        format!("{path}?{}", rest.split('"').next().unwrap_or_default().replace("&amp;", "&"))
    };
    let asked = browser.get(&ask.path()).await;
    let mut page = browser.get(asked.header("location")).await;
    for path in ["/o/acme/login", "/o/acme/signup", "/o/acme/login"] {
        let action = form_of(&page).action;
        assert_eq!(action, path);
        let (csrf, next) = (page.input("csrf"), page.input("next"));
        let fields =
            [("csrf", &*csrf), ("next", &next), ("email", "nobody"), ("password", "wrong horse battery")];
        let wrong = browser.post(&action, &fields).await;
        assert_eq!(wrong.status, 422, "{wrong:?}");
        assert_eq!(wrong.input("next"), next);
        let other = if path == "/o/acme/login" { "/o/acme/signup" } else { "/o/acme/login" };
        page = browser.get(&link_to(&wrong, other)).await;
        assert_eq!(page.input("next"), next, "changed to {other}");
    }
    let sign_in = link_to(&page, "/o/acme/login");
    let page = browser.get(&sign_in).await;
    let (csrf, next) = (page.input("csrf"), page.input("next"));
    let password = server.password("ada@acme.test");
    let fields = [("csrf", &*csrf), ("next", &*next), ("email", "ada@acme.test"), ("password", password)];
    let answer = browser.post(&form_of(&page).action, &fields).await;
    let back = browser.get(answer.header("location")).await;
    assert!(back.redirect_param("code").is_some(), "{back:?}");

    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    admin.change("PATCH", "/api/organizations/acme", json!({ "sign_up": false })).await;
    let closed = server.browser().get(&format!("/o/acme/signup?next={}", encoded(&next))).await;
    assert_eq!(closed.status, 403, "{closed:?}");
    assert_eq!(link_to(&closed, "/o/acme/login"), sign_in, "sign-up is closed meanwhile");
    server.stop().await;
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A browser that has lost its cookies restores the tabs of three products at once: each tab gets a cookie of its own, and
/// the last one stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_tab_whose_cookie_another_tab_has_replaced_leads_on_to_its_product() {
    let server = TestServer::start().await;
    let ask = Ask::of(&server, "spa");
    let mut tabs = Vec::new();
    let mut browser = server.browser();
    for state in ["one", "two", "three"] {
        let asked = server.get(&ask.clone().with("state", state).path()).send().await;
        let mut tab = server.browser();
        let page = tab.get(asked.header("location")).await;
        browser.cookies = tab.cookies.clone();
        tabs.push((state, page));
    }
    for (state, page) in &tabs {
        let fields = [
            ("csrf", &*page.input("csrf")),
            ("next", &page.input("next")),
            ("email", "ada@acme.test"),
            ("password", server.password("ada@acme.test")),
        ];
        let mut answer = browser.post("/o/acme/login", &fields).await;
        if answer.status == 403 {
            answer = browser.get(&link(&answer, "/o/acme/login")).await;
            if answer.status == 200 {
                let (csrf, next) = (answer.input("csrf"), answer.input("next"));
                let fields = [&[("csrf", &*csrf), ("next", &*next)], &fields[2..]].concat();
                answer = browser.post("/o/acme/login", &fields).await;
            }
        }
        assert_eq!(answer.status, 303, "{answer:?}");
        let back = browser.get(answer.header("location")).await;
        assert_eq!(back.redirect_param("state").as_deref(), Some(*state), "{back:?}");
        assert!(back.redirect_param("code").is_some(), "{back:?}");
    }
    server.stop().await;
}
