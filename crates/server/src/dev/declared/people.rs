//! The test users of a declaration, and their plans.

use super::apply::{Account, Drawn as AllDrawn, OWNER, Refusal, Result, at};
use super::{Credentials, Declaration, FREE, User};
use crate::app::App;
use identity::audit::Actor;
use identity::ids::{SubscriptionId, UserId};
use identity::organizations::{self, Organization, PLATFORM};
use identity::passwords::{self, Verdict};
use identity::subscriptions::{
    self, Buyer, Filter, NewSubscription, SUBSCRIPTIONS_MAX, Status, Subscription, SubscriptionPatch,
};
use identity::users::{self, NewUser, Profile};
use identity::{Error, entitlements, names, plans, services};
use std::collections::BTreeMap;
use store::{Snapshot, Tx};

/// The hashes of passwords that are not stored yet.
#[derive(Default)]
pub(super) struct Hashes {
    owner: Option<String>,
    /// By e-mail address.
    users: BTreeMap<String, String>,
}

/// What was drawn for the users.
pub(super) struct Drawn {
    new: Vec<(NewUser, SubscriptionId)>,
    hashes: Hashes,
}

impl Drawn {
    pub(super) fn new(app: &App, declaration: &Declaration, hashes: Hashes) -> Drawn {
        let (now, random) = (app.now(), app.random());
        let new = declaration.users.iter().map(|user| {
            let new = NewUser {
                email_verified: user.email_verified,
                profile: Profile::named(user.name.clone().unwrap_or_default()),
                ..NewUser::new(user.email.clone(), now, random)
            };
            (new, SubscriptionId::new(now, random))
        });
        Drawn { new: new.collect(), hashes }
    }

    /// The hash of the owner's first password, if the owner has none.
    pub(super) fn owner_hash(&self) -> Option<&str> {
        self.hashes.owner.as_deref()
    }
}

/// Hashes the declared passwords that the accounts do not have. It takes a while, so it is not done in the transaction.
pub(super) async fn missing_hashes(
    app: &App,
    declaration: &Declaration,
    credentials: &Credentials,
) -> Result<Hashes> {
    let wanted: Vec<(String, String)> = declaration
        .users
        .iter()
        .filter_map(|user| Some((names::email(&user.email).ok()?, user.password.clone()?)))
        .collect();
    let (slug, emails) = (declaration.organization.slug.clone(), wanted.clone());
    let stored = app.store.read(move |snapshot| {
        let owner = stored_hash(snapshot, PLATFORM, OWNER)?;
        let mut users = BTreeMap::new();
        for (email, _) in emails {
            if let Some(hash) = stored_hash(snapshot, &slug, &email)? {
                users.insert(email, hash);
            }
        }
        Ok::<_, Error>(Hashes { owner, users })
    });
    let stored = stored.await.map_err(at("users"))?;
    if wanted.is_empty() && stored.owner.is_some() {
        return Ok(Hashes::default());
    }
    let (app, owner) = (app.clone(), credentials.owner_password.clone());
    let hashed = tokio::task::spawn_blocking(move || {
        let mut memory = passwords::Memory::default();
        let mut hashes = Hashes::default();
        // The owner may have another password by now.
        if stored.owner.is_none() {
            hashes.owner = Some(passwords::hash(&owner, app.random(), &mut memory)?);
        }
        for (email, password) in wanted {
            let is_stored = match stored.users.get(&email) {
                Some(hash) => passwords::verify(&password, hash, &mut memory)? == Verdict::Right,
                None => false,
            };
            if !is_stored {
                hashes.users.insert(email, passwords::hash(&password, app.random(), &mut memory)?);
            }
        }
        Ok(hashes)
    });
    let hashed = hashed.await.map_err(|error| Refusal::new("users", error.to_string()))?;
    hashed.map_err(at("users"))
}

/// The hash of an account's password, if there are the organization, the account and a password.
fn stored_hash(snapshot: &mut Snapshot<'_>, slug: &str, email: &str) -> identity::Result<Option<String>> {
    let organization = match organizations::find(snapshot, slug) {
        Err(Error::NotFound { .. }) => return Ok(None),
        found => found?,
    };
    match users::find(snapshot, &organization.id, email)? {
        Some(user) => passwords::get(snapshot, &user.id),
        None => Ok(None),
    }
}

/// Makes the users, or changes them.
pub(super) fn put(
    tx: &mut Tx<'_>,
    declaration: &Declaration,
    organization: &Organization,
    drawn: &AllDrawn,
) -> Result<Vec<Account>> {
    let shown = declaration.clients.0.first().map(|(_, client)| client.service.as_str());
    let shown = shown.or(declaration.services.first().map(|service| service.slug.as_str()));
    let mut accounts = Vec::with_capacity(declaration.users.len());
    for (place, (user, (new, subscription))) in declaration.users.iter().zip(&drawn.people.new).enumerate() {
        let here = || at(format!("users[{place}]"));
        let (id, email) = put_account(tx, user, new, organization, drawn).map_err(here())?;
        if let Some(plan) = &user.plan {
            put_plan(tx, declaration, &id, plan, organization, subscription, &drawn.actor)
                .map_err(at(format!("users[{place}].plan")))?;
        }
        let plan = match shown {
            Some(slug) => {
                let service = services::find(tx.snapshot(), &organization.id, slug).map_err(here())?;
                entitlements::of_user(tx.snapshot(), &id, &service.id, drawn.now()).map_err(here())?.plan
            }
            None => FREE.to_owned(),
        };
        accounts.push(Account { id: id.to_string(), email, plan, sign_in_link: String::new() });
    }
    Ok(accounts)
}

fn put_account(
    tx: &mut Tx<'_>,
    wanted: &User,
    new: &NewUser,
    organization: &Organization,
    drawn: &AllDrawn,
) -> identity::Result<(UserId, String)> {
    let (email, actor) = (names::email(&wanted.email)?, &drawn.actor);
    let user = match users::find(tx.snapshot(), &organization.id, &email)? {
        Some(user) => match &wanted.name {
            Some(name) => {
                users::change(tx, &organization.id, &user.id, |_| Profile::named(name.clone()), actor)?
            }
            None => user,
        },
        None => users::create(tx, &organization.id, new, actor)?,
    };
    if let Some(hash) = drawn.people.hashes.users.get(&email) {
        passwords::put(tx, &user.id, hash, actor.now)?;
    }
    Ok((user.id, email))
}

/// Gives a user a plan: the live subscription to another plan for the same service changes, or a new one is made. `free`
/// ends the live subscriptions.
fn put_plan(
    tx: &mut Tx<'_>,
    declaration: &Declaration,
    user: &UserId,
    plan: &str,
    organization: &Organization,
    id: &SubscriptionId,
    actor: &Actor,
) -> identity::Result<()> {
    let filter = Filter { user: Some(user.clone()), plan: None };
    let all = subscriptions::list(tx.snapshot(), &organization.id, &filter, None, SUBSCRIPTIONS_MAX)?;
    let live: Vec<Subscription> =
        all.into_iter().filter(|subscription| subscription.is_live(actor.now)).collect();
    let is_free = plan == FREE && declaration.plans.iter().all(|known| known.slug != FREE);
    if is_free {
        let end = SubscriptionPatch { status: Some(Status::Canceled), ..SubscriptionPatch::default() };
        return live
            .iter()
            .try_for_each(|subscription| subscriptions::patch(tx, subscription, &end, actor).map(drop));
    }
    if live.iter().any(|subscription| subscription.plan_slug == plan) {
        return Ok(());
    }
    let wanted = plans::named(tx.snapshot(), &organization.id, plan)?;
    for subscription in &live {
        let present = plans::find(tx.snapshot(), &organization.id, &subscription.plan_slug)?;
        if present.services.iter().any(|service| wanted.services.iter().any(|other| other.id == service.id)) {
            let patch = SubscriptionPatch { plan: Some(plan.to_owned()), ..SubscriptionPatch::default() };
            return subscriptions::patch(tx, subscription, &patch, actor).map(drop);
        }
    }
    let new = NewSubscription {
        id: id.clone(),
        buyer: Buyer::User(user.clone()),
        plan: plan.to_owned(),
        status: Status::Active,
        current_period_end: None,
        access_until: None,
    };
    subscriptions::create(tx, &organization.id, &new, actor).map(drop)
}
