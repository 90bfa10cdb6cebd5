//! `/api/organizations/{org}/subscriptions`: which customer has which plan.

use crate::app::App;
use crate::web::auth::Administrator;
use crate::web::error::Result;
use crate::web::json::{Body, Created, Json, List, Page, Params, nullable, parse_time, rfc3339};
use axum::extract::{Path, State};
use http::StatusCode;
use identity::Error;
use identity::ids::{CustomerId, SubscriptionId, UserId};
use identity::subscriptions::{
    self, Buyer, Filter, NewSubscription, Status, Subscription, SubscriptionPatch,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
pub(crate) struct SubscriptionBody {
    id: String,
    customer: String,
    customer_name: String,
    user: Option<String>,
    user_email: Option<String>,
    plan: String,
    status: &'static str,
    current_period_end: Option<String>,
    created_at: String,
    updated_at: String,
}

fn show(subscription: Subscription) -> SubscriptionBody {
    SubscriptionBody {
        id: subscription.id.to_string(),
        customer: subscription.customer.to_string(),
        customer_name: subscription.customer_name,
        user: subscription.user.map(|user| user.to_string()),
        user_email: subscription.user_email,
        plan: subscription.plan_slug,
        status: subscription.status.as_str(),
        current_period_end: subscription.current_period_end.map(rfc3339),
        created_at: rfc3339(subscription.created_at),
        updated_at: rfc3339(subscription.updated_at),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
    user: Option<String>,
    plan: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateBody {
    user: Option<String>,
    customer: Option<String>,
    plan: String,
    status: Option<String>,
    current_period_end: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeBody {
    plan: Option<String>,
    status: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    current_period_end: Option<Option<String>>,
}

impl CreateBody {
    fn buyer(&self) -> Result<Buyer> {
        match (&self.user, &self.customer) {
            (Some(user), None) => Ok(Buyer::User(UserId::parse(user)?)),
            (None, Some(customer)) => Ok(Buyer::Customer(CustomerId::parse(customer)?)),
            _ => Err(Error::invalid("user", "name either a user or a customer, by id").into()),
        }
    }
}

const PERIOD_END: &str = "current_period_end";

pub(crate) async fn list(
    State(app): State<App>,
    admin: Administrator,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<SubscriptionBody>>> {
    let page = Page::new(query.limit, query.cursor)?;
    let (organization, cursor, fetch) = (admin.organization.id, page.cursor.clone(), page.fetch());
    let filter = Filter { user: query.user.as_deref().map(UserId::parse).transpose()?, plan: query.plan };
    let found = app.store.list(move |snapshot| {
        subscriptions::list(snapshot, &organization, &filter, cursor.as_deref(), fetch)
    });
    Ok(Json(List::new(found.await?, &page, |subscription| subscription.id.to_string(), show)))
}

pub(crate) async fn create(
    State(app): State<App>,
    admin: Administrator,
    Body(body): Body<CreateBody>,
) -> Result<Created<SubscriptionBody>> {
    let admin = admin.may_change()?;
    let (actor, organization) = (admin.actor(&app), admin.organization.id);
    let end = body.current_period_end.as_deref();
    let new = NewSubscription {
        id: SubscriptionId::new(actor.now, app.random()),
        buyer: body.buyer()?,
        status: body.status.as_deref().map_or(Ok(Status::Active), Status::parse)?,
        current_period_end: end.map(|end| parse_time(PERIOD_END, end)).transpose()?,
        plan: body.plan,
    };
    let made = app
        .store
        .write("subscription.create", move |tx| subscriptions::create(tx, &organization, &new, &actor));
    Ok(Created(show(made.await?)))
}

pub(crate) async fn get(
    State(app): State<App>,
    admin: Administrator,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<SubscriptionBody>> {
    let (organization, id) = (admin.organization.id, SubscriptionId::parse(&id)?);
    let found = app.store.point(move |snapshot| subscriptions::get(snapshot, &organization, &id));
    Ok(Json(show(found.await?)))
}

pub(crate) async fn change(
    State(app): State<App>,
    admin: Administrator,
    Path((_, id)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Result<Json<SubscriptionBody>> {
    let admin = admin.may_change()?;
    let (actor, organization, id) = (admin.actor(&app), admin.organization.id, SubscriptionId::parse(&id)?);
    let current_period_end = match body.current_period_end {
        Some(Some(end)) => Some(Some(parse_time(PERIOD_END, &end)?)),
        Some(None) => Some(None),
        None => None,
    };
    let status = body.status.as_deref().map(Status::parse).transpose()?;
    let patch = SubscriptionPatch { plan: body.plan, status, current_period_end };
    let changed = app.store.write("subscription.change", move |tx| {
        let subscription = subscriptions::get(tx.snapshot(), &organization, &id)?;
        subscriptions::patch(tx, &subscription, &patch, &actor)
    });
    Ok(Json(show(changed.await?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    admin: Administrator,
    Path((_, id)): Path<(String, String)>,
) -> Result<StatusCode> {
    let admin = admin.may_change()?;
    let (actor, organization, id) = (admin.actor(&app), admin.organization.id, SubscriptionId::parse(&id)?);
    let deleted = app.store.write("subscription.delete", move |tx| {
        let subscription = subscriptions::get(tx.snapshot(), &organization, &id)?;
        subscriptions::delete(tx, &subscription, &actor)
    });
    deleted.await?;
    Ok(StatusCode::NO_CONTENT)
}
