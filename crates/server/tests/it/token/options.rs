//! The options of a client (PKCE, the algorithm of its ID tokens), and of a service (the type of the access tokens for it).

use crate::device::signed_in;
use crate::support::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use server::testing::TestServer;

const CLIENTS: &str = "/api/organizations/acme/clients";

fn header(token: &str) -> Value {
    let header = token.split('.').next().and_then(|header| URL_SAFE_NO_PAD.decode(header).ok());
    header.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_defaults_and_takes_options_at_creation_and_later() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let web = admin.make_client("web", &[CALLBACK]).await;
    let path = format!("{CLIENTS}/{}", text(&web, "client_id"));
    let shown = |client: &Value| {
        let names = ["pkce", "id_token_alg", "post_logout_redirect_uris", "pkce_used_at"];
        names.map(|name| client[name].clone())
    };
    let defaults = [json!("optional"), json!("RS256"), json!([]), Value::Null];
    assert_eq!(shown(&web), defaults);
    assert_eq!(shown(&admin.make_client("spa", &[CALLBACK]).await)[0], "required");

    let bye = json!(["https://app.example/bye"]);
    let options = json!({ "pkce": "required", "id_token_alg": "ES256", "post_logout_redirect_uris": bye });
    let chosen = [json!("required"), json!("ES256"), bye, Value::Null];
    admin.change("PATCH", &path, options.clone()).await;
    assert_eq!(shown(&admin.read(&path).await), chosen);
    let mut body = json!({ "service": "sketch", "kind": "web", "name": "B", "redirect_uris": [CALLBACK] });
    body.as_object_mut().expect("an object").extend(options.as_object().expect("an object").clone());
    assert_eq!(shown(&admin.make(CLIENTS, body).await), chosen);

    for wrong in [
        json!({ "pkce": "off" }),
        json!({ "id_token_alg": "none" }),
        json!({ "post_logout_redirect_uris": ["http://app.example/bye"] }),
        json!({ "post_logout_redirect_uris": ["https://app.example/#bye"] }),
    ] {
        assert_eq!(admin.call("PATCH", &path, &wrong).await.status, 422, "{wrong}");
    }
    let body = json!({ "service": "sketch", "kind": "spa", "name": "C", "redirect_uris": [CALLBACK], "pkce": "optional" });
    let refused = admin.call("POST", CLIENTS, &body).await;
    assert_eq!((refused.status, refused.text("code")), (422, "invalid".to_owned()), "{refused:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_chooses_the_type_of_the_access_tokens_for_it() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let services = "/api/organizations/acme/services";
    let made = admin.make(services, json!({ "slug": "fax", "name": "Fax", "access_token_typ": "JWT" })).await;
    assert_eq!(made["access_token_typ"], "JWT");
    let fax = format!("{services}/fax");
    assert_eq!(admin.read(&fax).await, made);
    let renamed = admin.change("PATCH", &fax, json!({ "name": "Telefax" })).await.json();
    assert_eq!((&renamed["name"], &renamed["access_token_typ"]), (&json!("Telefax"), &json!("JWT")));
    for wrong in [json!({ "access_token_typ": "jwt" }), json!({ "access_token_typ": "" })] {
        let refused = admin.call("PATCH", &fax, &wrong).await;
        assert_eq!((refused.status, refused.text("code")), (422, "invalid".to_owned()), "{refused:?}");
    }
    // The service of the machine.
    let cli = format!("{services}/cli");
    assert_eq!(admin.read(&cli).await["access_token_typ"], "at+jwt");
    let machine = [("client_id", server.client("machine")), ("client_secret", server.secret("machine"))];
    let machine = [&machine[..], &[("grant_type", "client_credentials")]].concat();
    let typ = async || {
        let token = server.post("/auth/token", &machine).send().await.text("access_token");
        header(&token)["typ"].clone()
    };
    for wanted in ["JWT", "at+jwt"] {
        let changed = admin.change("PATCH", &cli, json!({ "access_token_typ": wanted })).await.json();
        assert_eq!((&changed["access_token_typ"], typ().await), (&json!(wanted), json!(wanted)), "at once");
    }
    let trail = admin.read("/api/organizations/acme/audit?limit=200").await;
    let rows = trail["items"].as_array().expect("entries").iter();
    let changes = rows.filter(|row| text(row, "action") == "service.changed");
    let mut details: Vec<&str> = changes.map(|row| text(row, "details")).collect();
    details.sort_unstable();
    assert_eq!(details, ["access_token_typ JWT", "access_token_typ at+jwt"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_the_chosen_type_and_algorithm_and_are_not_confused() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let ask = Ask::of(&server, "spa").with("scope", "openid profile email offline_access");
    let before = tokens_of(&server, &mut ada, &ask).await;
    assert_eq!(header(&before.text("access_token"))["typ"], "at+jwt");
    assert_eq!(header(&before.text("id_token"))["alg"], "RS256");

    let path = format!("{CLIENTS}/{}", server.client("spa"));
    admin.change("PATCH", &path, json!({ "id_token_alg": "ES256" })).await;
    let sketch = "/api/organizations/acme/services/sketch";
    admin.change("PATCH", sketch, json!({ "access_token_typ": "JWT" })).await;
    let after = tokens_of(&server, &mut ada, &ask).await;
    let (access, id) = (after.text("access_token"), after.text("id_token"));
    assert_eq!((&header(&access)["typ"], &header(&id)["alg"]), (&json!("JWT"), &json!("ES256")));
    for tokens in [&before, &after] {
        let answer = server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    // Both are of type JWT and signed with one key: the claims tell them apart.
    for path in ["/api/subscription", "/auth/userinfo"] {
        assert_eq!(server.get(path).bearer(&id).send().await.status, 401, "an ID token is no access token");
    }
    let silent = |hint: &str| ask.clone().with("prompt", "none").with("id_token_hint", hint).path();
    assert!(ada.get(&silent(&id)).await.redirect_param("code").is_some());
    let refused = ada.get(&silent(&access)).await;
    assert_eq!(refused.redirect_param("error").as_deref(), Some("login_required"), "{refused:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_of_pkce_is_shown() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let path = format!("{CLIENTS}/{}", server.client("web"));
    let bare = Ask::of(&server, "web").without("code_challenge").without("code_challenge_method");
    code(&mut ada, &bare).await;
    assert_eq!(admin.read(&path).await["pkce_used_at"], Value::Null);
    code(&mut ada, &Ask::of(&server, "web")).await;
    // The note is written behind the answer.
    while admin.read(&path).await["pkce_used_at"].is_null() {
        tokio::task::yield_now().await;
    }
    server.stop().await;
}
