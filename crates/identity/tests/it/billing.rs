//! Events in any order, any number of times, end in the same state.

use crate::support::{START, TestIdentity};
use identity::Time;
use identity::billing::connections::{self, Connection, NewConnection};
use identity::billing::customers::{self, Existing};
use identity::billing::subscriptions::{self as billed, Period, State};
use identity::billing::{self, Content, Event, ExternalId, NewIds, Stage, prices, walks};
use identity::ids::{BillingConnectionId, BillingEventId, SubscriptionId};
use identity::organizations::Organization;
use identity::subscriptions::{self, Filter};
use identity::users::User;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use store::testing::{Kind, kind};

struct Fixture {
    test: TestIdentity,
    acme: Organization,
    connection: Connection,
}

fn external(text: &str) -> ExternalId {
    text.parse().expect("an id")
}

impl Fixture {
    /// Plans `a` and `b` for one service, `c` for another one, with the prices `price_a` and so on.
    async fn begin() -> Fixture {
        let test = TestIdentity::open().await;
        let acme = test.organization("acme").await;
        for service in ["app", "docs"] {
            test.service(&acme, service).await;
        }
        for (plan, service) in [("plan-a", "app"), ("plan-b", "app"), ("plan-c", "docs")] {
            test.plan(&acme, plan, &[service]).await;
        }
        let owner = test.user(&test.platform, "owner@sarsen.test").await;
        let new = NewConnection {
            id: BillingConnectionId::new(START, test.random()),
            name: "Stripe".to_owned(),
            livemode: true,
            account: None,
            sealed_secret: None,
            created_by: owner.id,
        };
        let (of, first) = (acme.clone(), SubscriptionId::new(START, test.random()));
        let made = test.write(move |tx, actor| {
            let connection = connections::create(tx, &of, &new, actor)?;
            for letter in ["a", "b", "c"] {
                let price = external(&format!("price_{letter}"));
                prices::put(tx, &connection, &price, &format!("plan-{letter}"), &first, actor)?;
            }
            Ok(connection)
        });
        let connection = made.await.expect("a connection");
        Fixture { test, acme, connection }
    }

    /// A new user, for whom `external` stands.
    async fn customer(&self, number: u32) -> (User, ExternalId) {
        let user = self.test.user(&self.acme, &format!("user{number}@acme.test")).await;
        let (external, connection) = (external(&format!("cus_{number}")), self.connection.clone());
        let (id, of) = (user.id.clone(), external.clone());
        let put = self.test.write(move |tx, actor| {
            let customer = identity::customers::of_user(tx.snapshot(), &id)?;
            customers::put(tx, &connection, &of, &customer, Existing::IsReplaced, actor)
        });
        assert!(put.await.expect("is set"));
        (user, external)
    }

    async fn apply(&self, event: Event) {
        let random = self.test.random();
        let new = NewIds {
            event: BillingEventId::new(START, random),
            subscription: SubscriptionId::new(START, random),
        };
        let connection = self.connection.clone();
        let applied = self.test.write(move |tx, actor| billing::apply(tx, &connection, &event, &new, actor));
        applied.await.expect("is applied");
    }

    /// The user's live subscriptions, and the states that are stored: what must not depend on the order.
    async fn state(&self, user: &User, customer: &ExternalId) -> Found {
        let (acme, user, connection) = (self.acme.id.clone(), user.id.clone(), self.connection.clone());
        let customer = customer.clone();
        let read = self.test.read(move |snapshot| {
            let filter = Filter { user: Some(user), plan: None };
            let own = subscriptions::list(snapshot, &acme, &filter, None, 100)?;
            let mut live: Vec<_> = own
                .iter()
                .filter(|one| one.is_live(START))
                .map(|one| (one.plan_slug.clone(), one.status.as_str(), one.current_period_end))
                .collect();
            live.sort();
            let stored = billed::list(snapshot, &connection, false, None, 10_000)?;
            let stored = stored.into_iter().filter(|one| one.state.customer == customer);
            Ok((live, stored.map(|one| (one.state, one.problem)).collect()))
        });
        read.await.expect("reads")
    }
}

type Found = (Vec<(String, &'static str, Option<Time>)>, Vec<(State, Option<String>)>);

/// What may happen to a subscription: the second at which it happens, and how it is then.
#[derive(Clone, Debug)]
struct Step {
    second: u64,
    price: &'static str,
    status: &'static str,
}

fn step() -> impl Strategy<Value = Step> {
    // Few seconds, so that several steps share one.
    let price = prop::sample::select(vec!["price_a", "price_b"]);
    let status =
        prop::sample::select(vec!["active", "trialing", "past_due", "unpaid", "incomplete", "paused"]);
    (0..4_u64, price, status).prop_map(|(second, price, status)| Step { second, price, status })
}

/// The lives of two subscriptions, one after the other for the same service, and one for another service; each event once
/// or twice, shuffled. The first one ends.
fn story() -> impl Strategy<Value = (Vec<(usize, usize)>, [Vec<Step>; 3])> {
    let lives = [
        prop::collection::vec(step(), 1..5),
        prop::collection::vec(step(), 1..5),
        prop::collection::vec(step(), 1..4),
    ];
    lives.prop_flat_map(|mut lives| {
        lives[0].push(Step { second: 9, price: "price_a", status: "canceled" });
        lives[2].iter_mut().for_each(|step| step.price = "price_c");
        let all: Vec<(usize, usize)> = lives
            .iter()
            .enumerate()
            .flat_map(|(life, steps)| (0..steps.len()).map(move |step| (life, step)))
            .collect();
        let doubled = [all.clone(), all].concat();
        (Just(doubled).prop_shuffle(), Just(lives))
    })
}

/// The events of a story, in its order. Ids are those of the story, so the order of equal times is that of `step`.
fn events(
    prefix: &str,
    customer: &ExternalId,
    order: &[(usize, usize)],
    lives: &[Vec<Step>; 3],
) -> Vec<Event> {
    let one = |(life, number): &(usize, usize)| {
        let step = &lives[*life][*number];
        let last = step.status == "canceled";
        let stage = if last { Stage::Deleted } else { Stage::Changed };
        let end = START + Duration::from_secs(30 * 24 * 3600 + step.second);
        Event {
            id: external(&format!("evt_{prefix}_{life}_{number}")),
            kind: "customer.subscription.updated",
            occurred_at: START + Duration::from_secs(step.second),
            livemode: true,
            account: None,
            content: Content::Subscription {
                stage,
                before: None,
                state: State {
                    id: external(&format!("sub_{prefix}_{life}")),
                    customer: customer.clone(),
                    prices: vec![external(step.price)],
                    more_items: false,
                    status: step.status.to_owned(),
                    period: Period::new(Some(end), None),
                },
            },
        }
    };
    order.iter().map(one).collect()
}

#[test]
fn every_order_of_arrival_ends_in_the_same_state() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let fixture = runtime.block_on(Fixture::begin());
    let number = Cell::new(0);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() });
    let result = runner.run(&story(), |(shuffled, lives)| {
        let mut sorted = shuffled.clone();
        sorted.sort_by_key(|(life, step)| (lives[*life][*step].second, *life, *step));
        let mut ends = Vec::new();
        for order in [&sorted, &shuffled] {
            number.set(number.get() + 1);
            let number = number.get();
            ends.push(runtime.block_on(async {
                let (user, customer) = fixture.customer(number).await;
                // The ids of both runs sort alike.
                for event in events(&format!("{number:05}"), &customer, order, &lives) {
                    fixture.apply(event).await;
                }
                plain(fixture.state(&user, &customer).await)
            }));
        }
        prop_assert_eq!(&ends[0], &ends[1]);
        Ok(())
    });
    result.expect("the order does not matter");
}

/// The state without the ids of its run.
type Plain =
    (Vec<(String, &'static str, Option<Time>)>, Vec<(Vec<ExternalId>, String, Period, Option<String>)>);

fn plain((live, stored): Found) -> Plain {
    let stored = stored.into_iter();
    (live, stored.map(|(state, problem)| (state.prices, state.status, state.period, problem)).collect())
}

#[tokio::test]
async fn of_events_of_one_second_the_later_stage_counts() {
    let fixture = Fixture::begin().await;
    let (user, customer) = fixture.customer(1).await;
    let event = |id: &str, stage, status: &str| Event {
        id: external(id),
        kind: "customer.subscription.updated",
        occurred_at: START,
        livemode: true,
        account: None,
        content: Content::Subscription {
            stage,
            before: None,
            state: State {
                id: external("sub_1"),
                customer: customer.clone(),
                prices: vec![external("price_a")],
                more_items: false,
                status: status.to_owned(),
                period: Period::new(None, None),
            },
        },
    };
    // The ids would sort the other way round.
    fixture.apply(event("evt_1", Stage::Changed, "active")).await;
    fixture.apply(event("evt_2", Stage::Created, "incomplete")).await;
    let (live, _) = fixture.state(&user, &customer).await;
    assert_eq!(live, [("plan-a".to_owned(), "active", None)]);
    fixture.apply(event("evt_0", Stage::Deleted, "canceled")).await;
    fixture.apply(event("evt_9", Stage::Changed, "active")).await;
    assert_eq!(fixture.state(&user, &customer).await.0, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_that_is_mapped_anew_while_a_subscription_arrives_gives_the_new_plan() {
    let fixture = Arc::new(Fixture::begin().await);
    let mut users = Vec::new();
    for number in 0..30 {
        let (user, customer) = fixture.customer(number).await;
        let mut event = begins(number, &customer);
        let price = external(&format!("price_{number:02}"));
        if let Content::Subscription { state, .. } = &mut event.content {
            state.prices = vec![price.clone()];
        }
        let put = async |plan: &'static str| {
            let (connection, price) = (fixture.connection.clone(), price.clone());
            let new = SubscriptionId::new(START, fixture.test.random());
            let put = fixture
                .test
                .write(move |tx, actor| prices::put(tx, &connection, &price, plan, &new, actor).map(drop));
            put.await.expect("is set");
        };
        if number % 2 == 0 {
            put("plan-b").await;
        }
        tokio::join!(put("plan-a"), fixture.apply(event));
        users.push((user, customer));
    }
    let due = START + walks::BEGINS_AFTER;
    while let Some(walk) = fixture.test.read(move |snapshot| walks::due(snapshot, due)).await.expect("reads")
    {
        let new = SubscriptionId::new(START, fixture.test.random());
        let step = fixture.test.write(move |tx, actor| walks::step(tx, &walk, 40, &new, actor));
        step.await.expect("a step");
    }
    for (user, customer) in users {
        let (live, stored) = fixture.state(&user, &customer).await;
        let plans: Vec<&str> = live.iter().map(|(plan, ..)| plan.as_str()).collect();
        assert_eq!(plans, ["plan-a"], "{stored:?}");
    }
}

const ROUNDS: u32 = 100;

/// A new subscription of a customer of the provider.
fn begins(number: u32, customer: &ExternalId) -> Event {
    let order = [(0, 0)];
    let life = vec![Step { second: 0, price: "price_a", status: "active" }];
    events(&format!("begins{number}"), customer, &order, &[life, Vec::new(), Vec::new()]).remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_that_becomes_known_while_a_subscription_arrives_gets_it() {
    let fixture = Arc::new(Fixture::begin().await);
    let mut missed = Vec::new();
    for number in 0..ROUNDS {
        let user = fixture.test.user(&fixture.acme, &format!("user{number}@acme.test")).await;
        let id = user.id.clone();
        let own = fixture.test.read(move |snapshot| identity::customers::of_user(snapshot, &id)).await;
        let (own, external) = (own.expect("a customer"), external(&format!("cus_{number}")));
        let subscription = begins(number, &external);
        let checkout = Event {
            id: self::external(&format!("evt_checkout_{number}")),
            kind: "checkout.session.completed",
            content: Content::Checkout {
                id: self::external(&format!("cs_{number}")),
                external_customer: external.clone(),
                customer: Some(own.clone()),
            },
            ..subscription.clone()
        };
        let (of, known) = (fixture.clone(), external.clone());
        // By turns from a checkout, and from an administrator.
        let becomes_known = tokio::spawn(async move {
            if number % 2 == 0 {
                return of.apply(checkout).await;
            }
            let connection = of.connection.clone();
            let new = SubscriptionId::new(START, of.test.random());
            let put = of.test.write(move |tx, actor| {
                customers::put(tx, &connection, &known, &own, Existing::IsReplaced, actor)?;
                billed::settle_external(tx, &connection, &known, &new, actor)
            });
            put.await.expect("is set");
        });
        fixture.apply(subscription).await;
        becomes_known.await.expect("joins");
        let (live, stored) = fixture.state(&user, &external).await;
        if live.len() != 1 {
            missed.push((number, stored));
        }
    }
    assert!(missed.is_empty(), "{} of {ROUNDS} rounds: {missed:?}", missed.len());
}

#[tokio::test]
async fn a_connection_with_all_its_prices_still_changes_the_plan_of_one() {
    if kind() != Kind::Sqlite {
        // It is the same on each database, and fastest on a file.
        return;
    }
    let fixture = Fixture::begin().await;
    let put = async |price: String, plan: &'static str| {
        let (connection, new) =
            (fixture.connection.clone(), SubscriptionId::new(START, fixture.test.random()));
        let put = fixture.test.write(move |tx, actor| {
            Ok(prices::put(tx, &connection, &external(&price), plan, &new, actor)?.price)
        });
        put.await
    };
    // Three are there. A command has little time, so each makes a part of the others.
    for part in (3..1000).collect::<Vec<_>>().chunks(50) {
        let (connection, part) = (fixture.connection.clone(), part.to_vec());
        let new = SubscriptionId::new(START, fixture.test.random());
        let fill = fixture.test.write(move |tx, actor| {
            part.iter().try_for_each(|number| {
                let price = external(&format!("price_{number}"));
                prices::put(tx, &connection, &price, "plan-a", &new, actor).map(drop)
            })
        });
        fill.await.expect("room for a thousand");
    }
    assert_eq!(put("price_3".to_owned(), "plan-b").await.expect("no new price").plan, "plan-b");
    assert_eq!(put("price_3".to_owned(), "plan-b").await.expect("no change").plan, "plan-b");
    let one_more = put("price_1000".to_owned(), "plan-a").await.expect_err("it is full");
    assert_eq!(one_more.to_string(), "this connection has 1000 prices; remove one first");
}
