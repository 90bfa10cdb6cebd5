//! Fields with a few allowed words, and other text fields with a form of their own. The words are those of the domain.

pub(crate) use ::api::words::{email, name, one_of, reason, text};
use identity::administrators::Role;
use identity::api_keys::SERVICE_SCOPES;
use identity::audit_trail;
use identity::branding;
use identity::clients::{self, Kind, Pkce};
use identity::ids::{ApiKeyId, ClientId, UserId};
use identity::invitations::Offer;
use identity::keys::Algorithm;
use identity::organizations::{self, Decision, DeviceFlow};
use identity::plans::terms;
use identity::programs;
use identity::subscriptions;
use identity::tokens::AccessTokenTyp;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaFormat, SchemaType, Type};

/// The short name of an object.
pub(crate) fn slug() -> ObjectBuilder {
    text()
        .pattern(Some("^[a-z][a-z0-9-]{0,48}[a-z0-9]$"))
        .description(Some("The short name in addresses and tokens. It never changes."))
}

/// The slug of a service that exists.
pub(crate) fn service_slug() -> ObjectBuilder {
    slug().description(Some("The slug of a service."))
}

/// The slug of a plan that exists.
pub(crate) fn plan_slug() -> ObjectBuilder {
    slug().description(Some("The slug of a plan."))
}

/// The slugs of the services of a plan.
pub(crate) fn service_slugs() -> ArrayBuilder {
    ArrayBuilder::new()
        .items(slug().description(None::<&str>))
        .description(Some("The slugs of its services."))
}

/// Whom users of an organization ask for help.
pub(crate) fn contact() -> ObjectBuilder {
    text().max_length(Some(branding::CONTACT_LENGTH_MAX)).description(Some(
        "Whom users ask for help: an address, a number, a room. Plain text on one line; the pages show it as it is. An empty \
         one removes it.",
    ))
}

/// Who did something.
pub(crate) fn actor() -> ObjectBuilder {
    let ids = [UserId::PREFIX, ApiKeyId::PREFIX, ClientId::PREFIX].join("|");
    text().pattern(Some(format!("^(system|unknown|({ids})_.+|.+@.+)$")))
}

/// What was done.
pub(crate) fn action() -> ObjectBuilder {
    text().pattern(Some("^[a-z_.]+$")).min_length(Some(1)).max_length(Some(audit_trail::ACTION_LENGTH_MAX))
}

/// What something was done to.
pub(crate) fn target() -> ObjectBuilder {
    text().min_length(Some(1)).max_length(Some(audit_trail::TARGET_LENGTH_MAX))
}

/// A time or a date of a filter.
pub(crate) fn time_or_date() -> ObjectBuilder {
    text().pattern(Some("^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ].+)?$"))
}

/// The currency of a plan.
pub(crate) fn currency() -> ObjectBuilder {
    text().pattern(Some("^[A-Z]{3}$")).description(Some("ISO 4217, such as `EUR`."))
}

/// The price of a plan.
pub(crate) fn price_cents() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(terms::PRICE_CENTS_MAX))
}

/// The seats of a plan.
pub(crate) fn seats() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Integer, Type::Null]))
        .minimum(Some(1))
        .maximum(Some(terms::SEATS_MAX))
        .description(Some("How many members a team may have; null: any number."))
}

/// The features of a plan.
pub(crate) fn features() -> ArrayBuilder {
    ArrayBuilder::new().items(name()).max_items(Some(terms::FEATURES_MAX))
}

/// The addresses of a client.
pub(crate) fn uris() -> ArrayBuilder {
    let uri =
        text().format(Some(SchemaFormat::Custom("uri".to_owned()))).max_length(Some(clients::URI_LENGTH_MAX));
    ArrayBuilder::new().items(uri).max_items(Some(clients::URIS_MAX)).unique_items(true)
}

/// The id of a user, where a customer may stand instead.
pub(crate) fn user_id() -> ObjectBuilder {
    text().description(Some("The id of a user. Send either this or `customer`."))
}

/// The id of a customer, where a user may stand instead.
pub(crate) fn customer_id() -> ObjectBuilder {
    text().description(Some("The id of a customer. Send either this or `user`."))
}

/// The role of an administrator.
pub(crate) fn role() -> ObjectBuilder {
    one_of([Role::Member, Role::Admin, Role::Owner].map(Role::as_str)).description(Some(
        "A member reads, an admin also writes, an owner also administers the administrators.",
    ))
}

/// The one word of [`revoke`].
pub(crate) const REVOKE_MADE: &str = "made";

/// What is revoked with an administrator.
pub(crate) fn revoke() -> ObjectBuilder {
    one_of([REVOKE_MADE])
}

/// What an invited person becomes.
pub(crate) fn offer() -> ObjectBuilder {
    let roles = [Role::Member, Role::Admin, Role::Owner].map(Offer::Role);
    one_of(roles.into_iter().chain([Offer::PlatformOwner]).map(Offer::as_str))
}

/// The status of an organization.
pub(crate) fn organization_status() -> ObjectBuilder {
    one_of(organizations::Status::ALL.map(organizations::Status::as_str))
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
