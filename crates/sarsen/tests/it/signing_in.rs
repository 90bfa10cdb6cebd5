//! `sarsen login`, `whoami`, `logout`: a terminal and a browser.

use crate::browser::Browser;
use crate::support::{Demo, Place, Running, mode};
use std::process::Stdio;

/// Signs the terminal of this place in, through a browser.
pub fn sign_in(place: &Place, demo: &Demo, person: &str) {
    let (email, password) = (demo.text(&format!("{person}/email")), demo.text(&format!("{person}/password")));
    sign_in_with(place, demo, email, password);
}

/// The same for any account.
pub fn sign_in_with(place: &Place, demo: &Demo, email: &str, password: &str) {
    let command = place.sarsen(&["login", "--server", demo.issuer()]);
    let mut login = Running::start(command, place.path("login.log"));
    let log = login.wait_for("Waiting");
    let after =
        |label: &str| log.lines().find_map(|line| line.strip_prefix(label)).expect(label).trim().to_owned();
    assert_eq!(after("Open"), format!("{}/activate", demo.issuer()));
    let mut browser = Browser::new(demo.issuer());
    let page = browser.approve(email, password, &after("Type"));
    assert!(page.text.contains("Your device is signed in"), "{}", page.text);
    let (code, said) = login.finish();
    assert_eq!(code, 0);
    assert!(said.starts_with(&format!("Signed in to {} as {email}", demo.issuer())), "{said}");
}

#[test]
fn a_terminal_is_signed_in_and_out() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let signed_out = place.run(&["whoami"]);
    assert_eq!(
        (signed_out.code, signed_out.stderr.contains("run sarsen login")),
        (1, true),
        "{}",
        signed_out.stderr
    );

    sign_in(&place, &demo, "/organization/admin");
    let file = place.path("config/sarsen/credentials.json");
    assert_eq!(mode(&file), 0o600);
    let me = place.json(&["whoami"]);
    assert_eq!(
        (me["email"].as_str(), &me["organizations"]),
        (Some("admin@acme.test"), &serde_json::json!(["acme"]))
    );
    assert!(place.run(&["whoami"]).stdout.contains("admin@acme.test"));

    let refresh_token = |text: &str| {
        let book: serde_json::Value = serde_json::from_str(text).expect("JSON");
        book["servers"][demo.issuer()]["refresh_token"].as_str().expect("a token").to_owned()
    };
    let kept = refresh_token(&std::fs::read_to_string(&file).expect("kept"));
    assert_eq!(place.run(&["logout"]).code, 0);
    assert!(!std::fs::read_to_string(&file).expect("there").contains(&kept), "deleted here");
    let form = [("grant_type", "refresh_token"), ("refresh_token", kept.as_str()), ("client_id", "cli")];
    let refused =
        ureq::post(format!("{}/auth/token", demo.issuer())).send_form(form).expect_err("revoked there");
    assert!(matches!(refused, ureq::Error::StatusCode(400)), "{refused}");
    assert_eq!(place.run(&["whoami"]).code, 1);
}

#[test]
fn an_expired_token_is_refreshed_and_an_ended_sign_in_is_an_error() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let file = place.path("config/sarsen/credentials.json");
    let change = |name: &str, value: serde_json::Value| {
        let text = std::fs::read_to_string(&file).expect("kept");
        let mut book: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        book["servers"][demo.issuer()][name] = value;
        std::fs::write(&file, book.to_string()).expect("written");
    };
    change("expires_at", 0.into());
    assert_eq!(place.json(&["whoami"])["email"], "admin@acme.test");
    change("expires_at", 0.into());
    let many: Vec<_> =
        (0..5).map(|_| place.sarsen(&["whoami"]).stdout(Stdio::null()).spawn().expect("it starts")).collect();
    for mut one in many {
        assert!(
            one.wait().expect("it ends").success(),
            "a refresh token works once, and the others wait for the new one"
        );
    }
    change("access_token", "no.good.token".into());
    assert_eq!(place.json(&["whoami"])["email"], "admin@acme.test", "a refused token is refreshed");
    change("refresh_token", "rt_unknown.secret".into());
    change("expires_at", 0.into());
    let ended = place.run(&["whoami"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("has ended; run sarsen login"), "{}", ended.stderr);
}

#[test]
fn a_server_that_is_not_there_or_has_another_issuer_is_an_error() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let by_number = demo.issuer().replace("localhost", "127.0.0.1");
    let other = place.run(&["login", "--server", &by_number]);
    assert_eq!(other.code, 1);
    assert!(
        other.stderr.contains(&format!("use sarsen login --server {}", demo.issuer())),
        "{}",
        other.stderr
    );
    let closed = place.run(&["login", "--server", "http://localhost:1"]);
    assert_eq!(closed.code, 1);
    assert!(closed.stderr.contains("check the address"), "{}", closed.stderr);
    for (typed, expected) in
        [("localhost:7070", "use http://localhost:7070"), ("id.example.com", "use https://id.example.com")]
    {
        let bare = place.run(&["login", "--server", typed]);
        assert_eq!(bare.code, 2);
        assert!(bare.stderr.contains(expected) && !bare.stderr.contains(".well-known"), "{}", bare.stderr);
    }
    let open = place.run(&["login", "--server", "http://id.example.com"]);
    assert_eq!(open.code, 2);
    assert!(open.stderr.contains("use https"), "{}", open.stderr);
}
