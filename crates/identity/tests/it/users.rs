//! Accounts are listed, renamed and suspended. A suspension ends the sessions.

use crate::support::{START, TestIdentity, invalid, refused};
use identity::user_suspensions;
use identity::users::{self, Order, Profile};
use identity::{customers, sessions};

#[tokio::test]
async fn suspending_a_user_ends_the_sessions() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let (ada, bob) = (test.user(&acme, "ada@acme.test").await, test.user(&acme, "bob@acme.test").await);
    test.session(&ada).await;
    test.session(&ada).await;
    test.session(&bob).await;
    let open = |user: &users::User| {
        let id = user.id.clone();
        test.read(move |snapshot| Ok(sessions::of_user(snapshot, &id, START)?.len()))
    };
    assert_eq!(open(&ada).await.expect("reads"), 2);
    for _ in 0..2 {
        let stopped = ada.clone();
        let stopped =
            test.write(move |tx, actor| user_suspensions::suspend(tx, &stopped, Some("spam"), actor)).await;
        assert_eq!(stopped.expect("idempotent").suspended_at, Some(START));
    }
    assert_eq!(open(&ada).await.expect("reads"), 0);
    assert_eq!(open(&bob).await.expect("reads"), 1, "sessions of other users stay");
    for _ in 0..2 {
        let started = ada.clone();
        let started = test.write(move |tx, actor| user_suspensions::activate(tx, &started, actor)).await;
        assert_eq!(started.expect("idempotent").suspended_at, None);
    }
    assert_eq!(open(&ada).await.expect("reads"), 0, "ended sessions stay ended");
}

#[tokio::test]
async fn users_cannot_suspend_themselves() {
    let test = TestIdentity::open().await;
    let ada = test.user(&test.platform, "ada@sarsen.test").await;
    let actor = test.actor(&ada);
    let stopped = test.store.write("test", move |tx| user_suspensions::suspend(tx, &ada, None, &actor)).await;
    assert_eq!(refused(stopped), "own_account");
}

#[tokio::test]
async fn users_are_listed_by_id_or_by_email_address() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let mut ids = Vec::new();
    for email in ["ada@acme.test", "bob@acme.test", "cleo@acme.test"] {
        ids.push(test.user(&acme, email).await.id);
    }
    ids.sort();
    test.user(&test.platform, "ada@acme.test").await;
    let list = |email: Option<&'static str>, cursor: Option<String>, limit| {
        let id = acme.id.clone();
        test.read(move |snapshot| {
            let found = users::list(snapshot, &id, email, Order::Oldest, cursor.as_deref(), limit)?;
            Ok(found.into_iter().map(|user| user.id).collect::<Vec<_>>())
        })
    };
    assert_eq!(list(None, None, 2).await.expect("a page"), ids[..2]);
    assert_eq!(list(None, Some(ids[1].to_string()), 2).await.expect("a page"), ids[2..]);
    assert_eq!(list(Some(" ADA@acme.test"), None, 50).await.expect("one").len(), 1);
    assert!(list(Some("nobody@acme.test"), None, 50).await.expect("none").is_empty());
    assert!(invalid(list(Some("ada"), None, 50).await).starts_with("email: "));
}

#[tokio::test]
async fn renaming_a_user_renames_the_personal_customer() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let (organization, id) = (acme.id.clone(), ada.id.clone());
    let renamed =
        test.write(move |tx, actor| users::change(tx, &organization, &id, |_| Profile::named("Ada"), actor));
    assert_eq!(renamed.await.expect("renames").profile.name, "Ada");
    let listed =
        test.read(move |snapshot| customers::list(snapshot, &acme.id, None, 50)).await.expect("a list");
    let listed: Vec<(&str, Option<_>)> =
        listed.iter().map(|found| (&*found.name, found.user.clone())).collect();
    assert_eq!(listed, [("Ada", Some(ada.id.clone()))]);
    let seen = ada.id.clone();
    assert_eq!(test.read(move |snapshot| users::last_seen(snapshot, &seen)).await.expect("reads"), None);
    let seen = ada.id.clone();
    test.write(move |tx, actor| Ok(users::set_last_seen(tx, &seen, actor.now)?)).await.expect("writes");
    let seen = test.read(move |snapshot| users::last_seen(snapshot, &ada.id)).await.expect("reads");
    assert_eq!(seen, Some(START));
}
