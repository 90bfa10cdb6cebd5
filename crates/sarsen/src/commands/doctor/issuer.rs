//! Whether the issuer leads to this server, and whether the server learns the addresses of its clients.

use super::{Finding, fail, ok, warn};
use crate::api_client::{self, Body, HttpClient};
use crate::config::{Config, Origin};
use crate::environment::Environment;
use crate::error::Result;
use crate::files::{self, Holder};
use server::AddressHeader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use ureq::http::Method;

const CHECK: &str = "issuer";
const PROXIES: &str = "proxies";
/// Addresses that are nobody's own proxy: resolvers that the whole internet asks.
const EVERYBODY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(8, 8, 8, 8)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0x4860, 0x4860, 0, 0, 0, 0, 0x8888)),
];
/// Fewer requests from one address may be those of the person who installs the server.
const ALONE_MIN: u64 = 20;

/// A server that is stopped is a warning. One that runs and cannot be reached by its issuer is a failure.
pub(super) fn check(config: &Config, environment: &Environment) -> Result<Finding> {
    let issuer = config.issuer_at(&config.listen.value);
    let http = HttpClient::new(environment)?;
    let lock = config.database.value.path().map(|path| files::with_suffix(path, "-lock"));
    let is_file = lock.is_some();
    let runs = lock.and_then(|lock| Holder::of(&lock)).is_some();
    Ok(match http.send(&Method::GET, &format!("{issuer}/healthz"), &[], &Body::None) {
        Err(error) if runs => fail(
            CHECK,
            format!("the server runs, but {issuer} cannot be used: {error}; check DNS and the proxy too"),
        ),
        Err(_) => {
            warn(CHECK, format!("no answer from {issuer}; start sarsen serve and run sarsen doctor again"))
        }
        Ok(answer) if !runs && (502..=504).contains(&answer.status) => warn(
            CHECK,
            format!(
                "a proxy answers at {issuer} and finds no server ({}); start sarsen serve",
                answer.status
            ),
        ),
        // The server of a database in a file runs on this machine and holds its lock.
        Ok(_) if is_file && !runs => fail(
            CHECK,
            format!(
                "another server answers at {issuer}, and this one is stopped; stop the other one, or change listen or the \
                 issuer"
            ),
        ),
        Ok(answer) if answer.status != 200 => {
            fail(CHECK, format!("{issuer}/healthz answers {}; check where the proxy leads", answer.status))
        }
        Ok(_) => match api_client::discover(&http, &issuer) {
            Ok(_) => ok(CHECK, format!("{issuer} answers, and is the issuer of its tokens")),
            Err(error) => fail(CHECK, error.to_string()),
        },
    })
}

/// What the running server has counted tells more than the configuration.
pub(super) fn proxies(config: &Config, environment: &Environment) -> Result<Finding> {
    let page = page(config, &HttpClient::new(environment)?);
    Ok(page.and_then(|page| forwarding(config, &Forwarded::read(&page))).unwrap_or_else(|| trusted(config)))
}

/// Where the server has found the addresses of clients, since its start.
#[derive(Default)]
struct Forwarded {
    /// Requests with the header from peers that are not trusted.
    untrusted: u64,
    /// Those of listed proxies with the header, and without it.
    named: u64,
    missing: u64,
    /// The one private address that all other requests came from, and their number.
    only: Option<(String, u64)>,
}

impl Forwarded {
    /// Reads the page of metrics.
    fn read(page: &str) -> Forwarded {
        let mut found = Forwarded::default();
        for line in page.lines() {
            let Some((name, count)) = line.split_once(' ') else { continue };
            let count = count.parse().unwrap_or_default();
            match name {
                "sarsen_forwarded_untrusted_total" => found.untrusted = count,
                "sarsen_forwarded_named_total" => found.named = count,
                "sarsen_forwarded_missing_total" => found.missing = count,
                _ => {
                    let address = name.strip_prefix("sarsen_requests_from_one_private_address{address=\"");
                    if let Some(address) = address.and_then(|address| address.strip_suffix("\"}")) {
                        found.only = Some((address.to_owned(), count));
                    }
                }
            }
        }
        found
    }
}

/// What is wrong with the proxies, as far as their requests show it.
fn forwarding(config: &Config, found: &Forwarded) -> Option<Finding> {
    let Forwarded { untrusted, named, missing, only } = found;
    let header = config.client_address_header.value.text();
    let how = match config.client_address_header.value {
        AddressHeader::XForwardedFor => {
            "nginx: proxy_set_header X-Forwarded-For $remote_addr; X-Real-IP is not read, and Forwarded only with \
             client_address_header = \"forwarded\""
        }
        AddressHeader::Forwarded => {
            "for=… of RFC 7239; with client_address_header = \"forwarded\" X-Forwarded-For is not read"
        }
    };
    if *untrusted > 0 {
        return Some(warn(
            PROXIES,
            format!(
                "{untrusted} requests since the start had {header} from an address that is not trusted; the log \
                 names one an hour; if it is your proxy, add it to trusted_proxies"
            ),
        ));
    }
    if missing > named {
        return Some(warn(
            PROXIES,
            format!(
                "{missing} of {} requests from trusted_proxies had no {header}, so their users share one address for \
                 rate limits and the audit trail; set the header in the proxy ({how}), or take addresses out of \
                 trusted_proxies that are no proxies",
                missing + named
            ),
        ));
    }
    let is_public = config.issuer.value.as_ref().is_some_and(|issuer| !issuer.is_loopback());
    match only {
        Some((address, requests)) if is_public && *requests >= ALONE_MIN => Some(warn(
            PROXIES,
            format!(
                "all {requests} requests since the start came from {address}, a private address: if that is a proxy, make it \
                 send {header} and set trusted_proxies = [\"{address}\"], or its users share one address"
            ),
        )),
        _ => None,
    }
}

/// The metrics of the server that runs on this machine, if it shows them here.
fn page(config: &Config, http: &HttpClient) -> Option<String> {
    let listen = config.listen.value.iter().find(|address| {
        let ip = address.ip();
        ip.is_loopback() || ip.is_unspecified()
    })?;
    let host = if listen.is_ipv4() { "127.0.0.1" } else { "[::1]" };
    let bearer = config.metrics_token.value.as_deref().map(api_client::bearer);
    let headers: Vec<_> = bearer.iter().map(|value| (api_client::BEARER, value.as_str())).collect();
    http.text(&format!("{}://{host}:{}/metrics", config.scheme(), listen.port()), &headers).ok()?
}

/// Behind a proxy on this machine every request comes from a loopback address, unless that proxy is trusted.
fn trusted(config: &Config) -> Finding {
    let is_https = config.issuer.value.as_ref().is_some_and(Origin::is_https);
    let on_loopback = config.listen.value.iter().all(|address| address.ip().is_loopback());
    match config.trusted_proxies.value.as_slice() {
        [] if is_https && on_loopback && config.scheme() == "http" => warn(
            PROXIES,
            "a proxy on this machine ends https, and trusted_proxies is empty: sessions, the audit trail and rate limits \
             see one address for all users; set trusted_proxies = [\"127.0.0.1\", \"::1\"]",
        ),
        [] => ok(PROXIES, "none are trusted; addresses of clients come from their connections"),
        trusted if EVERYBODY.iter().any(|address| trusted.iter().any(|block| block.contains(*address))) => {
            warn(
                PROXIES,
                "trusted_proxies has addresses of the internet, so anybody there may pretend to have any address; list \
             only the addresses of your proxies",
            )
        }
        trusted => {
            let header = config.client_address_header.value.text();
            ok(PROXIES, format!("{} trusted to send {header}", trusted.len()))
        }
    }
}

/// A proxy on this machine may send on what the whole internet asks for, in requests that look like this machine's own.
pub(super) fn metrics(config: &Config) -> Finding {
    const CHECK: &str = "metrics";
    let is_https = config.issuer.value.as_ref().is_some_and(Origin::is_https);
    match config.metrics_token.value {
        Some(_) => ok(CHECK, "/metrics needs the token"),
        None if is_https => warn(
            CHECK,
            "/metrics needs no token on this machine, and a proxy on it may make them public; set metrics_token",
        ),
        None => ok(CHECK, "only this machine may read /metrics"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use crate::config::Flags;

    fn config(settings: &str) -> Config {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sarsen.toml");
        std::fs::write(&file, settings).expect("written");
        Config::load(&Flags::with_config(file), &Environment::default()).expect("good")
    }

    #[test]
    fn a_proxy_on_this_machine_that_is_not_trusted_is_a_warning() {
        let state = |settings: &str| trusted(&config(settings)).state;
        let https = "issuer = \"https://id.example.com\"\n";
        assert!(state(https) == State::Warn);
        assert!(state(&format!("{https}trusted_proxies = [\"127.0.0.1\"]")) == State::Ok);
        assert!(state(&format!("{https}listen = \"0.0.0.0:7070\"")) == State::Ok);
        assert!(state("") == State::Ok, "no proxy");
        for everybody in ["0.0.0.0/0", "::/0", "8.0.0.0/6"] {
            assert!(
                state(&format!("{https}trusted_proxies = [\"10.0.0.1\", \"{everybody}\"]")) == State::Warn
            );
        }
    }

    #[test]
    fn a_proxy_that_sends_no_address_is_found_by_its_requests() {
        let public = config("issuer = \"https://id.example.com\"\n");
        let seen = |config: &Config, page: &str| {
            forwarding(config, &Forwarded::read(page)).map(|finding| finding.message).unwrap_or_default()
        };
        let counted = |untrusted, named, missing| {
            format!(
                "# HELP sarsen_forwarded_named_total Requests.\nsarsen_forwarded_untrusted_total {untrusted}\n\
                 sarsen_forwarded_named_total {named}\nsarsen_forwarded_missing_total {missing}\n"
            )
        };
        assert!(
            seen(&public, &counted(3, 0, 0)).starts_with("3 requests since the start had X-Forwarded-For")
        );
        let other = config("issuer = \"https://id.example.com\"\nclient_address_header = \"forwarded\"\n");
        let text = seen(&other, &counted(0, 0, 3));
        assert!(text.starts_with("3 of 3 requests from trusted_proxies had no Forwarded, so"), "{text}");
        assert!(text.contains("X-Forwarded-For is not read"), "{text}");
        let missing = seen(&public, &counted(0, 2, 3));
        assert!(
            missing.starts_with("3 of 5 requests from trusted_proxies had no X-Forwarded-For"),
            "{missing}"
        );
        assert!(missing.contains("proxy_set_header X-Forwarded-For"), "{missing}");
        assert_eq!(seen(&public, &counted(0, 30, 30)), "", "a program on the proxy's machine");
        let alone = |requests| {
            format!("sarsen_requests_from_one_private_address{{address=\"10.0.0.5\"}} {requests}\n")
        };
        let message = seen(&public, &alone(20));
        assert!(
            message.contains("came from 10.0.0.5") && message.contains("trusted_proxies = [\"10.0.0.5\"]")
        );
        assert_eq!(seen(&public, &alone(19)), "", "too few");
        assert_eq!(
            seen(&config("issuer = \"http://localhost:7070\"\n"), &alone(500)),
            "",
            "on one's own machine"
        );
        assert_eq!(seen(&public, ""), "");
    }

    #[test]
    fn metrics_without_a_token_behind_a_proxy_are_a_warning() {
        let state = |settings: &str| metrics(&config(settings)).state;
        let https = "issuer = \"https://id.example.com\"\n";
        assert!(state(https) == State::Warn);
        assert!(state(&format!("{https}metrics_token = \"0123456789abcdef\"")) == State::Ok);
        assert!(state("") == State::Ok, "no proxy");
    }
}
