//! The migrations of this crate, and the tables that caches and live queries depend on.

use store::Migration;

/// The migrations, numbered and forward-only.
pub static MIGRATIONS: &[Migration] = &[
    migration(1, "identity", include_str!("../migrations/0001_identity.sql")),
    migration(2, "leases", include_str!("../migrations/0002_leases.sql")),
    migration(3, "user codes without an index", include_str!("../migrations/0003_user_codes.sql")),
    migration(4, "device flow by organization", include_str!("../migrations/0004_device_flow.sql")),
    migration(5, "known browsers", include_str!("../migrations/0005_known_browsers.sql")),
    migration(6, "options of clients", include_str!("../migrations/0006_client_options.sql")),
    migration(7, "invitations", include_str!("../migrations/0007_invitations.sql")),
    migration(8, "API keys", include_str!("../migrations/0008_api_keys.sql")),
    migration(9, "idempotent writes", include_str!("../migrations/0009_idempotent_writes.sql")),
    migration(10, "deletions", include_str!("../migrations/0010_deletions.sql")),
    migration(11, "administration by machine clients", include_str!("../migrations/0011_machine_scopes.sql")),
    migration(12, "search", include_str!("../migrations/0012_search.sql")),
    migration(13, "invitations by e-mail", include_str!("../migrations/0013_invitations_by_email.sql")),
    migration(14, "type of access tokens", include_str!("../migrations/0014_access_token_typ.sql")),
    migration(15, "billing", include_str!("../migrations/0015_billing.sql")),
    migration(16, "authentication of grants", include_str!("../migrations/0016_grant_authentication.sql")),
    migration(17, "use of links", include_str!("../migrations/0017_link_use.sql")),
    migration(18, "indexes", include_str!("../migrations/0018_indexes.sql")),
    migration(19, "mends of the second review", include_str!("../migrations/0019_mend.sql")),
    migration(20, "authentication", include_str!("../migrations/0020_authentication.sql")),
    migration(21, "background work", include_str!("../migrations/0021_work.sql")),
    migration(22, "mail", include_str!("../migrations/0022_mail.sql")),
];

const fn migration(number: i64, name: &'static str, text: &'static str) -> Migration {
    Migration { number, name, text }
}

/// The tables whose changes commands must declare. The others (codes, audit, …) are not cached. The exception is the
/// cache of pending device codes: only `devices::decide` ends a pending code, and it declares the change.
pub static WATCHED: &[&str] = &[
    "organizations",
    "organization_reviews",
    "organization_suspensions",
    "organization_rules",
    "organization_deletions",
    "organization_branding",
    "users",
    "user_suspensions",
    "user_deletions",
    "platform_owners",
    "administrators",
    "services",
    "clients",
    "redirect_uris",
    "post_logout_redirect_uris",
    "client_secrets",
    "client_reviews",
    "plans",
    "plan_services",
    "customers",
    "customer_members",
    "subscriptions",
    "seats",
    "sessions",
    "grants",
    "revoked_tokens",
    "signing_keys",
    "api_keys",
];
