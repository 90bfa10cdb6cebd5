//! The token endpoint with its sisters, introspection and revocation: every attack on them (SECURITY,
//! sections 2 and 4).

use crate::device::{
    ada_allows, ada_on_a_device, codes, end_sessions_of_ada, error, in_acme, poll, refusal, sign_out,
    signed_in, suspend_acme, suspend_ada,
};
use crate::support::{Ask, CALLBACK, VERIFIER, code, until_both_keys_sign};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::clients::{self, ClientPatch};
use identity::ids::ClientId;
use identity::secrets;
use serde_json::json;
use server::WriterLimits;
use server::testing::{Answer, Request, TestBrowser, TestServer, at_once};
use std::collections::BTreeSet;
use std::time::Duration;
use store::{Key, Sql};

fn token<'s>(server: &'s TestServer, fields: &[(&str, &str)]) -> Request<'s> {
    server.post("/auth/token", fields)
}

/// The single-page app sends Ada here for a code.
async fn spa_code(ada: &mut TestBrowser<'_>, server: &TestServer) -> String {
    code(ada, &Ask::of(server, "spa").with("scope", "offline_access profile")).await
}

/// What the single-page app presents.
fn presenting<'a>(server: &'a TestServer, code: &'a str) -> [(&'a str, &'a str); 5] {
    [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", CALLBACK),
        ("code_verifier", VERIFIER),
        ("client_id", server.client("spa")),
    ]
}

/// The same with another value in one field; an empty one counts as left out.
fn but<'a, const N: usize>(
    mut fields: [(&'a str, &'a str); N],
    name: &str,
    value: &'a str,
) -> [(&'a str, &'a str); N] {
    for (known, sent) in &mut fields {
        if *known == name {
            *sent = value;
        }
    }
    fields
}

async fn refresh(server: &TestServer, refresh_token: &str) -> Answer {
    refreshing(server, "cli", refresh_token).send().await
}

fn refreshing<'s>(server: &'s TestServer, client: &str, refresh_token: &str) -> Request<'s> {
    let client = server.client(client);
    token(server, &[("grant_type", "refresh_token"), ("refresh_token", refresh_token), ("client_id", client)])
}

/// The status that the holder of these tokens gets from the API.
async fn reads(server: &TestServer, tokens: &Answer) -> u16 {
    server.get("/api/subscription").bearer(&tokens.text("access_token")).send().await.status
}

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_body_of_a_post_is_read() {
    let server = TestServer::start().await;
    let get = server.get("/auth/token?grant_type=client_credentials").send().await;
    assert_eq!((refusal(&get), get.header("allow")), (error(405, "invalid_request"), "POST"));
    let machine = [("client_id", server.client("machine")), ("client_secret", server.secret("machine"))];
    let whole = [machine[0], machine[1], ("grant_type", "client_credentials")];
    assert_eq!(token(&server, &whole).send().await.status, 200);
    for (query, fields) in [("grant_type=client_credentials", &machine[..]), ("scope=email", &whole)] {
        let in_query = server.post(&format!("/auth/token?{query}"), fields).send().await;
        assert_eq!(refusal(&in_query), error(400, "invalid_request"), "{query}");
    }

    let bodies: [(&str, &[u8]); 19] = [
        ("application/x-www-form-urlencoded", b""),
        ("application/x-www-form-urlencoded", b"grant_type=%"),
        ("application/x-www-form-urlencoded", b"grant_type=%f"),
        ("application/x-www-form-urlencoded", b"grant_type=%zz"),
        ("application/x-www-form-urlencoded", b"grant_type=%ff"),
        ("application/x-www-form-urlencoded", b"grant_type=\xff"),
        ("application/x-www-form-urlencoded", b"grant_type=refresh_token&grant_type=refresh_token"),
        ("application/x-www-form-urlencoded", b"grant_type=&grant_type="),
        ("application/x-www-form-urlencoded", b"a\"\\\xc3\xa4=1&a\"\\\xc3\xa4=2"),
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", b"[]"),
        ("application/json", b"\"\xc3\xa4 \\\" \\\\\""),
        ("application/json", b"{\"grant_type\":1}"),
        ("application/json", b"{\"grant_type\":[\"refresh_token\"]}"),
        ("application/json", b"{\"grant_type\":\"\xff\"}"),
        ("application/json", b"{\"grant_type\":\"a\",\"grant_type\":\"a\"}"),
        ("multipart/form-data; boundary=x", b"--x--"),
        ("text/plain", b"grant_type=client_credentials"),
    ];
    for (media_type, body) in bodies {
        let answer = server.request("POST", "/auth/token").body(media_type, body.to_vec()).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_request"), "{media_type} {}", body.escape_ascii());
    }
    let long = "x".repeat(8193);
    let answer = token(&server, &[("grant_type", "refresh_token"), ("refresh_token", &long)]).send().await;
    assert_eq!(refusal(&answer), error(400, "invalid_request"));
    let json = json!({
        "grant_type": "client_credentials", "client_id": machine[0].1, "client_secret": machine[1].1,
    });
    assert_eq!(server.request("POST", "/auth/token").json(&json).send().await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_grants_that_exist_and_that_a_client_has_are_given() {
    let server = TestServer::start().await;
    let (cli, spa) = (server.client("cli"), server.client("spa"));
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("client_id", cli)], "invalid_request"),
        (&[("grant_type", ""), ("client_id", cli)], "invalid_request"),
        (&[("grant_type", "implicit"), ("client_id", cli)], "unsupported_grant_type"),
        (
            &[
                ("grant_type", "password"),
                ("username", "ada@acme.test"),
                ("password", "x"),
                ("client_id", cli),
            ],
            "unsupported_grant_type",
        ),
        (&[("grant_type", "Refresh_Token"), ("client_id", cli)], "unsupported_grant_type"),
        (&[("grant_type", "client_credentials"), ("client_id", cli)], "unauthorized_client"),
        (&[("grant_type", "authorization_code"), ("code", "x"), ("client_id", cli)], "unauthorized_client"),
        (
            &[("grant_type", clients::DEVICE_GRANT), ("device_code", "x"), ("client_id", spa)],
            "unauthorized_client",
        ),
        (&[("grant_type", "refresh_token"), ("client_id", cli)], "invalid_request"),
    ];
    for (fields, name) in cases {
        assert_eq!(refusal(&token(&server, fields).send().await), error(400, name), "{fields:?}");
    }
    let unknown = token(&server, &[("grant_type", "password")]).send().await;
    insta::assert_snapshot!(unknown.body, @r#"{"error":"unsupported_grant_type","error_description":"Known grant types are authorization_code, refresh_token, client_credentials, urn:ietf:params:oauth:grant-type:device_code."}"#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_proves_who_it_is_by_one_method() {
    let server = TestServer::start().await;
    let (id, secret) = (server.client("machine"), server.secret("machine"));
    let grant = ("grant_type", "client_credentials");
    let by_basic = |credentials: &str| token(&server, &[grant]).header("authorization", credentials);
    assert_eq!(by_basic(&basic(id, secret)).send().await.status, 200);
    assert_eq!(by_basic(&basic(&id.replace('_', "%5F"), secret)).send().await.status, 200, "form-decoded");
    assert_eq!(by_basic(&basic(id, secret).replace("Basic", "bASIC")).send().await.status, 200);

    let other = server.secret("web");
    let wrong = [
        basic(id, "wrong"),
        basic(id, ""),
        basic(id, other),
        basic("nobody", secret),
        basic("", ""),
        basic(server.client("cli"), secret),
        format!("Basic {}", STANDARD.encode("no colon")),
        "Basic !!!".to_owned(),
        "Basic".to_owned(),
        format!("Bearer {secret}"),
    ];
    let mut bodies = BTreeSet::new();
    for credentials in wrong {
        let answer = by_basic(&credentials).send().await;
        assert_eq!(refusal(&answer), error(401, "invalid_client"), "{credentials}");
        assert!(answer.header("www-authenticate").starts_with("Basic "), "{answer:?}");
        bodies.insert(answer.body);
    }
    for (id, secret) in
        [(id, "wrong"), (id, ""), (id, other), ("nobody", secret), (server.client("cli"), "x")]
    {
        let answer = token(&server, &[grant, ("client_id", id), ("client_secret", secret)]).send().await;
        assert_eq!(refusal(&answer), error(401, "invalid_client"), "{id} {secret}");
        bodies.insert(answer.body);
    }
    assert_eq!(bodies.len(), 1, "nobody learns which half was wrong: {bodies:?}");
    assert_eq!(refusal(&token(&server, &[grant]).send().await), error(401, "invalid_client"));

    let twice = by_basic(&basic(id, secret));
    let both = token(&server, &[grant, ("client_id", id), ("client_secret", secret)]);
    let both = both.header("authorization", &basic(id, secret)).send().await;
    assert_eq!(refusal(&both), error(400, "invalid_request"), "two methods at once");
    let other = token(&server, &[grant, ("client_id", server.client("web"))]);
    let other = other.header("authorization", &basic(id, secret)).send().await;
    assert_eq!(refusal(&other), error(400, "invalid_request"), "two clients at once");
    let twice = twice.header("authorization", &basic("nobody", "x")).send().await;
    assert_eq!(refusal(&twice), error(400, "invalid_request"), "two headers at once");
    let same = token(&server, &[grant, ("client_id", id)]).header("authorization", &basic(id, secret));
    assert_eq!(same.send().await.status, 200, "the same client, named twice");
    server.stop().await;
}

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

    // Whoever has no verifier has a copy all the same.
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

#[tokio::test(flavor = "multi_thread")]
async fn replays_that_race_the_redemption_end_what_it_gave() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    for _ in 0..3 {
        let code = spa_code(&mut ada, &server).await;
        let answers = at_once((0..51).map(|_| token(&server, &presenting(&server, &code)).send())).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert!(won.len() <= 1, "{won:?}");
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
    for (what, fields) in cases {
        let answer = token(&server, &fields).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_grant"), "{what}");
        let headers = answer.headers.iter().filter(|(name, _)| name != "date").cloned().collect::<Vec<_>>();
        answers.insert((headers, answer.body));
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
    let id = server.client("web").to_owned();
    in_acme(&server, move |tx, _, actor| {
        let client = clients::get(tx.snapshot(), &ClientId::parse(&id)?)?;
        let patch = ClientPatch { pkce_required: Some(false), ..ClientPatch::default() };
        clients::patch(tx, &client, &patch, actor).map(|_| ())
    })
    .await;
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
async fn a_refresh_token_that_comes_back_late_ends_its_family() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await;
    let second = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(second.status, 200, "{second:?}");
    assert_ne!(first.text("refresh_token"), second.text("refresh_token"));

    server.clock.advance(Duration::from_secs(10));
    let again = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(
        again.text("refresh_token"),
        second.text("refresh_token"),
        "an answer was lost: the same again"
    );
    server.clock.advance(Duration::from_millis(1));
    let stolen = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(refusal(&stolen), error(400, "invalid_grant"));
    for tokens in [&first, &second, &again] {
        assert_eq!(reads(&server, tokens).await, 401);
        assert_eq!(
            refusal(&refresh(&server, &tokens.text("refresh_token")).await),
            error(400, "invalid_grant")
        );
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_whose_successor_was_used_ends_its_family() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await;
    let second = refresh(&server, &first.text("refresh_token")).await;
    let third = refresh(&server, &second.text("refresh_token")).await;
    assert_eq!(third.status, 200, "{third:?}");
    let stolen = refresh(&server, &first.text("refresh_token")).await;
    assert_eq!(refusal(&stolen), error(400, "invalid_grant"), "within ten seconds all the same");
    assert_eq!(reads(&server, &third).await, 401);
    assert_eq!(refusal(&refresh(&server, &third.text("refresh_token")).await), error(400, "invalid_grant"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_refreshes_at_once_give_one_successor() {
    let server = TestServer::start().await;
    let first = ada_on_a_device(&server).await.text("refresh_token");
    let answers = at_once((0..100).map(|_| refresh(&server, &first))).await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    let successors: BTreeSet<String> = answers.iter().map(|answer| answer.text("refresh_token")).collect();
    assert_eq!(successors.len(), 1, "{successors:?}");
    let next = refresh(&server, successors.first().expect("one")).await;
    assert_eq!((next.status, reads(&server, &next).await), (200, 200));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_does_not_cost_the_refresh_token() {
    let server = TestServer::start().await;
    let tokens = ada_on_a_device(&server).await;
    let refresh_token = tokens.text("refresh_token");
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*refresh_token)];
    let with_scope = |scope| {
        token(&server, &[fields[0], fields[1], ("client_id", server.client("cli")), ("scope", scope)])
    };
    for wider in ["openid", "profile email offline_access", "platform", "fly"] {
        assert_eq!(refusal(&with_scope(wider).send().await), error(400, "invalid_scope"), "{wider}");
    }
    let foreign = refreshing(&server, "spa", &refresh_token).send().await;
    assert_eq!(refusal(&foreign), error(400, "invalid_grant"));
    for garbage in ["x", "x.y", &refresh_token[..refresh_token.len() - 1], &format!("{refresh_token}x")] {
        assert_eq!(refusal(&refresh(&server, garbage).await), error(400, "invalid_grant"), "{garbage}");
    }
    server.clock.advance(Duration::from_secs(60));
    let narrow = with_scope("email").send().await;
    assert_eq!((narrow.status, narrow.text("scope")), (200, "email".to_owned()), "{narrow:?}");
    let whole = refresh(&server, &narrow.text("refresh_token")).await;
    assert_eq!(whole.text("scope"), "profile email", "the grant itself is as wide as before");
    let blank = token(
        &server,
        &[
            fields[0],
            ("refresh_token", &whole.text("refresh_token")),
            ("client_id", server.client("cli")),
            ("scope", " "),
        ],
    );
    assert_eq!(blank.send().await.text("scope"), "profile email", "a scope without a word is none");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_ends_with_its_time_its_session_its_user_and_its_organization() {
    let server = TestServer::start().await;
    let refused = async |client: &str, tokens: &Answer| {
        assert_eq!(reads(&server, tokens).await, 401);
        let answer = refreshing(&server, client, &tokens.text("refresh_token")).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_grant"));
    };
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = spa_code(&mut ada, &server).await;
    let signed_out = token(&server, &presenting(&server, &code)).send().await;
    assert_eq!(reads(&server, &signed_out).await, 200);
    sign_out(&mut ada).await;
    refused("spa", &signed_out).await;

    let ended = ada_on_a_device(&server).await;
    end_sessions_of_ada(&server).await;
    refused("cli", &ended).await;

    let old = ada_on_a_device(&server).await;
    server.clock.advance(Duration::from_secs(30 * 24 * 3600));
    refused("cli", &old).await;

    let stopped = ada_on_a_device(&server).await;
    suspend_acme(&server).await;
    refused("cli", &stopped).await;
    in_acme(&server, |tx, acme, actor| identity::organizations::activate(tx, acme, actor).map(|_| ())).await;
    assert_eq!(reads(&server, &stopped).await, 200, "it goes on with its organization");

    suspend_ada(&server).await;
    refused("cli", &stopped).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_acts_for_itself_and_for_nobody_else() {
    let server = TestServer::start().await;
    let credentials = basic(server.client("machine"), server.secret("machine"));
    let ask = |fields: &[(&str, &str)]| {
        let all: Vec<_> = [("grant_type", "client_credentials")].iter().chain(fields).copied().collect();
        token(&server, &all).header("authorization", &credentials)
    };
    let tokens = ask(&[]).send().await;
    assert_eq!(tokens.status, 200, "{tokens:?}");
    let fields: Vec<String> = tokens.json().as_object().expect("an object").keys().cloned().collect();
    assert_eq!(
        fields,
        ["access_token", "expires_in", "scope", "token_type"],
        "no refresh token, no ID token"
    );
    assert_eq!(refusal(&ask(&[("scope", "openid")]).send().await), error(400, "invalid_scope"));
    assert_eq!(reads(&server, &tokens).await, 403, "it is no user");
    suspend_acme(&server).await;
    assert_eq!(refusal(&ask(&[]).send().await).1, "invalid_client");
    assert_eq!(reads(&server, &tokens).await, 401);
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

fn introspecting<'s>(server: &'s TestServer, client: &str, token: &str) -> Request<'s> {
    let credentials = basic(server.client(client), server.secret(client));
    server.post("/auth/introspect", &[("token", token)]).header("authorization", &credentials)
}

async fn introspect(server: &TestServer, client: &str, token: &str) -> Answer {
    let answer = introspecting(server, client, token).send().await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, "no-store"), "{answer:?}");
    answer
}

const INACTIVE: &str = r#"{"active":false}"#;

#[tokio::test(flavor = "multi_thread")]
async fn introspection_tells_the_own_service_only() {
    let server = TestServer::start().await;
    let tokens = ada_on_a_device(&server).await;
    let (access, refresh_token) = (tokens.text("access_token"), tokens.text("refresh_token"));
    let seen = introspect(&server, "machine", &access).await.json();
    assert_eq!((&seen["active"], &seen["client_id"]), (&json!(true), &json!(server.client("cli"))), "{seen}");
    assert_eq!((&seen["scope"], &seen["aud"]), (&json!("profile email"), &json!("service:acme/cli")));

    for (what, client, token) in [
        ("foreign", "web", &*access),
        ("foreign", "web", &refresh_token),
        ("of another client", "machine", &refresh_token),
        ("unknown", "machine", "x"),
        ("cut", "machine", &access[..access.len() - 2]),
        ("without signature", "machine", &access[..=access.rfind('.').expect("a dot")]),
        ("too long", "machine", &"x".repeat(8192)),
    ] {
        assert_eq!(introspect(&server, client, token).await.body, INACTIVE, "{what}");
    }
    let fields = [("token", &*access), ("client_id", server.client("cli"))];
    for (what, request) in [
        ("nobody", server.post("/auth/introspect", &fields[..1])),
        ("a public client", server.post("/auth/introspect", &fields)),
        ("a token", server.post("/auth/introspect", &fields[..1]).bearer(&access)),
        (
            "a wrong secret",
            server
                .post("/auth/introspect", &fields[..1])
                .header("authorization", &basic(server.client("machine"), "x")),
        ),
    ] {
        assert_eq!(refusal(&request.send().await), error(401, "invalid_client"), "{what}");
    }
    assert_eq!(refusal(&introspecting(&server, "machine", "").send().await), error(400, "invalid_request"));

    end_sessions_of_ada(&server).await;
    assert_eq!(introspect(&server, "machine", &access).await.body, INACTIVE, "revoked");
    let machine = token(&server, &[("grant_type", "client_credentials")]);
    let machine = machine.header("authorization", &basic(server.client("machine"), server.secret("machine")));
    let access = machine.send().await.text("access_token");
    assert_eq!(introspect(&server, "machine", &access).await.json()["active"], true);
    server.clock.advance(Duration::from_secs(600));
    assert_eq!(introspect(&server, "machine", &access).await.body, INACTIVE, "expired");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_is_known_to_its_own_client_until_it_is_used() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let code = code(&mut ada, &Ask::of(&server, "web").with("scope", "offline_access profile")).await;
    let credentials = basic(server.client("web"), server.secret("web"));
    let fields = presenting(&server, &code);
    let tokens = token(&server, &fields[..4]).header("authorization", &credentials).send().await;
    let first = tokens.text("refresh_token");
    assert_eq!(introspect(&server, "web", &first).await.json()["token_type"], "refresh_token");
    let fields = [("grant_type", "refresh_token"), ("refresh_token", &*first)];
    let next =
        token(&server, &fields).header("authorization", &credentials).send().await.text("refresh_token");
    assert_eq!(introspect(&server, "web", &first).await.body, INACTIVE);
    assert_eq!(introspect(&server, "web", &next).await.json()["active"], true);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_token_ends_its_whole_grant_at_once() {
    let server = TestServer::start().await;
    let revoke = async |client: &str, fields: &[(&str, &str)]| {
        let all: Vec<_> = [("client_id", server.client(client))].iter().chain(fields).copied().collect();
        server.post("/auth/revoke", &all).send().await
    };
    for name in ["refresh_token", "access_token"] {
        for hint in [None, Some("refresh_token"), Some("access_token"), Some("something_else")] {
            let tokens = ada_on_a_device(&server).await;
            assert_eq!(reads(&server, &tokens).await, 200);
            let sent = tokens.text(name);
            let hint = hint.map(|hint| ("token_type_hint", hint));
            let fields: Vec<_> = [("token", &*sent)].into_iter().chain(hint).collect();
            let foreign = revoke("spa", &fields).await;
            assert_eq!(refusal(&foreign), error(400, "invalid_grant"), "{fields:?}");
            assert_eq!(reads(&server, &tokens).await, 200, "{fields:?}");
            for _ in 0..2 {
                assert_eq!(revoke("cli", &fields).await.status, 200, "{fields:?}");
                assert_eq!(reads(&server, &tokens).await, 401, "{fields:?}");
            }
            let dead = refresh(&server, &tokens.text("refresh_token")).await;
            assert_eq!(refusal(&dead), error(400, "invalid_grant"), "{fields:?}");
        }
    }
    for unknown in ["x", "rt_x.y", &"x".repeat(8192)] {
        assert_eq!(revoke("cli", &[("token", unknown)]).await.status, 200, "{unknown}");
    }
    assert_eq!(refusal(&revoke("cli", &[]).await), error(400, "invalid_request"));
    let nobody = server.post("/auth/revoke", &[("token", "x")]).send().await;
    assert_eq!(refusal(&nobody), error(401, "invalid_client"));
    let wrong =
        server.post("/auth/revoke", &[("token", "x"), ("client_id", server.client("web"))]).send().await;
    assert_eq!(refusal(&wrong), error(401, "invalid_client"), "a confidential client without its secret");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_can_revoke_its_own_token() {
    let server = TestServer::start().await;
    let credentials = basic(server.client("machine"), server.secret("machine"));
    let tokens = token(&server, &[("grant_type", "client_credentials")]);
    let access = tokens.header("authorization", &credentials).send().await.text("access_token");
    let revoked = server.post("/auth/revoke", &[("token", &access)]).header("authorization", &credentials);
    assert_eq!(revoked.send().await.status, 200);
    assert_eq!(introspect(&server, "machine", &access).await.body, INACTIVE);
    server.stop().await;
}

/// A database so slow that a handful of commands fill it.
fn slow() -> WriterLimits {
    WriterLimits {
        batch_max: 1,
        commit_delay: Duration::from_millis(60),
        deadline: Duration::from_millis(300),
        ..WriterLimits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_says_so_and_when_to_come_back() {
    let server = TestServer::start_on(slow()).await;
    let asked = || server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send();
    let answers = at_once((0..40).map(|_| asked())).await;
    let (given, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(!given.is_empty() && !refused.is_empty(), "{answers:?}");
    for answer in refused {
        assert_eq!(refusal(answer), error(503, "temporarily_unavailable"));
        let wait: u32 = answer.header("retry-after").parse().expect("whole seconds");
        assert!((1..10).contains(&wait), "{answer:?}");
    }

    let first = ada_on_a_device(&server).await.text("refresh_token");
    let answers = at_once((0..40).map(|_| refresh(&server, &first))).await;
    for answer in &answers {
        match answer.status {
            200 => assert!(!answer.text("refresh_token").is_empty() && reads(&server, answer).await == 200),
            _ => {
                assert_eq!(refusal(answer), error(503, "temporarily_unavailable"));
                assert_ne!(answer.header("retry-after"), "", "{answer:?}");
            }
        }
    }
    assert!(answers.iter().any(|answer| answer.status == 503), "{answers:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_at_a_full_server_is_told_to_slow_down() {
    let server = TestServer::start_on(slow()).await;
    let approved = codes(&server).await;
    ada_allows(&server, &approved).await;
    let (fill, polls) = tokio::join!(
        at_once(
            (0..40).map(|_| server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send())
        ),
        at_once((0..10).map(|_| poll(&server, &approved))),
    );
    assert!(fill.iter().any(|answer| answer.status == 503), "{fill:?}");
    let told: Vec<_> = polls.iter().filter(|answer| answer.text("error") == "slow_down").collect();
    assert!(!told.is_empty(), "{polls:?}");
    for answer in told {
        assert_eq!(refusal(answer), error(400, "slow_down"));
        assert_ne!(answer.header("retry-after"), "", "{answer:?}");
    }
    let won = polls.iter().filter(|answer| answer.status == 200).count();
    let others = |answer: &&Answer| !matches!(&*answer.text("error"), "slow_down" | "invalid_grant");
    assert_eq!(polls.iter().filter(others).count(), won, "{polls:?}");
    // The code was not lost by that.
    let later = poll(&server, &approved).await;
    assert_eq!(won + usize::from(later.status == 200), 1, "{later:?}");

    // Nor does a poll say 503 when the database is gone altogether, whoever polls.
    server.app.store.close();
    for client in ["cli", "notes", "machine"] {
        let fields = [
            ("grant_type", clients::DEVICE_GRANT),
            ("device_code", &approved.text("device_code")),
            ("client_id", server.client(client)),
        ];
        let answer = token(&server, &fields).send().await;
        assert_eq!(refusal(&answer).0 / 100, 4, "{client}: {answer:?}");
    }
    server.stop().await;
}
