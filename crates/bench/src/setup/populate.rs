//! Creates organizations and accounts, and signs each account in.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::account::{Account, AccountParts, Accounts, BodyFormat, CodeRequest};
use super::admin::{Admin, Credentials};
use super::client::Client;
use super::person::Person;
use super::tenants::{PLANS_SOLD, Tenant, plan_bought, plan_expected};
use crate::error::Error;
use crate::http::Target;
use crate::report::{progress, thousands};

const WORKERS: usize = 64;
/// The first number of the accounts of [`create_probe_accounts`].
const EMPLOYED_FROM: usize = 2_000_000;

/// Numbers of organizations and accounts.
#[derive(Debug, Clone, Copy)]
pub struct Population {
    pub tenants: usize,
    pub accounts: usize,
}

struct Work {
    target: Target,
    admin: Admin,
    tenants: Vec<Tenant>,
    accounts: usize,
    next: Cell<usize>,
    done: RefCell<Vec<(usize, Account)>>,
}

/// Fills the server at `target`. The accounts are spread evenly over the organizations.
pub async fn populate(
    target: &Target,
    credentials: &Credentials,
    size: Population,
) -> Result<Accounts, Error> {
    let mut client = Client::new(target.clone(), 0);
    let admin = Admin::sign_in(&mut client, credentials).await?;
    let tenants = make_tenants(&admin, &mut client, size.tenants).await?;
    let work = Rc::new(Work {
        target: target.clone(),
        admin,
        tenants,
        accounts: size.accounts,
        next: Cell::new(0),
        done: RefCell::new(Vec::with_capacity(size.accounts)),
    });
    let mut workers = JoinSet::new();
    for number in 0..WORKERS.min(size.accounts) {
        workers.spawn_local(sign_in_many(work.clone(), number));
    }
    let shown = work.clone();
    let mut display = JoinSet::new();
    display.spawn_local(async move { show_progress(&shown).await });
    while let Some(result) = workers.join_next().await {
        result.map_err(|error| Error::set_up("accounts", error.to_string()))??;
    }
    drop(display);
    let mut done = work.done.take();
    done.sort_by_key(|(number, _)| *number);
    Ok(Rc::new(done.into_iter().map(|(_, account)| account).collect()))
}

/// An account in its own organization, subscribed to the first of [`PLANS_SOLD`] and not signed in.
pub struct ProbeAccount {
    pub person: Person,
    /// Id of the subscription.
    pub subscription: String,
}

/// Creates `count` organizations with one account each; also returns their administrator.
pub async fn create_probe_accounts(
    target: &Target,
    credentials: &Credentials,
    count: usize,
) -> Result<(Rc<Admin>, Vec<ProbeAccount>), Error> {
    let mut client = Client::new(target.clone(), 0);
    let admin = Admin::sign_in(&mut client, credentials).await?;
    let mut probe_account = Vec::with_capacity(count);
    for (number, tenant) in make_tenants(&admin, &mut client, count).await?.iter().enumerate() {
        let person = Person::create(&admin, &mut client, tenant, EMPLOYED_FROM + number).await?;
        let subscription = person.subscribe(&admin, &mut client, PLANS_SOLD[0]).await?;
        probe_account.push(ProbeAccount { person, subscription });
    }
    Ok((Rc::new(admin), probe_account))
}

pub(super) async fn make_tenants(
    admin: &Admin,
    client: &mut Client,
    count: usize,
) -> Result<Vec<Tenant>, Error> {
    // Slugs are never reused, and an earlier bench may have used this server.
    let run = RandomState::new().hash_one(count) & 0xff_ffff;
    let slugs: Vec<String> = (0..count).map(|number| format!("bench-{run:06x}-{number}")).collect();
    for (number, slug) in slugs.iter().enumerate() {
        Tenant::create(admin, client, slug, number).await?;
    }
    admin.refresh(client).await?;
    let mut tenants = Vec::with_capacity(count);
    for slug in slugs {
        tenants.push(Tenant::add_catalog(admin, client, slug).await?);
    }
    progress(&format!("set-up: {count} organizations"));
    Ok(tenants)
}

async fn sign_in_many(work: Rc<Work>, worker: usize) -> Result<(), Error> {
    let mut client = Client::new(work.target.clone(), worker);
    loop {
        let number = work.next.get();
        if number >= work.accounts {
            return Ok(());
        }
        work.next.set(number + 1);
        match sign_in_one(&work, &mut client, number).await {
            Ok(account) => work.done.borrow_mut().push((number, account)),
            Err(error) => {
                // Stops the other workers.
                work.next.set(work.accounts);
                return Err(error);
            }
        }
    }
}

async fn sign_in_one(work: &Work, client: &mut Client, number: usize) -> Result<Account, Error> {
    let tenant = &work.tenants[number % work.tenants.len()];
    let admin = &work.admin;
    let mut person = Person::create(admin, client, tenant, number).await?;
    // By the number within the organization, so that every organization has every plan.
    let place = number / work.tenants.len();
    if let Some(plan) = plan_bought(place) {
        person.subscribe(admin, client, plan).await?;
    }
    person.sign_in_by_link(admin, client).await?;
    let tokens = person.sign_in(client).await?;
    let identity = AccountParts {
        target: work.target.clone(),
        address: person.address,
        code: CodeRequest { client_id: person.client_id, ..CodeRequest::default() },
        shape: BodyFormat::Form,
        plan: Some(plan_expected(place).to_owned()),
        user_id: Some(person.user_id),
        cookies: person.cookies,
    };
    Ok(Account::new(identity, tokens))
}

async fn show_progress(work: &Work) {
    let begun = Instant::now();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let done = work.done.borrow().len();
        let per_second = done as f64 / begun.elapsed().as_secs_f64();
        let (done, of) = (thousands(done as u64), thousands(work.accounts as u64));
        progress(&format!("set-up: {done} of {of} accounts signed in ({per_second:.0}/s)"));
    }
}
