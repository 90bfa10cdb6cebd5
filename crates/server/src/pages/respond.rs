//! Responses that are pages: their headers, their cookies, and error pages.

use super::addresses;
use super::contact::{Contact, slug_below_o};
use super::sentence::Sentence;
use super::views;
use super::views::Label;
use crate::app::App;
use crate::oauth::error::OAuthError;
use crate::web::error::{Problem, retry_after_value};
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
    REFERRER_POLICY, RETRY_AFTER, SET_COOKIE, VARY, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use identity::names;
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;
use texts::Language;

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

/// The keys of the three texts of an error page. [`section!`] makes one.
pub(crate) struct Section(pub(crate) [&'static str; 3]);

/// The texts `title`, `what` and `advice` of a section.
macro_rules! section {
    ($name:literal) => {
        $crate::pages::respond::Section([
            concat!($name, ".title"),
            concat!($name, ".what"),
            concat!($name, ".advice"),
        ])
    };
}
pub(crate) use section;

/// The result of a page's handler.
pub(crate) type PageResult = Result<Response, PageError>;

/// A page in this language.
pub(crate) fn page(
    language: &Language,
    status: StatusCode,
    markup: Markup,
    cookies: Vec<HeaderValue>,
) -> Response {
    let mut response = with_policy(POLICY, status, markup, cookies);
    name_language(language, &mut response);
    response
}

/// A page that exists in English only.
pub(crate) fn english_page(markup: Markup, cookies: Vec<HeaderValue>) -> Response {
    with_policy(POLICY, StatusCode::OK, markup, cookies)
}

/// The same for one that shows changes while it is open.
pub(crate) fn live_page(markup: Markup, cookies: Vec<HeaderValue>) -> Response {
    with_policy(LIVE_POLICY, StatusCode::OK, markup, cookies)
}

/// [`FormPost`](views::FormPost): the page with a script.
pub(crate) fn self_posting_page(language: &Language, markup: Markup) -> Response {
    let mut response = with_policy(SELF_POSTING_POLICY, StatusCode::OK, markup, Vec::new());
    name_language(language, &mut response);
    response
}

/// Says in which language a page is, and that another reader gets another one.
fn name_language(language: &Language, response: &mut Response) {
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(language.tag()) {
        headers.insert(CONTENT_LANGUAGE, tag);
    }
    headers.insert(VARY, HeaderValue::from_static("accept-language"));
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
        return PageError::bad("problem.request.no_address").into_response();
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
    // Boxed, as the details are: a `Result` of a page is returned everywhere, and must stay small.
    said: Box<Said>,
    /// What the request had, for who looks for the mistake.
    details: Box<[(Label, String)]>,
    link: Link,
    pub(crate) retry_after: Option<Duration>,
}

/// The texts of an error page.
#[derive(Clone, Debug)]
struct Said {
    title: Sentence,
    what: Sentence,
    advice: Sentence,
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
    /// The key of the text, and the URL. An empty URL is the page's own.
    fn parts(&self) -> (&'static str, String) {
        match self {
            Link::Start => ("problem.link_start", "/".to_owned()),
            Link::Again => ("problem.link_again", String::new()),
            Link::AgainAt(address) => ("problem.link_again", address.clone()),
            Link::SignIn(slug) => ("page.sign_in", addresses::sign_in_form(slug)),
            Link::Account(slug) => ("problem.link_account", addresses::account(slug)),
        }
    }
}

impl PageError {
    /// The page with the texts `title`, `what` and `advice` of a section.
    pub(crate) fn new(status: StatusCode, section: Section) -> PageError {
        let [title, what, advice] = section.0.map(Sentence::new);
        let (said, details, link) = (Box::new(Said { title, what, advice }), Box::default(), Link::Start);
        PageError { status, said, details, link, retry_after: None }
    }

    /// The same with another text about what happened.
    pub(crate) fn what(mut self, what: Sentence) -> PageError {
        self.said.what = what;
        self
    }

    /// The same with the value of a parameter of the request. It is shown as text, up to a length.
    pub(crate) fn detail(self, name: &'static str, text: &str) -> PageError {
        self.labelled(Label::Parameter(name), text)
    }

    /// The same with another value, whose name is a text.
    pub(crate) fn labelled(mut self, label: Label, text: &str) -> PageError {
        let shown = names::remark_up_to(text, DETAIL_LENGTH_MAX);
        let more = if text.chars().count() > DETAIL_LENGTH_MAX { "…" } else { "" };
        let mut details = std::mem::take(&mut self.details).into_vec();
        details.push((label, [shown.as_str(), more].concat()));
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

    /// 400: the request is wrong, and its sender has to change it. `what` is the key of a text.
    pub(crate) fn bad(what: &'static str) -> PageError {
        PageError::new(StatusCode::BAD_REQUEST, section!("problem.bad")).what(Sentence::new(what))
    }

    /// 400: the request breaks a rule of its protocol. Whoever maintains its sender reads the rule, in English as all of
    /// the protocol.
    pub(crate) fn unreadable(error: OAuthError) -> PageError {
        let fault = Label::Text("problem.request.fault");
        PageError::bad("problem.request.unreadable").labelled(fault, &error.description)
    }

    /// 403: a form without a valid CSRF token.
    pub(crate) fn forged() -> PageError {
        PageError::new(StatusCode::FORBIDDEN, section!("problem.forged")).link(Link::Again)
    }

    /// 404: no page has this address.
    pub(crate) fn not_found(path: &str) -> PageError {
        PageError::new(StatusCode::NOT_FOUND, section!("problem.not_found")).link(link_of(path))
    }

    /// 405: the page takes another method.
    pub(crate) fn wrong_method(method: &Method, path: &str) -> PageError {
        let what = Sentence::new("problem.wrong_method.what").value("method", method.as_str());
        let error = PageError::new(StatusCode::METHOD_NOT_ALLOWED, section!("problem.wrong_method"));
        error.what(what).link(link_of(path))
    }

    /// The slug of the organization to which its link leads.
    fn organization(&self) -> Option<&str> {
        match &self.link {
            Link::SignIn(slug) | Link::Account(slug) => Some(slug),
            Link::Start | Link::Again | Link::AgainAt(_) => None,
        }
    }

    fn markup(&self, language: &Language, contact: Option<views::Contact<'_>>) -> Markup {
        let (link_text, link_href) = self.link.parts();
        let Said { title, what, advice } = (*self.said).clone();
        let view = views::Problem {
            status: self.status.as_u16(),
            title,
            what,
            advice,
            details: &self.details,
            contact,
            link_text,
            link_href: &link_href,
            is_for_administrators: self.leads_to_start(),
            brand: views::SARSEN,
        };
        view.markup(language)
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
    /// The sentences of a problem document are for programs: a page has its own, by the problem's code.
    fn from(problem: Problem) -> PageError {
        let (section, what) = match (problem.status.as_u16(), problem.code) {
            (404, _) => (section!("problem.gone"), "problem.gone.what"),
            (_, "overloaded") => (section!("problem.wait"), "problem.wait.overloaded"),
            (_, "too_slow") => (section!("problem.wait"), "problem.wait.too_slow"),
            (429 | 503, _) => (section!("problem.wait"), "problem.wait.unavailable"),
            (_, "outcome_unknown") => (section!("problem.failed"), "problem.failed.unknown"),
            (500.., _) => (section!("problem.failed"), "problem.failed.what"),
            (_, "signed_out") => (section!("problem.refused"), "problem.refused.signed_out"),
            (_, "user_suspended") => (section!("problem.refused"), "problem.refused.suspended"),
            (403, _) => (section!("problem.refused"), "problem.refused.forbidden"),
            (413, _) => (section!("problem.refused"), "problem.refused.too_large"),
            (_, "unknown_host") => (section!("problem.refused"), "problem.refused.unknown_host"),
            (_, "invalid_host") => (section!("problem.refused"), "problem.refused.invalid_host"),
            (_, "invalid_path") => (section!("problem.refused"), "problem.refused.invalid_path"),
            _ => (section!("problem.refused"), "problem.refused.what"),
        };
        let link = if problem.status == StatusCode::NOT_FOUND { Link::Start } else { Link::Again };
        let error = PageError::new(problem.status, section).what(Sentence::new(what)).link(link);
        PageError { retry_after: problem.retry_after, ..error }
    }
}

impl From<identity::Error> for PageError {
    fn from(error: identity::Error) -> PageError {
        let is_organization = matches!(error, identity::Error::NotFound { what: "organization" });
        let page = PageError::from(Problem::from(error));
        if is_organization { page.what(Sentence::new("problem.gone.organization")) } else { page }
    }
}

impl From<store::Error> for PageError {
    fn from(error: store::Error) -> PageError {
        Problem::from(error).into()
    }
}

impl IntoResponse for PageError {
    /// The response without its page, which [`ErrorPage::complete`] adds when the language is known.
    fn into_response(self) -> Response {
        let mut response = with_policy(POLICY, self.status, html! {}, Vec::new());
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
        }
        response.extensions_mut().insert(ErrorPage(Arc::new(self)));
        response
    }
}

/// The error page of a response, for [`ErrorPage::complete`].
#[derive(Clone)]
pub(crate) struct ErrorPage(Arc<PageError>);

impl ErrorPage {
    /// Writes the page, with what only the database knows: the contact of the organization that it is about, by its link, or
    /// else by the path of the request. Where the server has failed, its database may be what is away, and nobody of an
    /// organization can help.
    pub(crate) async fn complete(
        self,
        app: &App,
        language: &Language,
        path_slug: Option<&str>,
        response: &mut Response,
    ) {
        let error = &self.0;
        let slug = error.organization().or(path_slug).filter(|_| !error.status.is_server_error());
        let contact = match slug {
            Some(slug) => Contact::of_slug(app, slug).await,
            None => None,
        };
        self.write(language, contact.as_ref(), response);
    }

    /// The same without a contact.
    pub(crate) fn write(&self, language: &Language, contact: Option<&Contact>, response: &mut Response) {
        let page = self.0.markup(language, contact.map(Contact::view));
        *response.body_mut() = page.into_string().into();
        response.headers_mut().remove(CONTENT_LENGTH);
        name_language(language, response);
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
