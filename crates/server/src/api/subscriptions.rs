//! `/api/organizations/{org}/subscriptions`: the subscriptions of customers to plans.

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, Params, nullable, parse_time, rfc3339, sent};
use crate::web::path::Path;
use http::StatusCode;
use identity::Error;
use identity::ids::{CustomerId, SubscriptionId, UserId};
use identity::subscriptions::{
    self, Buyer, Filter, NewSubscription, Status, Subscription, SubscriptionPatch,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Serialize, ToSchema)]
#[schema(as = Subscription)]
pub(crate) struct SubscriptionBody {
    id: String,
    /// The id of the customer.
    customer: String,
    customer_name: String,
    /// The id of the user, if the customer is one.
    #[schema(required)]
    user: Option<String>,
    #[schema(required)]
    user_email: Option<String>,
    /// The slug of the plan.
    plan: String,
    #[schema(schema_with = words::subscription_status)]
    status: &'static str,
    #[schema(required, format = DateTime)]
    current_period_end: Option<String>,
    /// The end of access, if that is later: a subscription of a payment provider has some days for its renewal.
    #[schema(required, format = DateTime)]
    access_until: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
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
        access_until: subscription.access_until.map(rfc3339),
        created_at: rfc3339(subscription.created_at),
        updated_at: rfc3339(subscription.updated_at),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
    /// Only those of the user with this id.
    user: Option<String>,
    /// Only those to the plan with this slug.
    #[param(schema_with = words::plan_slug)]
    plan: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateSubscription)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::user_id)]
    user: Option<String>,
    #[schema(schema_with = words::customer_id)]
    customer: Option<String>,
    #[schema(schema_with = words::plan_slug)]
    plan: String,
    #[schema(schema_with = words::subscription_status)]
    status: Option<String>,
    #[schema(format = DateTime)]
    current_period_end: Option<String>,
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        if self.user.is_some() == self.customer.is_some() {
            errors.check::<()>(Err(one_buyer()));
        }
        errors.check_sent(self.status.as_deref(), Status::parse);
        errors.check_sent(self.current_period_end.as_deref(), |end| parse_time(PERIOD_END, end));
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangeSubscription)]
pub(crate) struct ChangeBody {
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::plan_slug)]
    plan: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::subscription_status)]
    status: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, format = DateTime)]
    current_period_end: Option<Option<String>>,
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.status.as_deref(), Status::parse);
        let end = self.current_period_end.as_ref().and_then(Option::as_deref);
        errors.check_sent(end, |end| parse_time(PERIOD_END, end));
    }
}

fn one_buyer() -> Error {
    Error::invalid("user", "name either a user or a customer, by id")
}

impl CreateBody {
    fn buyer(&self) -> Result<Buyer> {
        match (&self.user, &self.customer) {
            (Some(user), None) => Ok(Buyer::User(UserId::parse(user)?)),
            (None, Some(customer)) => Ok(Buyer::Customer(CustomerId::parse(customer)?)),
            _ => Err(one_buyer().into()),
        }
    }
}

const PERIOD_END: &str = "current_period_end";

pub(crate) async fn list(
    admin: Administrator,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<SubscriptionBody>>> {
    let parameters = [query.user.as_deref(), query.plan.as_deref()];
    let page = Page::<SubscriptionId>::filtered(query.limit, query.cursor, &parameters)?;
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let filter = Filter { user: query.user.as_deref().map(UserId::parse).transpose()?, plan: query.plan };
    let found = admin.list(move |snapshot| {
        subscriptions::list(snapshot, &organization, &filter, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |subscription| subscription.id.to_string(), show)))
}

pub(crate) async fn create(admin: Admin, Body(body): Body<CreateBody>) -> Written<Created<SubscriptionBody>> {
    let now = admin.now();
    let end = body.current_period_end.as_deref();
    let new = NewSubscription {
        id: SubscriptionId::new(now, admin.random()),
        buyer: body.buyer()?,
        status: body.status.as_deref().map_or(Ok(Status::Active), Status::parse)?,
        current_period_end: end.map(|end| parse_time(PERIOD_END, end)).transpose()?,
        access_until: None,
        plan: body.plan,
    };
    let made = admin.write("subscription.create", move |tx, by| {
        Ok(Created(show(subscriptions::create(tx, &by.organization.id, &new, by.actor)?)))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, id)): Path<(String, String)>,
) -> Result<Json<SubscriptionBody>> {
    let (organization, id) = (admin.organization.id.clone(), SubscriptionId::parse(&id)?);
    let found = admin.point(move |snapshot| subscriptions::get(snapshot, &organization, &id));
    Ok(Json(show(found.await?)))
}

pub(crate) async fn change(
    admin: Admin,
    Path((_, id)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Written<Json<SubscriptionBody>> {
    let id = SubscriptionId::parse(&id)?;
    let current_period_end = match body.current_period_end {
        Some(Some(end)) => Some(Some(parse_time(PERIOD_END, &end)?)),
        Some(None) => Some(None),
        None => None,
    };
    let status = body.status.as_deref().map(Status::parse).transpose()?;
    let patch = SubscriptionPatch { plan: body.plan, status, current_period_end, access_until: None };
    let changed = admin.write("subscription.change", move |tx, by| {
        let subscription = subscriptions::get(tx.snapshot(), &by.organization.id, &id)?;
        Ok(Json(show(subscriptions::patch(tx, &subscription, &patch, by.actor)?)))
    });
    changed.await
}

pub(crate) async fn delete(admin: Admin, Path((_, id)): Path<(String, String)>) -> Written<StatusCode> {
    let id = SubscriptionId::parse(&id)?;
    let deleted = admin.write("subscription.delete", move |tx, by| {
        let subscription = subscriptions::get(tx.snapshot(), &by.organization.id, &id)?;
        subscriptions::delete(tx, &subscription, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}
