//! The JSON of events and of the state of a service.

use crate::api::users;
use crate::openapi::words;
use crate::web::json::rfc3339;
use api::users::Account;
use identity::administrators::Role;
use identity::events::{OfService, Revoked, UserAtService};
use identity::ids::UserId;
use serde::Serialize;
use serde_json::Number;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A user of the service with what they may use there.
#[derive(Serialize, ToSchema)]
#[schema(as = UserState)]
pub(crate) struct UserBody {
    #[serde(flatten)]
    account: Account,
    suspended: bool,
    /// The id of the customer.
    customer: String,
    /// The slug of the plan; `free` if there is no subscription.
    plan: String,
    #[schema(schema_with = words::entitlement_status)]
    status: String,
    #[schema(required, format = DateTime)]
    current_period_end: Option<String>,
    /// The time from which on the plan is `free` unless an event says otherwise.
    #[schema(required, format = DateTime)]
    ends_at: Option<String>,
    /// The organizations that the user administers, at a service of `platform`; elsewhere empty.
    administers: Vec<AdministersBody>,
}

impl From<&UserAtService> for UserBody {
    fn from(one: &UserAtService) -> UserBody {
        let entitlement = &one.entitlement;
        UserBody {
            account: users::account(&one.user),
            suspended: one.user.suspended_at.is_some(),
            customer: entitlement.customer.to_string(),
            plan: entitlement.plan.clone(),
            status: entitlement.status.clone(),
            current_period_end: entitlement.current_period_end.map(rfc3339),
            ends_at: entitlement.ends_at.map(rfc3339),
            administers: administers(&one.administers),
        }
    }
}

/// `subscription.changed` and `user.changed`.
#[derive(Serialize)]
pub(super) struct UserChangedBody {
    user: String,
    state: Option<UserBody>,
}

impl UserChangedBody {
    pub(super) fn new(user: &UserId, state: Option<&UserAtService>) -> UserChangedBody {
        UserChangedBody { user: user.to_string(), state: state.map(UserBody::from) }
    }
}

/// Tokens that are not valid any more.
#[derive(Serialize, ToSchema)]
#[schema(as = RevokedSessions)]
pub(crate) struct RevokedBody {
    /// The id of the user.
    user: String,
    /// Sessions that ended: `sid` of tokens.
    sessions: Vec<String>,
    /// Grants that were revoked: the part of `jti` before the dot.
    grants: Vec<String>,
}

impl From<&Revoked> for RevokedBody {
    fn from(revoked: &Revoked) -> RevokedBody {
        RevokedBody {
            user: revoked.user.to_string(),
            sessions: revoked.sessions.iter().map(ToString::to_string).collect(),
            grants: revoked.grants.iter().map(ToString::to_string).collect(),
        }
    }
}

/// An organization that a user administers.
#[derive(Serialize, PartialEq, ToSchema)]
#[schema(as = AdministeredOrganization)]
pub(super) struct AdministersBody {
    /// The slug of the organization.
    org: String,
    #[schema(schema_with = words::role)]
    role: &'static str,
}

pub(super) fn administers(roles: &[(String, Role)]) -> Vec<AdministersBody> {
    roles.iter().map(|(org, role)| AdministersBody { org: org.clone(), role: role.as_str() }).collect()
}

/// `member.changed`.
#[derive(Serialize)]
pub(super) struct MemberBody {
    pub(super) user: String,
    pub(super) administers: Vec<AdministersBody>,
}

/// What a plan gives its subscribers.
#[derive(Serialize, ToSchema)]
#[schema(as = PlanTerms)]
struct TermsBody {
    /// The slug.
    plan: String,
    name: String,
    features: Vec<String>,
    #[schema(value_type = BTreeMap<String, f64>)]
    limits: BTreeMap<String, Number>,
}

/// A service with the plans that cover it. Without a subscription a user has the plan `free`, which has no features.
#[derive(Serialize, ToSchema)]
#[schema(as = ServiceState)]
pub(crate) struct ServiceBody {
    /// The slug of the service.
    service: String,
    name: String,
    plans: Vec<TermsBody>,
}

impl From<OfService> for ServiceBody {
    fn from(of: OfService) -> ServiceBody {
        let plans = of.plans.into_iter().map(|terms| TermsBody {
            plan: terms.slug,
            name: terms.name,
            features: terms.features,
            limits: terms.limits,
        });
        ServiceBody { service: of.service.slug, name: of.service.name, plans: plans.collect() }
    }
}

/// `bye`.
#[derive(Serialize)]
pub(super) struct ByeBody {
    pub(super) reason: &'static str,
}

/// `reset`.
#[derive(Serialize)]
pub(super) struct ResetBody {
    pub(super) reason: &'static str,
}
