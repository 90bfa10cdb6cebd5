//! One-time links can be opened repeatedly and used once, until they expire or become void.

use crate::support::{START, TestIdentity, not_found, refused};
use identity::administrators::{self, Role};
use identity::clients::Kind;
use identity::ids::{LinkId, SessionId, UserId};
use identity::links::{self, NewLink, Purpose};
use identity::password_changes::{self, LinkUse};
use identity::scopes::Scope;
use identity::sessions::{self, NewSession};
use identity::user_suspensions;
use identity::users::{self, NewUser, User};
use identity::{Result, Time, consents};
use std::sync::Arc;
use std::time::Duration;
use store::Snapshot;

fn generate(test: &TestIdentity, purpose: Purpose, user: Option<&User>) -> NewLink {
    let id = LinkId::new(START, test.random());
    NewLink::generate(id, purpose, user.map(|user| user.id.clone()), START + links::LIFE, test.random())
}

async fn sign_in_link(test: &TestIdentity, user: &User) -> NewLink {
    let new = generate(test, Purpose::SignIn, Some(user));
    let (user, made) = (user.clone(), new.clone());
    test.write(move |tx, actor| links::create_for(tx, &user, &made, actor)).await.expect("a link");
    new
}

async fn use_at(test: &TestIdentity, purpose: Purpose, token: &str, now: Time) -> Result<Option<UserId>> {
    let token = token.to_owned();
    test.write(move |tx, _| links::use_once(tx, purpose, &token, now)).await
}

async fn peek_at(test: &TestIdentity, purpose: Purpose, token: &str, now: Time) -> Option<Option<UserId>> {
    let token = token.to_owned();
    test.read(move |snapshot| links::peek(snapshot, purpose, &token, now)).await.expect("reads")
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_concurrent_uses_of_a_link_one_succeeds() {
    let test = Arc::new(TestIdentity::open().await);
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let link = sign_in_link(&test, &ada).await;
    let tries: Vec<_> = (0..50)
        .map(|_| {
            let (test, token) = (test.clone(), link.token.clone());
            tokio::spawn(async move { use_at(&test, Purpose::SignIn, &token, START).await })
        })
        .collect();
    let mut signed_in = Vec::new();
    for tried in tries {
        match tried.await.expect("joins") {
            Ok(user) => signed_in.push(user),
            late => assert_eq!(not_found(late), "link"),
        }
    }
    assert_eq!(signed_in, [Some(ada.id)]);
}

#[tokio::test]
async fn peeking_does_not_consume_a_link_and_invalid_links_look_the_same() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let link = sign_in_link(&test, &ada).await;
    for _ in 0..3 {
        assert_eq!(peek_at(&test, Purpose::SignIn, &link.token, START).await, Some(Some(ada.id.clone())));
    }
    let late = START + links::LIFE;
    let guessed = format!("{}.{}", link.id, "A".repeat(43));
    let foreign = generate(&test, Purpose::SignIn, Some(&ada)).token;
    for (purpose, token, now) in [
        (Purpose::SignIn, link.token.as_str(), late),
        (Purpose::SetUp, &link.token, START),
        (Purpose::SignIn, &guessed, START),
        (Purpose::SignIn, &foreign, START),
        (Purpose::SignIn, "", START),
        (Purpose::SignIn, link.id.as_str(), START),
    ] {
        assert_eq!(peek_at(&test, purpose, token, now).await, None, "{token}");
        assert_eq!(not_found(use_at(&test, purpose, token, now).await), "link", "{token}");
    }
    let almost = late - Duration::from_millis(1);
    use_at(&test, Purpose::SignIn, &link.token, almost).await.expect("not consumed yet");
    assert_eq!(peek_at(&test, Purpose::SignIn, &link.token, START).await, None);
}

#[tokio::test]
async fn a_sign_in_link_is_used_with_its_session_or_not_at_all() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let link = sign_in_link(&test, &ada).await;
    let by = |id: SessionId| LinkUse {
        token: link.token.clone(),
        browser: [7; 32],
        session: NewSession { id, hash: Some([1; 32]), ..test.new_session(&ada) },
        organization: acme.slug.clone(),
        cookie: None,
    };
    let sign_in = async |by: LinkUse| {
        test.write(move |tx, actor| password_changes::sign_in_by_link(tx, &by, actor)).await
    };
    // No second session can have this id.
    let taken = test.session(&ada).await;
    assert!(sign_in(by(taken)).await.is_err());
    assert_eq!(peek_at(&test, Purpose::SignIn, &link.token, START).await, Some(Some(ada.id.clone())));
    let new = SessionId::new(START, test.random());
    let (user, session) = sign_in(by(new.clone())).await.expect("the link is still good");
    assert_eq!((user.id, &session), (ada.id.clone(), &new));

    let other = LinkUse { browser: [8; 32], ..by(SessionId::new(START, test.random())) };
    assert_eq!(not_found(sign_in(other).await), "link", "another browser");
    let (_, again) = sign_in(by(SessionId::new(START, test.random()))).await.expect("the same browser");
    assert_eq!(again, new);
}

#[tokio::test]
async fn a_suspended_user_cannot_sign_in_by_link() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let link = sign_in_link(&test, &ada).await;
    let stopped = ada.clone();
    let stopped = test
        .write(move |tx, actor| user_suspensions::suspend(tx, &stopped, None, actor))
        .await
        .expect("suspends");
    assert_eq!(peek_at(&test, Purpose::SignIn, &link.token, START).await, None);
    assert_eq!(not_found(use_at(&test, Purpose::SignIn, &link.token, START).await), "link");
    let new = generate(&test, Purpose::SignIn, Some(&stopped));
    let made = test.write(move |tx, actor| links::create_for(tx, &stopped, &new, actor)).await;
    assert_eq!(refused(made), "user_suspended");
}

#[tokio::test]
async fn a_set_up_link_is_void_once_an_owner_exists() {
    let test = TestIdentity::open().await;
    let make = |new: NewLink| test.write(move |tx, actor| links::create(tx, &new, "system", actor.now));
    let (one, other) = (generate(&test, Purpose::SetUp, None), generate(&test, Purpose::SetUp, None));
    make(one.clone()).await.expect("one");
    make(other.clone()).await.expect("another");
    assert_eq!(peek_at(&test, Purpose::SetUp, &one.token, START).await, Some(None));

    let ada = test.user(&test.platform, "ada@sarsen.test").await;
    let (platform, token) = (test.platform.id.clone(), one.token.clone());
    let used = test.write(move |tx, actor| {
        links::use_once(tx, Purpose::SetUp, &token, actor.now)?;
        administrators::add_platform_owner(tx, &platform, &ada.id, actor)
    });
    used.await.expect("the first owner");
    for token in [one.token, other.token] {
        assert_eq!(peek_at(&test, Purpose::SetUp, &token, START).await, None);
        assert_eq!(not_found(use_at(&test, Purpose::SetUp, &token, START).await), "link");
    }
    assert_eq!(refused(make(generate(&test, Purpose::SetUp, None)).await), "owner_exists");
}

#[tokio::test]
async fn old_links_are_deleted() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    sign_in_link(&test, &ada).await;
    let delete = |moment: Time| test.write(move |tx, _| links::delete_older(tx, moment, 100));
    assert_eq!(delete(START).await.expect("none is older"), 0);
    assert_eq!(delete(START + Duration::from_secs(1)).await.expect("one is"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_somebody_who_was_removed_is_void() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let (gone, demoted, suspended, there) = (
        test.administrator(&acme, "gone@sarsen.test", Role::Admin).await,
        test.administrator(&acme, "demoted@sarsen.test", Role::Admin).await,
        test.administrator(&acme, "suspended@sarsen.test", Role::Admin).await,
        test.administrator(&acme, "there@sarsen.test", Role::Owner).await,
    );
    let mut tokens = Vec::new();
    for maker in [&gone, &demoted, &suspended, &there] {
        let (new, actor, ada) =
            (generate(&test, Purpose::Password, Some(&ada)), test.actor(maker), ada.clone());
        tokens.push(new.token.clone());
        test.write(move |tx, _| links::create_for(tx, &ada, &new, &actor)).await.expect("a link");
    }
    let opens = async || {
        let mut opens = Vec::new();
        for token in &tokens {
            opens.push(peek_at(&test, Purpose::Password, token, START).await.is_some());
        }
        opens
    };
    assert_eq!(opens().await, [true; 4]);
    let (id, suspended) = (acme.id.clone(), suspended.clone());
    test.write(move |tx, actor| {
        administrators::remove(tx, &id, &gone.id, actor)?;
        administrators::change_role(tx, &id, &demoted.id, Role::Member, actor)?;
        user_suspensions::suspend(tx, &suspended, None, actor)
    })
    .await
    .expect("changes");
    assert_eq!(opens().await, [false, false, false, true]);
    let refused = use_at(&test, Purpose::Password, &tokens[0], START).await;
    assert_eq!(not_found(refused), "link");
}

#[tokio::test]
async fn the_first_proof_of_an_address_voids_consents_that_were_given_before() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let service = test.service(&acme, "wiki").await;
    let client = test.client(&service, Kind::Web).await;
    let stranger = NewUser::new("ada@acme.test", START, test.random());
    let organization = acme.id.clone();
    let ada = test
        .write(move |tx, actor| users::create(tx, &organization, &stranger, actor))
        .await
        .expect("a user");
    let (session, scope) = (test.session(&ada).await, Scope::parse("openid offline_access"));
    let (id, given) = (client.id.clone(), scope.clone());
    test.write(move |tx, actor| {
        let session = sessions::live(tx.snapshot(), &session, START)?.expect("it lives");
        consents::give(tx, &session, &id, &given, actor)
    })
    .await
    .expect("a consent");
    let link = generate(&test, Purpose::Password, Some(&ada));
    let (user, made) = (ada.clone(), link.clone());
    test.write(move |tx, actor| links::create_for(tx, &user, &made, actor)).await.expect("a link");
    test.write(move |tx, actor| password_changes::set_by_link(tx, &link.token, "a hash", actor))
        .await
        .expect("set");
    let has =
        move |snapshot: &mut Snapshot<'_>| consents::has_consented(snapshot, &ada.id, &client.id, &scope);
    assert!(!test.read(has).await.expect("reads"), "the stranger gave it");
}
