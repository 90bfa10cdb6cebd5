//! `/api/organizations/{org}/billing`: connections to payment providers. Owners create, change and delete them, because
//! their secret decides who has paid. What the provider's ids stand for is set by admins, and by keys with `billing:write`.

pub(crate) mod customers;
pub(crate) mod events;
pub(crate) mod prices;
pub(crate) mod subscriptions;

use crate::openapi::words;
use crate::web::administration::{Administrator, Owner, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, rfc3339, sent};
use crate::web::path::Path;
use http::StatusCode;
use identity::billing::ExternalId;
use identity::billing::connections::{self, Connection, ConnectionPatch, NewConnection};
use identity::ids::BillingConnectionId;
use identity::names;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = BillingConnection)]
pub(crate) struct ConnectionBody {
    id: String,
    provider: &'static str,
    name: String,
    livemode: bool,
    /// The connected account whose events it takes.
    #[schema(required)]
    account: Option<String>,
    /// The address to which the provider sends events.
    endpoint: String,
    /// Without a secret no event is accepted.
    has_secret: bool,
    #[schema(required)]
    created_by: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(connection: Connection, url: impl Fn(&str) -> String) -> ConnectionBody {
    ConnectionBody {
        endpoint: url(&format!("/webhooks/billing/{}", connection.id)),
        id: connection.id.to_string(),
        provider: connections::STRIPE,
        name: connection.name,
        livemode: connection.livemode,
        account: connection.account.map(|account| account.to_string()),
        has_secret: connection.has_secret,
        created_by: connection.created_by,
        created_at: rfc3339(connection.created_at),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateBillingConnection)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::name)]
    name: String,
    livemode: Option<bool>,
    account: Option<String>,
    secret: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeBillingConnection)]
pub(crate) struct ChangeBody {
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::name)]
    name: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(nullable = false)]
    secret: Option<String>,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::display("name", &self.name));
        errors.check_sent(self.account.as_deref(), |account| ExternalId::parse("account", account));
        errors.check_sent(self.secret.as_deref(), connections::check_secret);
    }
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.name.as_deref(), |name| names::display("name", name));
        errors.check_sent(self.secret.as_deref(), connections::check_secret);
    }
}

pub(crate) async fn list(
    admin: Administrator,
    page: Page<BillingConnectionId>,
) -> Result<Json<List<ConnectionBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found =
        admin.list(move |snapshot| connections::list(snapshot, &organization, cursor.as_deref(), fetch));
    let found = found.await?;
    Ok(Json(page.list(found, |one| one.id.to_string(), |one| show(one, |path| admin.url(path)))))
}

pub(crate) async fn create(owner: Owner, Body(body): Body<CreateBody>) -> Written<Created<ConnectionBody>> {
    let id = BillingConnectionId::new(owner.now(), owner.random());
    let seal = |secret: String| connections::seal_secret(&id, &secret, owner.secret_key(), owner.random());
    let new = NewConnection {
        sealed_secret: body.secret.map(seal).transpose()?,
        id: id.clone(),
        name: body.name,
        livemode: body.livemode.unwrap_or(true),
        account: body.account.map(|account| ExternalId::parse("account", &account)).transpose()?,
        created_by: owner.user.clone(),
    };
    let urls = owner.urls();
    let made = owner.write("billing_connection.create", move |tx, by| {
        Ok(Created(show(connections::create(tx, by.organization, &new, by.actor)?, &urls)))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<ConnectionBody>> {
    let (organization, id) = (admin.organization.id.clone(), BillingConnectionId::parse(&id)?);
    let found = admin.point(move |snapshot| connections::get(snapshot, &organization, &id)).await?;
    Ok(Json(show(found, |path| admin.url(path))))
}

pub(crate) async fn change(
    owner: Owner,
    Path((_, id)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Written<Json<ConnectionBody>> {
    let id = BillingConnectionId::parse(&id)?;
    let seal = |secret: String| connections::seal_secret(&id, &secret, owner.secret_key(), owner.random());
    let urls = owner.urls();
    let patch = ConnectionPatch { name: body.name, sealed_secret: body.secret.map(seal).transpose()? };
    let changed = owner.write("billing_connection.change", move |tx, by| {
        Ok(Json(show(connections::patch(tx, &by.organization.id, &id, &patch, by.actor)?, &urls)))
    });
    changed.await
}

pub(crate) async fn delete(owner: Owner, Path((_, id)): Path<(String, String)>) -> Written<StatusCode> {
    let id = BillingConnectionId::parse(&id)?;
    let deleted = owner.write("billing_connection.delete", move |tx, by| {
        connections::delete(tx, &by.organization.id, &id, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}
