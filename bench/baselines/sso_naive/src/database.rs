//! The database, with the settings of the original load test.

use std::time::Duration;

#[cfg(not(feature = "postgres"))]
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

/// The one pool for all queries.
#[cfg(not(feature = "postgres"))]
pub type Pool = sqlx::SqlitePool;
#[cfg(feature = "postgres")]
pub type Pool = sqlx::PgPool;

/// Each is run once, on any free connection of the pool, as in the original. So most of them apply to one connection of a
/// hundred. Only the journal mode is saved in the file.
#[cfg(not(feature = "postgres"))]
const PRAGMAS: [&str; 6] = [
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA cache_size = -131072",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA mmap_size = 536870912",
];

const TABLES: [&str; 9] = [
    "CREATE TABLE organizations (id TEXT PRIMARY KEY, slug TEXT NOT NULL UNIQUE, status TEXT NOT NULL)",
    "CREATE TABLE services (
        id TEXT PRIMARY KEY, org_id TEXT NOT NULL REFERENCES organizations (id), slug TEXT NOT NULL,
        client_id TEXT NOT NULL UNIQUE, device_activation_uri TEXT, UNIQUE (org_id, slug))",
    "CREATE TABLE plans (
        id TEXT PRIMARY KEY, service_id TEXT NOT NULL REFERENCES services (id), name TEXT NOT NULL,
        features TEXT NOT NULL)",
    "CREATE TABLE users (id TEXT PRIMARY KEY, email TEXT NOT NULL UNIQUE, created_at BIGINT NOT NULL)",
    "CREATE TABLE subscriptions (
        id TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users (id),
        service_id TEXT NOT NULL REFERENCES services (id), plan_id TEXT NOT NULL REFERENCES plans (id),
        status TEXT NOT NULL, current_period_end BIGINT NOT NULL, UNIQUE (user_id, service_id))",
    "CREATE TABLE sessions (
        id TEXT PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users (id), token_hash TEXT NOT NULL UNIQUE,
        expires_at BIGINT NOT NULL)",
    "CREATE TABLE device_codes (
        id TEXT PRIMARY KEY, device_code TEXT NOT NULL UNIQUE, user_code TEXT NOT NULL UNIQUE,
        client_id TEXT NOT NULL, org_slug TEXT NOT NULL, service_slug TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'pending', user_id TEXT, expires_at BIGINT NOT NULL)",
    "CREATE INDEX subscriptions_by_user ON subscriptions (user_id)",
    "CREATE INDEX sessions_by_user ON sessions (user_id)",
];

/// An empty database on a server, by its URL.
#[cfg(feature = "postgres")]
pub async fn open(url: &str) -> Result<Pool, Box<dyn std::error::Error>> {
    let pool = sqlx::postgres::PgPoolOptions::new()
        .max_connections(100)
        .min_connections(10)
        .acquire_timeout(Duration::from_secs(30))
        .connect(url)
        .await?;
    for table in TABLES {
        sqlx::query(table).execute(&pool).await?;
    }
    Ok(pool)
}

/// A new file for each run.
#[cfg(not(feature = "postgres"))]
pub async fn open(path: &str) -> Result<Pool, Box<dyn std::error::Error>> {
    for suffix in ["", "-wal", "-shm"] {
        match std::fs::remove_file(format!("{path}{suffix}")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let pool = SqlitePoolOptions::new()
        .max_connections(100)
        .min_connections(10)
        .acquire_timeout(Duration::from_secs(30))
        .connect_with(SqliteConnectOptions::new().filename(path).create_if_missing(true))
        .await?;
    for pragma in PRAGMAS {
        sqlx::query(pragma).execute(&pool).await?;
    }
    for table in TABLES {
        sqlx::query(table).execute(&pool).await?;
    }
    Ok(pool)
}
