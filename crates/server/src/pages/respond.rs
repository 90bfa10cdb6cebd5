//! How a page goes out: its headers, its cookies, and pages that say what went wrong.

use super::views;
use crate::web::error::{Problem, retry_after_value};
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use maud::Markup;
use std::time::Duration;

/// `form-action` is left out: browsers apply it to the redirect that follows a form, which leads to a client.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'";

/// The result of a page's handler.
pub(crate) type PageResult = Result<Response, PageError>;

/// A page.
pub(crate) fn page(status: StatusCode, markup: Markup, cookies: Vec<HeaderValue>) -> Response {
    let mut response = (status, markup.into_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    finish(response, cookies)
}

/// Goes on elsewhere, with GET whatever came before (303; RFC 9700 section 4.12).
pub(crate) fn see_other(location: &str, cookies: Vec<HeaderValue>) -> Response {
    let Ok(location) = HeaderValue::from_str(location) else {
        return PageError::bad("The address to go on to has characters that an address cannot have.")
            .into_response();
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, location);
    finish(response, cookies)
}

fn finish(mut response: Response, cookies: Vec<HeaderValue>) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for cookie in cookies {
        headers.append(SET_COOKIE, cookie);
    }
    response
}

/// A page that says what went wrong and what would be right.
#[derive(Debug)]
pub(crate) struct PageError {
    status: StatusCode,
    title: String,
    what: String,
    advice: String,
    pub(crate) retry_after: Option<Duration>,
}

impl PageError {
    pub(crate) fn new(status: StatusCode, title: &str, what: impl Into<String>, advice: &str) -> PageError {
        let (title, what, advice) = (title.to_owned(), what.into(), advice.to_owned());
        PageError { status, title, what, advice, retry_after: None }
    }

    /// 400: whoever made this request made it wrong.
    pub(crate) fn bad(what: impl Into<String>) -> PageError {
        let advice =
            "Go back to the product that you came from and try again. If it happens again, tell its makers.";
        PageError::new(StatusCode::BAD_REQUEST, "This request does not work", what, advice)
    }

    /// 403: a form that did not come from our page.
    pub(crate) fn forged() -> PageError {
        let what = "This form was not sent from our page, or the page was open for too long.";
        let advice = "Go back, reload the page and send the form again. Cookies must be allowed.";
        PageError::new(StatusCode::FORBIDDEN, "Nothing was done", what, advice)
    }

    /// True when the server could not do it now, but the same may work later.
    pub(crate) fn is_temporary(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> PageError {
        let (title, advice) = match problem.status.as_u16() {
            404 => ("There is no such page", "Check the address."),
            429 | 503 => ("Please wait a moment", "Then reload the page."),
            500.. => ("Something went wrong here", "It was noted. Please try again later."),
            _ => ("This request does not work", "Go back and try again."),
        };
        PageError {
            retry_after: problem.retry_after,
            ..PageError::new(problem.status, title, problem.detail, advice)
        }
    }
}

impl From<identity::Error> for PageError {
    fn from(error: identity::Error) -> PageError {
        Problem::from(error).into()
    }
}

impl From<store::Error> for PageError {
    fn from(error: store::Error) -> PageError {
        Problem::from(error).into()
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let view = views::Problem {
            status: self.status.as_u16(),
            title: &self.title,
            what: &self.what,
            advice: &self.advice,
            brand: views::SARSEN,
        };
        let mut response = page(self.status, view.markup(), Vec::new());
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
        }
        response
    }
}
