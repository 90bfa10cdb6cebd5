//! The URL of a database on MySQL or MariaDB, and its TLS options.
//!
//! It is the driver's URL, with two options that are spelled as in the servers' own tools:
//! - `ssl-mode=DISABLED`, `PREFERRED` (the default on this machine: TLS if the server offers it), `REQUIRED`
//!   (the certificate is not verified), `VERIFY_IDENTITY` (the certificate must be for this host). A URL that leads to another
//!   machine must say one of them.
//! - `ssl-ca=FILE`: certificate authorities in addition to those that browsers trust. It implies `VERIFY_IDENTITY` and
//!   is an error with any other mode, so that nothing is sent to an unverified server by mistake.
//!
//! `VERIFY_CA` is not supported. The driver trusts the browsers' authorities besides those of the file, so a
//! certificate for any name would be accepted.

use super::client::Client;
use crate::Error;
use crate::remote::{self, certificates};
use ::mysql_async::{DriverError, Error as Told, Opts, OptsBuilder, SslOpts};
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The driver's own words about TLS.
const DRIVER_TLS: [&str; 4] = ["require_ssl", "verify_ca", "verify_identity", "built_in_roots"];
const MODES: &str = "DISABLED, PREFERRED, REQUIRED or VERIFY_IDENTITY";

/// A URL that was read.
pub(super) struct Address {
    opts: Opts,
    mode: Mode,
    authority: Option<PathBuf>,
}

/// When TLS is spoken, and with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disabled,
    Preferred,
    Required,
    VerifyIdentity,
}

/// Where to connect to, with everything that takes.
pub(super) struct Server {
    opts: Opts,
    /// The behaviour if the server offers no TLS.
    plain: Option<Opts>,
    /// How often a server at this address stopped to accept writes under a connection.
    demotions: Arc<AtomicU64>,
}

impl Address {
    /// The error does not repeat an unreadable URL, because it may contain a password.
    pub(super) fn parse(url: &str) -> Result<Address, Error> {
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut mode, mut roots, mut known) = (None, None, vec![]);
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            let twice = match setting.split_once('=') {
                Some(("ssl-mode", word)) => mode.replace(Mode::parse(word)?).is_some(),
                Some(("ssl-ca", file)) => roots.replace(unescaped(file)?).is_some(),
                _ => {
                    known.push(setting);
                    false
                }
            };
            if twice {
                return Err(wrong("says ssl-mode or ssl-ca twice"));
            }
        }
        let unreadable = |_| {
            wrong(&format!(
                "cannot be read; expected {scheme}://USER:PASSWORD@HOST:PORT/DATABASE, with what is special in a \
                 password as %XX"
            ))
        };
        let opts = Opts::from_url(&format!("mysql:{place}?{}", known.join("&"))).map_err(unreadable)?;
        if known.iter().any(|setting| DRIVER_TLS.contains(&name_of(setting))) {
            return Err(wrong("has a word about TLS that is the driver's own; use ssl-mode and ssl-ca"));
        }
        let mode = match (mode, &roots) {
            (None, None) if opts.socket().is_none() && !remote::is_this_machine(opts.ip_or_hostname()) => {
                return Err(wrong(
                    "leads to another machine and does not say how the connection is protected; add ssl-mode=VERIFY_IDENTITY, or \
                     ssl-mode=DISABLED where nobody can listen in",
                ));
            }
            (None, None) => Mode::Preferred,
            (None, Some(_)) => Mode::VerifyIdentity,
            (Some(mode), Some(_)) if mode != Mode::VerifyIdentity => {
                return Err(wrong(
                    "names an authority (ssl-ca) and an ssl-mode that looks at no certificate; leave out the one, or \
                     say ssl-mode=VERIFY_IDENTITY",
                ));
            }
            (Some(mode), _) => mode,
        };
        if opts.socket().is_some() && matches!(mode, Mode::Required | Mode::VerifyIdentity) {
            return Err(wrong("asks for TLS over a socket of this machine, where there is none"));
        }
        Ok(Address { opts, mode, authority: roots })
    }

    /// Looks at the certificates, and settles what the URL leaves open.
    pub(super) fn server(self) -> Result<Server, Error> {
        if self.opts.db_name().is_none_or(str::is_empty) {
            return Err(wrong("names no database; expected mysql://USER:PASSWORD@HOST:PORT/DATABASE"));
        }
        let authority = match &self.authority {
            Some(file) => Some(certificates::load("ssl-ca", file)?.pem),
            None => None,
        };
        certificates::install_crypto_provider();
        let opts = settings(self.opts);
        let tls = match self.mode {
            Mode::Disabled => return Ok(Server { opts, plain: None, demotions: Arc::default() }),
            Mode::Preferred | Mode::Required => SslOpts::default().with_danger_accept_invalid_certs(true),
            Mode::VerifyIdentity => {
                SslOpts::default().with_root_certs(authority.into_iter().map(Into::into).collect())
            }
        };
        let plain = (self.mode == Mode::Preferred).then(|| opts.clone());
        let opts = OptsBuilder::from_opts(opts).ssl_opts(tls).into();
        Ok(Server { opts, plain, demotions: Arc::default() })
    }
}

impl Mode {
    /// Capital letters or not: the servers' tools take both.
    fn parse(word: &str) -> Result<Mode, Error> {
        Ok(match word.to_ascii_uppercase().as_str() {
            "DISABLED" => Mode::Disabled,
            "PREFERRED" => Mode::Preferred,
            "REQUIRED" => Mode::Required,
            "VERIFY_IDENTITY" => Mode::VerifyIdentity,
            _ => return Err(wrong(&format!("has an ssl-mode that is not known; expected {MODES}"))),
        })
    }
}

impl Server {
    pub(super) fn demotions(&self) -> Arc<AtomicU64> {
        self.demotions.clone()
    }

    pub(super) fn connect(&self) -> ::mysql_async::Result<Client> {
        match (Client::connect(self.opts.clone()), &self.plain) {
            (Err(Told::Driver(DriverError::NoClientSslFlagFromServer)), Some(plain)) => {
                Client::connect(plain.clone())
            }
            (connected, _) => connected,
        }
    }
}

fn wrong(what: &str) -> Error {
    Error::Open(format!("the database URL {what}"))
}

/// What the URL leaves open.
fn settings(opts: Opts) -> Opts {
    // A URL has brackets around an IPv6 address, a socket address has none.
    let host = opts.ip_or_hostname().trim_matches(['[', ']']).to_owned();
    OptsBuilder::from_opts(opts)
        .ip_or_hostname(host)
        // Affected rows are those that matched, as on the other databases.
        .client_found_rows(true)
        // The connection caches prepared statements, with the order of their arguments.
        .stmt_cache_size(0_usize)
        // The place in the URL is the one that is meant.
        .prefer_socket(false)
        .tcp_keepalive(Some(Duration::from_secs(5)))
        .into()
}

fn name_of(setting: &str) -> &str {
    setting.split('=').next().unwrap_or_default()
}

/// `%2F` → `/`. A `+` is a plus.
fn unescaped(text: &str) -> Result<PathBuf, Error> {
    let file = percent_decode_str(text).decode_utf8().ok().filter(|file| !file.is_empty());
    file.map(|file| PathBuf::from(&*file))
        .ok_or_else(|| wrong("has an ssl-ca that cannot be read; expected a file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn refusal(query: &str) -> String {
        match Address::parse(&format!("mysql://ada:hunter2@db.test/sarsen?{query}")) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("accepted: {query}"),
        }
    }

    #[test]
    fn the_words_of_the_servers_tools_are_taken_out_of_the_url() {
        let read = |query: &str| {
            let address =
                Address::parse(&format!("mariadb://ada:x@127.0.0.1/sarsen?{query}")).expect("reads");
            (address.mode, address.authority)
        };
        assert_eq!(read(""), (Mode::Preferred, None));
        assert_eq!(read("tcp_nodelay=true"), (Mode::Preferred, None));
        assert_eq!(read("ssl-mode=disabled&tcp_nodelay=true").0, Mode::Disabled);
        assert_eq!(read("ssl-mode=REQUIRED").0, Mode::Required);
        assert_eq!(read("ssl-mode=verify_identity"), (Mode::VerifyIdentity, None));
        let authority = Some(Path::new("/etc/our+own ca.pem").to_owned());
        assert_eq!(read("ssl-ca=%2Fetc/our+own%20ca.pem"), (Mode::VerifyIdentity, authority));
    }

    #[test]
    fn wrong_words_are_refused_with_what_is_allowed_and_without_a_password() {
        for (query, says) in [
            ("ssl-mode=verify-full", MODES),
            ("ssl-mode=VERIFY_CA", MODES),
            ("ssl-mode=", MODES),
            ("ssl-mode=REQUIRED&ssl-mode=DISABLED", "twice"),
            ("ssl-ca=", "expected a file"),
            ("ssl-mode=PREFERRED&ssl-ca=ca.pem", "VERIFY_IDENTITY"),
            ("ssl-ca=ca.pem&ssl-mode=REQUIRED", "VERIFY_IDENTITY"),
            ("require_ssl=true", "ssl-mode"),
            ("verify_ca=false&ssl-mode=REQUIRED", "ssl-ca"),
            ("socket=%2Frun%2Fx&ssl-mode=REQUIRED", "socket"),
            ("", "add ssl-mode=VERIFY_IDENTITY"),
            ("tcp_nodelay=true", "add ssl-mode=VERIFY_IDENTITY"),
            ("sslmode=require", "mysql://USER"),
            ("ssl-mode", "mysql://USER"),
        ] {
            let text = refusal(query);
            assert!(text.contains(says) && !text.contains("hunter2"), "{query}: {text}");
        }
    }

    #[test]
    fn the_way_to_another_machine_says_how_it_is_protected() {
        for (place, query, reads) in [
            ("localhost", "", true),
            ("[::1]:3307", "", true),
            ("10.0.0.5", "", false),
            ("10.0.0.5", "?socket=%2Frun%2Fx", true),
            ("10.0.0.5", "?ssl-mode=PREFERRED", true),
            ("db.test", "?ssl-ca=ca.pem", true),
        ] {
            let address = Address::parse(&format!("mysql://ada:hunter2@{place}/sarsen{query}"));
            assert_eq!(address.is_ok(), reads, "{place} {query}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_read_is_not_repeated() {
        let refused = Address::parse("mysql://ada:hun@host?ter2=1@db/x").err().expect("refused");
        let text = refused.to_string();
        assert!(text.contains("%XX") && !text.contains("ter2"), "{text}");
    }
}
