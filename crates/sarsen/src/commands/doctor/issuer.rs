//! Whether the issuer leads to this server, and whether the server learns the addresses of its clients.

use super::{Finding, fail, ok, warn};
use crate::api_client::{self, Body, HttpClient};
use crate::config::{Config, Origin};
use crate::environment::Environment;
use crate::error::Result;
use crate::files::{self, Holder};
use ureq::http::Method;

const CHECK: &str = "issuer";
const PROXIES: &str = "proxies";

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
            format!("the server runs, but {issuer} does not lead to it: {error}; check DNS and the proxy"),
        ),
        Err(_) => {
            warn(CHECK, format!("no answer from {issuer}; start sarsen serve and run sarsen doctor again"))
        }
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

/// The server counts requests with `X-Forwarded-For` from peers that are not trusted.
pub(super) fn proxies(config: &Config, environment: &Environment) -> Result<Finding> {
    let http = HttpClient::new(environment)?;
    Ok(match untrusted(config, &http) {
        Some(requests) if requests > 0 => warn(
            PROXIES,
            format!(
                "{requests} requests since the start had X-Forwarded-For from an address that is not trusted; the log \
                 names one an hour; if it is your proxy, add it to trusted_proxies"
            ),
        ),
        _ => trusted(config),
    })
}

/// The count of the server that runs on this machine, if it shows its metrics here.
fn untrusted(config: &Config, http: &HttpClient) -> Option<u64> {
    let listen = config.listen.value.iter().find(|address| {
        let ip = address.ip();
        ip.is_loopback() || ip.is_unspecified()
    })?;
    let host = if listen.is_ipv4() { "127.0.0.1" } else { "[::1]" };
    let bearer = config.metrics_token.value.as_deref().map(api_client::bearer);
    let headers: Vec<_> = bearer.iter().map(|value| (api_client::BEARER, value.as_str())).collect();
    let metrics =
        http.text(&format!("{}://{host}:{}/metrics", config.scheme(), listen.port()), &headers).ok()??;
    let line = metrics.lines().find_map(|line| line.strip_prefix("sarsen_forwarded_untrusted_total "));
    line?.parse().ok()
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
        trusted => ok(PROXIES, format!("{} trusted to send X-Forwarded-For", trusted.len())),
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

    #[test]
    fn a_proxy_on_this_machine_that_is_not_trusted_is_a_warning() {
        let state = |settings: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("sarsen.toml");
            std::fs::write(&file, settings).expect("written");
            trusted(&Config::load(&Flags::with_config(file), &Environment::default()).expect("good")).state
        };
        let https = "issuer = \"https://id.example.com\"\n";
        assert!(state(https) == State::Warn);
        assert!(state(&format!("{https}trusted_proxies = [\"127.0.0.1\"]")) == State::Ok);
        assert!(state(&format!("{https}listen = \"0.0.0.0:7070\"")) == State::Ok);
        assert!(state("") == State::Ok, "no proxy");
    }

    #[test]
    fn metrics_without_a_token_behind_a_proxy_are_a_warning() {
        let state = |settings: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("sarsen.toml");
            std::fs::write(&file, settings).expect("written");
            metrics(&Config::load(&Flags::with_config(file), &Environment::default()).expect("good")).state
        };
        let https = "issuer = \"https://id.example.com\"\n";
        assert!(state(https) == State::Warn);
        assert!(state(&format!("{https}metrics_token = \"0123456789abcdef\"")) == State::Ok);
        assert!(state("") == State::Ok, "no proxy");
    }
}
