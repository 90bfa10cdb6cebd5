//! What a client says about its user: `login_hint`, and `prompt=create` for somebody who is new.

use super::*;

const SIGN_UP: &str = "/o/acme/signup?next=";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_open_the_sign_up_with_its_request_in_hand() {
    let server = TestServer::start().await;
    let ask = Ask::of(&server, "spa").with("prompt", "create").with("login_hint", "new@acme.test");
    let mut new = server.browser();
    let asked = new.get(&ask.path()).await;
    assert!(asked.status == 303 && asked.header("location").starts_with(SIGN_UP), "{asked:?}");
    let page = new.get(asked.header("location")).await;
    assert_eq!((page.status, &*page.input("email")), (200, "new@acme.test"), "{page:?}");
    let fields = [
        ("csrf", &*page.input("csrf")),
        ("next", &*page.input("next")),
        ("name", "Noor New"),
        ("email", "new@acme.test"),
        ("password", "correct horse battery"),
    ];
    let made = new.post("/o/acme/signup", &fields).await;
    let back = new.get(made.header("location")).await;
    let code = back.redirect_param("code").expect("a code");
    let tokens = redeem(&server, server.client("spa"), CALLBACK, &code).await;
    assert_eq!(claims(&tokens.text("id_token"))["email"], "new@acme.test", "{tokens:?}");

    // Somebody who is signed in may make another account, or sign in again.
    let again = new.get(&ask.path()).await;
    assert!(again.header("location").starts_with(SIGN_UP), "{again:?}");
    let next = again.redirect_param("next").expect("the request");
    let page = new.get(&format!("/o/acme/login?prompt=login&next={}", encoded(&next))).await;
    let fields = [
        ("csrf", &*page.input("csrf")),
        ("next", &*page.input("next")),
        ("email", "ada@acme.test"),
        ("password", server.password("ada@acme.test")),
    ];
    let signed_in = new.post("/o/acme/login", &fields).await;
    assert!(new.get(signed_in.header("location")).await.redirect_param("code").is_some());
    server.stop().await;
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn where_sign_up_is_closed_somebody_new_gets_the_sign_in() {
    let server = TestServer::start().await;
    let ask = Ask::by("console", CONSOLE).with("prompt", "create");
    let mut browser = server.browser();
    let asked = browser.get(&ask.path()).await;
    assert!(asked.header("location").starts_with("/login?next="), "{asked:?}");
    browser.sign_in("platform", "owner@sarsen.test").await;
    let asked = browser.get(&ask.path()).await;
    let page = browser.get(asked.header("location")).await;
    assert!(page.body.contains("with another account"), "{page:?}");
    let words = server.get("/.well-known/openid-configuration").send().await.json();
    let words = words["prompt_values_supported"].as_array().expect("a list").clone();
    assert!(words.iter().any(|word| word == "create"), "{words:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_of_prompt_that_is_not_known_is_ignored() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    for words in ["dance", "LOGIN", "dance LOGIN", "Create"] {
        let answer = ada.get(&Ask::of(&server, "spa").with("prompt", words).path()).await;
        assert!(answer.redirect_param("code").is_some(), "{words}: {answer:?}");
    }
    let asked = ada.get(&Ask::of(&server, "spa").with("prompt", "dance login").path()).await;
    assert!(sign_in_first(&asked).is_some(), "{asked:?}");
    let asked = ada.get(&Ask::of(&server, "spa").with("prompt", "consent dance").path()).await;
    assert_eq!(asked.status, 200, "{asked:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_fills_the_address_of_the_sign_in_and_nothing_else_does() {
    let server = TestServer::start().await;
    let long = format!("{}@acme.test", "a".repeat(300));
    let mut ada = ada(&server).await;
    for (hint, shown) in [
        ("ada@acme.test", "ada@acme.test"),
        (" ada@acme.test ", "ada@acme.test"),
        ("o'neil+x@acme.test", "o'neil+x@acme.test"),
        ("\"><script>alert(1)</script>", ""),
        ("call +1 555 0100 now", ""),
        ("ada", ""),
        (&*long, ""),
        ("", ""),
    ] {
        let ask = Ask::of(&server, "spa").with("login_hint", hint);
        let mut browser = server.browser();
        let asked = browser.get(&ask.path()).await;
        let page = browser.get(asked.header("location")).await;
        assert_eq!((page.status, &*page.input("email")), (200, shown), "{hint}: {page:?}");
        assert!(!page.body.contains("<script>") && !page.body.contains("<b>"), "{hint}: {page:?}");
        let sign_up = browser.get(&format!("{SIGN_UP}{}", encoded(&page.input("next")))).await;
        assert_eq!((sign_up.status, &*sign_up.input("email")), (200, shown), "{hint}: {sign_up:?}");
        // Whoever is signed in: another account may be meant, but not in place of one's own password.
        let asked = ada.get(&ask.clone().with("prompt", "select_account").path()).await;
        assert_eq!(ada.get(asked.header("location")).await.input("email"), shown, "{hint}");
        let asked = ada.get(&ask.with("prompt", "login").path()).await;
        assert_eq!(ada.get(asked.header("location")).await.input("email"), "ada@acme.test", "{hint}");
    }
    // After a wrong password the field has what was typed.
    let mut browser = server.browser();
    let asked = browser.get(&Ask::of(&server, "spa").with("login_hint", "ada@acme.test").path()).await;
    let page = browser.get(asked.header("location")).await;
    let (csrf, next) = (page.input("csrf"), page.input("next"));
    let fields = [("csrf", &*csrf), ("next", &next), ("email", "grace@acme.test"), ("password", "wrong")];
    let wrong = browser.post("/o/acme/login", &fields).await;
    assert_eq!((wrong.status, &*wrong.input("email")), (422, "grace@acme.test"), "{wrong:?}");
    server.stop().await;
}
