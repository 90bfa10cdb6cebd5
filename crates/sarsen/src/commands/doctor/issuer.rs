//! Whether the issuer leads to this server, and whether the server learns the addresses of its clients.

use crate::api_client::{self, Body, HttpClient};
use crate::commands::findings::{Finding, fail, ok, warn};
use crate::commands::health::local;
use crate::config::{Config, Origin};
use crate::environment::Environment;
use crate::error::Result;
use crate::files::{self, Holder};
use crate::server_process;
use serde_json::Value;
use server::AddressHeader;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
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

/// An answer that takes longer does not come.
const ANSWER_MAX: Duration = Duration::from_secs(4);

/// A client that waits for less than a check may take.
fn client(environment: &Environment) -> Result<HttpClient> {
    HttpClient::with_limit(environment, ANSWER_MAX)
}

/// A server that is stopped is a warning. One that runs and cannot be reached by its issuer is a failure.
pub(super) fn check(config: &Config, environment: &Environment) -> Result<Finding> {
    let issuer = config.issuer_at(&config.listen.value);
    let http = client(environment)?;
    let is_file = config.database.value.path().is_some();
    let runs = holder(config).is_some();
    Ok(match http.send_once(&Method::GET, &format!("{issuer}/healthz"), &[], &Body::None) {
        Err(error) if runs => fail(
            CHECK,
            format!("the server runs, but {issuer} cannot be used: {error}; check DNS and the proxy too"),
        ),
        Err(error) => warn(CHECK, format!("{error}; start sarsen serve and run sarsen doctor again")),
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

/// The process that serves the database, if it is a file.
fn holder(config: &Config) -> Option<Holder> {
    config.database.value.path().and_then(|path| Holder::of(&files::with_suffix(path, "-lock")))
}

/// Whether the server could listen at its addresses, or does. A program that has one and is not it is a failure.
pub(super) fn listen(config: &Config) -> Finding {
    const CHECK: &str = "listen";
    let addresses = &config.listen.value;
    let shown = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" and ");
    let error = match server_process::try_bind(addresses) {
        Ok(_) if holder(config).is_some() => {
            return warn(
                CHECK,
                format!("the server that runs does not listen on {shown}; restart it to change that"),
            );
        }
        Ok(_) => return ok(CHECK, format!("{shown} is free")),
        Err(error) => error,
    };
    let http = HttpClient::of_anybody(ANSWER_MAX);
    if error.taken && addresses.iter().any(|address| told_issuer(config, &http, *address)) {
        return ok(CHECK, format!("the server listens on {shown}"));
    }
    fail(CHECK, server_process::cannot_bind(error).to_string())
}

/// Whether who has the address says that it is this issuer.
fn told_issuer(config: &Config, http: &HttpClient, address: SocketAddr) -> bool {
    let issuer = config.issuer_at(&config.listen.value);
    let host = issuer.split_once("://").map_or("", |(_, host)| host);
    let place = local(address);
    let url = format!("{}://{place}/.well-known/openid-configuration", config.scheme());
    let answer = http.send_to_this_machine(&url, host);
    answer.is_ok_and(|answer| answer.body.get("issuer").and_then(Value::as_str) == Some(&issuer))
}

/// What the running server has counted tells more than the configuration.
pub(super) fn proxies(config: &Config, environment: &Environment) -> Result<Finding> {
    let page = page(config, &client(environment)?);
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
