//! Search of users by the beginning of an address, of a name, or of a later word of a name.

use crate::support::TestIdentity;
use identity::ids::{OrganizationId, UserId};
use identity::user_search::{self, Place};
use identity::users::{self, Order, Profile, User};
use identity::{Result, user_deletions};

/// The addresses of all users that a text finds, read in pages of two.
async fn found(test: &TestIdentity, organization: &OrganizationId, typed: &str) -> Vec<String> {
    let text = user_search::text(typed).expect("a text");
    let (mut addresses, mut after): (Vec<String>, Option<Place>) = (Vec::new(), None);
    loop {
        let (organization, text, last) = (organization.clone(), text.clone(), after.clone());
        let page =
            test.read(move |snapshot| user_search::find(snapshot, &organization, &text, last.as_ref(), 2));
        let page = page.await.expect("a page");
        addresses.extend(page.iter().map(|(_, user)| user.email.clone()));
        match page.into_iter().last() {
            Some((place, _)) => after = Some(place),
            None => return addresses,
        }
    }
}

async fn named(
    test: &TestIdentity,
    organization: &OrganizationId,
    id: &UserId,
    name: &'static str,
) -> Result<User> {
    let (organization, id) = (organization.clone(), id.clone());
    test.write(move |tx, actor| users::change(tx, &organization, &id, |_| Profile::named(name), actor)).await
}

#[tokio::test]
async fn users_are_found_by_the_beginning_of_an_address_or_of_a_word_of_the_name() {
    let test = TestIdentity::open().await;
    let (acme, bolt) = (test.organization("acme").await, test.organization("bolt").await);
    let ada = test.user(&acme, "ada@acme.test").await;
    let grace = test.user(&acme, "hopper@acme.test").await;
    let adam = test.user(&acme, "zz@acme.test").await;
    test.user(&bolt, "ada@bolt.test").await;
    named(&test, &acme.id, &ada.id, "Ada King Lovelace").await.expect("a name");
    named(&test, &acme.id, &grace.id, "Grace  Hopper").await.expect("a name");
    named(&test, &acme.id, &adam.id, "ADAM ÉMILE").await.expect("a name");
    for (typed, expected) in [
        ("ada", &["ada@acme.test", "zz@acme.test"][..]),
        ("ADA k", &["ada@acme.test"]),
        ("love", &["ada@acme.test"]),
        ("king  love", &["ada@acme.test"]),
        ("hop", &["hopper@acme.test"]),
        ("émi", &["zz@acme.test"]),
        ("zz@", &["zz@acme.test"]),
        ("a", &["ada@acme.test", "zz@acme.test"]),
        ("acme", &[]),
        ("ace", &[]),
        ("%", &[]),
    ] {
        assert_eq!(found(&test, &acme.id, typed).await, expected, "{typed}");
    }

    named(&test, &acme.id, &ada.id, "Countess").await.expect("another name");
    assert_eq!(found(&test, &acme.id, "love").await, [""; 0], "the name from before is forgotten");
    assert_eq!(found(&test, &acme.id, "count").await, ["ada@acme.test"]);
    let deleted = adam.clone();
    test.write(move |tx, actor| user_deletions::delete(tx, &deleted, actor)).await.expect("deletes");
    assert_eq!(found(&test, &acme.id, "adam").await, [""; 0], "a deleted user is not found");
}

#[tokio::test]
async fn users_are_sorted_by_address_or_from_the_newest_on() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let mut ids = Vec::new();
    for email in ["cleo@acme.test", "ada@acme.test", "bob@acme.test"] {
        ids.push(test.user(&acme, email).await.id);
    }
    ids.sort();
    ids.reverse();
    let list = |order, cursor: Option<String>| {
        let id = acme.id.clone();
        test.read(move |snapshot| users::list(snapshot, &id, None, order, cursor.as_deref(), 2))
    };
    let first = list(Order::Email, None).await.expect("a page");
    assert_eq!(first.iter().map(|user| &*user.email).collect::<Vec<_>>(), ["ada@acme.test", "bob@acme.test"]);
    let rest = list(Order::Email, Some("bob@acme.test".to_owned())).await.expect("a page");
    assert_eq!(rest.iter().map(|user| &*user.email).collect::<Vec<_>>(), ["cleo@acme.test"]);
    let newest = list(Order::Newest, None).await.expect("a page");
    assert_eq!(newest.iter().map(|user| &user.id).collect::<Vec<_>>(), [&ids[0], &ids[1]]);
    let oldest = list(Order::Newest, Some(ids[1].to_string())).await.expect("a page");
    assert_eq!(oldest.iter().map(|user| &user.id).collect::<Vec<_>>(), [&ids[2]]);
}
