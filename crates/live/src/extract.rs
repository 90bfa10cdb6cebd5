//! Extractors and helpers for plain routes. They are axum's, but a request that is refused gets a problem document.

use crate::Problem;
use crate::http::is_json;
use axum::body::Bytes;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use endpoint::fields::{read_json, read_query};
use endpoint::words::expectation;
use http::header::{ACCEPT, ORIGIN, VARY};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use web::body::media_type;
use web::host::{is_for_loopback, is_loopback, requested};

pub use crate::once::{Answered, Once};

/// A JSON body, of a request or an answer.
pub struct Json<T>(pub T);

/// The variable parts of the path.
pub struct Path<T>(pub T);

/// The parameters after the `?`.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Json<T>, Problem> {
        let media_type = media_type(request.headers());
        if !is_json(&media_type) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "The body must be JSON. Send it with `Content-Type: application/json`.",
            ));
        }
        let body = Bytes::from_request(request, state).await.map_err(|_| Problem::internal())?;
        Ok(Json(read_json(&body)?))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let parsed = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        parsed.map(|axum::extract::Path(value)| Path(value)).map_err(|rejection| match rejection {
            PathRejection::FailedToDeserializePathParams(error) => in_path(error.into_kind()),
            _ => Problem::internal(),
        })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Query(read_query(query.as_bytes())?))
    }
}

/// What is wrong with a variable part of the path.
fn in_path(error: ErrorKind) -> Problem {
    match error {
        ErrorKind::ParseErrorAtKey { key, value, expected_type } => {
            let right = expectation(expected_type);
            Problem::invalid(&key, format!("`{key}` in the path must be {right}, not `{value}`."))
        }
        ErrorKind::DeserializeError { key, message, .. } => {
            Problem::invalid(&key, format!("`{key}` in the path is not valid: {message}."))
        }
        ErrorKind::ParseError { value, expected_type } => {
            let right = expectation(expected_type);
            Problem::invalid("", format!("The path must have {right} in place of `{value}`."))
        }
        error => Problem::invalid("", format!("The path is not valid: {error}.")),
    }
}

/// The members of a JSON object or of a form in the body; none for a body of another type. What the page of another site
/// sent is refused, unless it is JSON: browsers ask before they send that to another site.
pub struct Fields(pub Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for Fields {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Fields, Problem> {
        let media_type = media_type(request.headers());
        if media_type != "application/json" {
            refuse_other_sites(request.uri(), request.headers())?;
        }
        let body = Bytes::from_request(request, state).await.map_err(|_| Problem::internal())?;
        match media_type.as_str() {
            "application/json" if !body.is_empty() => Ok(Fields(read_json(&body)?)),
            "application/x-www-form-urlencoded" => {
                let pairs = form_urlencoded::parse(&body);
                Ok(Fields(pairs.map(|(name, text)| (name.into_owned(), text.into())).collect()))
            }
            _ => Ok(Fields(Map::new())),
        }
    }
}

/// The page for a client that prefers HTML, JSON for others.
pub fn negotiated(headers: &HeaderMap, page: impl IntoResponse, json: impl Serialize) -> Response {
    let vary = [(VARY, "accept")];
    match prefers_html(headers) {
        true => (vary, page).into_response(),
        false => (vary, axum::Json(json)).into_response(),
    }
}

/// Whether the client accepts HTML and does not like JSON more, as browsers do. A client that names neither gets JSON.
/// The answer depends on `Accept`, so send `Vary: accept` with it.
pub fn prefers_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    quality(accept, "text/html") > quality(accept, "application/json")
}

/// The weight of a media type that is named in `Accept` (RFC 9110, section 12.4.2); zero if it is not named.
fn quality(accept: &str, wanted: &str) -> f32 {
    let mut ranges = accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        (parts.next().unwrap_or_default(), parts)
    });
    let Some((_, parameters)) = ranges.find(|(name, _)| name.eq_ignore_ascii_case(wanted)) else {
        return 0.0;
    };
    let weight = parameters.filter_map(|parameter| parameter.strip_prefix("q=")).next();
    weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0))
}

/// The URL of a request, of which HTTP/1.1 and HTTP/2 have the host in different places. Whether it came by TLS, the proxy
/// knows that ended it: the scheme is `http`.
pub fn url_of(uri: &Uri, headers: &HeaderMap) -> String {
    let host = requested(uri, headers).unwrap_or(b"localhost");
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    format!("http://{}{path}", String::from_utf8_lossy(host))
}

/// 403 for a request that another site's page sent. Routes that change something for a browser without a token (forms)
/// call it. Behind a proxy that does not pass `Host` with its port on, forms of its own pages over plain HTTP are refused too.
pub fn refuse_other_sites(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let is_foreign = match (headers.get("sec-fetch-site"), headers.get(ORIGIN)) {
        (Some(site), _) => site == "cross-site" || site == "same-site",
        // Browsers send the header above to https and to this machine only. `null` is the origin of a sandboxed frame.
        (None, Some(origin)) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            let own = requested(uri, headers);
            !origin.zip(own).is_some_and(|((_, from), own)| from.as_bytes().eq_ignore_ascii_case(own))
        }
        // No browser, or one that is as old as this header.
        (None, None) => false,
    };
    match is_foreign {
        true => {
            Err(Problem::forbidden("The page of another site sent this request. Use a page of this one."))
        }
        false => Ok(()),
    }
}

/// 403 for a request that a browser says to come from the page of another site. Other ports of the same host pass, such as a
/// development server, and so do pages of this machine that ask this machine: `localhost` and `127.0.0.1` are two sites.
/// Browsers say so to https and to this machine; to others they say where the page is from, if its script may read the answer.
pub(crate) fn refuse_sites_elsewhere(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let from = || {
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()?.parse::<Uri>().ok());
        origin.and_then(|origin| origin.host().map(str::to_ascii_lowercase))
    };
    let is_of_this_machine =
        || from().is_some_and(|host| is_loopback(&host)) && is_for_loopback(uri, headers);
    let is_elsewhere = match headers.get("sec-fetch-site") {
        Some(site) => site == "cross-site",
        None if !headers.contains_key(ORIGIN) => false,
        None => {
            let own = Uri::try_from(url_of(uri, headers)).ok();
            let own = own.as_ref().and_then(Uri::host).map(str::to_ascii_lowercase);
            from().is_none_or(|from| own != Some(from))
        }
    };
    match is_elsewhere && !is_of_this_machine() {
        true => Err(Problem::forbidden(
            "A page of another site sent this request without a token, to an address that only says where this server is. If pages of \
             any site may use it, start it with `--allowed-hosts` and the host that they ask (`Settings::allowed_hosts`); a proxy in front of \
             it must pass `Host` or `X-Forwarded-For` on.",
        )),
        false => Ok(()),
    }
}

/// Refuses what [`refuse_other_sites`] refuses: for routes that change something without a body that is JSON.
pub struct OwnSite;

impl<S: Send + Sync> FromRequestParts<S> for OwnSite {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<OwnSite, Problem> {
        refuse_other_sites(&parts.uri, &parts.headers).map(|()| OwnSite)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::HOST;
    use http::{HeaderName, HeaderValue};

    #[test]
    fn a_client_that_names_html_gets_html_unless_it_likes_json_more() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("text/html", true),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json, text/html", false),
            ("application/json, text/html;q=0.5", false),
            ("text/html;level=1;q=0.9, application/json; q=0.1", true),
            ("text/html;q=0", false),
            ("text/html;q=x", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_html(&headers), expected, "{accept}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
    #[test]
    fn a_url_has_its_host_once() {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("notes.test:3000"))]);
        for (uri, headers, expected) in [
            ("/requests?a=b", headers.clone(), "http://notes.test:3000/requests?a=b"),
            ("http://notes.test:3000/requests?a=b", HeaderMap::new(), "http://notes.test:3000/requests?a=b"),
            ("http://[::1]:3000", headers, "http://[::1]:3000/"),
            ("/requests", HeaderMap::new(), "http://localhost/requests"),
        ] {
            assert_eq!(url_of(&Uri::from_static(uri), &headers), expected);
        }
    }

    #[test]
    fn forms_of_other_sites_are_refused_by_any_browser() {
        let fetch_site = HeaderName::from_static("sec-fetch-site");
        let is_allowed = |uri: &'static str, headers: &[(&HeaderName, &'static str)]| {
            let headers =
                headers.iter().map(|(name, value)| ((*name).clone(), HeaderValue::from_static(value)));
            refuse_other_sites(&Uri::from_static(uri), &headers.collect()).is_ok()
        };
        for (site, expected) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            // Behind a proxy the host may be another one, so the origin does not count.
            let headers = [(&fetch_site, site), (&ORIGIN, "https://example.com"), (&HOST, "10.0.0.1:3000")];
            assert_eq!(is_allowed("/requests", &headers), expected, "{site}");
        }
        let host = (&HOST, "intranet:3000");
        for (origin, expected) in [
            ("http://intranet:3000", true),
            ("http://Intranet:3000", true),
            ("http://intranet", false),
            ("http://intranet:3001", false),
            ("http://intranet:3000.example.com", false),
            ("http://example.com", false),
            ("http://example.com/://intranet:3000", false),
            ("intranet:3000", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(is_allowed("/requests", &[host, (&ORIGIN, origin)]), expected, "{origin}");
        }
        // HTTP/2 has the host in the address, which counts more than the header.
        for (origin, expected) in [("http://intranet:3000", true), ("http://example.com", false)] {
            let headers = [(&HOST, "example.com"), (&ORIGIN, origin)];
            assert_eq!(is_allowed("http://intranet:3000/requests", &headers), expected, "{origin}");
        }
        assert!(
            !is_allowed("/requests", &[(&ORIGIN, "http://intranet:3000")]),
            "there is no host to compare"
        );
        assert!(is_allowed("/requests", &[host]), "a program");
        assert!(is_allowed("/requests", &[]));
    }
}
