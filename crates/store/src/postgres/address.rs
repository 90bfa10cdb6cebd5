//! The URL of a database on PostgreSQL, and how to get there.
//!
//! It is libpq's, with these words of our own:
//! - `sslmode`: `disable`, `prefer` (TLS where the server offers it, the default on this machine), `require` (the
//!   certificate is not checked), `verify-full` (the certificate must be for this host). A URL that leads to another
//!   machine must say one of them: a server that offers no TLS gets the password in the clear.
//! - `sslrootcert=FILE`: the authority that signs that certificate, instead of those that browsers trust. It means
//!   `verify-full`, also beside `require`, and is refused beside `prefer` and `disable`, which may send the password
//!   without TLS.
//! - `pooler=transaction`: the URL leads to a pooler that lends a connection for one transaction (PgBouncer). No state
//!   may live on a session then, prepared statements included.

use super::client::Client;
use super::epochs::Epochs;
use super::errors::not_connected;
use super::tls::{Tls, Verify};
use crate::{Error, remote};
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// A parsed URL.
pub(super) struct Address {
    config: Config,
    pooled: bool,
    verified: bool,
    roots: Option<PathBuf>,
}

/// Connecting to a host may take this long, from the look-up of its name to the server's last word.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// What a connection needs.
pub(super) struct Server {
    /// For each host, in the order of the URL.
    hosts: Vec<Config>,
    tls: Tls,
    /// Nothing may live on a session.
    pub(super) pooled: bool,
    /// A server in recovery is refused: its data may be old.
    pub(super) is_primary: bool,
    pub(super) epochs: Arc<Epochs>,
}

impl Address {
    /// Parses the URL that an error calls `what`. The error does not repeat it: it may hold a password.
    pub(super) fn parse(what: &str, url: &str) -> Result<Address, Error> {
        let scheme = url.split(':').next().unwrap_or_default();
        let unreadable = || {
            Error::Open(format!(
                "{what} cannot be read; expected {scheme}://USER:PASSWORD@HOST:PORT/DATABASE, with special characters \
                 of a password as %XX"
            ))
        };
        let mut address = Address::read(url).ok_or_else(unreadable)?;
        let (_, query) = place_and_query(url);
        let count = |name: &str| settings_of(query).filter(|setting| names(setting, name)).count();
        // The driver uses the last one, which is easily overlooked.
        if count("sslmode") > 1 || count("sslrootcert") > 1 {
            return Err(Error::Open(format!("{what} has sslmode or sslrootcert twice; remove one")));
        }
        let (hosts, addresses) = (address.config.get_hosts().len(), address.config.get_hostaddrs().len());
        // Without a host the addresses are the hosts.
        if addresses > 0 && hosts > 0 && addresses != hosts {
            return Err(Error::Open(format!(
                "{what} names {hosts} hosts and {addresses} addresses (hostaddr); name one address for each host, or none"
            )));
        }
        let says_sslmode = count("sslmode") > 0;
        if !says_sslmode && address.roots.is_none() && leads_elsewhere(&address.config) {
            return Err(Error::Open(format!(
                "{what} leads to another machine and does not say how the connection is protected; add sslmode=verify-full, or                  sslmode=disable where nobody can listen in"
            )));
        }
        if address.roots.is_some() && !address.verified {
            if says_sslmode && address.config.get_ssl_mode() != SslMode::Require {
                return Err(Error::Open(format!(
                    "{what} names an authority (sslrootcert) and an sslmode that checks no certificate; remove the \
                     sslmode, or write sslmode=verify-full"
                )));
            }
            address.config.ssl_mode(SslMode::Require);
        }
        Ok(address)
    }

    fn read(url: &str) -> Option<Address> {
        let (place, query) = place_and_query(url);
        let mut known = vec![];
        let (mut pooled, mut verified, mut roots) = (false, false, None);
        for setting in settings_of(query) {
            match setting.split_once('=')? {
                ("sslmode", "verify-full") => {
                    verified = true;
                    known.push("sslmode=require");
                }
                ("sslrootcert", file) => roots = Some(PathBuf::from(unescaped(file)?)),
                ("pooler", "transaction") => pooled = true,
                ("pooler", _) => return None,
                _ => known.push(setting),
            }
        }
        let url = if known.is_empty() { place.to_owned() } else { format!("{place}?{}", known.join("&")) };
        Some(Address { config: url.parse().ok()?, pooled, verified, roots })
    }

    /// The primary. Of several hosts, the one that accepts writes.
    pub(super) fn primary(mut self) -> Result<Server, Error> {
        if self.config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(Error::Open(
                "the database URL asks for a server that accepts no writes; remove target_session_attrs"
                    .to_owned(),
            ));
        }
        if self.config.get_hosts().len() > 1 {
            self.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        self.server(true)
    }

    /// A server that is only read from, and may be a standby.
    pub(super) fn replica(self) -> Result<Server, Error> {
        self.server(false)
    }

    /// Reads the certificates and sets what the URL leaves open.
    fn server(self, is_primary: bool) -> Result<Server, Error> {
        let verify = match self.roots {
            Some(file) => Verify::CaFile(file),
            None if self.verified => Verify::PublicRoots,
            None => Verify::Nothing,
        };
        let tls = Tls::new(verify)?;
        let hosts = one_host_each(&settings(self.config));
        Ok(Server { hosts, tls, pooled: self.pooled, is_primary, epochs: Arc::default() })
    }
}

impl Server {
    /// To the first host that will do. The error is that of the last one, and says whether it may pass.
    pub(super) fn connect(&self) -> Result<Client, (bool, Error)> {
        let mut failed = None;
        for config in &self.hosts {
            let limit = config.get_connect_timeout().map_or(CONNECT_MAX, |limit| CONNECT_MAX.max(*limit));
            match Client::connect(config, self.tls.clone(), limit) {
                Ok(client) => return Ok(client),
                Err(why) => failed = Some(not_connected(&why, limit)),
            }
        }
        Err(failed
            .unwrap_or_else(|| (false, Error::Open("the URL of the database names no host".to_owned()))))
    }

    /// Where it is, and nothing that is secret.
    pub(super) fn place(&self) -> String {
        let host = |config: &Config| {
            let name = config.get_hosts().first().map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(folder) => folder.display().to_string(),
            });
            let port = config.get_ports().first().map(|port| format!(":{port}"));
            name.unwrap_or_default() + &port.unwrap_or_default()
        };
        self.hosts.iter().map(host).collect::<Vec<_>>().join(",")
    }
}

/// What stands before the query, and the query. As in the driver, all before the first `@` is user and password, which may
/// contain a `?`.
fn place_and_query(url: &str) -> (&str, &str) {
    let host = url.find('@').unwrap_or_default();
    match url[host..].find('?') {
        Some(mark) => (&url[..host + mark], &url[host + mark + 1..]),
        None => (url, ""),
    }
}

fn settings_of(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|setting| !setting.is_empty())
}

/// Whether a setting of a query has this name, as the driver reads it: it decodes names.
fn names(setting: &str, name: &str) -> bool {
    setting.split_once('=').and_then(|(named, _)| unescaped(named)).is_some_and(|named| named == name)
}

/// Whether some host is not this machine. An address that is named beside a host is where the connection goes.
fn leads_elsewhere(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    match addresses {
        [] => config
            .get_hosts()
            .iter()
            .any(|host| matches!(host, Host::Tcp(name) if !remote::is_this_machine(name))),
        addresses => addresses.iter().any(|address| !address.is_loopback()),
    }
}

/// Defaults for what the URL does not set. A dead server is noticed in seconds, not when TCP gives up.
fn settings(mut config: Config) -> Config {
    if config.get_application_name().is_none() {
        config.application_name("sarsen");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(2));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(5));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_idle(Duration::from_secs(5));
        config.keepalives_interval(Duration::from_secs(1));
        config.keepalives_retries(5);
    }
    config
}

/// The same for each host by itself: the driver tries them in turn, so one that says nothing would take the time of all.
fn one_host_each(config: &Config) -> Vec<Config> {
    let (hosts, ports, addresses) = (config.get_hosts(), config.get_ports(), config.get_hostaddrs());
    if hosts.len() < 2 {
        return vec![config.clone()];
    }
    let of_host = |(place, host): (usize, &Host)| {
        let mut one = Config::new();
        match host {
            Host::Tcp(name) => one.host(name),
            Host::Unix(folder) => one.host_path(folder),
        };
        if let Some(port) = ports.get(place).or(ports.first()) {
            one.port(*port);
        }
        addresses.get(place).map(|address| one.hostaddr(*address));
        config.get_user().map(|user| one.user(user));
        config.get_password().map(|password| one.password(password));
        config.get_dbname().map(|name| one.dbname(name));
        config.get_options().map(|options| one.options(options));
        config.get_application_name().map(|name| one.application_name(name));
        config.get_connect_timeout().map(|limit| one.connect_timeout(*limit));
        config.get_tcp_user_timeout().map(|limit| one.tcp_user_timeout(*limit));
        config.get_keepalives_interval().map(|interval| one.keepalives_interval(interval));
        config.get_keepalives_retries().map(|retries| one.keepalives_retries(retries));
        one.keepalives(config.get_keepalives())
            .keepalives_idle(config.get_keepalives_idle())
            .ssl_mode(config.get_ssl_mode())
            .ssl_negotiation(config.get_ssl_negotiation())
            .channel_binding(config.get_channel_binding())
            .target_session_attrs(config.get_target_session_attrs())
            .load_balance_hosts(config.get_load_balance_hosts());
        one
    };
    hosts.iter().enumerate().map(of_host).collect()
}

/// `%2F` → `/`.
fn unescaped(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parse(query: &str) -> Result<Address, Error> {
        Address::parse("the database URL", &format!("postgres://ada:hunter2@db.test/sarsen?{query}"))
    }

    #[test]
    fn our_own_words_are_taken_out_of_the_url() {
        let query =
            "pooler=transaction&sslmode=verify-full&sslrootcert=%2Fetc%2Four%20ca.pem&connect_timeout=3";
        let address = parse(query).expect("reads");
        assert!(address.pooled && address.verified);
        assert_eq!(address.roots.as_deref(), Some(Path::new("/etc/our ca.pem")));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        let here =
            Address::parse("the database URL", "postgres://ada:hunter2@localhost/sarsen").expect("reads");
        assert!(!here.pooled && !here.verified && here.roots.is_none());
        assert_eq!(here.config.get_ssl_mode(), SslMode::Prefer);
        for wrong in ["pooler=session", "pooler", "sslmode=verify-ca", "what=ever"] {
            let text = parse(wrong).err().expect("refused").to_string();
            assert!(text.contains("cannot be read") && !text.contains("hunter2"), "{wrong}: {text}");
        }
    }

    #[test]
    fn the_way_to_another_machine_says_how_it_is_protected() {
        let read = |url: &str| Address::parse("the database URL", url).map(drop);
        for here in [
            "postgres://ada:hunter2@localhost/x",
            "postgres://ada:hunter2@127.0.0.2:5433/x",
            "postgres://ada:hunter2@[::1]/x",
            "postgres:///x?host=/run/postgresql",
            "postgres://ada:hunter2@LOCALHOST,127.0.0.1/x",
            "postgres://ada:hunter2@db.test/x?hostaddr=127.0.0.1",
        ] {
            assert!(read(here).is_ok(), "{here}");
        }
        for elsewhere in [
            "postgres://ada:hunter2@db.test/x",
            "postgres://ada:hunter2@10.0.0.5/x",
            "postgres://ada:hunter2@localhost,db.test/x",
            "postgres://ada:hunter2@localhost.example.com/x?pooler=transaction",
            "postgres://ada:hunter2@localhost/x?hostaddr=10.0.0.5",
            "postgres://ada:hunter2@one.localhost/x",
            "postgres://ada:hunter2&sslmode=disable@db.test/x",
            "postgres://ada:hunter2?sslmode=disable@db.test/x",
        ] {
            let text = read(elsewhere).expect_err(elsewhere).to_string();
            assert!(text.contains("add sslmode=verify-full") && !text.contains("hunter2"), "{text}");
            for mode in ["disable", "prefer", "require", "verify-full"] {
                let mark = if place_and_query(elsewhere).1.is_empty() { '?' } else { '&' };
                assert!(read(&format!("{elsewhere}{mark}sslmode={mode}")).is_ok(), "{elsewhere} {mode}");
            }
        }
    }

    #[test]
    fn a_protection_that_is_said_twice_is_refused() {
        for twice in [
            "sslmode=verify-full&sslmode=disable",
            "sslmode=verify-full&%73slmode=disable",
            "sslrootcert=ca.pem&sslrootcert=other.pem",
        ] {
            let text = parse(twice).err().expect("refused").to_string();
            assert!(text.contains("twice") && !text.contains("hunter2"), "{twice}: {text}");
        }
    }

    #[test]
    fn each_host_has_an_address_or_none_has() {
        let read = |hosts: &str, addresses: &str| {
            Address::parse(
                "the database URL",
                &format!("postgres://ada:hunter2@{hosts}/x?{addresses}sslmode=disable"),
            )
        };
        assert!(read("one.test,two.test", "").is_ok());
        assert!(read("one.test,two.test", "hostaddr=10.0.0.5,10.0.0.6&").is_ok());
        for (hosts, addresses) in
            [("one.test,two.test", "hostaddr=127.0.0.1&"), ("one.test", "hostaddr=10.0.0.5,10.0.0.6&")]
        {
            let text = read(hosts, addresses).err().expect("refused").to_string();
            assert!(text.contains("one address for each host") && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn each_host_has_all_settings_of_the_url() {
        let url = "postgres://ada:hunter2@one.test:5001,two.test:5002/sarsen?connect_timeout=7&keepalives_idle=9\
            &application_name=us&sslmode=require&options=-c%20geqo%3Doff&channel_binding=require&target_session_attrs=any";
        let server = Address::parse("the database URL", url).and_then(Address::replica).expect("reads");
        assert_eq!(server.place(), "one.test:5001,two.test:5002");
        let alone =
            |host: &str| settings(url.replace("one.test:5001,two.test:5002", host).parse().expect("reads"));
        assert_eq!(server.hosts, [alone("one.test:5001"), alone("two.test:5002")]);
    }

    #[test]
    fn an_authority_means_verification() {
        for query in ["sslrootcert=ca.pem", "sslmode=require&sslrootcert=ca.pem"] {
            assert_eq!(parse(query).expect("reads").config.get_ssl_mode(), SslMode::Require, "{query}");
        }
        for mode in ["prefer", "disable"] {
            let text =
                parse(&format!("sslrootcert=ca.pem&sslmode={mode}")).err().expect("refused").to_string();
            assert!(text.contains("sslmode=verify-full") && !text.contains("hunter2"), "{mode}: {text}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_repeated() {
        let refused = Address::parse("the database URL", "postgres://ada:hun@host?ter2=1@db/x");
        let text = refused.err().expect("refused").to_string();
        assert!(text.contains("%XX") && !text.contains("ter2"), "{text}");
    }
}
