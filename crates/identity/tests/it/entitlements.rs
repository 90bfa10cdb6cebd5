//! What a user may use of a service, when it is cached.

use crate::support::{START, TestIdentity};
use identity::entitlements::{self, Entitlement};
use identity::ids::CustomerId;
use identity::plans::{self, NewPlan, Plan, PlanPatch};
use identity::services::Service;
use identity::subscriptions::{self, Buyer, NewSubscription};
use identity::users::User;
use identity::{Error, Result};
use std::sync::Arc;
use store::{Cache, Filled, Key, Sql, Time, args, sql};

static CUSTOMER: Sql = sql(
    "INSERT INTO customers (id, organization_id, kind, name, created_at) VALUES (?1, ?2, 'team', 'Team', ?3)",
);
static MEMBER: Sql = sql(
    "INSERT INTO customer_members (customer_id, user_id, role, created_at) VALUES (?1, ?2, 'member', ?3)",
);

/// A user with a subscription of their own to `solo`, and one of a team to `team`, at the same service.
struct TwoPlans {
    test: TestIdentity,
    user: User,
    service: Service,
    team: Plan,
    cache: Cache<u8, Arc<Entitlement>>,
}

impl TwoPlans {
    async fn set_up() -> TwoPlans {
        let test = TestIdentity::open().await;
        let acme = test.organization("acme").await;
        let service = test.service(&acme, "app").await;
        let user = test.user(&acme, "ada@acme.test").await;
        test.plan(&acme, "solo", &["app"]).await;
        let new = NewPlan { price_cents: 100, ..test.new_plan("team", &["app"]) };
        let id = acme.id.clone();
        let made = test.write(move |tx, actor| plans::create(tx, &id, &new, actor)).await;
        let team = made.expect("a plan");
        let (customer, organization) = (CustomerId::new(START, test.random()), acme.id.clone());
        let (buyer, member) = (customer.clone(), user.id.clone());
        let joined = test.write(move |tx, _| {
            tx.exec(&CUSTOMER, args![&customer, &organization, START])?;
            tx.exec(&MEMBER, args![&customer, &member, START])?;
            tx.changed(Key::table("customers"));
            tx.changed(Key::table("customer_members"));
            Ok(())
        });
        joined.await.expect("a team");
        let solo = test.new_subscription(&user, "solo");
        let of_team =
            NewSubscription { buyer: Buyer::Customer(buyer), ..test.new_subscription(&user, "team") };
        for new in [solo, of_team] {
            let id = acme.id.clone();
            let made = test.write(move |tx, actor| subscriptions::create(tx, &id, &new, actor)).await;
            made.expect("a subscription");
        }
        let cache = test.store.cache("entitlements");
        TwoPlans { test, user, service, team, cache }
    }

    /// The plan of the entitlement, from the cache or through it.
    async fn plan(&self) -> String {
        let (user, service) = (self.user.id.clone(), self.service.id.clone());
        let filled = self.test.store.fill(&self.cache, 1, START, move |snapshot| {
            let value = Arc::new(entitlements::of_user(snapshot, &user, &service, START)?);
            Ok::<_, Error>(Some(Filled { value, until: Time::NEVER }))
        });
        filled.await.expect("reads").expect("an entitlement").plan.clone()
    }

    async fn change_team(&self, patch: PlanPatch) -> Result<Plan> {
        let team = self.team.clone();
        self.test.write(move |tx, actor| plans::patch(tx, &team, &patch, actor)).await
    }
}

#[tokio::test]
async fn a_plan_that_was_not_chosen_is_chosen_when_its_price_rises() {
    let two = TwoPlans::set_up().await;
    assert_eq!(two.plan().await, "solo");
    two.change_team(PlanPatch { price_cents: Some(9_900), ..PlanPatch::default() }).await.expect("changes");
    assert_eq!(two.plan().await, "team");
}

#[tokio::test]
async fn a_plan_that_needs_no_seat_any_more_is_chosen() {
    let two = TwoPlans::set_up().await;
    let seated = PlanPatch { price_cents: Some(9_900), seats: Some(Some(5)), ..PlanPatch::default() };
    two.change_team(seated).await.expect("changes");
    assert_eq!(two.plan().await, "solo", "the user has no seat");
    two.change_team(PlanPatch { seats: Some(None), ..PlanPatch::default() }).await.expect("changes");
    assert_eq!(two.plan().await, "team");
}

#[tokio::test]
async fn a_changed_plan_of_others_leaves_the_entry_alone() {
    let two = TwoPlans::set_up().await;
    let organization = two.team.organization.clone();
    let new = two.test.new_plan("other", &["app"]);
    let made = two.test.write(move |tx, actor| plans::create(tx, &organization, &new, actor)).await;
    let other = made.expect("a plan");
    two.plan().await;
    assert_eq!(two.cache.len(), 1);
    let patch = PlanPatch { price_cents: Some(9_900), ..PlanPatch::default() };
    let patched = two.test.write(move |tx, actor| plans::patch(tx, &other, &patch, actor)).await;
    patched.expect("changes");
    assert_eq!(two.cache.len(), 1, "only plans that the user could have count");
}
