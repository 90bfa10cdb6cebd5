//! `/api/service`: what the back end of a service reads with an API key.

pub(crate) mod state;

use super::user::UserBody;
use crate::openapi::words;
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _, Validate};
use crate::web::json::{Body, Json, Params};
use crate::web::service_key::{ServiceKey, UserOfService};
use axum::response::{IntoResponse as _, Response};
use identity::ids::UserId;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use utoipa::{IntoParams, ToSchema};

/// The most users of one request.
const USERS_MAX: usize = 100;
/// The most pairs of one check.
const CHECKS_MAX: usize = 500;
/// The longest id or name of a feature, in bytes. A feature's name has at most 100 characters.
const NAME_MAX: usize = 400;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsersQuery {
    /// Up to a hundred ids of users, separated by commas.
    ids: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ServiceUserDetailList)]
pub(crate) struct UsersBody<'a> {
    items: Vec<SeenUser<'a>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ServiceUserDetail)]
struct SeenUser<'a> {
    #[serde(flatten)]
    user: UserBody<'a>,
    suspended: bool,
}

/// `?ids=` with up to a hundred ids, separated by commas. Users of other services are left out.
pub(crate) async fn users(key: ServiceKey, Params(query): Params<UsersQuery>) -> Result<Response> {
    key.require("users:read")?;
    let ids = query.ids.split(',').filter(|id| !id.is_empty());
    let ids: Vec<&str> = ids.take(USERS_MAX + 1).collect();
    if ids.is_empty() || ids.len() > USERS_MAX {
        let mut errors = FieldErrors::default();
        let code = if ids.is_empty() { "missing" } else { "too_many" };
        let problem = format!("{} ids; use 1 to {USERS_MAX}, separated by commas", ids.len());
        errors.note(code, "ids".to_owned(), &problem);
        errors.finish_query()?;
    }
    let found = key.users(&distinct(ids)).await?;
    let (org, service) = key.slugs();
    let items = found.iter().map(|one| SeenUser {
        user: UserBody::new(&one.user, &one.entitlement, org, service),
        suspended: one.user.suspended_at.is_some(),
    });
    Ok(Json(UsersBody { items: items.collect() }).into_response())
}

/// The ids that have the form of one, each once.
fn distinct<'a>(ids: impl IntoIterator<Item = &'a str>) -> Vec<UserId> {
    let mut seen = HashSet::new();
    ids.into_iter().filter(|id| seen.insert(*id)).filter_map(|id| UserId::parse(id).ok()).collect()
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreateCheck)]
pub(crate) struct CheckBody {
    checks: Vec<Check>,
}

impl Validate for CheckBody {
    fn validate(&self, errors: &mut FieldErrors) {
        let users = distinct(self.checks.iter().map(|check| check.user.as_str()));
        if self.checks.is_empty() || self.checks.len() > CHECKS_MAX || users.len() > USERS_MAX {
            let code = if self.checks.is_empty() { "missing" } else { "too_many" };
            let problem = format!("use 1 to {CHECKS_MAX} pairs of at most {USERS_MAX} users");
            errors.note(code, "checks".to_owned(), &problem);
        }
        if self.checks.iter().any(|check| check.user.len().max(check.feature.len()) > NAME_MAX) {
            let problem = format!("use ids of users and names of features, at most {NAME_MAX} bytes each");
            errors.note("invalid", "checks".to_owned(), &problem);
        }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UserFeature)]
pub(crate) struct Check {
    /// The id of a user.
    user: String,
    feature: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CheckResults)]
pub(crate) struct ResultsBody {
    results: Vec<ResultBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = CheckResult)]
struct ResultBody {
    user: String,
    feature: String,
    allowed: bool,
    /// Stable, snake_case.
    #[schema(schema_with = words::check_reason)]
    reason: &'static str,
    /// The reason for people.
    detail: String,
    /// The user's plan; null if the service has no such user.
    #[schema(required)]
    plan: Option<String>,
}

/// Whether users may use features, each with the reason.
pub(crate) async fn check(key: ServiceKey, Body(body): Body<CheckBody>) -> Result<Json<ResultsBody>> {
    key.require("entitlements:read")?;
    let ids = distinct(body.checks.iter().map(|check| check.user.as_str()));
    let found = key.users(&ids).await?;
    let known = found.iter().map(|one| Ok((one.user.id.as_str(), (one, one.entitlement.feature_names()?))));
    let known: HashMap<&str, (&UserOfService, Vec<String>)> = known.collect::<identity::Result<_>>()?;
    let results = body.checks.into_iter().map(|check| judge(known.get(check.user.as_str()), check));
    Ok(Json(ResultsBody { results: results.collect() }))
}

/// The answer about a user, who is known with the features of their plan.
fn judge(known: Option<&(&UserOfService, Vec<String>)>, check: Check) -> ResultBody {
    let Check { user, feature } = check;
    let found = known.map(|(one, _)| one);
    let includes = known.is_some_and(|(_, features)| features.contains(&feature));
    let (reason, detail) = match found {
        None => ("unknown_user", "The service has no such user.".to_owned()),
        Some(one) if one.user.suspended_at.is_some() => {
            ("user_suspended", "The user is suspended.".to_owned())
        }
        Some(one) if includes => {
            ("in_plan", format!("The plan {} includes {feature}.", one.entitlement.plan))
        }
        Some(one) => {
            ("not_in_plan", format!("The plan {} does not include {feature}.", one.entitlement.plan))
        }
    };
    let plan = found.map(|one| one.entitlement.plan.clone());
    ResultBody { user, feature, allowed: reason == "in_plan", reason, detail, plan }
}
