//! A customer has at most one live subscription for a service, and entitlements change immediately.

use crate::support::{START, TestIdentity, not_found, refused};
use identity::plans::{self, PlanPatch};
use identity::secrets::SecretKey;
use identity::subscriptions::{self, Filter, NewSubscription, Status, Subscription, SubscriptionPatch};
use identity::{Lookups, Result, organizations::Organization};
use std::sync::Arc;
use std::time::Duration;

async fn create(
    test: &TestIdentity,
    organization: &Organization,
    new: NewSubscription,
) -> Result<Subscription> {
    let organization = organization.id.clone();
    test.write(move |tx, actor| subscriptions::create(tx, &organization, &new, actor)).await
}

async fn patch(
    test: &TestIdentity,
    subscription: &Subscription,
    patch: SubscriptionPatch,
) -> Result<Subscription> {
    let subscription = subscription.clone();
    test.write(move |tx, actor| subscriptions::patch(tx, &subscription, &patch, actor)).await
}

#[tokio::test]
async fn a_second_live_subscription_for_a_service_is_rejected() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.service(&acme, "app").await;
    test.service(&acme, "docs").await;
    test.plan(&acme, "app-pro", &["app"]).await;
    test.plan(&acme, "docs-pro", &["docs"]).await;
    test.plan(&acme, "suite", &["app", "docs"]).await;
    let (ada, bob) = (test.user(&acme, "ada@acme.test").await, test.user(&acme, "bob@acme.test").await);

    let first = create(&test, &acme, test.new_subscription(&ada, "app-pro")).await.expect("the first");
    for plan in ["app-pro", "suite"] {
        let second = create(&test, &acme, test.new_subscription(&ada, plan)).await;
        assert_eq!(refused(second), "already_subscribed");
    }
    create(&test, &acme, test.new_subscription(&bob, "suite")).await.expect("another customer");
    create(&test, &acme, test.new_subscription(&ada, "docs-pro")).await.expect("another service");

    let over = NewSubscription { status: Status::Canceled, ..test.new_subscription(&ada, "suite") };
    let over = create(&test, &acme, over).await.expect("a canceled subscription");
    let past = NewSubscription { current_period_end: Some(START), ..test.new_subscription(&ada, "suite") };
    create(&test, &acme, past).await.expect("an expired subscription");
    let revive = SubscriptionPatch { status: Some(Status::Active), ..SubscriptionPatch::default() };
    assert_eq!(refused(patch(&test, &over, revive).await), "already_subscribed");
    let widen = SubscriptionPatch { plan: Some("suite".to_owned()), ..SubscriptionPatch::default() };
    assert_eq!(refused(patch(&test, &first, widen).await), "already_subscribed");
    let until = START + Duration::from_secs(60);
    let same = SubscriptionPatch { current_period_end: Some(Some(until)), ..SubscriptionPatch::default() };
    let same = patch(&test, &first, same).await.expect("it does not conflict with itself");
    assert_eq!((same.plan_slug.as_str(), same.current_period_end), ("app-pro", Some(until)));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_concurrent_subscriptions_one_is_created() {
    let test = Arc::new(TestIdentity::open().await);
    let acme = test.organization("acme").await;
    test.service(&acme, "app").await;
    test.plan(&acme, "pro", &["app"]).await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let tries: Vec<_> = (0..20)
        .map(|_| {
            let (test, acme, new) = (test.clone(), acme.clone(), test.new_subscription(&ada, "pro"));
            tokio::spawn(async move { create(&test, &acme, new).await })
        })
        .collect();
    let mut made = 0;
    for tried in tries {
        match tried.await.expect("joins") {
            Ok(_) => made += 1,
            late => assert_eq!(refused(late), "already_subscribed"),
        }
    }
    assert_eq!(made, 1);
}

#[tokio::test]
async fn entitlements_change_immediately() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let app = test.service(&acme, "app").await;
    let pro = test.plan(&acme, "pro", &["app"]).await;
    test.plan(&acme, "team", &["app"]).await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let lookups = Lookups::new(test.store.clone(), "http://localhost", SecretKey::new(&[1; 32]));
    let plan_now = async || {
        let found = lookups.entitlement(&ada.id, &app.id, START).await.expect("an entitlement");
        (found.plan.clone(), found.features.raw().get().to_owned())
    };
    let of = |plan: &str, features: &str| (plan.to_owned(), features.to_owned());

    assert_eq!(plan_now().await, of("free", "[]"));
    let subscription = create(&test, &acme, test.new_subscription(&ada, "pro")).await.expect("subscribes");
    assert_eq!(plan_now().await, of("pro", "[\"export\"]"));
    let changes = PlanPatch { features: Some(vec!["reports".to_owned()]), ..PlanPatch::default() };
    test.write(move |tx, actor| plans::patch(tx, &pro, &changes, actor)).await.expect("changes the plan");
    assert_eq!(plan_now().await, of("pro", "[\"reports\"]"));
    let other = SubscriptionPatch { plan: Some("team".to_owned()), ..SubscriptionPatch::default() };
    let moved = patch(&test, &subscription, other).await.expect("another plan");
    assert_eq!(plan_now().await, of("team", "[\"export\"]"));
    test.write(move |tx, actor| subscriptions::delete(tx, &moved, actor)).await.expect("ends");
    assert_eq!(plan_now().await, of("free", "[]"));
}

#[tokio::test]
async fn subscriptions_are_listed_by_user_and_plan() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.service(&acme, "app").await;
    test.plan(&acme, "pro", &["app"]).await;
    test.plan(&acme, "team", &["app"]).await;
    let (ada, bob) = (test.user(&acme, "ada@acme.test").await, test.user(&acme, "bob@acme.test").await);
    let of_ada = create(&test, &acme, test.new_subscription(&ada, "pro")).await.expect("one");
    let of_bob = create(&test, &acme, test.new_subscription(&bob, "team")).await.expect("another");
    let list = |filter: Filter, cursor: Option<String>| {
        let id = acme.id.clone();
        test.read(move |snapshot| {
            let found = subscriptions::list(snapshot, &id, &filter, cursor.as_deref(), 50)?;
            Ok(found.into_iter().map(|found| found.id).collect::<Vec<_>>())
        })
    };
    assert_eq!(list(Filter::default(), None).await.expect("all").len(), 2);
    let user = Filter { user: Some(ada.id.clone()), plan: None };
    assert_eq!(list(user, None).await.expect("of the user"), std::slice::from_ref(&of_ada.id));
    let plan = Filter { user: None, plan: Some("team".to_owned()) };
    assert_eq!(list(plan, None).await.expect("of the plan"), std::slice::from_ref(&of_bob.id));
    let both = Filter { user: Some(ada.id.clone()), plan: Some("team".to_owned()) };
    assert!(list(both, None).await.expect("none").is_empty());
    let first = of_ada.id.clone().min(of_bob.id.clone());
    let rest = list(Filter::default(), Some(first.to_string())).await.expect("the rest");
    assert_eq!(rest, [of_ada.id.max(of_bob.id)]);
    let unknown = create(&test, &acme, test.new_subscription(&bob, "nothing")).await;
    assert_eq!(not_found(unknown), "plan");
}

#[tokio::test]
async fn a_customer_has_a_bounded_number_of_subscriptions() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.service(&acme, "app").await;
    test.plan(&acme, "app-pro", &["app"]).await;
    let (ada, bob) = (test.user(&acme, "ada@acme.test").await, test.user(&acme, "bob@acme.test").await);
    let over = |user| NewSubscription { status: Status::Canceled, ..test.new_subscription(user, "app-pro") };
    let mut last = None;
    for _ in 0..subscriptions::SUBSCRIPTIONS_MAX {
        last = Some(create(&test, &acme, over(&ada)).await.expect("one more"));
    }
    assert_eq!(refused(create(&test, &acme, over(&ada)).await), "too_many_subscriptions");
    create(&test, &acme, over(&bob)).await.expect("another customer");
    let last = last.expect("the last one");
    test.write(move |tx, actor| subscriptions::delete(tx, &last, actor)).await.expect("deletes one");
    create(&test, &acme, test.new_subscription(&ada, "app-pro")).await.expect("there is room again");
}
