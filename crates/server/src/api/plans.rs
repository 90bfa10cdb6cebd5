//! `/api/organizations/{org}/plans`: the plans of an organization.

use crate::openapi::words;
use crate::web::administration::{Admin, Administrator, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Created, Json, List, Page, Slug, nullable, rfc3339, sent};
use crate::web::path::Path;
use http::StatusCode;
use identity::catalog;
use identity::ids::PlanId;
use identity::names;
use identity::plans::{self, Limits, NewPlan, Plan, PlanPatch, terms};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Plan)]
pub(crate) struct PlanBody {
    id: String,
    slug: String,
    name: String,
    /// The slugs of its services.
    services: Vec<String>,
    price_cents: i64,
    /// ISO 4217, such as `EUR`.
    currency: String,
    features: Vec<String>,
    #[schema(value_type = BTreeMap<String, f64>)]
    limits: Limits,
    /// How many members a team may have; null: any number.
    #[schema(required)]
    seats: Option<i64>,
    #[schema(format = DateTime)]
    created_at: String,
}

fn show(plan: Plan) -> PlanBody {
    PlanBody {
        id: plan.id.to_string(),
        slug: plan.slug,
        name: plan.name,
        services: plan.services.into_iter().map(|service| service.slug).collect(),
        price_cents: plan.price_cents,
        currency: plan.currency,
        features: plan.features,
        limits: plan.limits,
        seats: plan.seats,
        created_at: rfc3339(plan.created_at),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreatePlan)]
pub(crate) struct CreateBody {
    #[schema(schema_with = words::slug)]
    pub(crate) slug: String,
    #[schema(schema_with = words::name)]
    name: String,
    #[schema(schema_with = words::service_slugs)]
    pub(crate) services: Vec<String>,
    #[schema(schema_with = words::price_cents)]
    price_cents: i64,
    #[schema(schema_with = words::currency)]
    currency: String,
    #[serde(default)]
    #[schema(schema_with = words::features)]
    features: Vec<String>,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, f64>)]
    limits: Limits,
    #[schema(schema_with = words::seats)]
    seats: Option<i64>,
}

impl CreateBody {
    /// The plan that it describes.
    pub(crate) fn new_plan(&self, id: PlanId) -> NewPlan {
        NewPlan {
            id,
            slug: self.slug.clone(),
            name: self.name.clone(),
            services: self.services.clone(),
            price_cents: self.price_cents,
            currency: self.currency.clone(),
            features: self.features.clone(),
            limits: self.limits.clone(),
            seats: self.seats,
        }
    }
}

impl Validate for CreateBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(names::slug("slug", &self.slug));
        errors.check(names::display("name", &self.name));
        errors.check(plans::check_services(&self.services));
        errors.check(terms::price(self.price_cents));
        errors.check(terms::currency(&self.currency));
        check_features(&self.features, errors);
        errors.check(terms::limits(&self.limits));
        errors.check(terms::seats(self.seats));
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ChangePlan)]
pub(crate) struct ChangeBody {
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::name)]
    name: Option<String>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::price_cents)]
    price_cents: Option<i64>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(schema_with = words::features)]
    features: Option<Vec<String>>,
    #[serde(default, deserialize_with = "sent")]
    #[schema(value_type = BTreeMap<String, f64>)]
    limits: Option<Limits>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(schema_with = words::seats)]
    seats: Option<Option<i64>>,
}

impl Validate for ChangeBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check_sent(self.name.as_deref(), |name| names::display("name", name));
        errors.check_sent(self.price_cents, terms::price);
        check_features(self.features.as_deref().unwrap_or_default(), errors);
        errors.check_sent(self.limits.as_ref(), terms::limits);
        errors.check_sent(self.seats, terms::seats);
    }
}

/// The items first: with a wrong one, the rules of the whole list say nothing new.
fn check_features(features: &[String], errors: &mut FieldErrors) {
    errors.check_each("features", features, |name| terms::feature(name));
    errors.check(terms::features(features));
}

pub(crate) async fn list(admin: Administrator, page: Page<Slug>) -> Result<Json<List<PlanBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| plans::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(page.list(found.await?, |plan| plan.slug.clone(), show)))
}

pub(crate) async fn create(admin: Admin, Body(body): Body<CreateBody>) -> Written<Created<PlanBody>> {
    let new = body.new_plan(PlanId::new(admin.now(), admin.random()));
    let made = admin.write("plan.create", move |tx, by| {
        Ok(Created(show(plans::create(tx, &by.organization.id, &new, by.actor)?)))
    });
    made.await
}

pub(crate) async fn get(
    admin: Administrator,
    Path((_, plan)): Path<(String, String)>,
) -> Result<Json<PlanBody>> {
    let organization = admin.organization.id.clone();
    let found = admin.read(move |snapshot| plans::find(snapshot, &organization, &plan));
    Ok(Json(show(found.await?)))
}

pub(crate) async fn change(
    admin: Admin,
    Path((_, plan)): Path<(String, String)>,
    Body(body): Body<ChangeBody>,
) -> Written<Json<PlanBody>> {
    let patch = PlanPatch {
        name: body.name,
        price_cents: body.price_cents,
        features: body.features,
        limits: body.limits,
        seats: body.seats,
    };
    let changed = admin.write("plan.change", move |tx, by| {
        let plan = plans::find(tx.snapshot(), &by.organization.id, &plan)?;
        Ok(Json(show(plans::patch(tx, &plan, &patch, by.actor)?)))
    });
    changed.await
}

pub(crate) async fn delete(admin: Admin, Path((_, plan)): Path<(String, String)>) -> Written<StatusCode> {
    let deleted = admin.write("plan.delete", move |tx, by| {
        let plan = plans::find(tx.snapshot(), &by.organization.id, &plan)?;
        catalog::delete_plan(tx, &plan, by.actor)?;
        Ok(StatusCode::NO_CONTENT)
    });
    deleted.await
}
