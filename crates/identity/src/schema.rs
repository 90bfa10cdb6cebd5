//! The tables of this crate, and which of them caches and live queries depend on.

use store::Migration;

/// Numbered, forward-only.
pub static MIGRATIONS: &[Migration] = &[
    migration(1, "identity", include_str!("../migrations/0001_identity.sql")),
    migration(2, "leases", include_str!("../migrations/0002_leases.sql")),
    migration(3, "user codes without an index", include_str!("../migrations/0003_user_codes.sql")),
    migration(4, "device flow by organization", include_str!("../migrations/0004_device_flow.sql")),
];

const fn migration(number: i64, name: &'static str, text: &'static str) -> Migration {
    Migration { number, name, text }
}

/// Tables whose changes commands must declare. The others (codes, audit, …) are always read afresh; of device codes
/// `waiting` remembers what no command but `devices::decide` ends, which declares it.
pub static WATCHED: &[&str] = &[
    "organizations",
    "organization_reviews",
    "organization_suspensions",
    "organization_rules",
    "users",
    "user_suspensions",
    "platform_owners",
    "administrators",
    "services",
    "clients",
    "redirect_uris",
    "client_secrets",
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
];
