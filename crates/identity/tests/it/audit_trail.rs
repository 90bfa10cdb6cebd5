//! Filters of the audit trail: actor, action and time.

use crate::support::{START, TestIdentity, not_found_name};
use identity::administrators::Role;
use identity::audit::{self, Actor};
use identity::audit_trail::{self, Filter};
use identity::organizations::Organization;
use std::time::Duration;

/// The details of the entries that a filter matches, newest first, read in pages of two.
async fn matched(test: &TestIdentity, organization: &Organization, filter: Filter) -> Vec<String> {
    let (mut details, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let (id, filter, cursor) = (organization.id.clone(), filter.clone(), after.clone());
        let page = test.read(move |snapshot| audit_trail::list(snapshot, &id, &filter, cursor.as_deref(), 2));
        let page = page.await.expect("a page");
        details.extend(page.iter().map(|entry| entry.details.clone()));
        match page.into_iter().last() {
            Some(entry) => after = Some(entry.id.to_string()),
            None => return details,
        }
    }
}

#[tokio::test]
async fn entries_are_found_by_actor_action_and_time() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&acme, "ada@acme.test").await;
    // The same person may have an account as an administrator.
    let admin = test.administrator(&acme, "ada@acme.test", Role::Admin).await;
    let stranger = test.user(&test.platform, "bob@sarsen.test").await;
    for (minute, user, action, details) in [
        (1, &ada, "test.one", "a"),
        (2, &admin, "test.one", "b"),
        (3, &ada, "test.two", "c"),
        (4, &admin, "test.two", "d"),
        (5, &ada, "test.one", "e"),
    ] {
        let now = START + Duration::from_secs(60 * minute);
        let (id, actor) = (acme.id.clone(), Actor::user(&user.id, "", now, test.random()));
        let noted =
            test.store.write("test", move |tx| audit::note(tx, &id, &actor.clone(), action, "x", details));
        noted.await.expect("an entry");
    }
    let at = |minute: u64| Some(START + Duration::from_secs(60 * minute));
    let actor = |actor: &str| Filter { actor: Some(actor.to_owned()), ..Filter::default() };
    let of_test = |action: &str| Filter { action: Some(action.to_owned()), ..Filter::default() };
    for (filter, expected) in [
        (actor(ada.id.as_str()), &["e", "c", "a"][..]),
        (actor("ada@acme.test"), &["e", "d", "c", "b", "a"]),
        (of_test("test.one"), &["e", "b", "a"]),
        (of_test("test"), &[]),
        (Filter { action: Some("test.two".to_owned()), ..actor(admin.id.as_str()) }, &["d"]),
        (Filter { since: at(2), until: at(4), ..Filter::default() }, &["c", "b"]),
        (Filter { since: at(2), ..of_test("test.one") }, &["e", "b"]),
        (Filter { until: at(5), ..actor(ada.id.as_str()) }, &["c", "a"]),
        (Filter { since: at(6), ..Filter::default() }, &[]),
        (actor("unknown"), &[]),
    ] {
        assert_eq!(matched(&test, &acme, filter.clone()).await, expected, "{filter:?}");
    }
    // The reply does not reveal whether an address outside the organization has an account.
    for address in [stranger.email.as_str(), "nobody@sarsen.test"] {
        let (id, filter) = (acme.id.clone(), actor(address));
        let none = test.read(move |snapshot| audit_trail::list(snapshot, &id, &filter, None, 50)).await;
        assert_eq!(not_found_name(none), ("actor", address.to_owned()));
    }
}

#[test]
fn an_actor_is_an_id_an_address_or_the_server() {
    for good in [
        "system",
        "unknown",
        "ada@acme.test",
        "user_00000000000000000000000000",
        "client_00000000000000000000000000",
    ] {
        assert_eq!(audit_trail::actor(good).expect("an actor"), good);
    }
    for wrong in ["", "ada", "a@", "org_00000000000000000000000000"] {
        assert!(audit_trail::actor(wrong).is_err(), "{wrong:?}");
    }
    assert!(audit_trail::action("user.created").is_ok());
    for wrong in ["", "User", "a b", "user.%"] {
        assert!(audit_trail::action(wrong).is_err(), "{wrong:?}");
    }
}
