//! The cost of a page of a long list on MySQL and MariaDB, whose optimisers may prefer another index than the list's.

use crate::support::{START, TestIdentity};
use identity::ids::{SubscriptionId, UserId};
use identity::organizations::Organization;
use identity::subscriptions::{Buyer, Filter, NewSubscription, Status};
use identity::user_search::{self, Place};
use identity::users::{NewUser, Order};
use identity::{Result, audit_trail, customers, subscriptions, users};
use store::testing::{Kind, TestPlace};
use store::{Snapshot, Sql, args, sql};

const ACCOUNTS: usize = 1000;
const PAGE: i64 = 20;
/// The audit entries for the organization, its service and its plans.
const MADE_BEFORE: usize = 4;
/// The accounts alternate between these plans.
const PLANS: [&str; 2] = ["solo", "team"];
/// The limit for a page: its rows, the joined rows, and a margin.
const READ_MAX: u64 = 100;
/// The limit for a page of the audit log, which joins seven rows to each entry, some of them in two steps.
const READ_MAX_OF_TRAIL: u64 = 300;

/// The number of rows that the server has read in this session, including rows skipped by an index.
fn rows_read(snapshot: &mut Snapshot<'_>) -> Result<u64> {
    static READ: Sql = sql("SHOW SESSION STATUS
        WHERE Variable_name LIKE 'Handler_read%' OR Variable_name = 'Handler_icp_attempts'");
    let counts = snapshot.all(&READ, args![], |row| row.get::<String>(1))?;
    Ok(counts.iter().filter_map(|count| count.parse::<u64>().ok()).sum())
}

/// Reads a list page by page. Returns the ids, and the largest number of rows read for one page.
async fn walk<F>(test: &TestIdentity, page: F) -> (Vec<String>, u64)
where
    F: Fn(&mut Snapshot<'_>, Option<&str>) -> Result<Vec<String>> + Clone + Send + 'static,
{
    let (mut ids, mut most): (Vec<String>, u64) = (Vec::new(), 0);
    loop {
        let (page, cursor) = (page.clone(), ids.last().cloned());
        let (next, read) = test
            .read(move |snapshot| {
                // The status query reads rows itself, so its own cost is subtracted.
                let (first, second) = (rows_read(snapshot)?, rows_read(snapshot)?);
                let next = page(snapshot, cursor.as_deref())?;
                Ok((next, (rows_read(snapshot)? - second).saturating_sub(second - first)))
            })
            .await
            .expect("a page");
        if next.is_empty() {
            return (ids, most);
        }
        most = most.max(read);
        ids.extend(next);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_a_list_reads_a_limited_number_of_rows() {
    let Some(place) = TestPlace::on(Kind::Mysql) else { return };
    let test = TestIdentity::open_in(place).await;
    let acme = test.organization("acme").await;
    test.service(&acme, "files").await;
    for plan in PLANS {
        test.plan(&acme, plan, &["files"]).await;
    }
    for slice in (0..ACCOUNTS).collect::<Vec<_>>().chunks(20) {
        let accounts: Vec<_> = slice.iter().map(|number| account(&test, *number)).collect();
        let organization = acme.id.clone();
        let made = test.write(move |tx, actor| {
            accounts.iter().try_for_each(|(new, subscription)| {
                users::create(tx, &organization, new, actor)?;
                subscriptions::create(tx, &organization, subscription, actor).map(drop)
            })
        });
        made.await.expect("accounts");
    }

    let organization = acme.id.clone();
    let of_users = walk(&test, move |snapshot, cursor| {
        let page = users::list(snapshot, &organization, None, Order::Oldest, cursor, PAGE)?;
        Ok(page.into_iter().map(|user| user.id.to_string()).collect())
    });
    let of_users = of_users.await;
    let organization = acme.id.clone();
    let of_customers = walk(&test, move |snapshot, cursor| {
        let page = customers::list(snapshot, &organization, cursor, PAGE)?;
        Ok(page.into_iter().map(|customer| customer.id.to_string()).collect())
    });
    let of_customers = of_customers.await;
    let of_all = subscriptions(&test, &acme, None).await;
    let of_plan = subscriptions(&test, &acme, Some(PLANS[0])).await;
    let organization = acme.id.clone();
    let trail = walk(&test, move |snapshot, cursor| {
        let page = audit_trail::list(snapshot, &organization, &audit_trail::Filter::default(), cursor, PAGE)?;
        Ok(page.into_iter().map(|entry| entry.id.to_string()).collect())
    });
    let (mut trail, most_of_trail) = trail.await;
    trail.reverse(); // The list is newest first.

    let organization = acme.id.clone();
    let newest = walk(&test, move |snapshot, cursor| {
        let page = users::list(snapshot, &organization, None, Order::Newest, cursor, PAGE)?;
        Ok(page.into_iter().map(|user| user.id.to_string()).collect())
    });
    let (mut newest, most_of_newest) = newest.await;
    newest.reverse();
    let organization = acme.id.clone();
    let by_email = walk(&test, move |snapshot, cursor| {
        let page = users::list(snapshot, &organization, None, Order::Email, cursor, PAGE)?;
        Ok(page.into_iter().map(|user| user.email).collect())
    });
    let by_email = by_email.await;
    let organization = acme.id.clone();
    let searched = walk(&test, move |snapshot, cursor| {
        // The accounts have no name, so the term is the address of the user.
        let last = cursor.map(|term| users::find(snapshot, &organization, term)).transpose()?.flatten();
        let after = last.map(|user| Place { term: user.email, user: user.id });
        let page = user_search::find(snapshot, &organization, "person", after.as_ref(), PAGE)?;
        Ok(page.into_iter().map(|(place, _)| place.term).collect())
    });
    let searched = searched.await;
    let mut trails = Vec::new();
    for (actor, action) in
        [(None, Some("user.created")), (Some("system"), Some("user.created")), (Some("system"), None)]
    {
        let organization = acme.id.clone();
        let filter = audit_trail::Filter {
            actor: actor.map(str::to_owned),
            action: action.map(str::to_owned),
            ..audit_trail::Filter::default()
        };
        let trail = walk(&test, move |snapshot, cursor| {
            let page = audit_trail::list(snapshot, &organization, &filter, cursor, PAGE)?;
            Ok(page.into_iter().map(|entry| entry.id.to_string()).collect())
        });
        let (mut trail, most) = trail.await;
        trail.reverse();
        trails.push((trail, most));
    }
    let [of_action, of_both, of_actor] = trails.try_into().expect("three");

    for (list, count, bound, (ids, most)) in [
        ("users", ACCOUNTS, READ_MAX, of_users),
        ("newest users", ACCOUNTS, READ_MAX, (newest, most_of_newest)),
        ("users by address", ACCOUNTS, READ_MAX, by_email),
        ("users found", ACCOUNTS, 2 * READ_MAX, searched),
        ("audit trail of an action", ACCOUNTS, READ_MAX_OF_TRAIL, of_action),
        ("audit trail of an actor and an action", ACCOUNTS, READ_MAX_OF_TRAIL, of_both),
        ("audit trail of an actor", 2 * ACCOUNTS + MADE_BEFORE, READ_MAX_OF_TRAIL, of_actor),
        ("customers", ACCOUNTS, READ_MAX, of_customers),
        ("subscriptions", ACCOUNTS, READ_MAX, of_all),
        ("subscriptions of a plan", ACCOUNTS / 2, READ_MAX, of_plan),
        ("audit trail", 2 * ACCOUNTS + MADE_BEFORE, READ_MAX_OF_TRAIL, (trail, most_of_trail)),
    ] {
        assert!(ids.is_sorted() && ids.len() == count, "{list}: {}", ids.len());
        assert!(most <= bound, "{list}: a page of {PAGE} read {most} rows");
    }
}

async fn subscriptions(
    test: &TestIdentity,
    organization: &Organization,
    plan: Option<&str>,
) -> (Vec<String>, u64) {
    let (organization, plan) = (organization.id.clone(), plan.map(str::to_owned));
    let filter = Filter { user: None, plan };
    walk(test, move |snapshot, cursor| {
        let page = subscriptions::list(snapshot, &organization, &filter, cursor, PAGE)?;
        Ok(page.into_iter().map(|subscription| subscription.id.to_string()).collect())
    })
    .await
}

fn account(test: &TestIdentity, number: usize) -> (NewUser, NewSubscription) {
    let id = UserId::new(START, test.random());
    let subscription = NewSubscription {
        id: SubscriptionId::new(START, test.random()),
        buyer: Buyer::User(id.clone()),
        plan: PLANS[number % 2].to_owned(),
        status: Status::Active,
        current_period_end: None,
        access_until: None,
    };
    let new = NewUser {
        id,
        email_verified: true,
        ..NewUser::new(format!("person-{number}@acme.test"), START, test.random())
    };
    (new, subscription)
}
