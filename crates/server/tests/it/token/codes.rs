//! Authorization codes: replayed, raced, not fitting, downgraded, outliving.

use super::{basic, but, presenting, reads, refreshing, spa_code, token};
use crate::device::{
    allow, codes as codes_of_a_device, error, in_acme, poll, refusal, sign_out, signed_in, suspend_acme,
};
use crate::support::{Admin, Ask, CALLBACK, VERIFIER, code, text, until_both_keys_sign};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::secrets;
use serde_json::Value;
use server::testing::{Rows, TestBrowser, TestServer, at_once};
use std::collections::BTreeSet;
use std::time::Duration;
use store::{Key, Sql};

#[tokio::test(flavor = "multi_thread")]
async fn a_code_that_comes_back_ends_what_it_gave() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = spa_code(&mut ada, &server).await;
    let tokens = token(&server, &presenting(&server, &code)).send().await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    assert_eq!(tokens.header("cache-control"), "no-store");
    assert_eq!(tokens.text("scope"), "offline_access profile");
    assert_eq!(reads(&server, &tokens).await, 200);
    let next = refreshing(&server, "spa", &tokens.text("refresh_token")).send().await;
    assert_eq!(next.status, 200, "{next:?}");

    // A client without the verifier has a copy of the code.
    let replay = token(&server, &but(presenting(&server, &code), "code_verifier", "")).send().await;
    assert_eq!(refusal(&replay), error(400, "invalid_grant"));
    assert_eq!((reads(&server, &tokens).await, reads(&server, &next).await), (401, 401));
    let dead = refreshing(&server, "spa", &next.text("refresh_token")).send().await;
    assert_eq!(refusal(&dead), error(400, "invalid_grant"));

    let second = spa_code(&mut ada, &server).await;
    let tokens = token(&server, &presenting(&server, &second)).send().await;
    server.clock.advance(Duration::from_secs(300));
    let late = token(&server, &presenting(&server, &second)).send().await;
    assert_eq!(refusal(&late), error(400, "invalid_grant"));
    assert_eq!(reads(&server, &tokens).await, 401, "also when it comes back after its minute");
    server.stop().await;
}

/// The codes were issued, and the user is deleted before they are redeemed.
#[tokio::test(flavor = "multi_thread")]
async fn a_code_of_a_deleted_user_is_no_grant() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut codes = Vec::new();
    for scope in ["profile", "openid email", "openid offline_access"] {
        codes.push((scope, code(&mut ada, &Ask::of(&server, "spa").with("scope", scope)).await));
    }
    let device = codes_of_a_device(&server).await;
    allow(&mut ada, &device).await;
    let users = "/api/organizations/acme/users";
    let found = admin.read(&format!("{users}?email=ada@acme.test")).await;
    admin.change("DELETE", &format!("{users}/{}", text(&found["items"][0], "id")), Value::Null).await;
    for (scope, code) in &codes {
        let answer = token(&server, &presenting(&server, code)).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_grant"), "{scope}");
    }
    assert_eq!(refusal(&poll(&server, &device).await), error(400, "invalid_grant"), "a device");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_that_race_the_redemption_end_what_it_gave() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    for _ in 0..3 {
        let code = spa_code(&mut ada, &server).await;
        let presented = presenting(&server, &code);
        let answers = at_once((0..51).map(async |_| {
            let mut answer = token(&server, &presented).send().await;
            // Who is told that the server is busy comes back.
            for _ in 0..100 {
                if answer.status == 503 {
                    answer = token(&server, &presented).send().await;
                }
            }
            answer
        }));
        let answers = answers.await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!(won.len(), 1, "{won:?}");
        assert!(lost.iter().all(|answer| refusal(answer) == error(400, "invalid_grant")), "{lost:?}");
        for tokens in won {
            assert_eq!(reads(&server, tokens).await, 401);
            let dead = refreshing(&server, "spa", &tokens.text("refresh_token")).send().await;
            assert_eq!(refusal(&dead), error(400, "invalid_grant"));
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn codes_that_do_not_fit_look_all_the_same() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let expired = spa_code(&mut ada, &server).await;
    server.clock.advance(Duration::from_secs(60));
    let good = spa_code(&mut ada, &server).await;
    let foreign = code(&mut ada, &Ask::of(&server, "web").with("scope", "profile")).await;
    let presented = presenting(&server, &good);
    let (id, secret) = good.split_once('.').expect("two halves");
    let (cut, swapped) = (format!("{id}.{}", &secret[1..]), format!("{secret}.{id}"));
    let others_half = format!("{}.{secret}", expired.split_once('.').expect("two halves").0);
    // These would prove it, if they had the form of a verifier.
    let (short, long, spaced) = ("x".repeat(42), "x".repeat(129), "x ".repeat(30));
    let proven_by = async |ada: &mut TestBrowser<'_>, verifier: &str| {
        let challenge = URL_SAFE_NO_PAD.encode(secrets::hash(verifier.as_bytes()));
        code(ada, &Ask::of(&server, "spa").with("scope", "profile").with("code_challenge", &challenge)).await
    };
    let of_short = proven_by(&mut ada, &short).await;
    let of_long = proven_by(&mut ada, &long).await;
    let of_spaced = proven_by(&mut ada, &spaced).await;
    let lower = VERIFIER.to_lowercase();
    let cases = [
        ("garbage", but(presented, "code", "garbage")),
        ("without its secret", but(presented, "code", id)),
        ("cut", but(presented, "code", &cut)),
        ("swapped", but(presented, "code", &swapped)),
        ("of two codes", but(presented, "code", &others_half)),
        ("expired", but(presented, "code", &expired)),
        ("of another client", but(presented, "code", &foreign)),
        ("other redirect_uri", but(presented, "redirect_uri", "http://127.0.0.1:9999/callback/")),
        ("wrong verifier", but(presented, "code_verifier", &lower)),
        ("no verifier", but(presented, "code_verifier", "")),
        ("short verifier", but(but(presented, "code", &of_short), "code_verifier", &short)),
        ("long verifier", but(but(presented, "code", &of_long), "code_verifier", &long)),
        ("verifier of other letters", but(but(presented, "code", &of_spaced), "code_verifier", &spaced)),
    ];
    let mut answers = BTreeSet::new();
    let mut rows = Rows::new();
    for (what, fields) in cases {
        let row = async {
            let answer = token(&server, &fields).send().await;
            assert_eq!(refusal(&answer), error(400, "invalid_grant"), "{what}");
            let mut headers = answer.headers;
            headers.retain(|(name, _)| name != "date" && name != "x-request-id");
            answers.insert((headers, answer.body));
        };
        rows.row(what, row).await;
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
    insta::assert_snapshot!(answers.first().expect("one").1, @r#"{"error":"invalid_grant","error_description":"The code or token is unknown, expired, used, or not for this client."}"#);
    for missing in ["code", "redirect_uri"] {
        let answer = token(&server, &but(presented, missing, "")).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_request"), "{missing}");
    }
    assert_eq!(token(&server, &presented).send().await.status, 200, "none of that cost the code");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_without_a_challenge_is_a_downgrade() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let credentials = basic(server.client("web"), server.secret("web"));
    let ask = Ask::of(&server, "web").with("scope", "profile");
    let code = code(&mut ada, &ask.without("code_challenge").without("code_challenge_method")).await;
    let fields = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
    let with_verifier = token(&server, &[fields[0], fields[1], fields[2], ("code_verifier", VERIFIER)]);
    let downgrade = with_verifier.header("authorization", &credentials).send().await;
    assert_eq!(refusal(&downgrade), error(400, "invalid_grant"));
    let without = token(&server, &fields).header("authorization", &credentials).send().await;
    assert_eq!(without.status, 200, "{without:?}");
    assert!(without.json().get("refresh_token").is_none(), "nobody asked for offline_access");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_ends_with_the_session_that_gave_it() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = spa_code(&mut ada, &server).await;
    sign_out(&mut ada).await;
    let answer = token(&server, &presenting(&server, &code)).send().await;
    assert_eq!(refusal(&answer), error(400, "invalid_grant"));

    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = spa_code(&mut ada, &server).await;
    suspend_acme(&server).await;
    let answer = token(&server, &presenting(&server, &code)).send().await;
    assert_eq!(refusal(&answer), error(400, "invalid_grant"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_not_lost_while_the_key_for_id_tokens_is_made() {
    let server = TestServer::start().await;
    until_both_keys_sign(&server).await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = code(&mut ada, &Ask::of(&server, "spa")).await;
    in_acme(&server, |tx, _, _| {
        tx.exec(&Sql::dynamic("DELETE FROM signing_keys WHERE algorithm = 'RS256'".to_owned()), &[])?;
        tx.changed(Key::table("signing_keys"));
        Ok(())
    })
    .await;
    let tokens = token(&server, &presenting(&server, &code)).send().await;
    assert_eq!((tokens.status, tokens.text("id_token").is_empty()), (200, false), "{tokens:?}");
    server.stop().await;
}
