//! What people and products type: addresses of mail and of clients, names, user codes.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::TestServer;

const USERS: &str = "/api/organizations/acme/users";
const PASSWORD: &str = "correct horse battery";

/// The field and the code of the one wrong field of an answer.
fn wrong_field(answer: &server::testing::Answer) -> (u16, String, String) {
    let body = answer.json();
    let error = &body["errors"][0];
    (answer.status, text(error, "field").to_owned(), text(error, "code").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_internationalized_domain_is_one_address_at_every_entrance() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let made = admin.make(USERS, json!({ "email": "User@BÜCHER.example" })).await;
    assert_eq!(
        (text(&made, "email"), text(&made, "name")),
        ("user@xn--bcher-kva.example", "user@bücher.example")
    );
    // Decomposed, as A-label, in other letters of the same width class.
    for same in ["user@bu\u{308}cher.example", "user@xn--bcher-kva.example", "user@ｂücher。example"] {
        let again = admin.call("POST", USERS, &json!({ "email": same })).await;
        assert_eq!(wrong_field(&again), (409, "email".to_owned(), "taken".to_owned()), "{same}");
        let query = form_urlencoded::byte_serialize(same.as_bytes()).collect::<String>();
        let found = admin.read(&format!("{USERS}?email={query}")).await;
        assert_eq!(found["items"][0]["id"], made["id"], "{same}: {found}");
    }
    for begun in ["user@b%C3%BCch", "user@xn--b"] {
        let found = admin.read(&format!("{USERS}?q={begun}")).await;
        assert_eq!(found["items"][0]["id"], made["id"], "{begun}: {found}");
    }
    let sharp = admin.make(USERS, json!({ "email": "user@straße.example" })).await;
    assert_eq!(text(&sharp, "email"), "user@xn--strae-oqa.example");
    assert_ne!(admin.make(USERS, json!({ "email": "user@strasse.example" })).await["id"], sharp["id"]);

    let link = format!("{USERS}/{}/password-link", text(&made, "id"));
    let link = path_of(text(&admin.make(&link, Value::Null).await, "url"));
    let mut browser = server.browser();
    let page = open_link(&mut browser, &link).await;
    assert!(page.body.contains("user@bücher.example"), "{}", page.body);
    let fields = [("csrf", &*page.input("csrf")), ("link", &page.input("link")), ("password", PASSWORD)];
    assert_eq!(browser.post("/password", &fields).await.status, 303);
    for typed in ["user@bücher.example", "User@xn--bcher-kva.example"] {
        let mut browser = server.browser();
        assert_eq!(browser.sign_in_with("acme", typed, PASSWORD).await.status, 303, "{typed}");
        assert!(browser.get("/o/acme/account").await.body.contains("user@bücher.example"));
    }

    // Cyrillic letters that look like Latin ones are another address, and no page shows it in its letters.
    let deceptive = admin.make(USERS, json!({ "email": "ada@аcme.test", "name": "Ada" })).await;
    let stored = text(&deceptive, "email").to_owned();
    assert!(stored.starts_with("ada@xn--"), "{stored}");
    let link = format!("{USERS}/{}/password-link", text(&deceptive, "id"));
    let page =
        open_link(&mut server.browser(), &path_of(text(&admin.make(&link, Value::Null).await, "url"))).await;
    assert!(page.body.contains(&stored) && !page.body.contains("аcme"), "{}", page.body);

    let invited = admin.make(INVITATIONS, json!({ "email": "chef@bücher.example", "role": "admin" })).await;
    assert_eq!(text(&invited, "email"), "chef@xn--bcher-kva.example");
    let page = open_invitation(&mut server.browser(), &path_of(text(&invited, "url"))).await;
    assert!(page.body.contains("chef@bücher.example"), "{}", page.body);
    let mut browser = server.browser();
    let csrf = browser.get("/o/acme/signup").await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", "neu@bücher.example"), ("name", ""), ("password", PASSWORD)];
    assert_eq!(browser.post("/o/acme/signup", &fields).await.status, 303);
    assert_eq!(
        admin.read(&format!("{USERS}?email=neu@xn--bcher-kva.example")).await["items"][0]["name"],
        "neu@bücher.example"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_refused_for_itself_and_an_older_account_keeps_its_own() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for undeliverable in [
        ".dot@acme.test",
        "dot.@acme.test",
        "do..t@acme.test",
        "a@-acme.test",
        "a@acme-.test",
        "mailto:a@acme.test",
        "a@127.0.0.1",
        "a@xn--a.test",
    ] {
        let refused = admin.call("POST", USERS, &json!({ "email": undeliverable })).await;
        assert_eq!(wrong_field(&refused), (422, "email".to_owned(), "invalid".to_owned()), "{undeliverable}");
        let refused =
            admin.call("POST", INVITATIONS, &json!({ "email": undeliverable, "role": "admin" })).await;
        assert_eq!(refused.status, 422, "{undeliverable}: {refused:?}");
    }
    let long = format!("{}@{}test", "a".repeat(64), "label.".repeat(20));
    let made = admin.make(USERS, json!({ "email": long })).await;
    assert_eq!((text(&made, "email"), text(&made, "name")), (&*long, &*"a".repeat(64)));
    let longer = admin.call("POST", USERS, &json!({ "email": format!("a{long}") })).await;
    assert_eq!(wrong_field(&longer), (422, "email".to_owned(), "too_long".to_owned()), "{longer:?}");

    // An account from before the rule.
    let older = admin.make(USERS, json!({ "email": "older@acme.test", "name": "Older" })).await;
    let id = text(&older, "id").to_owned();
    static RENAME: store::Sql = store::sql("UPDATE users SET email = '.older@acme.test' WHERE id = ?1");
    let user = identity::ids::UserId::parse(&id).expect("an id");
    let renamed = server.app.store.write("test.rename", move |tx| {
        let hash = identity::passwords::get(tx.snapshot(), &user)?;
        assert!(hash.is_none());
        tx.exec(&RENAME, store::args![&user])?;
        identity::users::keys(&user).into_iter().for_each(|key| tx.changed(key));
        Ok::<_, identity::Error>(())
    });
    renamed.await.expect("renames");
    assert_eq!(admin.read(&format!("{USERS}?email=.Older@acme.test")).await["items"][0]["id"], *id);
    let link = path_of(text(&admin.make(&format!("{USERS}/{id}/password-link"), Value::Null).await, "url"));
    let mut browser = server.browser();
    let page = open_link(&mut browser, &link).await;
    let fields = [("csrf", &*page.input("csrf")), ("link", &page.input("link")), ("password", PASSWORD)];
    assert_eq!(browser.post("/password", &fields).await.status, 303);
    assert_eq!(server.browser().sign_in_with("acme", ".older@acme.test", PASSWORD).await.status, 303);
    // The address of a deleted account is its id, which nobody can enter.
    assert_eq!(server.browser().sign_in_with("acme", &id, PASSWORD).await.status, 422);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_have_joiners_where_their_script_uses_them() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for (number, name) in ["علی\u{200c}رضا", "ක්\u{200d}රිස්", "👩\u{200d}💻 Ada"].into_iter().enumerate()
    {
        let made = admin.make(USERS, json!({ "email": format!("n{number}@acme.test"), "name": name })).await;
        assert_eq!(text(&made, "name"), name);
    }
    for name in ["A\u{200c}da", "A\u{200d}da", "Ada\u{fe0f}", "علی\u{200c}", "Ada\u{200b}"] {
        let refused = admin.call("POST", USERS, &json!({ "email": "no@acme.test", "name": name })).await;
        assert_eq!(wrong_field(&refused), (422, "name".to_owned(), "invalid".to_owned()), "{name:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_registers_uris_only() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let clients = "/api/organizations/acme/clients";
    for field in ["redirect_uris", "post_logout_redirect_uris"] {
        let body = |uri: &str| {
            let mut body = json!({ "service": "sketch", "kind": "native", "name": "App",
                                   "redirect_uris": ["http://127.0.0.1/cb"] });
            body[field] = json!([uri]);
            body
        };
        for bad in [
            "https://:443/cb",
            "https://%00/cb",
            "https://[::1/cb",
            "https://app.example.com:99999/cb",
            "https://app%2eexample.com/cb",
            "https://app.example.com/%zz",
            "https://app.example.com/{x}",
            "https://app.example.com/ü",
            "https://аpp.example.com/cb",
            "https://app.example.com/cb?state=1",
            "javascript.x:alert(1)",
            "data.x:y",
            "myapp:/cb",
        ] {
            let refused = admin.call("POST", clients, &body(bad)).await;
            assert_eq!(wrong_field(&refused), (422, format!("{field}[0]"), "invalid".to_owned()), "{bad}");
        }
        let told = admin.call("POST", clients, &body("https://bücher.example/cb")).await;
        assert!(told.body.contains("use https://xn--bcher-kva.example/cb"), "{told:?}");
        for good in [
            "https://xn--bcher-kva.example/cb",
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "com.example:/cb",
        ] {
            assert_eq!(admin.make(clients, body(good)).await[field], json!([good]));
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_code_is_typed_on_any_keyboard() {
    let server = TestServer::start().await;
    let codes = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    let full_width: String = codes
        .text("user_code")
        .chars()
        .map(|letter| match letter {
            '-' => '－',
            letter => char::from_u32(u32::from(letter) + 0xfee0).expect("a letter"),
        })
        .collect();
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let page = ada.type_code(&full_width).await;
    assert!(page.status == 200 && page.body.contains(&codes.text("user_code")), "{page:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_redirect_uri_is_shown_and_listed_with_the_command_that_registers_it() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let spa = server.client("spa");
    let problems = format!("/api/organizations/acme/clients/{spa}/problems");
    assert_eq!(admin.read(&problems).await["items"], json!([]));
    let ask =
        async |uri: &str| server.get(&Ask::of(&server, "spa").with("redirect_uri", uri).path()).send().await;

    let page = ask("https://app.example/<b>?token=s3cret").await;
    assert_eq!(page.status, 400);
    assert!(
        page.body.contains("https://app.example/&lt;b&gt;?token=s3cret"),
        "what came, as text: {}",
        page.body
    );
    assert!(page.body.contains(spa) && !page.body.contains("href=\"https://app.example"), "{}", page.body);
    ask("https://app.example/cb'$(x)").await;
    ask("https://app.example/cb").await;
    ask("https://app.example/cb").await;
    let listed = admin.read(&problems).await;
    let items = listed["items"].as_array().expect("a list");
    let addresses: Vec<&str> = items.iter().map(|item| text(item, "address")).collect();
    let expected =
        ["https://app.example/cb", "https://app.example/cb'$(x)", "https://app.example/<b>?token=…"];
    assert_eq!(addresses, expected, "each once, the newest first, without secrets");
    assert!(!listed.to_string().contains("s3cret"));
    assert_eq!((&items[0]["count"], &items[0]["parameter"]), (&json!(2), &json!("redirect_uri")));
    let client = admin.read(&format!("/api/organizations/acme/clients/{spa}")).await;
    let known: Vec<String> = client["redirect_uris"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|uri| format!("--redirect-uri {} ", uri.as_str().expect("a URI")))
        .collect();
    let command = format!(
        "sarsen client change {spa} {}--redirect-uri https://app.example/cb --org acme",
        known.concat()
    );
    assert_eq!(items[0]["command"], *command);
    assert!(text(&items[1], "command").contains(r"'https://app.example/cb'\''$(x)'"), "{listed}");
    assert!(items[2]["command"].is_null() && items[2]["problem"].is_string(), "{listed}");

    // A stranger fills the list of this client and of no other.
    let web = server.client("web");
    let path = Ask::of(&server, "web").with("redirect_uri", "https://mine.example/").path();
    assert_eq!(server.get(&path).send().await.status, 400);
    for number in 0..25 {
        ask(&format!("https://evil.example/{number}?{}", "x".repeat(1000))).await;
    }
    let listed = admin.read(&problems).await;
    let items = listed["items"].as_array().expect("a list");
    assert_eq!((items.len(), text(&items[0], "address")), (20, "https://evil.example/24?…"));
    let of_web = admin.read(&format!("/api/organizations/acme/clients/{web}/problems")).await;
    assert_eq!(of_web["items"][0]["address"], "https://mine.example/");
    // What was registered meanwhile says so.
    let uris = json!({ "redirect_uris": ["https://mine.example/"] });
    admin.change("PATCH", &format!("/api/organizations/acme/clients/{web}"), uris).await;
    let of_web = admin.read(&format!("/api/organizations/acme/clients/{web}/problems")).await;
    assert!(of_web["items"][0]["command"].is_null(), "{of_web}");
    server.stop().await;
}
