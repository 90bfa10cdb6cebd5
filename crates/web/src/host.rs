//! The hosts that this server answers for: the issuer's, the ones of the setting `allowed_hosts`, and this machine. A back
//! end has no issuer, and answers for names without a dot too.
//!
//! A request for another name is refused (421). An attacker can point a name of theirs at this machine, so that
//! their page reads the responses (DNS rebinding). They cannot do this with an IP address in place of a name.

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, Uri, Version};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name of the DNS, and a port.
const LENGTH_MAX: usize = 253 + ":65535".len();

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The Host header is missing, is there twice or is not a host (400). The text says which, and what to do.
    Invalid(&'static str),
    /// It names another host (421).
    Unknown,
}

/// The names, and the issuer's own.
pub struct Hosts {
    issuer: Option<String>,
    names: Vec<String>,
    /// Whether names without a dot pass.
    are_local_known: bool,
}

impl Hosts {
    /// The host of `issuer`, an origin, and the names in `allowed`.
    pub fn new(issuer: &str, allowed: &[String]) -> Hosts {
        let authority = issuer.split_once("://").map_or(issuer, |(_, authority)| authority);
        let own = name(authority.as_bytes());
        let names = own.into_iter().chain(allowed.iter().map(String::as_str));
        Hosts {
            issuer: Some(authority.to_owned()),
            names: names.map(normalized).collect(),
            are_local_known: false,
        }
    }

    /// The names in `allowed`, and all without a dot: those of services in a container network and of proxies' groups of
    /// servers. Nobody outside the local network can point one of them at this machine.
    pub fn of_back_end(allowed: &[String]) -> Hosts {
        let names = allowed.iter().map(|name| normalized(name)).collect();
        Hosts { issuer: None, names, are_local_known: true }
    }

    /// Refuses a request for another host. Health checks accept any host.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(_), Some(_)) => {
                return Err(Refusal::Invalid("The request has several Host headers; send one."));
            }
            (host, _) => host.map(HeaderValue::as_bytes),
        };
        match authority(request.uri()).or(host) {
            // The case of nearly all requests.
            Some(host) if self.issuer.as_ref().is_some_and(|issuer| host == issuer.as_bytes()) => Ok(()),
            _ if matches!(request.uri().path(), "/healthz" | "/readyz") => Ok(()),
            Some(host) => self.check_name(name(host)),
            // HTTP/1.0 does not require the header, and no browser uses HTTP/1.0.
            None if request.version() < Version::HTTP_11 => Ok(()),
            None => Err(Refusal::Invalid("The request has no Host header; send one.")),
        }
    }

    /// Whether a request is for one of the names that were given, and not for whatever leads to this machine.
    pub fn is_named<B>(&self, request: &Request<B>) -> bool {
        let host = requested(request.uri(), request.headers()).and_then(name);
        host.is_some_and(|host| self.names.contains(&normalized(host)))
    }

    fn check_name(&self, name: Option<&str>) -> Result<(), Refusal> {
        let Some(name) = name else { return Err(Refusal::Invalid("The Host header is not a host; fix it.")) };
        let own = normalized(name);
        let is_local = self.are_local_known && is_name(&own) && !own.contains('.');
        if is_address(name) || is_loopback(name) || is_local || self.names.contains(&own) {
            return Ok(());
        }
        Err(Refusal::Unknown)
    }
}

/// The name or address in a Host header, without its port.
fn name(host: &[u8]) -> Option<&str> {
    let host = std::str::from_utf8(host).ok().filter(|host| host.len() <= LENGTH_MAX)?;
    let (name, port) = match host.rsplit_once(':') {
        // A colon in brackets belongs to an IPv6 address.
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, ""),
    };
    let good = !name.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte))
        && (name.starts_with('[') || !name.contains(':'));
    good.then_some(name)
}

/// Whether a text can be the name of a host, without a port.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// In lower case, without the dot at the end of a fully qualified name.
fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_address(name: &str) -> bool {
    let v6 = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match v6 {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

/// Whether a name or an address of a host, without a port, is this machine.
pub fn is_loopback(host: &str) -> bool {
    let host = normalized(host);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether the host that a request is for is this machine.
pub fn is_for_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    requested(uri, headers).and_then(name).is_some_and(is_loopback)
}

/// The host that a request is for, with its port, if it names one.
pub fn requested<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a [u8]> {
    authority(uri).or_else(|| headers.get(HOST).map(HeaderValue::as_bytes))
}

/// The host of an absolute URL, which overrides the header (RFC 9112 section 3.2.2). HTTP/2 has it there.
fn authority(uri: &Uri) -> Option<&[u8]> {
    uri.authority().map(|authority| authority.as_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(host: &str) -> u16 {
        status_of(&Hosts::new("https://id.example.com", &["Sarsen.internal".to_owned()]), host)
    }

    fn status_of(hosts: &Hosts, host: &str) -> u16 {
        let request = Request::get("/console").header(HOST, host).body(()).expect("a request");
        match hosts.check(&request) {
            Ok(()) => 200,
            Err(Refusal::Invalid(_)) => 400,
            Err(Refusal::Unknown) => 421,
        }
    }

    #[test]
    fn a_request_is_for_this_machine_by_its_url_or_its_header() {
        let is_local = |uri: &'static str, host: Option<&'static str>| {
            let headers = host.map(|host| (HOST, HeaderValue::from_static(host)));
            is_for_loopback(&Uri::from_static(uri), &headers.into_iter().collect())
        };
        assert!(
            is_local("/metrics", Some("localhost:7070")) && is_local("http://127.0.0.1:7070/metrics", None)
        );
        assert!(!is_local("http://id.test/metrics", Some("localhost")) && !is_local("/metrics", None));
    }

    #[test]
    fn only_configured_names_addresses_and_this_machine_pass() {
        for own in [
            "id.example.com",
            "id.example.com:443",
            "ID.example.com.",
            "sarsen.internal:7070",
            "localhost:7070",
            "app.localhost",
            "10.0.0.7:7070",
            "203.0.113.9",
            "[2001:db8::1]:7070",
            "[::1]",
        ] {
            assert_eq!(status(own), 200, "{own}");
        }
        for other in [
            "evil.example",
            "id.example.com.evil.example",
            "xid.example.com",
            "localhost.evil.example",
            "example.com",
            "10.0.0.7.evil.example",
            "0x7f.1",
        ] {
            assert_eq!(status(other), 421, "{other}");
        }
        for broken in [
            "",
            ":80",
            "id.example.com:x",
            "a b",
            "ada@id.example.com",
            "id.example.com/x",
            "::1",
            "id.example.com:80:80",
        ] {
            assert_eq!(status(broken), 400, "{broken:?}");
        }
    }

    #[test]
    fn a_back_end_also_answers_for_names_of_the_local_network() {
        let hosts = Hosts::of_back_end(&["Notes.example.com".to_owned()]);
        for own in
            ["notes.example.com:443", "notes:8080", "back_end", "localhost:8080", "[::1]:8080", "10.0.0.7"]
        {
            assert_eq!(status_of(&hosts, own), 200, "{own}");
        }
        for other in ["evil.example", "example.com", "localhost.evil.example", "[evil]", "a..b"] {
            assert_eq!(status_of(&hosts, other), 421, "{other}");
        }
        assert_eq!(status_of(&hosts, ""), 400);
    }

    #[test]
    fn loopback_is_a_name_or_an_address_of_this_machine() {
        for own in ["localhost", "LOCALHOST", "app.localhost", "127.1.2.3", "[::1]", "::1"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["", "localhost.example.com", "10.0.0.1", "[::2]", "127.0.0.1.example.com", "128.0.0.1"]
        {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
