//! `resource` (RFC 8707): a token is for the server that the client asked for, or there is none.

use super::{basic, presenting, refreshing, token};
use crate::device::ada_on_a_device;
use crate::support::{Ask, CALLBACK, ISSUER, code};
use server::testing::{Rows, TestServer};

const GOOD: &[&[&str]] = &[
    &[],
    &["http://127.0.0.1:7070"],
    &["http://127.0.0.1:7070/"],
    &["http://127.0.0.1:7070/api"],
    &["http://127.0.0.1:7070/api", "http://127.0.0.1:7070"],
    &["http://127.0.0.1:7070/api", "http://127.0.0.1:7070/api"],
];

const WRONG: &[&[&str]] = &[
    &["https://rs.example/"],
    &[""],
    &["/api"],
    &["api"],
    &["http://127.0.0.1:7070/api#x"],
    &["http://127.0.0.1:7070#"],
    &["http://127.0.0.1:7070/api/"],
    &["http://127.0.0.1:7070//"],
    &["http://127.0.0.1:7070/API"],
    &["http://127.0.0.1:7070.evil.example"],
    &["http://127.0.0.1:7070@evil.example/"],
    &["service:acme/sketch"],
    &["http://127.0.0.1:7070/api", "https://rs.example/"],
    &["https://rs.example/", "http://127.0.0.1:7070/api"],
    &["http://127.0.0.1:7070/api", ""],
];

fn resources(values: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    values.iter().map(|value| ("resource", *value)).collect()
}

fn cases() -> impl Iterator<Item = (&'static [&'static str], bool)> {
    GOOD.iter().map(|values| (*values, true)).chain(WRONG.iter().map(|values| (*values, false)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_one_of_ours_or_the_request_is_refused() {
    let server = TestServer::start().await;
    let mut ada = server.browser();
    ada.sign_in("acme", "ada@acme.test").await;
    let ask = Ask::of(&server, "spa").with("scope", "openid offline_access");
    let machine = basic(server.client("machine"), server.secret("machine"));
    let mut rows = Rows::new();
    for (values, is_good) in cases() {
        let row = async {
            let query =
                form_urlencoded::Serializer::new(String::new()).extend_pairs(resources(values)).finish();
            let answer = ada.get(&format!("{}&{query}", ask.path())).await;
            let error = (!is_good).then(|| "invalid_target".to_owned());
            assert!(answer.header("location").starts_with(CALLBACK), "{answer:?}");
            assert_eq!(answer.redirect_param("error"), error, "{answer:?}");
            assert_eq!(answer.redirect_param("iss").as_deref(), Some(ISSUER));
            assert_eq!(answer.redirect_param("state").as_deref(), Some("the-state"));

            let expected = if is_good { (200, String::new()) } else { (400, "invalid_target".to_owned()) };
            let own = code(&mut ada, &ask).await;
            let presented = [&presenting(&server, &own)[..], &resources(values)].concat();
            let redeemed = token(&server, &presented).send().await;
            assert_eq!(redeemed.error(), expected, "a code: {redeemed:?}");
            if !is_good {
                let redeemed = token(&server, &presenting(&server, &own)).send().await;
                assert_eq!(redeemed.status, 200, "the mistake has not cost the code: {redeemed:?}");
            }
            let fields = [&[("grant_type", "client_credentials")], &*resources(values)].concat();
            let answer = token(&server, &fields).header("authorization", &machine).send().await;
            assert_eq!(answer.error(), expected, "client credentials: {answer:?}");
            let fields = [&[("client_id", server.client("cli"))], &*resources(values)].concat();
            let answer = server.post("/auth/device/code", &fields).send().await;
            assert_eq!(answer.error(), expected, "a device: {answer:?}");
        };
        rows.row(format!("{values:?}"), row).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_and_a_poll_are_refused_for_a_foreign_resource_and_go_on() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await.text("refresh_token");
    let cli = server.client("cli");
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*first),
        ("client_id", cli),
        ("resource", "https://rs.example/"),
    ];
    assert_eq!(token(&server, &fields).send().await.error(), (400, "invalid_target".to_owned()));
    assert_eq!(refreshing(&server, "cli", &first).send().await.status, 200);
    let codes = server.post("/auth/device/code", &[("client_id", cli)]).send().await;
    let poll = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ("device_code", &*codes.text("device_code")),
        ("client_id", cli),
        ("resource", "https://rs.example/"),
    ];
    assert_eq!(token(&server, &poll).send().await.error(), (400, "invalid_target".to_owned()));
    assert_eq!(token(&server, &poll[..3]).send().await.error(), (400, "authorization_pending".to_owned()));
    // JSON has no repeated names.
    let json = br#"{"client_id":"x","resource":"http://127.0.0.1:7070","resource":"http://127.0.0.1:7070"}"#;
    let twice = server.request("POST", "/auth/token").body("application/json", json.to_vec()).send().await;
    assert_eq!(twice.error(), (400, "invalid_request".to_owned()));
    // A request that was posted keeps all of them.
    let ask = Ask::of(&server, "spa").query();
    let body = format!("{ask}&resource=http%3A%2F%2F127.0.0.1%3A7070&resource=https%3A%2F%2Frs.example%2F");
    let posted = server.request("POST", "/auth/authorize");
    let posted = posted.body("application/x-www-form-urlencoded", body.into_bytes()).send().await;
    let refused = server.get(posted.header("location")).send().await;
    assert_eq!(refused.redirect_param("error").as_deref(), Some("invalid_target"), "{refused:?}");
    server.stop().await;
}
