//! The language of pages: what a product and a browser ask for is kept through a sign-in, its forms and its errors.

use crate::support::*;
use server::testing::{Answer, Rows, TestServer};
use std::time::Duration;

/// The language that a page says it has, in its markup and in its headers.
fn language(answer: &Answer) -> &str {
    let (_, rest) = answer.body.split_once("<html lang=\"").unwrap_or_else(|| panic!("no page: {answer:?}"));
    let language = rest.split('"').next().unwrap_or_default();
    assert_eq!(answer.header("content-language"), language, "{answer:?}");
    assert_eq!(answer.header("vary"), "accept-language", "{answer:?}");
    language
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_in_the_language_that_its_request_asks_for() {
    let server = TestServer::start().await;
    let ask = |ui_locales: &str| Ask::of(&server, "spa").with("ui_locales", ui_locales);
    let wrong = |ui_locales: &str| ask(ui_locales).with("redirect_uri", "https://evil.example/").path();
    let no_client = "/auth/authorize?ui_locales=de&client_id=x";
    let endless = format!("/o/acme/login?ui_locales={}", "de-".repeat(2000));
    let mut rows = Rows::new();
    for (path, accept, expected) in [
        ("/o/acme/login", "", "en"),
        ("/o/acme/login", "de-AT,de;q=0.9,en;q=0.1", "de"),
        ("/o/acme/login", "en, de;q=0.9", "en"),
        ("/o/acme/login", "fr", "en"),
        ("/o/acme/login?ui_locales=de", "en", "de"),
        ("/o/acme/login?ui_locales=fr+de+en", "en", "de"),
        ("/o/acme/login?ui_locales=%22%3E%3Cscript%3E", "de", "de"),
        (&endless, "", "en"),
        ("/o/acme/signup", "de", "de"),
        ("/activate", "de", "de"),
        ("/activate?user_code=BCDF-GHJK", "de", "de"),
        ("/login", "de", "de"),
        ("/setup", "de", "de"),
        ("/invitation", "de", "de"),
        ("/no/such/page", "de", "de"),
        ("/o/nobody/login", "de", "de"),
        ("/o/acme/link", "de", "de"),
        ("/password", "de", "de"),
        ("/auth/logout", "de", "de"),
        (&wrong("de"), "en", "de"),
        (&wrong("en"), "de", "en"),
        (no_client, "", "de"),
        ("/auth/authorize?ui_locales=de&a=%ff", "", "de"),
    ] {
        let row = async {
            let request = server.get(path);
            let request = if accept.is_empty() { request } else { request.header("accept-language", accept) };
            let page = request.send().await;
            assert_eq!(language(&page), expected, "{page:?}");
            assert!(!page.body.contains("<script>"), "{page:?}");
        };
        rows.row(format!("{path} {accept}"), row).await;
    }
    drop(rows);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_product_asks_for_is_kept_until_the_user_is_back() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    browser.languages = "en";
    let ask = Ask::of(&server, "spa").with("ui_locales", "de").with("prompt", "login consent");
    let asked = browser.get(&ask.path()).await;
    let page = browser.get(asked.header("location")).await;
    assert_eq!(language(&page), "de");
    assert!(page.body.contains("Passwort vergessen?"), "{page:?}");
    let (csrf, next) = (page.input("csrf"), page.input("next"));
    // A wrong password, and a form that is not ours: the same language.
    let mut sent =
        vec![("csrf", &*csrf), ("next", &*next), ("email", "ada@acme.test"), ("password", "wrong")];
    let wrong = browser.post("/o/acme/login", &sent).await;
    assert_eq!((wrong.status, language(&wrong)), (422, "de"));
    assert!(wrong.body.contains("E-Mail-Adresse oder Passwort ist falsch."), "{wrong:?}");
    let forged = browser.post("/o/acme/login", &[("csrf", "x"), ("next", &next)]).await;
    assert_eq!((forged.status, language(&forged)), (403, "de"));
    let up = browser
        .get(&format!(
            "/o/acme/signup?{}",
            form_urlencoded::Serializer::new(String::new()).append_pair("next", &next).finish()
        ))
        .await;
    assert_eq!(language(&up), "de");
    let taken =
        [("csrf", &*csrf), ("next", &*next), ("email", "ada"), ("name", "Ada"), ("password", "short")];
    let taken = browser.post("/o/acme/signup", &taken).await;
    assert!(taken.body.contains("Das ist keine E-Mail-Adresse."), "{taken:?}");
    sent[3].1 = server.password("ada@acme.test");
    let signed_in = browser.post("/o/acme/login", &sent).await;
    let consent = browser.get(signed_in.header("location")).await;
    assert_eq!((consent.status, language(&consent)), (200, "de"));
    assert!(consent.body.contains("Ihre E-Mail-Adresse sehen"), "{consent:?}");
    let switch =
        consent.body.split("href=\"").find(|rest| rest.starts_with("/o/acme/logout?")).expect("a link");
    let switch = switch.split('"').next().unwrap_or_default().replace("&amp;", "&");
    assert_eq!(language(&browser.get(&switch).await), "de", "through the sign-out and the sign-in");
    let fields = [
        ("csrf", &*consent.input("csrf")),
        ("next", &*consent.input("next")),
        ("session", &*consent.input("session")),
    ];
    let undecided = browser.post("/consent", &fields).await;
    assert_eq!((undecided.status, language(&undecided)), (400, "de"));
    // Another page of the same browser is in the language of the browser.
    assert_eq!(language(&browser.get("/o/acme/account").await), "en");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_of_a_german_browser_is_german() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    browser.languages = "de-DE,de;q=0.9";
    browser.sign_in("acme", "ada@acme.test").await;
    server.clock.advance(Duration::from_secs(125));
    let account = browser.get("/o/acme/account").await;
    assert_eq!(language(&account), "de");
    assert!(account.body.contains("angemeldet vor 2 Minuten"), "{account:?}");
    let wrong = browser.type_code("BCDF-GHJK").await;
    assert!(wrong.body.contains("Dieser Code ist falsch oder abgelaufen."), "{wrong:?}");
    let posted = Ask::of(&server, "spa").with("response_mode", "form_post");
    let answered = browser.get(&posted.path()).await;
    assert_eq!((answered.status, language(&answered)), (200, "de"), "the page that posts itself");
    let ends = [("csrf", &*account.input("csrf")), ("end", "nothing")];
    let refused = browser.post("/o/acme/account/sessions", &ends).await;
    assert!(refused.body.contains("Das Formular sagt nicht, welche Sitzung enden soll."), "{refused:?}");
    server.stop().await;
}
