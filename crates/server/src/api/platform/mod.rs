//! `/api/platform/organizations`: review and suspension of organizations by platform owners. Platform owners have no
//! role inside an organization.

pub(crate) mod owners;

use super::organizations::{ListQuery, OrganizationBody, show};
use crate::openapi::words;
use crate::web::administration::{PlatformOwner, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Json, List, Params};
use crate::web::path::Path;
use identity::audit;
use identity::organization_decisions;
use identity::organizations::{self, Decision, Organization};
use serde::Deserialize;
use utoipa::ToSchema;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReviewOrganization)]
pub(crate) struct ReviewBody {
    #[schema(schema_with = words::decision)]
    decision: String,
    #[schema(schema_with = words::reason)]
    reason: Option<String>,
}

impl Validate for ReviewBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(Decision::parse(&self.decision));
        errors.check(audit::reason(self.reason.as_deref()));
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SuspendOrganization)]
pub(crate) struct SuspendBody {
    #[schema(schema_with = words::reason)]
    reason: Option<String>,
}

impl Validate for SuspendBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(audit::reason(self.reason.as_deref()));
    }
}

pub(crate) async fn list(
    caller: PlatformOwner,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<OrganizationBody>>> {
    let (page, status) = query.read()?;
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found =
        caller.list(move |snapshot| organizations::list(snapshot, None, status, cursor.as_deref(), fetch));
    let show = |organization| show(caller.sign_up(), organization);
    Ok(Json(page.list(found.await?, |organization: &Organization| organization.slug.clone(), show)))
}

pub(crate) async fn review(
    caller: PlatformOwner,
    Path(slug): Path<String>,
    Body(body): Body<ReviewBody>,
) -> Written<Json<OrganizationBody>> {
    let (decision, sign_up) = (Decision::parse(&body.decision)?, caller.sign_up());
    let reviewed = caller.write("organization.review", move |tx, actor| {
        let organization = organizations::find(tx.snapshot(), &slug)?;
        let reason = body.reason.as_deref();
        Ok(Json(show(sign_up, organization_decisions::review(tx, &organization, decision, reason, actor)?)))
    });
    reviewed.await
}

pub(crate) async fn suspend(
    caller: PlatformOwner,
    Path(slug): Path<String>,
    Body(body): Body<SuspendBody>,
) -> Written<Json<OrganizationBody>> {
    let sign_up = caller.sign_up();
    let suspended = caller.write("organization.suspend", move |tx, actor| {
        let organization = organizations::find(tx.snapshot(), &slug)?;
        Ok(Json(show(
            sign_up,
            organization_decisions::suspend(tx, &organization, body.reason.as_deref(), actor)?,
        )))
    });
    suspended.await
}

pub(crate) async fn activate(
    caller: PlatformOwner,
    Path(slug): Path<String>,
) -> Written<Json<OrganizationBody>> {
    let sign_up = caller.sign_up();
    let activated = caller.write("organization.activate", move |tx, actor| {
        let organization = organizations::find(tx.snapshot(), &slug)?;
        Ok(Json(show(sign_up, organization_decisions::activate(tx, &organization, actor)?)))
    });
    activated.await
}
