//! `/api/organizations/{org}/branding`: what the pages of an organization show beside its name. Its administrators read it and
//! its owners change it, as with its settings.

use crate::openapi::words;
use crate::web::administration::{Administrator, Owner, Written};
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Json};
use identity::branding::{self, Branding};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = Branding)]
pub(crate) struct BrandingBody {
    /// Whom users ask for help; empty for nobody.
    contact: String,
}

fn show(branding: Branding) -> BrandingBody {
    BrandingBody { contact: branding.contact }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SetBranding)]
pub(crate) struct SetBody {
    #[schema(schema_with = words::contact)]
    contact: String,
}

impl Validate for SetBody {
    fn validate(&self, errors: &mut FieldErrors) {
        errors.check(branding::contact(&self.contact));
    }
}

pub(crate) async fn get(admin: Administrator) -> Result<Json<BrandingBody>> {
    let id = admin.organization.id.clone();
    Ok(Json(show(admin.point(move |snapshot| branding::get(snapshot, &id)).await?)))
}

/// Replaces all of it.
pub(crate) async fn put(owner: Owner, Body(body): Body<SetBody>) -> Written<Json<BrandingBody>> {
    let branding = Branding { contact: body.contact };
    let changed = owner.write("branding.change", move |tx, by| {
        Ok(Json(show(branding::put(tx, by.organization, &branding, by.actor)?)))
    });
    changed.await
}
