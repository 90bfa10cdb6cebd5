//! `sarsen init`: asks three questions and writes a configuration and a secret key. It overwrites nothing.

use crate::config::{self, Config, Database, Flags, Origin};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::secret_key;
use crate::{files, output, terminal};
use server::{SecretKey, SystemRandom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Write a configuration and a secret key, after three questions.
#[derive(clap::Args)]
#[command(after_help = "Without a terminal:\n\
                  \x20   sarsen init --yes --issuer https://id.example.com --listen 0.0.0.0:7070")]
pub struct Args {
    /// The configuration file to write; the key is written beside it
    #[arg(long, value_name = "FILE", default_value = "sarsen.toml")]
    config: PathBuf,
    /// Ask nothing; use the flags and the defaults
    #[arg(long)]
    yes: bool,
    /// Address to listen on
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Public origin of the server
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Where the data is
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

/// The three answers.
struct Answers {
    listen: String,
    issuer: String,
    database: String,
}

/// Runs it.
pub fn run(args: &Args) -> Result<()> {
    let key_file = args.config.parent().unwrap_or(Path::new("")).join("sarsen.key");
    for path in [&args.config, &key_file] {
        files::remove_unfinished_texts(path);
        if path.exists() {
            return Err(Error::failed(format!(
                "{} exists; nothing was changed. Edit it, or move it away",
                path.display()
            )));
        }
    }
    if !args.yes && !terminal::is_interactive() {
        let text =
            "init asks questions and needs a terminal; use --yes with --listen, --issuer and --database";
        return Err(Error::usage(text));
    }
    let answers = answer(args)?;
    if let Some(folder) = args.config.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    }
    files::create_private(&key_file, &format!("{}\n", SecretKey::generate(&SystemRandom)))?;
    files::create_private(&args.config, &answers.file())?;
    // `serve` must accept the new file.
    let config = Config::load(&Flags::with_config(args.config.clone()), &Environment::default())?;
    output::after_change(output::print(&next_steps(args, &config, &key_file)))
}

fn answer(args: &Args) -> Result<Answers> {
    let given =
        |flag: &Option<String>, question: &str, default: String, check: &dyn Fn(&str) -> Result<()>| {
            match flag {
                Some(text) => check(text).map(|()| text.clone()),
                None if args.yes => check(&default).map(|()| default),
                None => terminal::ask(question, Some(&default), check),
            }
        };
    let listen = given(&args.listen, "Address to listen on", config::LISTEN.to_string(), &check_listen)?;
    let address: SocketAddr = listen.parse().unwrap_or(config::LISTEN);
    let default_issuer = match &args.issuer {
        Some(issuer) => issuer.clone(),
        None => default_issuer(address)?,
    };
    let check_issuer = |text: &str| check_issuer(text, address);
    let issuer = given(&args.issuer, "Public address", default_issuer, &check_issuer)?;
    let database = given(&args.database, "Database", Database::default().to_string(), &check_database)?;
    Ok(Answers { listen, issuer, database })
}

/// The issuer of a server at this address, unless somebody names another.
fn default_issuer(listen: SocketAddr) -> Result<String> {
    match listen.port() {
        0 => Err(Error::usage(format!(
            "with {listen} the system chooses another port at each start, so the public address is not known; use a \
             port, like 127.0.0.1:7070, or give --issuer"
        ))),
        port => Ok(format!("http://localhost:{port}")),
    }
}

fn check_listen(text: &str) -> Result<()> {
    let rule =
        || Error::usage(format!("{text:?} is not an address with a port; use one like 127.0.0.1:7070"));
    text.parse::<SocketAddr>().map(|_| ()).map_err(|_| rule())
}

fn check_issuer(text: &str, listen: SocketAddr) -> Result<()> {
    let rule = "use https:// and a host, like https://id.example.com, without a slash at the end";
    let Some(origin) = Origin::parse(text) else {
        return Err(Error::usage(format!("{text:?} is not an issuer; {rule}")));
    };
    if origin.is_https() || origin.is_loopback() && listen.ip().is_loopback() {
        return Ok(());
    }
    let why = if origin.is_loopback() {
        format!("other machines can reach {listen}")
    } else {
        "http is for this machine only".to_owned()
    };
    Err(Error::usage(format!("{text} is not allowed, because {why}; {rule}")))
}

fn check_database(text: &str) -> Result<()> {
    let rule = || Error::usage(format!("that is not a database; use {}", Database::FORMS));
    Database::parse(text).map(|_| ()).ok_or_else(rule)
}

impl Answers {
    fn file(&self) -> String {
        // A TOML basic string and a JSON string quote the same way.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        format!(
            "# Configuration of Sarsen. `sarsen serve --print-config` shows all settings and their sources.\n\
             \n\
             # Where the server listens.\n\
             listen = {}\n\
             # The public address of the server. A change signs out all users and clients.\n\
             issuer = {}\n\
             # The database. A path is relative to the folder of this file.\n\
             database = {}\n\
             \n\
             # More settings, with their defaults:\n\
             # secret_key_file = \"sarsen.key\"\n\
             # backup_directory = \"…\"     # for backups of a SQLite database that the server makes; without it none\n\
             # backup_every = \"1d\"\n\
             # backup_keep = 7\n\
             # tls_certificate = \"…\"      # files of the TLS certificate and its key; without them the server speaks\n\
             # tls_key = \"…\"              # plain HTTP, behind a proxy\n\
             # acme_domains = []          # or names that an ACME server issues the certificate for\n\
             # trusted_proxies = []       # proxies that may send X-Forwarded-For: addresses or networks like 10.0.0.0/8\n\
             # client_address_header = \"x-forwarded-for\"   # or \"forwarded\" (RFC 7239); the other one is ignored\n\
             # allowed_hosts = []         # host names, beside the issuer's, that requests may be for\n\
             # metrics_token = \"…\"        # bearer token for /metrics; without it only this machine may read it\n\
             # sign_up = true             # sign-up at organizations without a setting of their own\n\
             # sign_ups_per_network_max = 200   # accounts that people at one network may create in an hour\n\
             # cache_memory = \"448M\"      # for cached tokens, plans and users; the server needs some 100M beside it\n\
             # hash_threads = 2           # for password hashes; by default one per processor\n\
             # session_days = 30          # life of a browser's session\n\
             # connections_max = 50000\n\
             # connections_per_network_max = 2000   # of these, those of one network\n\
             # streams_max = 10000        # open streams of /api/live\n\
             # streams_per_caller_max = 20\n\
             # languages = [\"en\", \"de\"]    # of pages and mails, the default first\n\
             # languages_directory = \"texts\"   # folder with texts of yours: docs/operate/languages.md\n\
             # request_log = false        # whether each request is logged\n\
             # log = \"info\"\n\
             # log_format = \"text\"        # or json\n",
            quoted(&self.listen),
            quoted(&self.issuer),
            quoted(&self.database),
        )
    }
}

fn next_steps(args: &Args, config: &Config, key_file: &Path) -> String {
    let serve = match args.config.to_str() {
        Some("sarsen.toml") => "sarsen serve".to_owned(),
        _ => format!("sarsen serve --config {}", args.config.display()),
    };
    let link = secret_key::beside_data(config).join("setup-link.txt");
    let issuer = config.issuer_at(&config.listen.value);
    format!(
        "Wrote {} and {}.\n\
         Keep a copy of the key apart from your backups: without the key the data cannot be used.\n\
         \n\
         Next:\n\
         \x20 1. {serve}\n\
         \x20 2. Open the one-time link in {} and become the owner of the server.\n\
         \x20 3. sarsen login --server {issuer}\n",
        args.config.display(),
        key_file.display(),
        link.display()
    )
}
