//! A client asks for a level of authentication: `acr_values` is a wish (OpenID Connect Core 3.1.2.1), an essential `acr` is
//! met or the request fails (5.5.1.1; Unmet Authentication Requirements 1.0).

use super::{ada, refusal, sign_in_first};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestServer};
use std::time::Duration;
use store::{Key, Sql, args, sql};

/// `claims` with an essential `acr` of these values.
fn essential(values: &[&str]) -> String {
    json!({ "id_token": { "acr": { "essential": true, "values": values } } }).to_string()
}

/// The level and the methods in the ID token for the code of an answer.
async fn reached(server: &TestServer, answer: &Answer) -> [Value; 2] {
    until_both_keys_sign(server).await;
    let code = answer.redirect_param("code").unwrap_or_else(|| panic!("a code: {answer:?}"));
    let tokens = redeem(server, server.client("spa"), CALLBACK, &code).await;
    let id = claims(&tokens.text("id_token"));
    ["acr", "amr"].map(|name| id[name].clone())
}

/// The session is of before levels were stored.
async fn forget(server: &TestServer) {
    static FORGET: Sql = sql("UPDATE sessions SET authentication = NULL");
    let forgotten = server.app.store.write("test", |tx| {
        tx.exec(&FORGET, args![])?;
        tx.changed(Key::row("sessions", "id", "all of them"));
        Ok(())
    });
    forgotten.await.map_err(|error: store::Error| error).expect("writes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_gets_what_was_reached_and_a_demand_is_met_or_fails() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let one = [json!("1"), json!(["pwd"])];
    let mut rows = Rows::new();
    for (name, value) in [
        ("acr_values", "1".to_owned()),
        ("acr_values", "phr 2".to_owned()),
        ("acr_values", "urn:mace:incommon:iap:silver".to_owned()),
        ("claims", essential(&["2", "1"])),
        ("claims", json!({ "id_token": { "acr": { "values": ["2"] } } }).to_string()),
        ("claims", json!({ "id_token": { "auth_time": { "essential": true } } }).to_string()),
        ("claims", "{".to_owned()),
    ] {
        let asked = ada.get(&Ask::of(&server, "spa").with(name, &value).path()).await;
        rows.row(&value, async { assert_eq!(reached(&server, &asked).await, one, "{name}={value}") }).await;
    }
    let mut nobody = server.browser();
    for values in [&["2"][..], &["phr"], &["silver"], &[]] {
        let ask = Ask::of(&server, "spa").with("claims", &essential(values));
        let silent = ask.clone().with("prompt", "none").with("acr_values", "1");
        for (who, browser) in [("ada", &mut ada), ("nobody", &mut nobody)] {
            for ask in [&ask, &silent] {
                let answer = browser.get(&ask.path()).await;
                let row = async { assert_eq!(refusal(&answer), "unmet_authentication_requirements") };
                rows.row(format!("{who} {values:?}"), row).await;
            }
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_that_a_sign_in_reaches_asks_for_one_and_not_again() {
    let server = TestServer::start().await;
    for (name, value) in [("acr_values", "1".to_owned()), ("claims", essential(&["1"]))] {
        let mut ada = ada(&server).await;
        forget(&server).await;
        server.clock.advance(Duration::from_secs(60));
        let ask = Ask::of(&server, "spa").with(name, &value);
        let silent = ada.get(&ask.clone().with("prompt", "none").path()).await;
        match name {
            "claims" => assert_eq!(refusal(&silent), "login_required"),
            _ => assert_eq!(reached(&server, &silent).await, [Value::Null, Value::Null], "a wish: no page"),
        }
        let asked = ada.get(&ask.path()).await;
        let next = sign_in_first(&asked).unwrap_or_else(|| panic!("{name}: {asked:?}"));
        assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
        assert_eq!(reached(&server, &ada.get(&next).await).await, [json!("1"), json!(["pwd"])], "{name}");
        assert!(ada.get(&ask.path()).await.redirect_param("code").is_some(), "{name}: it has the level");

        // A sign-in at an instance of the previous release says nothing of a level: no second question.
        server.clock.advance(Duration::from_secs(60));
        forget(&server).await;
        let next = sign_in_first(&ada.get(&ask.path()).await).expect("asked");
        assert_eq!(ada.sign_in("acme", "ada@acme.test").await.status, 303);
        forget(&server).await;
        let answer = ada.get(&next).await;
        match name {
            "claims" => assert_eq!(refusal(&answer), "unmet_authentication_requirements"),
            _ => assert!(answer.redirect_param("code").is_some(), "{answer:?}"),
        }
    }
    server.stop().await;
}
