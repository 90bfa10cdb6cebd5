//! Fields with a few allowed words, and other text fields with a form of their own. The words are those of the domain.

use identity::administrators::Role;
use identity::api_keys::SERVICE_SCOPES;
use identity::clients::{Kind, Pkce};
use identity::invitations::Offer;
use identity::keys::Algorithm;
use identity::organizations::{self, Decision, DeviceFlow};
use identity::programs;
use identity::subscriptions;
use identity::tokens::AccessTokenTyp;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn one_of(words: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(words))
}

/// The short name of an object.
pub(crate) fn slug() -> ObjectBuilder {
    text()
        .pattern(Some("^[a-z][a-z0-9-]{0,48}[a-z0-9]$"))
        .description(Some("The short name in addresses and tokens. It never changes."))
}

/// The role of an administrator.
pub(crate) fn role() -> ObjectBuilder {
    one_of([Role::Member, Role::Admin, Role::Owner].map(Role::as_str)).description(Some(
        "A member reads, an admin also writes, an owner also administers the administrators.",
    ))
}

/// What an invited person becomes.
pub(crate) fn offer() -> ObjectBuilder {
    let roles = [Role::Member, Role::Admin, Role::Owner].map(Offer::Role);
    one_of(roles.into_iter().chain([Offer::PlatformOwner]).map(Offer::as_str))
}

/// The status of an organization.
pub(crate) fn organization_status() -> ObjectBuilder {
    use organizations::Status;
    let all = [Status::Pending, Status::Active, Status::Rejected, Status::Suspended, Status::Deleted];
    one_of(all.map(Status::as_str))
}

/// Whether devices without a browser may sign in.
pub(crate) fn device_flow() -> ObjectBuilder {
    one_of([DeviceFlow::Allowed, DeviceFlow::Short, DeviceFlow::Off].map(DeviceFlow::as_str)).description(Some(
        "Whether devices without a browser may sign in. With `short`, their codes expire after five minutes.",
    ))
}

/// The decision about a pending organization.
pub(crate) fn decision() -> ObjectBuilder {
    one_of([Decision::Approved, Decision::Rejected].map(Decision::as_str))
}

/// The status of a subscription.
pub(crate) fn subscription_status() -> ObjectBuilder {
    one_of(subscriptions::Status::ALL.map(|(word, _)| word))
}

/// The status of what a user may use: that of a subscription that has not ended.
pub(crate) fn entitlement_status() -> ObjectBuilder {
    use subscriptions::Status;
    one_of([Status::Active, Status::Trialing, Status::PastDue].map(Status::as_str))
}

/// The kind of a client.
pub(crate) fn client_kind() -> ObjectBuilder {
    one_of(Kind::ALL.map(|(word, _)| word)).description(Some(
        "`web` and `machine` clients have a secret; a `machine` client acts without a user.",
    ))
}

/// Whether a client must use PKCE.
pub(crate) fn pkce() -> ObjectBuilder {
    one_of([Pkce::Optional, Pkce::Required].map(Pkce::as_str))
        .description(Some("Public clients always need PKCE."))
}

/// The signature of ID tokens.
pub(crate) fn id_token_alg() -> ObjectBuilder {
    one_of([Algorithm::Rs256, Algorithm::Es256].map(Algorithm::as_str))
}

/// The type of access tokens.
pub(crate) fn access_token_typ() -> ObjectBuilder {
    one_of([AccessTokenTyp::AtJwt, AccessTokenTyp::Jwt].map(AccessTokenTyp::as_str))
}

/// The kind of a customer.
pub(crate) fn customer_kind() -> ObjectBuilder {
    one_of(["personal", "team"])
}

/// The kind of a session.
pub(crate) fn session_kind() -> ObjectBuilder {
    one_of(["browser", "device"])
}

/// The reason of a check's result.
pub(crate) fn check_reason() -> ObjectBuilder {
    one_of(["unknown_user", "user_suspended", "in_plan", "not_in_plan"])
}

/// The scopes of an API key or a machine client.
pub(crate) fn scopes() -> ArrayBuilder {
    let mut known: Vec<&str> = programs::SCOPES.to_vec();
    known.extend(SERVICE_SCOPES.iter().filter(|scope| !programs::SCOPES.contains(scope)));
    ArrayBuilder::new().items(one_of(known)).description(Some(
        "What the program may do. `x:write` includes `x:read`. A key of a service may have `users:read` and \
         `entitlements:read`; without a choice it gets both.",
    ))
}
