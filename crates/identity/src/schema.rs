//! The tables of this crate, and which of them caches and live queries depend on.

use store::Migration;

/// Numbered, forward-only.
pub static MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "identity",
        sqlite: include_str!("../migrations/sqlite/0001_identity.sql"),
        postgres: include_str!("../migrations/postgres/0001_identity.sql"),
        mysql: include_str!("../migrations/mysql/0001_identity.sql"),
    },
    Migration {
        number: 2,
        name: "leases",
        sqlite: include_str!("../migrations/sqlite/0002_leases.sql"),
        postgres: include_str!("../migrations/postgres/0002_leases.sql"),
        mysql: include_str!("../migrations/mysql/0002_leases.sql"),
    },
    Migration {
        number: 3,
        name: "user codes without an index",
        sqlite: include_str!("../migrations/sqlite/0003_user_codes.sql"),
        postgres: include_str!("../migrations/postgres/0003_user_codes.sql"),
        mysql: include_str!("../migrations/mysql/0003_user_codes.sql"),
    },
    Migration {
        number: 4,
        name: "device flow by organization",
        sqlite: include_str!("../migrations/sqlite/0004_device_flow.sql"),
        postgres: include_str!("../migrations/postgres/0004_device_flow.sql"),
        mysql: include_str!("../migrations/mysql/0004_device_flow.sql"),
    },
];

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
