//! Every setting, three times with one name: `sarsen.toml`, environment `SARSEN_…`, flag; the later wins.
//!
//! - `keys.rs`: the table of settings: name, what is allowed. `flags.rs`: the same as flags;
//! - `layers.rs`: where a value comes from. `file.rs`: `sarsen.toml` with its lines. `raw.rs`: values as they
//!   are written, and how they are read;
//! - `issuer.rs`, `database.rs`: what these two may be. `print.rs`: `--print-config`.
//!
//! A setting that is unknown or wrong stops the start with one line that says which, where and what is allowed.

mod database;
mod file;
mod flags;
mod issuer;
mod print;
mod settings;
mod sources;
mod value;

pub use database::Database;
pub use flags::Flags;
pub use issuer::{Origin, loopback_name};
pub use print::print;
pub use sources::Source;
pub use value::LogFormat;

use crate::environment::Environment;
use crate::error::{Error, Result};
use server::WriterLimits;
use sources::Sources;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Where the server listens when nothing is said.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7070);
/// The secret key, when it is not in a file.
pub const SECRET_KEY_VARIABLE: &str = "SARSEN_SECRET_KEY";

/// A value and where it comes from.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it was set.
    pub source: Source,
}

/// What a server runs with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration file; it need not exist.
    pub file: PathBuf,
    /// Addresses to listen on; at least one.
    pub listen: Setting<Vec<SocketAddr>>,
    /// The public origin; when it is not set it follows from `listen`.
    pub issuer: Setting<Option<Origin>>,
    /// Where the data is.
    pub database: Setting<Database>,
    /// Replicas of a PostgreSQL database, best first.
    pub replicas: Setting<Vec<Database>>,
    /// The PostgreSQL server itself, where `database` leads to a pooler.
    pub database_direct: Setting<Option<Database>>,
    /// Whether instances wake each other.
    pub wake_ups: Setting<bool>,
    /// Where the secret key is, unless `secret_key` is set.
    pub secret_key_file: Setting<PathBuf>,
    /// The key itself, from the environment only.
    pub secret_key: Option<String>,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Setting<Vec<IpAddr>>,
    /// Bearer token for `/metrics`.
    pub metrics_token: Setting<Option<String>>,
    /// Whether people may make accounts by themselves.
    pub sign_up: Setting<bool>,
    /// Threads that hash passwords; none: as many as there are processors.
    pub hash_threads: Setting<Option<usize>>,
    /// How long a browser stays signed in.
    pub session_days: Setting<u32>,
    /// Connections at once.
    pub connections_max: Setting<usize>,
    /// What is logged.
    pub log: Setting<String>,
    /// How.
    pub log_format: Setting<LogFormat>,
}

impl Config {
    /// Reads file, environment and flags.
    pub fn load(flags: &Flags, environment: &Environment) -> Result<Config> {
        let layers = Sources::gather(flags, environment)?;
        let listen = layers.setting("listen", value::addresses, || vec![LISTEN])?;
        let issuer =
            layers.setting("issuer", |raw| value::text(raw).and_then(Origin::parse).map(Some), || None)?;
        let beside = layers.file.parent().map(PathBuf::from).unwrap_or_default();
        let mut database = layers.setting("database", value::database, Database::default)?;
        let mut secret_key_file =
            layers.setting("secret_key_file", value::path, || PathBuf::from("sarsen.key"))?;
        // What the file and the defaults say is meant from where the file is, wherever we were started.
        if database.source.is_beside_file() {
            database.value = database.value.under(&beside);
        }
        if secret_key_file.source.is_beside_file() {
            secret_key_file.value = beside.join(&secret_key_file.value);
        }
        let config = Config {
            listen,
            issuer,
            database,
            replicas: layers.setting("replicas", value::replicas, Vec::new)?,
            database_direct: layers.setting(
                "database_direct",
                |raw| value::postgres(raw).map(Some),
                || None,
            )?,
            wake_ups: layers.setting("wake_ups", value::boolean, || true)?,
            secret_key_file,
            secret_key: environment.get(SECRET_KEY_VARIABLE).map(str::to_owned),
            trusted_proxies: layers.setting("trusted_proxies", value::ip_addresses, Vec::new)?,
            metrics_token: layers.setting("metrics_token", |raw| value::token(raw).map(Some), || None)?,
            sign_up: layers.setting("sign_up", value::boolean, || true)?,
            hash_threads: layers.setting(
                "hash_threads",
                |raw| value::number(raw, 1..=1024).map(Some),
                || None,
            )?,
            session_days: layers.setting("session_days", |raw| value::number(raw, 1..=400), || 30)?,
            connections_max: layers.setting(
                "connections_max",
                |raw| value::number(raw, 1..=1_000_000),
                || 50_000,
            )?,
            log: layers.setting("log", value::log_filter, || "info".to_owned())?,
            log_format: layers.setting("log_format", value::log_format, || LogFormat::Text)?,
            file: layers.file,
        };
        config.check_issuer()?;
        config.check_database()?;
        Ok(config)
    }

    /// What concerns PostgreSQL only must not be believed to help elsewhere.
    fn check_database(&self) -> Result<()> {
        if self.database.value.is_postgres() {
            return Ok(());
        }
        let replicas = (!self.replicas.value.is_empty()).then_some(("replicas", &self.replicas.source));
        let direct =
            self.database_direct.value.as_ref().map(|_| ("database_direct", &self.database_direct.source));
        match replicas.or(direct) {
            Some((name, source)) => Err(Error::usage(format!(
                "{name} ({source}) is not allowed with this database ({}): it is for PostgreSQL; leave it out",
                self.database.value
            ))),
            None => Ok(()),
        }
    }

    /// How the store is opened.
    pub fn store_options(&self, limits: WriterLimits) -> server::StoreOptions {
        let mut options = server::store_options(self.database.value.url());
        options.replicas = self.replicas.value.iter().map(Database::url).collect();
        options.following.direct_url = self.database_direct.value.as_ref().map(Database::url);
        options.following.wake_ups = self.wake_ups.value;
        options.writer = limits;
        options
    }

    /// An `http` issuer is for this machine only; an address that others reach needs one that they know.
    fn check_issuer(&self) -> Result<()> {
        match &self.issuer.value {
            Some(issuer) if !issuer.is_https() && !issuer.is_loopback() => Err(Error::usage(format!(
                "issuer = \"{issuer}\" ({}) is not allowed: http is for this machine only (localhost, 127.0.0.1, \
                 [::1]); use https://…",
                self.issuer.source
            ))),
            None => match self.listen.value.iter().find(|address| !address.ip().is_loopback()) {
                Some(address) => Err(Error::usage(format!(
                    "issuer is not set, and others can reach {address} (listen, {}): set the public address, like \
                     https://id.example.com, as issuer in {}, SARSEN_ISSUER or --issuer",
                    self.listen.source,
                    self.file.display()
                ))),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The issuer, when the server listens on these addresses.
    pub fn issuer_at(&self, listen: &[SocketAddr]) -> String {
        match &self.issuer.value {
            Some(issuer) => issuer.to_string(),
            None => format!("http://localhost:{}", listen.first().map_or(LISTEN.port(), SocketAddr::port)),
        }
    }

    /// What the server is told.
    pub fn settings(&self, listen: &[SocketAddr]) -> server::Settings {
        let mut settings = server::Settings::new(self.issuer_at(listen));
        settings.trusted_proxies = self.trusted_proxies.value.clone();
        settings.metrics_token = self.metrics_token.value.clone();
        settings.sign_up = self.sign_up.value;
        settings.hash_threads = self.hash_threads.value;
        settings.session_life = Duration::from_secs(u64::from(self.session_days.value) * 24 * 3600);
        settings
    }
}

#[cfg(test)]
mod tests;
