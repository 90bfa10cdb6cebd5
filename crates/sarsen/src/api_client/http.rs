//! HTTP for a terminal: one request, one answer, no redirects. `http` is for this machine; other machines need `https`.

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::{output, terminal};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, RETRY_AFTER};
use ureq::http::{HeaderMap, Method, Request, Response, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, TlsConfigBuilder, parse_pem};
use ureq::{Agent, Proxy};

/// A long poll takes ten seconds; other requests are short.
const TIME_MAX: Duration = Duration::from_secs(30);
/// How often a request is sent while the answer asks to send it again, and the longest `Retry-After` that is obeyed.
const TRIES_MAX: u32 = 4;
const WAIT_MAX: Duration = Duration::from_secs(15);

/// The body of a request.
pub enum Body<'a> {
    /// Nothing.
    None,
    /// `application/x-www-form-urlencoded`.
    Form(&'a [(&'a str, &'a str)]),
    /// `application/json`.
    Json(&'a Value),
}

/// An answer. No `Debug`: it may hold tokens.
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// The body, if it is JSON; otherwise null.
    pub body: Value,
    /// Whether it is the answer to the first try: no earlier one can have made the change.
    pub is_first: bool,
}

/// A client for any number of servers.
pub struct HttpClient {
    /// Uses the proxy that the environment names.
    proxied: Agent,
    /// For servers on this machine: no proxy.
    direct: Agent,
}

impl HttpClient {
    /// Trusts the certificates of the file `SSL_CERT_FILE`, or the public authorities without one.
    pub fn new(environment: &Environment) -> Result<HttpClient> {
        HttpClient::with_limit(environment, TIME_MAX)
    }

    /// The same with another limit of time for a request.
    pub fn with_limit(environment: &Environment, time_max: Duration) -> Result<HttpClient> {
        Ok(HttpClient::with_tls(
            TlsConfig::builder().root_certs(roots(environment.get("SSL_CERT_FILE"))?),
            time_max,
        ))
    }

    /// For a question without secrets to whoever has an address of this machine: its certificate need not be for the address.
    pub fn of_anybody(time_max: Duration) -> HttpClient {
        HttpClient::with_tls(TlsConfig::builder().disable_verification(true), time_max)
    }

    fn with_tls(tls: TlsConfigBuilder, time_max: Duration) -> HttpClient {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = tls.unversioned_rustls_crypto_provider(provider).build();
        let agent = |proxy: Option<Proxy>| {
            Agent::config_builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_global(Some(time_max))
                .user_agent(concat!("sarsen/", env!("CARGO_PKG_VERSION")))
                .tls_config(tls.clone())
                .proxy(proxy)
                .build()
                .new_agent()
        };
        HttpClient { proxied: agent(Proxy::try_from_env()), direct: agent(None) }
    }

    /// Sends a request, and again after `Retry-After` when the server answers 429 or 503, or when an earlier try with the
    /// same [`IDEMPOTENCY_KEY`] is not answered yet. A proxy may answer 503 for a server that stopped after the change.
    pub fn send(
        &self,
        method: &Method,
        url: &str,
        headers: &[(HeaderName, &str)],
        body: &Body<'_>,
    ) -> Result<Answer> {
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.send_once(method, url, headers, body)?;
            let answer = Answer { is_first: tries == 1, ..answer };
            if !matches!(answer.status, 429 | 503) && !answer.is_in_progress() {
                return Ok(answer);
            }
            match answer.retry_after().filter(|wait| *wait <= WAIT_MAX) {
                Some(wait) if tries < TRIES_MAX => terminal::sleep(wait),
                _ => return Ok(answer),
            }
        }
    }

    /// The body of a successful GET as text; none when the answer is an error.
    pub fn text(&self, url: &str, headers: &[(HeaderName, &str)]) -> Result<Option<String>> {
        let mut request = self.agent_for(url)?.get(url);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let mut response = request.call().map_err(|error| unreachable(url, &error))?;
        let text = response.body_mut().read_to_string();
        let text = text.map_err(|error| Error::failed(format!("{url}: cannot read the answer: {error}")))?;
        Ok(response.status().is_success().then_some(text))
    }

    /// Sends a request once.
    pub fn send_once(
        &self,
        method: &Method,
        url: &str,
        headers: &[(HeaderName, &str)],
        body: &Body<'_>,
    ) -> Result<Answer> {
        let agent = self.agent_for(url)?;
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let (kind, text) = match body {
            // A method that may have a body declares an empty one.
            Body::None if ![Method::GET, Method::DELETE].contains(method) => {
                (Some("text/plain"), String::new())
            }
            Body::None => (None, String::new()),
            Body::Form(pairs) => {
                let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(*pairs).finish();
                (Some("application/x-www-form-urlencoded"), text)
            }
            Body::Json(value) => (Some("application/json"), value.to_string()),
        };
        let wrong = |error: ureq::http::Error| Error::usage(format!("{url} is not valid: {error}"));
        let sent = match kind {
            None => agent.run(request.body(()).map_err(wrong)?),
            Some(kind) => agent.run(request.header(CONTENT_TYPE, kind).body(text).map_err(wrong)?),
        };
        read(url, sent.map_err(|error| unreachable(url, &error))?)
    }

    /// A GET to an address of this machine, as if it had this name.
    pub fn send_to_this_machine(&self, url: &str, host: &str) -> Result<Answer> {
        let request = Request::builder().uri(url).header(HOST, host).body(());
        let request = request.map_err(|error| Error::usage(format!("{url} is not valid: {error}")))?;
        read(url, self.direct.run(request).map_err(|error| unreachable(url, &error))?)
    }

    fn agent_for(&self, url: &str) -> Result<&Agent> {
        let uri: Option<Uri> = url.parse().ok();
        let (scheme, host) =
            uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.host()?))).unwrap_or_default();
        match (scheme, server::is_loopback(host)) {
            ("http" | "https", true) => Ok(&self.direct),
            ("https", false) => Ok(&self.proxied),
            ("http", false) => {
                Err(Error::usage(format!("{url} is not allowed: http is for this machine only; use https")))
            }
            _ => Err(Error::usage(format!("{url:?} is not the address of a server; use https://HOST"))),
        }
    }
}

fn read(url: &str, mut response: Response<ureq::Body>) -> Result<Answer> {
    let is_json = response.body().mime_type().is_some_and(|kind| kind.ends_with("json"));
    let body = if is_json { response.body_mut().read_json() } else { Ok(Value::Null) };
    let body = body.map_err(|error| Error::failed(format!("{url}: cannot read the answer: {error}")))?;
    Ok(Answer {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body,
        is_first: true,
    })
}

impl Answer {
    /// The body of a successful answer; otherwise the error of the server.
    pub fn ok(self) -> Result<Value> {
        if (200..300).contains(&self.status) { Ok(self.body) } else { Err(self.refusal()) }
    }

    /// The error of the server: a problem document (RFC 9457) or an OAuth error (RFC 6749).
    pub fn refusal(&self) -> Error {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str).map(output::sanitize);
        let code = text("code").or_else(|| text("error")).unwrap_or_default();
        let detail = self.wrong_fields().or_else(|| text("detail")).or_else(|| text("error_description"));
        let detail = detail
            .unwrap_or_else(|| format!("the server answered {} {code}", self.status).trim_end().to_owned());
        Error::Refused { status: self.status, code, detail }
    }

    /// Whether an earlier try is being answered, or its answer was lost.
    fn is_in_progress(&self) -> bool {
        self.status == 409 && self.has_code(IN_PROGRESS)
    }

    /// Whether the server did nothing because it keeps no more answers for this user: it takes the request without a key.
    pub fn needs_no_key(&self) -> bool {
        self.status == 429 && self.has_code("too_many_idempotency_keys") && self.is_first
    }

    fn has_code(&self, code: &str) -> bool {
        self.body.get("code").and_then(Value::as_str) == Some(code)
    }

    /// A line for each wrong field, if the server names several.
    fn wrong_fields(&self) -> Option<String> {
        let errors = self.body.get("errors").and_then(Value::as_array).filter(|errors| errors.len() > 1)?;
        let text = |error: &Value, name: &str| {
            output::sanitize(error.get(name).and_then(Value::as_str).unwrap_or_default())
        };
        let lines =
            errors.iter().map(|error| format!("\n  {}: {}", text(error, "field"), text(error, "detail")));
        Some(format!("{} fields are wrong:{}", errors.len(), lines.collect::<String>()))
    }

    /// `Retry-After` in seconds.
    fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        text.trim().parse().ok().map(Duration::from_secs)
    }
}

/// The value of an `Authorization` header.
pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The name of that header.
pub const BEARER: HeaderName = AUTHORIZATION;

/// Its value is new for each change, so that a change that is sent again is made once.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The code of a server that has not answered an earlier try with that key.
pub const IN_PROGRESS: &str = "idempotency_in_progress";

fn unreachable(url: &str, error: &ureq::Error) -> Error {
    let origin = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    let why = match error {
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    };
    let advice = if why.contains("UnknownIssuer") {
        "for a certificate of an authority of your own, set SSL_CERT_FILE to the authority's certificate"
    } else if why.contains("InvalidContentType") {
        "the port speaks no TLS: use http:// for a server on this machine, or the https address of its proxy"
    } else {
        "check the address, and that the server runs"
    };
    Error::failed(format!("no answer from {origin}: {why}; {advice}"))
}

fn roots(file: Option<&str>) -> Result<RootCerts> {
    let Some(path) = file else { return Ok(RootCerts::WebPki) };
    let pem = std::fs::read(path).map_err(Error::file("read", path.as_ref()))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(Error::usage(format!("{path} (SSL_CERT_FILE) has no certificate; use a PEM file")));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_by_http() {
        let http = HttpClient::new(&Environment::default()).expect("a client");
        for url in
            ["http://id.example.com/x", "ftp://localhost/x", "id.example.com", "http://localhost.example.com"]
        {
            assert!(http.agent_for(url).is_err(), "{url}");
        }
        for url in ["http://localhost:7070/x", "http://[::1]:7070/x", "https://id.example.com/x"] {
            assert!(http.agent_for(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_port_without_tls_is_named_as_such() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let url = format!("https://{}/x", listener.local_addr().expect("an address"));
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
            // A reset would come before the answer.
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        });
        let http = HttpClient::new(&Environment::default()).expect("a client");
        let refused = http.send(&Method::GET, &url, &[], &Body::None).err().expect("no answer").to_string();
        assert!(refused.contains("the port speaks no TLS: use http://"), "{refused}");
        answering.join().expect("it ends");
    }

    #[test]
    fn a_refusal_has_the_text_of_the_server() {
        let text = |status: u16, body: Value| {
            Answer { status, headers: HeaderMap::new(), body, is_first: true }.refusal().to_string()
        };
        assert_eq!(
            text(409, serde_json::json!({"code": "taken", "detail": "slug is taken."})),
            "slug is taken."
        );
        assert_eq!(
            text(400, serde_json::json!({"error": "invalid_grant", "error_description": "No."})),
            "No."
        );
        assert_eq!(text(502, Value::Null), "the server answered 502");
        let slug = serde_json::json!({"field": "slug", "code": "invalid", "detail": "Wrong."});
        let name = serde_json::json!({"field": "name", "code": "missing", "detail": "Add\nit."});
        let body = |errors: &[&Value]| serde_json::json!({"detail": "Something is wrong.", "errors": errors});
        assert_eq!(text(422, body(&[&slug])), "Something is wrong.");
        assert_eq!(
            text(422, body(&[&slug, &name])),
            "2 fields are wrong:\n  slug: Wrong.\n  name: Add\u{FFFD}it."
        );
    }
}
