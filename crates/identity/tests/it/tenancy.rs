//! Objects of one organization are not visible to another.

use crate::support::{TestIdentity, not_found};
use identity::clients::{self, Kind};
use identity::subscriptions::{self, Buyer, NewSubscription};
use identity::users;
use identity::{administrators, administrators::Role, audit_trail, customers, plans, services};

#[tokio::test]
async fn objects_of_another_organization_are_not_found() {
    let test = TestIdentity::open().await;
    let (acme, bolt) = (test.organization("acme").await, test.organization("bolt").await);
    let app = test.service(&acme, "app").await;
    let client = test.client(&app, Kind::Web).await;
    test.plan(&acme, "pro", &["app"]).await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let owner = test.administrator(&acme, "owner@sarsen.test", Role::Owner).await;
    let (id, new) = (acme.id.clone(), test.new_subscription(&ada, "pro"));
    let subscription =
        test.write(move |tx, actor| subscriptions::create(tx, &id, &new, actor)).await.expect("one");

    let b = || bolt.id.clone();
    let id = b();
    assert_eq!(not_found(test.read(move |snapshot| services::find(snapshot, &id, "app")).await), "service");
    let (id, wanted) = (b(), client.id.clone());
    let found = test.read(move |snapshot| clients::in_organization(snapshot, &id, &wanted)).await;
    assert_eq!(not_found(found), "client");
    let id = b();
    assert_eq!(not_found(test.read(move |snapshot| plans::find(snapshot, &id, "pro")).await), "plan");
    let (id, wanted) = (b(), ada.id.clone());
    let found = test.read(move |snapshot| users::in_organization(snapshot, &id, &wanted)).await;
    assert_eq!(not_found(found), "user");
    let (id, wanted) = (b(), subscription.customer.clone());
    assert_eq!(
        not_found(test.read(move |snapshot| customers::get(snapshot, &id, &wanted)).await),
        "customer"
    );
    let (id, wanted) = (b(), subscription.id.clone());
    let found = test.read(move |snapshot| subscriptions::get(snapshot, &id, &wanted)).await;
    assert_eq!(not_found(found), "subscription");
    let (id, wanted) = (b(), owner.id.clone());
    let found = test.read(move |snapshot| administrators::get(snapshot, &id, &wanted)).await;
    assert_eq!(not_found(found), "administrator");

    let id = b();
    let lists = test.read(move |snapshot| {
        Ok([
            services::list(snapshot, &id, None, 50)?.len(),
            clients::list(snapshot, &id, None, None, 50)?.len(),
            plans::list(snapshot, &id, None, 50)?.len(),
            users::list(snapshot, &id, None, users::Order::Oldest, None, 50)?.len(),
            customers::list(snapshot, &id, None, 50)?.len(),
            subscriptions::list(snapshot, &id, &subscriptions::Filter::default(), None, 50)?.len(),
            administrators::list(snapshot, &id, None, 50)?.len(),
            audit_trail::list(snapshot, &id, &audit_trail::Filter::default(), None, 50)?.len(),
        ])
    });
    assert_eq!(
        lists.await.expect("lists"),
        [0, 0, 0, 0, 0, 0, 0, 1],
        "the audit log has only the creation of the organization"
    );
}

#[tokio::test]
async fn nothing_is_created_from_objects_of_another_organization() {
    let test = TestIdentity::open().await;
    let (acme, bolt) = (test.organization("acme").await, test.organization("bolt").await);
    test.service(&acme, "app").await;
    test.plan(&acme, "pro", &["app"]).await;
    test.service(&bolt, "app").await;
    test.plan(&bolt, "pro", &["app"]).await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let id = ada.id.clone();
    let customer =
        test.read(move |snapshot| customers::of_user(snapshot, &id)).await.expect("the personal customer");
    for (buyer, what) in [
        (Buyer::User(ada.id.clone()), "user"),
        (Buyer::Customer(customer), "customer"),
        (Buyer::User(test.unknown_user()), "user"),
    ] {
        let new = NewSubscription { buyer, ..test.new_subscription(&ada, "pro") };
        let id = bolt.id.clone();
        let made = test.write(move |tx, actor| subscriptions::create(tx, &id, &new, actor)).await;
        assert_eq!(not_found(made), what);
    }
    let app = test.service(&acme, "docs").await;
    let client = test.client(&app, Kind::Web).await;
    let (id, secret) = (bolt.id.clone(), clients::NewSecret::generate(crate::support::START, test.random()));
    let added =
        test.write(move |tx, actor| clients::add_secret(tx, &id, &client.id, &secret, Role::Admin, actor));
    assert_eq!(not_found(added.await), "client");
}
