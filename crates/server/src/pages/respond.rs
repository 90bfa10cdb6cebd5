//! Responses that are pages: their headers, their cookies, and error pages.

use super::contact::{Contact, slug_below_o};
use super::{account, sign_in, views};
use crate::app::App;
use crate::web::error::{Problem, retry_after_value};
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use identity::names;
use maud::Markup;
use std::sync::Arc;
use std::time::Duration;

/// `form-action` is left out: browsers apply it to the redirect that follows a form, which leads to a client.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'";

/// [`POLICY`] with the hash of the one script of [`views::FormPost`].
const SELF_POSTING_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; \
     script-src 'sha256-ePniVEkSivX/c7XWBGafqh8tSpiRrKiqYeqbG7N1TOE='; frame-ancestors 'none'; base-uri 'none'";

/// [`POLICY`] for a page that loads a script of this server and reads its events.
const LIVE_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self'; \
     connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The longest text of a request that an error page shows, in characters.
const DETAIL_LENGTH_MAX: usize = 500;

/// The result of a page's handler.
pub(crate) type PageResult = Result<Response, PageError>;

/// A page.
pub(crate) fn page(status: StatusCode, markup: Markup, cookies: Vec<HeaderValue>) -> Response {
    with_policy(POLICY, status, markup, cookies)
}

/// A page that shows changes while it is open.
pub(crate) fn live_page(markup: Markup, cookies: Vec<HeaderValue>) -> Response {
    with_policy(LIVE_POLICY, StatusCode::OK, markup, cookies)
}

/// [`FormPost`](views::FormPost): the page with a script.
pub(crate) fn self_posting_page(markup: Markup) -> Response {
    with_policy(SELF_POSTING_POLICY, StatusCode::OK, markup, Vec::new())
}

fn with_policy(
    policy: &'static str,
    status: StatusCode,
    markup: Markup,
    cookies: Vec<HeaderValue>,
) -> Response {
    let mut response = (status, markup.into_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    finish(response, cookies)
}

/// Redirects with status 303, so that the browser sends a GET next (RFC 9700 section 4.12).
pub(crate) fn see_other(location: &str, cookies: Vec<HeaderValue>) -> Response {
    let Ok(location) = HeaderValue::from_str(location) else {
        return PageError::bad(
            "The address of the redirect has characters that are not allowed in an address.",
        )
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

/// An error page: what went wrong, what to do, and a link that leads on.
#[derive(Debug)]
pub(crate) struct PageError {
    status: StatusCode,
    title: &'static str,
    // Boxed, as the details are: a `Result` of a page is returned everywhere, and must stay small.
    what: Box<str>,
    advice: &'static str,
    /// What the request had, for who looks for the mistake.
    details: Box<[(&'static str, String)]>,
    link: Link,
    pub(crate) retry_after: Option<Duration>,
}

/// The link of an error page.
#[derive(Debug)]
pub(crate) enum Link {
    /// To `/`, for administrators only: users have accounts in their own organization and none there.
    Start,
    /// Loads the same address again with GET: a form that was open for too long, a page that was busy.
    Again,
    /// The same at the address of the form, where that differs from the address that the form is sent to.
    AgainAt(String),
    /// To the sign-in page of the organization with this slug.
    SignIn(String),
    /// To the account page of the organization with this slug.
    Account(String),
}

impl Link {
    /// The text and the URL. An empty URL is the page's own.
    fn parts(&self) -> (&'static str, String) {
        match self {
            Link::Start => ("Go to the start page", "/".to_owned()),
            Link::Again => ("Open the page again", String::new()),
            Link::AgainAt(address) => ("Open the page again", address.clone()),
            Link::SignIn(slug) => ("Sign in", sign_in::path(slug)),
            Link::Account(slug) => ("Go to your account", account::address(slug)),
        }
    }
}

impl PageError {
    pub(crate) fn new(
        status: StatusCode,
        title: &'static str,
        what: impl Into<String>,
        advice: &'static str,
    ) -> PageError {
        let (what, details, link) = (what.into().into_boxed_str(), Box::default(), Link::Start);
        PageError { status, title, what, advice, details, link, retry_after: None }
    }

    /// The same with something from the request. It is shown as text, up to a length.
    pub(crate) fn detail(mut self, name: &'static str, text: &str) -> PageError {
        let shown = names::remark_up_to(text, DETAIL_LENGTH_MAX);
        let more = if text.chars().count() > DETAIL_LENGTH_MAX { "…" } else { "" };
        let mut details = std::mem::take(&mut self.details).into_vec();
        details.push((name, [shown.as_str(), more].concat()));
        self.details = details.into();
        self
    }

    /// The same with another link.
    pub(crate) fn link(self, link: Link) -> PageError {
        PageError { link, ..self }
    }

    /// The same with the link to another page where nobody but an administrator has a link to follow.
    pub(crate) fn or_link(self, link: Link) -> PageError {
        match self.link {
            Link::Start => self.link(link),
            _ => self,
        }
    }

    /// Whether only an administrator has a link to follow.
    pub(crate) fn leads_to_start(&self) -> bool {
        matches!(self.link, Link::Start)
    }

    /// The same as the answer to a form that stands at this address.
    pub(crate) fn of_form_at(self, address: impl Into<String>) -> PageError {
        match self.link {
            Link::Again => self.link(Link::AgainAt(address.into())),
            _ => self,
        }
    }

    /// 400: the request is wrong, and its sender has to change it.
    pub(crate) fn bad(what: impl Into<String>) -> PageError {
        let advice = "Go back to the product that you came from and try again. If it happens again, contact its support.";
        PageError::new(StatusCode::BAD_REQUEST, "This request does not work", what, advice)
    }

    /// 403: a form without a valid CSRF token.
    pub(crate) fn forged() -> PageError {
        let what = "This form was not sent from our page, or the page was open for too long.";
        let advice = "Open the page again and send the form once more. Your browser must accept cookies.";
        PageError::new(StatusCode::FORBIDDEN, "Nothing was changed", what, advice).link(Link::Again)
    }

    /// 404: no page has this address.
    pub(crate) fn not_found(path: &str) -> PageError {
        let error = PageError::new(
            StatusCode::NOT_FOUND,
            "Page not found",
            "There is no page at this address.",
            "Check the address, or start again at the product that you came from.",
        );
        error.link(link_of(path))
    }

    /// 405: the page takes another method.
    pub(crate) fn wrong_method(method: &Method, path: &str) -> PageError {
        let error = PageError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "This page cannot be opened like this",
            format!("The page does not accept {method} requests."),
            "Go back to the product that you came from, or to your account.",
        );
        error.link(link_of(path))
    }

    /// The slug of the organization to which its link leads.
    fn organization(&self) -> Option<&str> {
        match &self.link {
            Link::SignIn(slug) | Link::Account(slug) => Some(slug),
            Link::Start | Link::Again | Link::AgainAt(_) => None,
        }
    }

    fn markup(&self, contact: Option<views::Contact<'_>>) -> Markup {
        let (link_text, link_href) = self.link.parts();
        let view = views::Problem {
            status: self.status.as_u16(),
            title: self.title,
            what: &self.what,
            advice: self.advice,
            details: &self.details,
            contact,
            link_text,
            link_href: &link_href,
            is_for_administrators: self.leads_to_start(),
            brand: views::SARSEN,
        };
        view.markup()
    }

    /// True if the request can succeed later without a change.
    pub(crate) fn is_temporary(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }
}

/// An address below `/o/{slug}/` leads to the account page there.
fn link_of(path: &str) -> Link {
    match slug_below_o(path) {
        Some(slug) => Link::Account(slug.to_owned()),
        None => Link::Start,
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> PageError {
        let (title, advice, link) = match problem.status.as_u16() {
            404 => ("Page not found", "Check the address.", Link::Start),
            429 | 503 => ("Please wait a moment", "Then open the page again.", Link::Again),
            500.. => ("Something went wrong", "We logged the error. Please try again later.", Link::Again),
            _ => ("This request does not work", "Open the page again and try once more.", Link::Again),
        };
        PageError {
            link,
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
        let mut response = page(self.status, self.markup(None), Vec::new());
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
        }
        response.extensions_mut().insert(ErrorPage(Arc::new(self)));
        response
    }
}

/// The error page in a response, for [`ErrorPage::complete`].
#[derive(Clone)]
pub(crate) struct ErrorPage(Arc<PageError>);

impl ErrorPage {
    /// Adds what only the database knows: the contact of the organization that the page is about, by its link, or else by
    /// the path of the request. Where the server has failed, its database may be what is away, and nobody of an organization
    /// can help.
    pub(crate) async fn complete(self, app: &App, path_slug: Option<&str>, response: &mut Response) {
        let error = self.0;
        let Some(slug) = error.organization().or(path_slug) else { return };
        if error.status.is_server_error() {
            return;
        }
        if let Some(contact) = Contact::of_slug(app, slug).await {
            *response.body_mut() = error.markup(Some(contact.view())).into_string().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn the_policy_of_the_self_posting_page_allows_its_script_and_nothing_more() {
        let hash = STANDARD.encode(identity::secrets::hash(views::SCRIPT.as_bytes()));
        let script = format!(" script-src 'sha256-{hash}';");
        assert_eq!(SELF_POSTING_POLICY.replacen(&script, "", 1), POLICY);
    }

    #[test]
    fn the_policy_of_a_live_page_allows_files_and_answers_of_this_server_and_nothing_more() {
        let more = " script-src 'self'; connect-src 'self';";
        assert_eq!(LIVE_POLICY.replacen(more, "", 1), POLICY);
    }
}
