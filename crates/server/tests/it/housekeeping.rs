//! What is over is deleted after a while, and nothing else is.

use crate::device::{ada_on_a_device, error, refusal, sign_out, signed_in};
use crate::support::*;
use identity::Time;
use identity::authentication::{Authentication, Method};
use identity::grants::{self, NewGrant};
use identity::ids::{ClientId, GrantId, OrganizationId, SessionId, UserId};
use identity::scopes::Scope;
use identity::sessions::{self, NewSession};
use server::SystemRandom;
use server::testing::{Answer, TestServer};
use std::collections::BTreeSet;
use std::time::Duration;
use store::{Sql, args, sql};

static SESSIONS: Sql = sql("SELECT id FROM sessions");
static GRANTS: Sql = sql("SELECT id FROM grants");
static REVOKED_TOKENS: Sql = sql("SELECT jti FROM revoked_tokens");

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The ids of all rows of a table.
async fn ids(server: &TestServer, all: &'static Sql) -> BTreeSet<String> {
    let read = server.app.store.read(move |snapshot| snapshot.all(all, args![], |row| row.get(0)));
    read.await.map_err(|error: store::Error| error).expect("reads").into_iter().collect()
}

/// The grant and the session of some tokens.
struct Of(String, String);

impl Of {
    fn tokens(tokens: &Answer) -> Of {
        let claims = claims(&tokens.text("access_token"));
        let (grant, _) = text(&claims, "jti").split_once('.').expect("a user's token");
        Of(grant.to_owned(), text(&claims, "sid").to_owned())
    }

    /// Whether the rows of the grant and of the session are there.
    async fn are_there(&self, server: &TestServer) -> (bool, bool) {
        (ids(server, &GRANTS).await.contains(&self.0), ids(server, &SESSIONS).await.contains(&self.1))
    }
}

async fn refreshed(server: &TestServer, client: &str, tokens: &Answer) -> Answer {
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", &*tokens.text("refresh_token")),
        ("client_id", server.client(client)),
    ];
    let answer = server.post("/auth/token", &fields).send().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

async fn days_later(server: &TestServer, days: u32) {
    server.clock.advance(DAY * days);
    assert!(server.tidy().await.expect("tidies"), "there is one instance");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_a_week_ago_is_gone_and_what_lives_goes_on() {
    let server = TestServer::start_with(|settings| settings.session_life = DAY * 365, |_| {}).await;
    let mut device = ada_on_a_device(&server).await;
    let forgotten = ada_on_a_device(&server).await;
    let revoked = ada_on_a_device(&server).await;
    let fields = [("token", &*revoked.text("refresh_token")), ("client_id", server.client("cli"))];
    assert_eq!(server.post("/auth/revoke", &fields).send().await.status, 200);
    let with_scope = |scope| Ask::of(&server, "spa").with("scope", scope);
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let mut offline = tokens_of(&server, &mut ada, &with_scope("openid offline_access")).await;
    let once = tokens_of(&server, &mut ada, &with_scope("openid")).await;
    // Ids of one millisecond have no order.
    server.clock.advance(Duration::from_secs(1));
    let again = tokens_of(&server, &mut ada, &with_scope("openid")).await;
    let mut other = signed_in(&server, "ada@acme.test").await;
    let signed_out = tokens_of(&server, &mut other, &with_scope("openid offline_access")).await;
    sign_out(&mut other).await;
    let all = [&device, &forgotten, &revoked, &offline, &once, &again, &signed_out].map(Of::tokens);
    let [of_device, of_forgotten, of_revoked, of_offline, of_once, of_again, of_signed_out] = &all;

    days_later(&server, 6).await;
    for of in &all {
        assert_eq!(of.are_there(&server).await, (true, true));
    }
    days_later(&server, 2).await;
    for of in [of_revoked, of_signed_out] {
        assert_eq!(of.are_there(&server).await, (false, false));
    }
    assert_eq!(
        of_once.are_there(&server).await,
        (false, true),
        "its browser is signed in, with a later grant"
    );
    assert_eq!(
        of_again.are_there(&server).await,
        (true, true),
        "the last one tells the service of a sign-out"
    );
    for of in [of_device, of_forgotten, of_offline] {
        assert_eq!(of.are_there(&server).await, (true, true), "it can refresh");
    }
    (device, offline) = (refreshed(&server, "cli", &device).await, refreshed(&server, "spa", &offline).await);
    // The tokens are as unknown as they were no good.
    for tokens in [&revoked, &signed_out] {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", &*tokens.text("refresh_token")),
            ("client_id", server.client("cli")),
        ];
        let answer = server.post("/auth/token", &fields).send().await;
        assert_eq!(refusal(&answer), error(400, "invalid_grant"));
    }

    days_later(&server, 28).await;
    assert_eq!(of_forgotten.are_there(&server).await, (true, true), "its refresh token ended six days ago");
    (device, offline) = (refreshed(&server, "cli", &device).await, refreshed(&server, "spa", &offline).await);
    days_later(&server, 2).await;
    assert_eq!(of_forgotten.are_there(&server).await, (false, false));
    // By now the first refresh tokens of these families are deleted; they were used.
    for of in [of_device, of_offline] {
        assert_eq!(of.are_there(&server).await, (true, true), "it can refresh");
    }
    for (client, tokens) in [("cli", &device), ("spa", &offline)] {
        let next = refreshed(&server, client, tokens).await;
        let read = server.get("/api/subscription").bearer(&next.text("access_token")).send().await;
        assert_eq!(read.status, 200, "{read:?}");
    }
    assert_eq!(ada.get("/o/acme/account").await.status, 200, "still signed in");
    assert_eq!(of_again.are_there(&server).await, (true, true), "as long as its browser is");
    sign_out(&mut ada).await;
    days_later(&server, 8).await;
    assert_eq!(of_again.are_there(&server).await, (false, false));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_remembered_until_it_has_ended_anyway() {
    let server = TestServer::start().await;
    let (id, secret) = (server.client("machine"), server.secret("machine"));
    let own = [("client_id", id), ("client_secret", secret)];
    let new = async || {
        let fields = [own[0], own[1], ("grant_type", "client_credentials")];
        server.post("/auth/token", &fields).send().await.text("access_token")
    };
    let revoke = async |token: &str| {
        let answer = server.post("/auth/revoke", &[own[0], own[1], ("token", token)]).send().await;
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    revoke(&new().await).await;
    server.clock.advance(DAY);
    let late = new().await;
    revoke(&late).await;
    server.clock.advance(Duration::from_secs(601));
    assert_eq!(ids(&server, &REVOKED_TOKENS).await.len(), 2);
    assert!(server.tidy().await.expect("tidies"));
    let jti = text(&claims(&late), "jti").to_owned();
    assert_eq!(ids(&server, &REVOKED_TOKENS).await, BTreeSet::from([jti]));
    server.stop().await;
}

/// A browser's session of a user whom nobody knows, made 90 days ago and a bit.
fn old_session(now: Time, number: usize, life: Duration) -> NewSession {
    let made = now - DAY * 90 + Duration::from_millis(number as u64);
    NewSession {
        id: SessionId::new(made, &SystemRandom),
        organization: OrganizationId::new(made, &SystemRandom),
        user: UserId::new(made, &SystemRandom),
        kind: "browser",
        hash: None,
        address: String::new(),
        agent: String::new(),
        created_at: made,
        authentication: Authentication::new(made, &[Method::Password]),
        expires_at: made + life,
    }
}

fn grant_of(session: &NewSession) -> NewGrant {
    NewGrant {
        id: GrantId::new(session.created_at, &SystemRandom),
        organization: session.organization.clone(),
        user: session.user.clone(),
        client: ClientId::new(session.created_at, &SystemRandom),
        session: session.id.clone(),
        scope: Scope::parse("openid offline_access"),
        authentication: session.authentication.clone(),
    }
}

/// Sessions, each with so many grants.
async fn fill(server: &TestServer, all: Vec<(NewSession, usize)>) {
    // A hundred rows a command: how long one may take is the database's rule, and this machine may be busy.
    for sessions in all.chunks(100) {
        let sessions = sessions.to_vec();
        let made = server.app.store.write("test", move |tx| {
            sessions.iter().try_for_each(|(session, _)| sessions::create(tx, session))
        });
        made.await.expect("fills");
    }
    let grants: Vec<NewSession> =
        all.iter().flat_map(|(session, grants)| std::iter::repeat_n(session.clone(), *grants)).collect();
    for sessions in grants.chunks(100) {
        let sessions = sessions.to_vec();
        let made = server.app.store.write("test", move |tx| {
            let mut grants = sessions.iter().map(|session| (grant_of(session), session.created_at));
            grants.try_for_each(|(grant, made_at)| grants::create(tx, &grant, None, made_at).map(drop))
        });
        made.await.expect("fills");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_slice_is_gone_in_one_turn() {
    let server = TestServer::start().await;
    let device = ada_on_a_device(&server).await;
    let own = (ids(&server, &SESSIONS).await, ids(&server, &GRANTS).await);
    let now = server.app.now();
    let grants = |number| if number == 450 { 450 } else { 1 + number % 2 };
    fill(&server, (1..=450).map(|number| (old_session(now, number, DAY * 60), grants(number))).collect())
        .await;
    server.clock.advance(Duration::from_secs(3601));
    assert!(ids(&server, &SESSIONS).await.len() > 450 && ids(&server, &GRANTS).await.len() > 1000);
    assert!(server.tidy().await.expect("tidies"));
    assert_eq!((ids(&server, &SESSIONS).await, ids(&server, &GRANTS).await), own);
    refreshed(&server, "cli", &device).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_goes_on_where_the_last_turn_has_ended() {
    let server = TestServer::start().await;
    let now = server.app.now();
    // More that live than a turn looks at, and behind them one that does not.
    for from in (0..11_000).step_by(1000) {
        let live = (from..from + 1000).map(|number| (old_session(now, number, DAY * 365), 0));
        fill(&server, live.collect()).await;
    }
    let last = old_session(now, 11_000, DAY * 60);
    fill(&server, vec![(last.clone(), 1)]).await;
    let all = ids(&server, &SESSIONS).await;
    server.clock.advance(Duration::from_secs(3601));
    for _ in 0..2 {
        assert!(server.tidy().await.expect("tidies"));
    }
    let left = ids(&server, &SESSIONS).await;
    assert_eq!(all.difference(&left).collect::<Vec<_>>(), [last.id.as_str()]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_keeps_no_other_from_its_work() {
    let server = TestServer::start().await;
    let mut ada = signed_in(&server, "ada@acme.test").await;
    let tokens = tokens_of(&server, &mut ada, &Ask::of(&server, "spa")).await;
    sign_out(&mut ada).await;
    let of = Of::tokens(&tokens);
    let rename = async |text: &'static str| {
        let statement = sql(text);
        let renamed = server.app.store.write("test.rename", move |tx| tx.exec(&statement, args![]));
        renamed.await.map_err(|error: store::Error| error).expect("renames");
    };
    rename("ALTER TABLE authorization_codes RENAME TO elsewhere").await;
    server.clock.advance(DAY * 8);
    let error = server.tidy().await.expect_err("a step fails").to_string();
    assert!(error.contains("authorization_codes"), "{error}");
    assert_eq!(of.are_there(&server).await, (false, false), "the later steps ran");
    rename("ALTER TABLE elsewhere RENAME TO authorization_codes").await;
    server.tidy().await.expect("tidies");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_of_work_are_those_that_back_ends_have() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let made: Vec<String> =
        identity::schema::MIGRATIONS.iter().map(|migration| words(migration.text)).collect();
    for table in live::background::TABLES {
        let table = words(&table.replace("IF NOT EXISTS ", ""));
        assert!(made.iter().any(|text| text.contains(&table)), "{table}");
    }
}
