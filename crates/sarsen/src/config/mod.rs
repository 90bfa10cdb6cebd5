//! Every setting, by one name in three sources: `sarsen.toml`, the environment (`SARSEN_…`), a flag. The later wins.
//!
//! - `settings.rs`: the table of settings: names, and what is allowed. `flags.rs`: the same as flags;
//! - `sources.rs`: which source wins, and the line about a wrong value. `file.rs`: `sarsen.toml` with its lines. `value.rs`: how values are read;
//! - `issuer.rs`, `database.rs`: the types of these two. `languages.rs`: texts in files. `encryption.rs`, `mail.rs`: what the settings of TLS, of mail, need of each other. `print.rs`: `--print-config`.
//!
//! An unknown or wrong setting stops the start with one line: the setting, its source, and what is allowed.

mod database;
mod encryption;
mod file;
mod flags;
mod issuer;
mod languages;
mod mail;
mod print;
mod settings;
mod sources;
mod value;

pub use database::Database;
pub use flags::{ConfigFile, Flags};
pub use issuer::Origin;
pub use print::print;
pub use sources::Source;
pub use value::LogFormat;

use crate::environment::Environment;
use crate::error::{Error, Result};
use server::outgoing::{Allowed, Proxy, RelayAddress, Sender};
use server::{AddressHeader, CACHE_MEMORY, Cidr, Languages, WriterLimits};
use sources::Sources;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The default address.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7070);
/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The languages that are built in.
const LANGUAGES: [&str; 2] = ["en", "de"];
/// The variable of the secret key, in place of a file.
pub const SECRET_KEY_VARIABLE: &str = "SARSEN_SECRET_KEY";
/// The variable of the relay's password, in place of a file.
pub const SMTP_PASSWORD_VARIABLE: &str = "SARSEN_SMTP_PASSWORD";

/// A value and its source.
#[derive(Clone, Debug)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Its source.
    pub source: Source,
}

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration file; it need not exist.
    pub file: PathBuf,
    /// Addresses to listen on; at least one.
    pub listen: Setting<Vec<SocketAddr>>,
    /// The public origin. Without one it follows from `listen`.
    pub issuer: Setting<Option<Origin>>,
    /// The database.
    pub database: Setting<Database>,
    /// Replicas of a PostgreSQL database, best first.
    pub replicas: Setting<Vec<Database>>,
    /// The PostgreSQL server, where `database` is a connection pooler.
    pub database_direct: Setting<Option<Database>>,
    /// Whether instances notify each other of changes.
    pub wake_ups: Setting<bool>,
    /// The file of the secret key, unless `secret_key` is set.
    pub secret_key_file: Setting<PathBuf>,
    /// The key itself, from the environment only.
    pub secret_key: Option<String>,
    /// Where the server puts backups of a SQLite database.
    pub backup_directory: Setting<Option<PathBuf>>,
    /// The time from one backup to the next.
    pub backup_every: Setting<Duration>,
    /// How many backups are kept.
    pub backup_keep: Setting<usize>,
    /// The file of the TLS certificate. None: plain HTTP.
    pub tls_certificate: Setting<Option<PathBuf>>,
    /// The file of its key.
    pub tls_key: Setting<Option<PathBuf>>,
    /// Names that an ACME server issues the certificate for. None: it is from files, or there is none.
    pub acme_domains: Setting<Vec<String>>,
    /// The address of the account at the ACME server.
    pub acme_email: Setting<Option<String>>,
    /// The directory of the ACME server.
    pub acme_directory: Setting<String>,
    /// The folder for the account's key and the certificate.
    pub acme_cache: Setting<PathBuf>,
    /// Proxies that may send the address of their client.
    pub trusted_proxies: Setting<Vec<Cidr>>,
    /// The header in which they do.
    pub client_address_header: Setting<AddressHeader>,
    /// Names of hosts, beside the issuer's, that requests may be for.
    pub allowed_hosts: Setting<Vec<String>>,
    /// Bearer token for `/metrics`.
    pub metrics_token: Setting<Option<String>>,
    /// The mail relay. None: no mail is sent.
    pub smtp_url: Setting<Option<RelayAddress>>,
    /// The file of its password, unless `smtp_password` is set.
    pub smtp_password_file: Setting<Option<PathBuf>>,
    /// The password itself, from the environment only.
    pub smtp_password: Option<String>,
    /// The sender of mails.
    pub mail_from: Setting<Option<Sender>>,
    /// The selector of the relay's DKIM key.
    pub mail_dkim_selector: Setting<Option<String>>,
    /// Addresses that are not public and may be connected to.
    pub outgoing_allow: Setting<Vec<Allowed>>,
    /// The proxy for public addresses.
    pub outgoing_proxy: Setting<Option<Proxy>>,
    /// DNS servers. None: those of the operating system.
    pub dns_servers: Setting<Vec<SocketAddr>>,
    /// Whether people may sign up at organizations without a setting of their own.
    pub sign_up: Setting<bool>,
    /// Accounts that people at one network may create in an hour.
    pub sign_ups_per_network_max: Setting<u32>,
    /// Mails that one organization may send in a day to addresses that nobody has proved.
    pub unproven_mails_per_day_max: Setting<u32>,
    /// Threads that hash passwords. `None`: one a processor.
    pub hash_threads: Setting<Option<usize>>,
    /// Bytes that all caches may take together.
    pub cache_memory: Setting<usize>,
    /// Days until the session of a browser expires.
    pub session_days: Setting<u32>,
    /// Open connections at most, by their weight.
    pub connections_max: Setting<usize>,
    /// Of these, those of one network.
    pub connections_per_network_max: Setting<usize>,
    /// Open streams of `GET /api/live` at most.
    pub streams_max: Setting<usize>,
    /// Of these, those of one user or API key.
    pub streams_per_caller_max: Setting<usize>,
    /// The languages of pages and mails, the default first.
    pub languages: Setting<Vec<String>>,
    /// The folder with texts in place of those of the program.
    pub languages_directory: Setting<Option<PathBuf>>,
    /// What these two are.
    pub texts: Arc<Languages>,
    /// Whether each request is logged.
    pub request_log: Setting<bool>,
    /// The filter of the log.
    pub log: Setting<String>,
    /// The format of the log.
    pub log_format: Setting<LogFormat>,
}

impl Config {
    /// Whether the configuration file has a password or a token.
    pub fn has_secrets_in_file(&self) -> bool {
        let is_file = |source: &Source| matches!(source, Source::File(..));
        let has_password = |database: &Database| database.url() != database.to_string();
        (is_file(&self.metrics_token.source) && self.metrics_token.value.is_some())
            || (is_file(&self.outgoing_proxy.source)
                && self.outgoing_proxy.value.as_ref().is_some_and(Proxy::has_password))
            || (is_file(&self.database.source) && has_password(&self.database.value))
            || (is_file(&self.database_direct.source) && self.database_direct.value.iter().any(has_password))
            || (is_file(&self.replicas.source) && self.replicas.value.iter().any(has_password))
    }

    /// The format of the log as far as it can be read: for errors of other settings.
    pub fn log_format(flags: &Flags, environment: &Environment) -> LogFormat {
        Sources::find("log_format", flags, environment)
            .and_then(|raw| value::log_format(&raw))
            .unwrap_or(LogFormat::Text)
    }

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
        // A path of the file or a default is relative to the folder of the file, not to the current one.
        if database.source.is_beside_file() {
            database.value = database.value.under(&beside);
        }
        // Files beside the database, such as a backup that replaces it, are beside the file itself.
        database.value = database.value.without_links();
        if secret_key_file.source.is_beside_file() {
            secret_key_file.value = beside.join(&secret_key_file.value);
        }
        let optional_path = |name| -> Result<Setting<Option<PathBuf>>> {
            let mut setting = layers.setting(name, |raw| value::path(raw).map(Some), || None)?;
            if setting.source.is_beside_file() {
                setting.value = setting.value.map(|path| beside.join(path));
            }
            Ok(setting)
        };
        let mut acme_cache = layers.setting("acme_cache", value::path, || PathBuf::from("acme"))?;
        if acme_cache.source.is_beside_file() {
            acme_cache.value = beside.join(&acme_cache.value);
        }
        let languages =
            layers.setting("languages", value::languages, || LANGUAGES.map(str::to_owned).to_vec())?;
        let languages_directory = optional_path("languages_directory")?;
        let config = Config {
            texts: languages::load(&languages.value, languages_directory.value.as_deref())?,
            languages,
            languages_directory,
            backup_directory: optional_path("backup_directory")?,
            tls_certificate: optional_path("tls_certificate")?,
            tls_key: optional_path("tls_key")?,
            acme_domains: layers.setting("acme_domains", value::hosts, Vec::new)?,
            acme_email: layers.setting("acme_email", |raw| value::email(raw).map(Some), || None)?,
            acme_directory: layers.setting("acme_directory", value::https, || LETS_ENCRYPT.to_owned())?,
            acme_cache,
            backup_every: layers
                .setting("backup_every", value::duration, || Duration::from_secs(24 * 3600))?,
            backup_keep: layers.setting("backup_keep", |raw| value::number(raw, 1..=10_000), || 7)?,
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
            trusted_proxies: layers.setting("trusted_proxies", value::networks, Vec::new)?,
            client_address_header: layers.setting(
                "client_address_header",
                value::address_header,
                AddressHeader::default,
            )?,
            allowed_hosts: layers.setting("allowed_hosts", value::hosts, Vec::new)?,
            metrics_token: layers.setting("metrics_token", |raw| value::token(raw).map(Some), || None)?,
            smtp_url: layers.setting("smtp_url", |raw| value::relay(raw).map(Some), || None)?,
            smtp_password_file: optional_path("smtp_password_file")?,
            smtp_password: environment.get(SMTP_PASSWORD_VARIABLE).map(str::to_owned),
            mail_from: layers.setting("mail_from", |raw| value::sender(raw).map(Some), || None)?,
            mail_dkim_selector: layers.setting(
                "mail_dkim_selector",
                |raw| value::selector(raw).map(Some),
                || None,
            )?,
            outgoing_allow: layers.setting("outgoing_allow", value::allowed, Vec::new)?,
            outgoing_proxy: layers.setting("outgoing_proxy", |raw| value::proxy(raw).map(Some), || None)?,
            dns_servers: layers.setting("dns_servers", value::dns_servers, Vec::new)?,
            sign_up: layers.setting("sign_up", value::boolean, || true)?,
            sign_ups_per_network_max: layers.setting(
                "sign_ups_per_network_max",
                |raw| value::number(raw, 1..=1_000_000),
                || 200,
            )?,
            unproven_mails_per_day_max: layers.setting(
                "unproven_mails_per_day_max",
                |raw| value::number(raw, 0..=1_000_000),
                || 500,
            )?,
            hash_threads: layers.setting(
                "hash_threads",
                |raw| value::number(raw, 1..=1024).map(Some),
                || None,
            )?,
            cache_memory: layers.setting("cache_memory", value::size, || CACHE_MEMORY)?,
            session_days: layers.setting("session_days", |raw| value::number(raw, 1..=400), || 30)?,
            connections_max: layers.setting(
                "connections_max",
                |raw| value::number(raw, 1..=1_000_000),
                || 50_000,
            )?,
            connections_per_network_max: layers.setting(
                "connections_per_network_max",
                |raw| value::number(raw, 1..=1_000_000),
                || 2_000,
            )?,
            streams_max: layers.setting("streams_max", |raw| value::number(raw, 1..=1_000_000), || 10_000)?,
            streams_per_caller_max: layers.setting(
                "streams_per_caller_max",
                |raw| value::number(raw, 1..=1_000_000),
                || 20,
            )?,
            request_log: layers.setting("request_log", value::boolean, || false)?,
            log: layers.setting("log", value::log_filter, || "info".to_owned())?,
            log_format: layers.setting("log_format", value::log_format, || LogFormat::Text)?,
            file: layers.file,
        };
        config.check_tls()?;
        config.check_issuer()?;
        config.check_database()?;
        config.check_mail()?;
        Ok(config)
    }

    /// Settings of one database are errors with others.
    fn check_database(&self) -> Result<()> {
        if self.database.value.path().is_none() && self.backup_directory.value.is_some() {
            return Err(Error::usage(format!(
                "backup_directory ({}) is for SQLite only, and database is {}; remove it, and use the tools of the \
                 database server",
                self.backup_directory.source, self.database.value
            )));
        }
        if self.database.value.is_postgres() {
            return Ok(());
        }
        let replicas = (!self.replicas.value.is_empty()).then_some(("replicas", &self.replicas.source));
        let direct =
            self.database_direct.value.as_ref().map(|_| ("database_direct", &self.database_direct.source));
        match replicas.or(direct) {
            Some((name, source)) => Err(Error::usage(format!(
                "{name} ({source}) is for PostgreSQL only, and database is {}; remove it",
                self.database.value
            ))),
            None => Ok(()),
        }
    }

    /// The options of the store.
    pub fn store_options(&self, limits: WriterLimits) -> server::StoreOptions {
        let mut options = server::store_options(self.database.value.url());
        options.replicas = self.replicas.value.iter().map(Database::url).collect();
        options.following.direct_url = self.database_direct.value.as_ref().map(Database::url);
        options.following.wake_ups = self.wake_ups.value;
        options.cache_memory = self.cache_memory.value;
        options.writer = limits;
        options
    }

    /// An `http` issuer is for this machine only. An address that other machines reach needs an issuer.
    fn check_issuer(&self) -> Result<()> {
        match &self.issuer.value {
            Some(issuer) if !issuer.is_https() && !issuer.is_loopback() => Err(Error::usage(format!(
                "issuer = \"{issuer}\" ({}) is not allowed: http is for this machine only (localhost, 127.0.0.1, \
                 [::1]); use https://…",
                self.issuer.source
            ))),
            None => match self.listen.value.iter().find(|address| !address.ip().is_loopback()) {
                Some(address) => Err(Error::usage(format!(
                    "issuer is not set, and other machines can reach {address} (listen, {}); set the public address, like \
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
            None => {
                let port = listen.first().map_or(LISTEN.port(), SocketAddr::port);
                format!("{}://localhost:{port}", self.scheme())
            }
        }
    }

    /// When the server makes backups, if it does.
    pub fn backups(&self) -> Option<server::backups::Schedule> {
        let folder = self.backup_directory.value.clone()?;
        Some(server::backups::Schedule {
            folder,
            every: self.backup_every.value,
            keep: self.backup_keep.value,
        })
    }

    /// The settings of the server.
    pub fn settings(&self, listen: &[SocketAddr]) -> server::Settings {
        let mut settings = server::Settings::new(self.issuer_at(listen));
        settings.trusted_proxies = self.trusted_proxies.value.clone();
        settings.client_address_header = self.client_address_header.value;
        settings.allowed_hosts = self.allowed_hosts.value.clone();
        settings.backups = self.backups();
        settings.request_log = self.request_log.value.then(|| self.log_format.value.of_requests());
        settings.metrics_token = self.metrics_token.value.clone();
        settings.sign_up = self.sign_up.value;
        settings.sign_ups_per_network_max = self.sign_ups_per_network_max.value;
        settings.unproven_mails_per_day_max = self.unproven_mails_per_day_max.value;
        settings.hash_threads = self.hash_threads.value;
        settings.languages = self.texts.clone();
        settings.streams_max = self.streams_max.value;
        settings.streams_per_caller_max = self.streams_per_caller_max.value;
        settings.session_life = Duration::from_secs(u64::from(self.session_days.value) * 24 * 3600);
        settings
    }
}

#[cfg(test)]
mod tests;
