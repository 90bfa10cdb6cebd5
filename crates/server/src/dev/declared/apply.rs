//! Applies a declaration in one transaction: what is missing is made, what differs is changed, nothing is deleted.

use super::people::{self, Hashes};
use super::{Clients, Credentials, Declaration};
use crate::api::clients as client_api;
use crate::app::App;
use crate::pages::dev_sign_in;
use identity::administrators::{self, Role};
use identity::api_keys::{self, Generated, NewApiKey};
use identity::audit::Actor;
use identity::clients::{self, NewSecret};
use identity::ids::{ClientId, ClientSecretId, OrganizationId, PlanId, ServiceId};
use identity::organizations::{self, DeviceFlow, Organization, PLATFORM, Status};
use identity::passwords;
use identity::plans::{self, NewPlan, PlanPatch};
use identity::services::{self, NewService};
use identity::tokens::AccessTokenTyp;
use identity::users::{self, NewUser, Profile};
use identity::{Error, Time};
use std::sync::Arc;
use store::Tx;

/// The account that owns the server and administers the organization.
pub(super) const OWNER: &str = "owner@sarsen.test";

/// What was declared and cannot be applied.
#[derive(Debug)]
pub struct Refusal {
    /// The path of the field, such as `clients.web.kind`.
    pub field: String,
    /// What is wrong, then what to do.
    pub detail: String,
}

impl Refusal {
    pub(super) fn new(field: impl Into<String>, detail: impl Into<String>) -> Refusal {
        Refusal { field: field.into(), detail: detail.into() }
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Refusal {
        Refusal::new("", error.to_string())
    }
}

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// For `map_err`: the error is about a part of the declaration.
pub(super) fn at(path: impl Into<String>) -> impl FnOnce(Error) -> Refusal {
    let path = path.into();
    move |error| match error {
        Error::Invalid { field, problem, .. } => Refusal::new(format!("{path}.{field}"), problem),
        error => Refusal::new(path, error.to_string()),
    }
}

/// A declaration that is in the database.
pub struct Applied {
    /// The account of the server's owner. Its plan is empty.
    pub owner: Account,
    /// The test users in their order.
    pub users: Vec<Account>,
}

/// An account, with a link that signs it in.
pub struct Account {
    /// The id.
    pub id: String,
    /// The e-mail address.
    pub email: String,
    /// The plan at the service of the first client.
    pub plan: String,
    /// Signs in at once, as often as it is opened, while the server runs.
    pub sign_in_link: String,
}

/// Applies a declaration with its credentials. Applying it again changes nothing.
pub async fn apply(app: &App, declaration: Arc<Declaration>, credentials: &Credentials) -> Result<Applied> {
    let hashes = people::missing_hashes(app, &declaration, credentials).await?;
    let drawn = Drawn::new(app, &declaration, credentials, hashes);
    let (owner, mut users) =
        app.store.write("declaration.apply", move |tx| write(tx, &declaration, &drawn)).await?;
    for user in &mut users {
        user.sign_in_link = dev_sign_in::url(app, &user.id);
    }
    let sign_in_link = dev_sign_in::url(app, &owner);
    let owner = Account { id: owner, email: OWNER.to_owned(), plan: String::new(), sign_in_link };
    Ok(Applied { owner, users })
}

/// What a command may not draw itself, because it may run more than once.
pub(super) struct Drawn {
    organization: OrganizationId,
    owner: NewUser,
    services: Vec<ServiceId>,
    plans: Vec<PlanId>,
    secrets: Vec<ClientSecretId>,
    credentials: Credentials,
    pub(super) people: people::Drawn,
    pub(super) actor: Actor,
}

impl Drawn {
    fn new(app: &App, declaration: &Declaration, credentials: &Credentials, hashes: Hashes) -> Drawn {
        let (now, random) = (app.now(), app.random());
        let profile = Profile::named("Owner of this server");
        Drawn {
            organization: OrganizationId::new(now, random),
            owner: NewUser { profile, email_verified: true, ..NewUser::new(OWNER, now, random) },
            services: declaration.services.iter().map(|_| ServiceId::new(now, random)).collect(),
            plans: declaration.plans.iter().map(|_| PlanId::new(now, random)).collect(),
            secrets: declaration.clients.0.iter().map(|_| ClientSecretId::new(now, random)).collect(),
            credentials: credentials.clone(),
            people: people::Drawn::new(app, declaration, hashes),
            actor: app.system(),
        }
    }

    pub(super) fn now(&self) -> Time {
        self.actor.now
    }
}

fn write(tx: &mut Tx<'_>, declaration: &Declaration, drawn: &Drawn) -> Result<(String, Vec<Account>)> {
    let (organization, owner) = put_organization(tx, declaration, drawn)?;
    put_services(tx, declaration, &organization, drawn)?;
    put_plans(tx, declaration, &organization, drawn)?;
    put_clients(tx, &declaration.clients, &organization, drawn)?;
    put_key(tx, &organization, drawn)?;
    let users = people::put(tx, declaration, &organization, drawn)?;
    Ok((owner, users))
}

/// Makes the owner of the server and the organization, or changes the organization. Returns the owner's id too.
fn put_organization(
    tx: &mut Tx<'_>,
    declaration: &Declaration,
    drawn: &Drawn,
) -> Result<(Organization, String)> {
    let (wanted, actor) = (&declaration.organization, &drawn.actor);
    let here = || at("organization");
    let platform = organizations::find(tx.snapshot(), PLATFORM).map_err(here())?;
    let owner = match users::find(tx.snapshot(), &platform.id, OWNER).map_err(here())? {
        Some(owner) => owner,
        None => {
            let owner = users::create(tx, &platform.id, &drawn.owner, actor).map_err(here())?;
            administrators::add_platform_owner(tx, &platform.id, &owner.id, actor).map_err(here())?;
            owner
        }
    };
    if let Some(hash) = drawn.people.owner_hash() {
        passwords::put(tx, &owner.id, hash, actor.now).map_err(here())?;
    }
    let mut organization = match organizations::find(tx.snapshot(), &wanted.slug) {
        Ok(found) => organizations::rename(tx, &found, &wanted.name, actor).map_err(here())?,
        Err(Error::NotFound { .. }) => {
            let id = &drawn.organization;
            let made =
                organizations::create(tx, id, &wanted.slug, &wanted.name, true, actor).map_err(here())?;
            administrators::add_creator(tx, &made, &owner.id, actor).map_err(here())?;
            made
        }
        Err(error) => return Err(here()(error)),
    };
    if organization.status != Status::Active {
        let status = organization.status.as_str();
        return Err(Refusal::new(
            "organization.slug",
            format!("this organization is {status} on the server; use another slug"),
        ));
    }
    if let Some(is_open) = wanted.sign_up {
        organization = organizations::set_sign_up(tx, &organization, is_open, actor).map_err(here())?;
    }
    if let Some(word) = &wanted.device_flow {
        let device_flow = DeviceFlow::parse(word).map_err(here())?;
        organization =
            organizations::set_device_flow(tx, &organization, device_flow, actor).map_err(here())?;
    }
    Ok((organization, owner.id.to_string()))
}

fn put_services(
    tx: &mut Tx<'_>,
    declaration: &Declaration,
    organization: &Organization,
    drawn: &Drawn,
) -> Result<()> {
    for (place, (wanted, id)) in declaration.services.iter().zip(&drawn.services).enumerate() {
        let here = || at(format!("services[{place}]"));
        let typ = wanted.access_token_typ.as_deref().map(AccessTokenTyp::parse).transpose().map_err(here())?;
        let typ = typ.unwrap_or_default();
        let found = services::find(tx.snapshot(), &organization.id, &wanted.slug);
        let done = match found {
            Ok(service) => services::rename(tx, &service, &wanted.name, &drawn.actor)
                .and_then(|service| services::set_access_token_typ(tx, &service, typ, &drawn.actor)),
            Err(Error::NotFound { .. }) => {
                let (slug, name) = (wanted.slug.clone(), wanted.name.clone());
                let new = NewService { id: id.clone(), slug, name, access_token_typ: typ };
                services::create(tx, &organization.id, &new, &drawn.actor)
            }
            Err(error) => Err(error),
        };
        done.map_err(here())?;
    }
    Ok(())
}

fn put_plans(
    tx: &mut Tx<'_>,
    declaration: &Declaration,
    organization: &Organization,
    drawn: &Drawn,
) -> Result<()> {
    for (place, (wanted, id)) in declaration.plans.iter().zip(&drawn.plans).enumerate() {
        let path = format!("plans[{place}]");
        let here = || at(path.clone());
        let new = wanted.new_plan(id.clone());
        match plans::find(tx.snapshot(), &organization.id, &new.slug) {
            Ok(plan) => {
                check_unchanged(&plan, &new, &path)?;
                let patch = PlanPatch {
                    name: Some(new.name),
                    price_cents: Some(new.price_cents),
                    features: Some(new.features),
                    limits: Some(new.limits),
                    seats: Some(new.seats),
                };
                plans::patch(tx, &plan, &patch, &drawn.actor).map_err(here())?;
            }
            Err(Error::NotFound { .. }) => {
                plans::create(tx, &organization.id, &new, &drawn.actor).map_err(here())?;
            }
            Err(error) => return Err(here()(error)),
        }
    }
    Ok(())
}

/// The API cannot change these fields either.
fn check_unchanged(plan: &plans::Plan, wanted: &NewPlan, path: &str) -> Result<()> {
    let mut covered: Vec<&str> = plan.services.iter().map(|service| service.slug.as_str()).collect();
    let mut services: Vec<&str> = wanted.services.iter().map(String::as_str).collect();
    covered.sort_unstable();
    services.sort_unstable();
    if covered != services {
        return Err(fixed(format!("{path}.services"), &covered.join(", ")));
    }
    if plan.currency != wanted.currency {
        return Err(fixed(format!("{path}.currency"), &plan.currency));
    }
    Ok(())
}

fn fixed(field: String, present: &str) -> Refusal {
    let detail = format!(
        "this cannot be changed, and is {present} on the server; change it back, or declare another with a name of its own"
    );
    Refusal::new(field, detail)
}

fn put_clients(tx: &mut Tx<'_>, wanted: &Clients, organization: &Organization, drawn: &Drawn) -> Result<()> {
    for ((key, body), secret_id) in wanted.0.iter().zip(&drawn.secrets) {
        let here = || at(format!("clients.{key}"));
        let Some(known) = drawn.credentials.clients.get(key) else { continue };
        let id = ClientId::parse(&known.client_id).map_err(here())?;
        let new = body.new_client(id.clone()).map_err(here())?;
        match clients::in_organization(tx.snapshot(), &organization.id, &id) {
            Ok(client) => {
                if client.kind != new.kind {
                    return Err(fixed(format!("clients.{key}.kind"), client.kind.as_str()));
                }
                if client.service_slug != body.service {
                    return Err(fixed(format!("clients.{key}.service"), &client.service_slug));
                }
                let patch = client_api::patch_to(new);
                clients::patch(tx, &client, &patch, Role::Owner, &drawn.actor).map_err(here())?;
            }
            Err(Error::NotFound { .. }) => {
                let service =
                    services::named(tx.snapshot(), &organization.id, &body.service).map_err(here())?;
                clients::create(tx, &organization.id, Some(&service.id), &new, &drawn.actor)
                    .map_err(here())?;
            }
            Err(error) => return Err(here()(error)),
        }
        let client = clients::get(tx.snapshot(), &id).map_err(here())?;
        if let Some(secret) = known.client_secret.as_deref().filter(|secret| !client.has_secret(secret)) {
            let new = NewSecret::of(secret_id.clone(), secret);
            clients::add_secret(tx, &organization.id, &id, &new, Role::Owner, &drawn.actor).map_err(here())?;
        }
    }
    Ok(())
}

fn put_key(tx: &mut Tx<'_>, organization: &Organization, drawn: &Drawn) -> Result<()> {
    let Some(known) = &drawn.credentials.api_key else { return Ok(()) };
    let here = || at("clients");
    let (Some(presented), Some(generated)) =
        (api_keys::parse(known.key.as_bytes()), Generated::of(&known.key))
    else {
        return Err(Refusal::new("", "the API key in the folder of this server is not valid"));
    };
    if api_keys::verify(tx.snapshot(), &presented, drawn.now()).map_err(here())?.is_some() {
        return Ok(());
    }
    let new = NewApiKey {
        generated,
        name: format!("Back end of {}", known.service),
        service: Some(known.service.clone()),
        scopes: None,
        created_by: None,
        expires_at: None,
    };
    api_keys::create(tx, organization, &new, &drawn.actor).map(drop).map_err(here())
}
