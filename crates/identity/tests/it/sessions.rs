//! Users end their own sessions from one of them.

use crate::support::{START, TestIdentity};
use identity::Time;
use identity::authentication::{Authentication, Method};
use identity::clients::{self, Client};
use identity::grants::{self, NewGrant};
use identity::ids::{GrantId, SessionId};
use identity::scopes::Scope;
use identity::secrets;
use identity::sessions::{self, NewSession, Own, Session};
use identity::users::User;
use std::time::Duration;
use store::testing::{Kind, TestPlace};

async fn session(test: &TestIdentity, user: &User) -> Session {
    let id = test.session(user).await;
    live(test, &id).await.expect("live")
}

async fn live(test: &TestIdentity, id: &SessionId) -> Option<Session> {
    let id = id.clone();
    test.read(move |snapshot| sessions::live(snapshot, &id, START)).await.expect("reads")
}

/// Ends sessions from the session `by`.
async fn end(test: &TestIdentity, by: &Session, which: Own) -> Option<u64> {
    let by = by.clone();
    test.write(move |tx, actor| sessions::end_own(tx, &by, &which, actor)).await.expect("writes")
}

#[tokio::test]
async fn of_two_sessions_that_end_each_other_one_succeeds() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    // Both sessions are read as live before either ends the other.
    let (one, other) = (session(&test, &ada).await, session(&test, &ada).await);
    assert_eq!(end(&test, &one, Own::Others).await, Some(1));
    for which in [Own::Others, Own::One(one.id.clone())] {
        assert_eq!(end(&test, &other, which).await, None, "the requesting session has ended");
    }
    assert!(live(&test, &one.id).await.is_some() && live(&test, &other.id).await.is_none());

    let (first, second) = (session(&test, &ada).await, session(&test, &ada).await);
    let (first_ends, second_ends) = tokio::join!(
        end(&test, &first, Own::One(second.id.clone())),
        end(&test, &second, Own::One(first.id.clone()))
    );
    let mut ended = [first_ends, second_ends];
    ended.sort_unstable();
    assert_eq!(ended, [None, Some(1)]);
}

#[tokio::test]
async fn sessions_of_other_users_and_ended_sessions_are_not_counted() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let (ada, bob) = (test.user(&acme, "ada@acme.test").await, test.user(&acme, "bob@acme.test").await);
    let (own, second) = (session(&test, &ada).await, session(&test, &ada).await);
    let of_bob = session(&test, &bob).await;
    assert_eq!(end(&test, &own, Own::One(of_bob.id.clone())).await, Some(0));
    assert_eq!(end(&test, &own, Own::One(second.id.clone())).await, Some(1));
    assert_eq!(end(&test, &own, Own::One(second.id)).await, Some(0), "again");
    assert_eq!(end(&test, &own, Own::Others).await, Some(0), "no other session exists");
    assert!(live(&test, &own.id).await.is_some() && live(&test, &of_bob.id).await.is_some());

    let by = own.clone();
    let later = START + Duration::from_secs(3600);
    let ended = test.write_at(later, move |tx, actor| sessions::end_own(tx, &by, &Own::Others, actor)).await;
    assert_eq!(ended.expect("writes"), None, "the requesting session has expired");
}

/// Creates `count` sessions of a user, some in each transaction, each with a grant of this client.
async fn many_sessions(test: &TestIdentity, user: &User, client: &Client, count: usize) {
    many_sessions_at(test, user, client, count, START).await;
}

async fn many_sessions_at(test: &TestIdentity, user: &User, client: &Client, count: usize, at: Time) {
    let made = |_| {
        let session = new_session(test, user, "a", at).0;
        let grant = NewGrant {
            id: GrantId::new(START, test.random()),
            organization: user.organization.clone(),
            user: user.id.clone(),
            client: client.id.clone(),
            session: session.id.clone(),
            scope: Scope::parse("openid"),
            authentication: Authentication::new(START, &[Method::Password]),
        };
        (session, grant)
    };
    let all: Vec<(NewSession, NewGrant)> = (0..count).map(made).collect();
    for some in all.chunks(100) {
        let some = some.to_vec();
        let made = test.write(move |tx, _| {
            some.iter().try_for_each(|(session, grant)| {
                sessions::create(tx, session)?;
                grants::create(tx, grant, None, START)
            })
        });
        made.await.expect("sessions");
    }
}

#[tokio::test]
async fn ten_thousand_sessions_end_at_once_on_every_database() {
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::Mysql] {
        let Some(place) = TestPlace::on(kind) else { continue };
        // Ten times what a server allows, for a program without optimisation.
        let test = TestIdentity::open_limited(place, Duration::from_secs(1)).await;
        let acme = test.organization("acme").await;
        let (ada, bob) = (test.user(&acme, "ada@acme.test").await, test.user(&acme, "bob@acme.test").await);
        let of_bob = session(&test, &bob).await;
        let client = test.client(&test.service(&acme, "app").await, clients::Kind::Spa).await;
        many_sessions(&test, &ada, &client, 10_000).await;

        let own = session(&test, &ada).await;
        assert_eq!(end(&test, &own, Own::Others).await, Some(10_000), "{kind:?}");
        assert!(live(&test, &own.id).await.is_some(), "{kind:?}");
        let user = ada.clone();
        let ended = test.write(move |tx, actor| sessions::end_all_for(tx, &user, actor)).await;
        assert_eq!(ended.expect("ends all"), 1, "{kind:?}");
        let user = ada.id.clone();
        let left = test.read(move |snapshot| sessions::of_user(snapshot, &user, START)).await;
        assert!(left.expect("reads").is_empty(), "{kind:?}");
        assert!(live(&test, &of_bob.id).await.is_some(), "{kind:?}: the session of another user");
    }
}

#[tokio::test]
async fn the_oldest_sessions_end_where_a_user_has_too_many() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let client = test.client(&test.service(&acme, "app").await, clients::Kind::Spa).await;
    let first = session(&test, &ada).await;
    let most = usize::try_from(sessions::SESSIONS_MAX).expect("a count");
    // Ids of one millisecond have no order.
    many_sessions_at(&test, &ada, &client, most + 300, START + Duration::from_secs(1)).await;
    assert!(live(&test, &first.id).await.is_none(), "the oldest has ended");
    let (newest, _) = new_session(&test, &ada, "b", START + Duration::from_secs(2));
    let id = newest.id.clone();
    test.write(move |tx, _| sessions::create(tx, &newest)).await.expect("one more");
    let newest = live(&test, &id).await.expect("live");
    let left = end(&test, &newest, Own::Others).await.expect("ends the others");
    assert!((most as u64 - 1..most as u64 + 200).contains(&left), "{left}");
}

#[tokio::test]
async fn a_scan_returns_every_ended_session_once() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(test.session(&ada).await);
    }
    ids.sort();
    let moment = START + Duration::from_secs(3601);
    for most in [1, 2, 5, 6] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = test.read(move |snapshot| sessions::ended(snapshot, &after, moment, most)).await;
            let page = page.expect("reads");
            found.extend(page.ended);
            let Some(last) = page.last else { break };
            after = last.to_string();
        }
        assert_eq!(found, ids, "by {most}");
    }
    // The sessions have not expired one second earlier, but an ended session counts immediately.
    let early = moment - Duration::from_secs(1);
    let (ended, by) = (ids[2].clone(), ada.id.to_string());
    test.write(move |tx, _| sessions::end(tx, &ended, &by, START)).await.expect("ends");
    let page = test.read(move |snapshot| sessions::ended(snapshot, "", early, 9)).await.expect("reads");
    assert_eq!(page.ended, [ids[2].clone()]);
}

/// A new session of a user in a browser, and the value of its cookie.
fn new_session(test: &TestIdentity, user: &User, secret: &str, now: Time) -> (NewSession, String) {
    let new = NewSession {
        id: SessionId::new(now, test.random()),
        organization: user.organization.clone(),
        user: user.id.clone(),
        kind: "browser",
        hash: Some(secrets::hash(secret.as_bytes())),
        address: "127.0.0.1".to_owned(),
        agent: "a test".to_owned(),
        created_at: now,
        authentication: Authentication::new(now, &[Method::Password]),
        expires_at: now + Duration::from_secs(3600),
    };
    let cookie = format!("{}.{secret}", new.id);
    (new, cookie)
}

async fn sign_in(test: &TestIdentity, new: &NewSession, cookie: Option<&str>) -> SessionId {
    let (new, cookie) = (new.clone(), cookie.map(str::to_owned));
    let now = new.created_at;
    let signed_in =
        test.write_at(now, move |tx, actor| sessions::sign_in(tx, &new, "acme", cookie.as_deref(), actor));
    signed_in.await.expect("signs in")
}

async fn by_cookie(test: &TestIdentity, cookie: &str, now: Time) -> Option<Session> {
    let cookie = cookie.to_owned();
    test.read(move |snapshot| sessions::by_cookie(snapshot, "acme", &cookie, now)).await.expect("reads")
}

#[tokio::test]
async fn the_same_user_keeps_the_session_and_another_user_does_not() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let (ada, bob) = (test.user(&acme, "ada@acme.test").await, test.user(&acme, "bob@acme.test").await);
    let later = START + Duration::from_secs(60);
    let (first, old_cookie) = new_session(&test, &ada, "one", START);
    assert_eq!(sign_in(&test, &first, None).await, first.id);

    let (again, _) = new_session(&test, &ada, "two", later);
    assert_eq!(sign_in(&test, &again, Some(&old_cookie)).await, first.id, "the session stays");
    assert!(by_cookie(&test, &old_cookie, later).await.is_none(), "the old secret is void");
    let cookie = format!("{}.two", first.id);
    let kept = by_cookie(&test, &cookie, later).await.expect("the new secret is good");
    let times = (kept.created_at, kept.authentication.at, kept.expires_at);
    assert_eq!(times, (START, later, again.expires_at));

    // A void cookie renews nothing.
    let (third, third_cookie) = new_session(&test, &ada, "three", later);
    assert_eq!(sign_in(&test, &third, Some(&old_cookie)).await, third.id);
    assert!(by_cookie(&test, &cookie, later).await.is_some());

    let (of_bob, bobs_cookie) = new_session(&test, &bob, "four", later);
    assert_eq!(sign_in(&test, &of_bob, Some(&third_cookie)).await, of_bob.id);
    assert!(by_cookie(&test, &third_cookie, later).await.is_none(), "the session of another user ends");
    assert_eq!(by_cookie(&test, &bobs_cookie, later).await.expect("live").user, bob.id);
    let expired = of_bob.expires_at;
    let (fresh, _) = new_session(&test, &bob, "five", expired);
    assert_eq!(
        sign_in(&test, &fresh, Some(&bobs_cookie)).await,
        fresh.id,
        "an expired session is not renewed"
    );
}
