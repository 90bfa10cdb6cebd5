//! The settings as flags of `sarsen serve` and `sarsen doctor`.

use super::value::RawValue;
use std::path::PathBuf;

/// Flags that override the file and the environment.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings (also in the file as listen = …, and as SARSEN_LISTEN)")]
pub struct Flags {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "SARSEN_CONFIG", hide_env_values = true, help_heading = None::<&str>)]
    pub config: Option<PathBuf>,
    /// Address to listen on; may be repeated [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Public origin of the server, like https://id.example.com [default on loopback: http://localhost:PORT]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Database: sqlite:PATH, postgres://… or mysql://… [default: sqlite:sarsen.db]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Replica of a PostgreSQL database for lists, best first; may be repeated [default: none]
    #[arg(long, value_name = "URL")]
    replicas: Vec<String>,
    /// PostgreSQL server for notifications, where `database` is a connection pooler [default: none]
    #[arg(long, value_name = "URL")]
    database_direct: Option<String>,
    /// Whether instances on PostgreSQL notify each other of changes [default: true]
    #[arg(long, value_name = "BOOL")]
    wake_ups: Option<String>,
    /// File with the secret key; SARSEN_SECRET_KEY is the key itself [default: sarsen.key]
    #[arg(long, value_name = "FILE")]
    secret_key_file: Option<String>,
    /// Folder for backups of a SQLite database that the server makes [default: none]
    #[arg(long, value_name = "FOLDER")]
    backup_directory: Option<String>,
    /// Time from one of these backups to the next, like 6h [default: 1d]
    #[arg(long, value_name = "TIME")]
    backup_every: Option<String>,
    /// How many of these backups are kept [default: 7]
    #[arg(long, value_name = "N")]
    backup_keep: Option<String>,
    /// File of the TLS certificate and its chain, in PEM; with it the server speaks HTTPS [default: none]
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<String>,
    /// File of the certificate's private key, in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Name that an ACME server issues the certificate for; may be repeated; with it the server speaks HTTPS [default: none]
    #[arg(long, value_name = "NAME")]
    acme_domains: Vec<String>,
    /// E-mail address of the account at the ACME server [default: none]
    #[arg(long, value_name = "EMAIL")]
    acme_email: Option<String>,
    /// Directory of the ACME server [default: that of Let's Encrypt]
    #[arg(long, value_name = "URL")]
    acme_directory: Option<String>,
    /// Folder for the account's key and the certificate [default: acme]
    #[arg(long, value_name = "FOLDER")]
    acme_cache: Option<String>,
    /// Proxy that may send the address of its client, or its network; may be repeated [default: none]
    #[arg(long, value_name = "CIDR")]
    trusted_proxies: Vec<String>,
    /// The one header in which it does: x-forwarded-for or forwarded [default: x-forwarded-for]
    #[arg(long, value_name = "HEADER")]
    client_address_header: Option<String>,
    /// Host name, beside the issuer's, that requests may be for; may be repeated [default: none]
    #[arg(long, value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// Bearer token for /metrics; without one only this machine may read it
    #[arg(long, value_name = "TOKEN")]
    metrics_token: Option<String>,
    /// Mail relay, like smtps://user@host:465 (TLS) or smtp://user@host:587 (STARTTLS) [default: none, no mail is sent]
    #[arg(long, value_name = "URL")]
    smtp_url: Option<String>,
    /// File with its password; SARSEN_SMTP_PASSWORD is the password itself [default: none]
    #[arg(long, value_name = "FILE")]
    smtp_password_file: Option<String>,
    /// Sender of mails, like "Example <mail@example.com>"
    #[arg(long, value_name = "SENDER")]
    mail_from: Option<String>,
    /// Selector of the relay's DKIM key, for the checks of sarsen mail test and doctor [default: none]
    #[arg(long, value_name = "NAME")]
    mail_dkim_selector: Option<String>,
    /// Address that is not public and may be connected to, its network, or one port of it; may be repeated [default: none]
    #[arg(long, value_name = "CIDR")]
    outgoing_allow: Vec<String>,
    /// HTTP proxy for connections to public addresses [default: none]
    #[arg(long, value_name = "URL")]
    outgoing_proxy: Option<String>,
    /// DNS server that resolves names of other machines; may be repeated [default: those of the operating system]
    #[arg(long, value_name = "ADDR")]
    dns_servers: Vec<String>,
    /// Whether people may sign up at organizations of early versions without a setting of their own; the others follow
    /// sarsen org change --sign-up [default: true]
    #[arg(long, value_name = "BOOL")]
    sign_up: Option<String>,
    /// Accounts that people at one IPv4 address or IPv6 /64 may create in an hour, 64 of them at once; a /48 twice as many
    /// [default: 200]
    #[arg(long, value_name = "N")]
    sign_ups_per_network_max: Option<String>,
    /// Mails that one organization may send in a day to addresses that nobody has proved [default: 500]
    #[arg(long, value_name = "N")]
    unproven_mails_per_day_max: Option<String>,
    /// Threads that hash passwords [default: one per processor]
    #[arg(long, value_name = "N")]
    hash_threads: Option<String>,
    /// Memory for cached tokens, plans and users, like 256M or 2G [default: 448M]
    #[arg(long, value_name = "SIZE")]
    cache_memory: Option<String>,
    /// Days until the session of a browser expires [default: 30]
    #[arg(long, value_name = "N")]
    session_days: Option<String>,
    /// Open connections at most; one of HTTP/2 counts as two and one for each open request [default: 50000]
    #[arg(long, value_name = "N")]
    connections_max: Option<String>,
    /// Of these, those of one IPv4 address or IPv6 /64; a /48 has twice as many [default: 2000]
    #[arg(long, value_name = "N")]
    connections_per_network_max: Option<String>,
    /// Open streams of /api/live at most [default: 10000]
    #[arg(long, value_name = "N")]
    streams_max: Option<String>,
    /// Of these, those of one user or API key [default: 20]
    #[arg(long, value_name = "N")]
    streams_per_caller_max: Option<String>,
    /// Language of pages and mails, the default first; may be repeated [default: en, de]
    #[arg(long, value_name = "TAG")]
    languages: Vec<String>,
    /// Folder with texts that replace those of the program, such as fr.toml [default: none]
    #[arg(long, value_name = "FOLDER")]
    languages_directory: Option<String>,
    /// Whether each request is logged [default: false]
    #[arg(long, value_name = "BOOL")]
    request_log: Option<String>,
    /// Filter of the log, like info or warn,server=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Format of the log: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl Flags {
    /// Only a configuration file.
    pub fn with_config(path: PathBuf) -> Flags {
        Flags { config: Some(path), ..Flags::default() }
    }

    /// The settings that were given, by name.
    pub(super) fn given(&self) -> Vec<(&'static str, RawValue)> {
        let one = |name, value: &Option<String>| value.clone().map(|text| (name, RawValue::Text(text)));
        let many = |name, values: &[String]| (!values.is_empty()).then(|| (name, listed(values)));
        let given = [
            many("listen", &self.listen),
            one("issuer", &self.issuer),
            one("database", &self.database),
            many("replicas", &self.replicas),
            one("database_direct", &self.database_direct),
            one("wake_ups", &self.wake_ups),
            one("secret_key_file", &self.secret_key_file),
            one("backup_directory", &self.backup_directory),
            one("backup_every", &self.backup_every),
            one("backup_keep", &self.backup_keep),
            one("tls_certificate", &self.tls_certificate),
            one("tls_key", &self.tls_key),
            many("acme_domains", &self.acme_domains),
            one("acme_email", &self.acme_email),
            one("acme_directory", &self.acme_directory),
            one("acme_cache", &self.acme_cache),
            many("trusted_proxies", &self.trusted_proxies),
            one("client_address_header", &self.client_address_header),
            many("allowed_hosts", &self.allowed_hosts),
            one("metrics_token", &self.metrics_token),
            one("smtp_url", &self.smtp_url),
            one("smtp_password_file", &self.smtp_password_file),
            one("mail_from", &self.mail_from),
            one("mail_dkim_selector", &self.mail_dkim_selector),
            many("outgoing_allow", &self.outgoing_allow),
            one("outgoing_proxy", &self.outgoing_proxy),
            many("dns_servers", &self.dns_servers),
            one("sign_up", &self.sign_up),
            one("sign_ups_per_network_max", &self.sign_ups_per_network_max),
            one("unproven_mails_per_day_max", &self.unproven_mails_per_day_max),
            one("hash_threads", &self.hash_threads),
            one("cache_memory", &self.cache_memory),
            one("session_days", &self.session_days),
            one("connections_max", &self.connections_max),
            one("connections_per_network_max", &self.connections_per_network_max),
            one("streams_max", &self.streams_max),
            one("streams_per_caller_max", &self.streams_per_caller_max),
            many("languages", &self.languages),
            one("languages_directory", &self.languages_directory),
            one("request_log", &self.request_log),
            one("log", &self.log),
            one("log_format", &self.log_format),
        ];
        given.into_iter().flatten().collect()
    }
}

/// The configuration file alone, for commands that take no setting as a flag.
#[derive(Clone, Debug, clap::Args)]
pub struct ConfigFile {
    /// The configuration file [default: sarsen.toml]
    #[arg(long, value_name = "FILE", env = "SARSEN_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The flags of `serve` that say the same.
    pub fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), ..Flags::default() }
    }
}

/// `--listen a --listen b` and `--listen a,b` are the same.
fn listed(values: &[String]) -> RawValue {
    let parts = values.iter().flat_map(|value| value.split(','));
    match values {
        [one] => RawValue::Text(one.clone()),
        _ => RawValue::List(parts.map(str::to_owned).collect()),
    }
}
