//! The whole of set-up: organizations, accounts, a token for each. No password is hashed for them: each signs in
//! by a one-time link and approves its own device code.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::account::{Account, Accounts, BodyShape, CodeRequest, Identity};
use super::admin::{Admin, Credentials};
use super::browser::Browser;
use super::client::Client;
use super::cookies::Cookies;
use super::device_flow::sign_in;
use super::html::{Form, Known, forms};
use super::tenants::{Tenant, plan_bought, plan_expected};
use crate::error::Error;
use crate::http::Target;
use crate::report::{progress, thousands};

const WORKERS: usize = 64;
const SCOPE: &str = "openid profile email offline_access";

/// How many of what.
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

#[derive(Deserialize)]
struct NewUser {
    id: String,
}

#[derive(Deserialize)]
struct NewLink {
    url: String,
}

/// Fills the server at `target` and hands back its accounts, spread evenly over the organizations.
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

async fn make_tenants(admin: &Admin, client: &mut Client, count: usize) -> Result<Vec<Tenant>, Error> {
    // Slugs are never given out twice, and the server may have seen a bench before.
    let run = RandomState::new().hash_one(count) & 0xff_ffff;
    let slugs: Vec<String> = (0..count).map(|number| format!("bench-{run:06x}-{number}")).collect();
    for (number, slug) in slugs.iter().enumerate() {
        Tenant::create(admin, client, slug, number).await?;
    }
    admin.refresh(client).await?;
    let mut tenants = Vec::with_capacity(count);
    for slug in slugs {
        tenants.push(Tenant::furnish(admin, client, slug).await?);
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
                // The others need not go on.
                work.next.set(work.accounts);
                return Err(error);
            }
        }
    }
}

async fn sign_in_one(work: &Work, client: &mut Client, number: usize) -> Result<Account, Error> {
    let tenant = &work.tenants[number % work.tenants.len()];
    let admin = &work.admin;
    let users = format!("/api/organizations/{}/users", tenant.slug);
    let email = format!("user-{number}@{}.test", tenant.slug);
    let user = json!({ "email": email, "name": format!("User {number}") });
    let user: NewUser = admin.post(client, &users, &user).await?.json()?;
    // The account's place within its organization decides, so that every organization has every plan.
    let place = number / work.tenants.len();
    if let Some(plan) = plan_bought(place) {
        let path = format!("/api/organizations/{}/subscriptions", tenant.slug);
        admin.post(client, &path, &json!({ "user": user.id, "plan": plan })).await?;
    }
    let link = format!("{users}/{}/sign_in_link", user.id);
    let link: NewLink = admin.post(client, &link, &json!({})).await?.json()?;

    let address = address_of(number);
    let mut cookies = Cookies::default();
    let mut browser = Browser { client, cookies: &mut cookies, address: &address };
    use_link(&mut browser, &link.url).await?;
    let received = Instant::now();
    let answer = sign_in(&mut browser, &tenant.client_id, SCOPE, Known::default()).await?;
    let identity = Identity {
        target: work.target.clone(),
        address,
        code: CodeRequest { client_id: tenant.client_id.clone(), ..CodeRequest::default() },
        shape: BodyShape::Form,
        plan: Some(plan_expected(place).to_owned()),
        user_id: Some(user.id),
        cookies,
    };
    Ok(Account::new(identity, answer.into_tokens(received)))
}

/// Opens a one-time link and confirms it; the answer brings the session's cookie.
async fn use_link(browser: &mut Browser<'_>, url: &str) -> Result<(), Error> {
    let page = browser.open(url).await?;
    let forms = forms(&page.text());
    let known = Known::default();
    let Some(form) = Form::to_go_on(&forms, &known) else {
        return Err(Error::set_up("sign-in link", format!("{}: a page without a form", page.reply.status)));
    };
    let answer = browser.submit(&page, &form.fill(&known)).await?;
    if !answer.is_redirect() && answer.reply.status != 200 {
        return Err(answer.reply.unexpected("the sign-in link was not accepted"));
    }
    if browser.cookies.header().is_none() {
        return Err(Error::set_up("sign-in link", "no cookie came with it"));
    }
    Ok(())
}

/// A made-up address of its own for each account.
fn address_of(number: usize) -> String {
    let number = number + 1;
    format!("10.{}.{}.{}", (number >> 16) & 0x7f, (number >> 8) & 0xff, number & 0xff)
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
