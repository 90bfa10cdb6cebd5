//! `/auth/logout` (OpenID Connect RP-Initiated Logout 1.0): a client sends its user here to sign out.
//!
//! - A top-level navigation with an `id_token_hint` of the browser's own session signs out at once.
//! - Everything else asks the user first, because any page can send a user here.
//! - Without a session nothing is asked and nothing changes.
//!
//! The hint or `client_id` names the client. Its organization is the one to sign out of; without a client it is all of them.
//! Afterwards the user goes to `post_logout_redirect_uri`, if it is registered for the client. A request with a fault, such
//! as a hint that does not verify, leads nowhere: the page says what is wrong.

use super::params::Params;
use crate::app::App;
use crate::pages::addresses::{self, encoded};
use crate::pages::browser::{Asked, Browser, Form, ShortForm};
use crate::pages::flash::Flash;
use crate::pages::language::UI_LOCALES;
use crate::pages::respond::{Link, PageError, PageResult, page, see_other};
use crate::pages::sentence::Sentence;
use crate::pages::sign_in;
use crate::pages::views::{Done, SARSEN, SignOut};
use crate::web::fetch_metadata::is_top_level;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode};
use identity::Error;
use identity::clients::Client;
use identity::sessions::Session;
use identity::tokens::{self, IdClaims};
use std::collections::BTreeSet;
use std::sync::Arc;
use texts::Language;

/// The parameters of a request.
const PARAMETERS: [&str; 5] = ["id_token_hint", "client_id", "post_logout_redirect_uri", "state", UI_LOCALES];
/// The most bytes of a request. A posted one becomes an address, and one in an address becomes the form of a confirmation.
const REQUEST_MAX: usize = 8 * 1024;
/// The most bytes of a posted form: a request, and the CSRF token of a confirmation.
const BODY_MAX: usize = REQUEST_MAX + 1024;

// The keys of texts about faults of a request.
const NO_HINT: &str = "sign_out.no_hint";
const HINT_OF_ANOTHER: &str = "sign_out.hint_of_another";
const UNKNOWN_CLIENT: &str = "sign_out.unknown_client";
const NOT_REGISTERED: &str = "sign_out.not_registered";

pub(crate) async fn get(
    State(app): State<App>,
    browser: Browser,
    headers: HeaderMap,
    Asked(params): Asked,
) -> PageResult {
    match answer(&app, &browser, &headers, &params).await {
        Ok(response) => Ok(response),
        Err(error) => Err(browser.lead_on(&app, error).await),
    }
}

async fn answer(app: &App, browser: &Browser, headers: &HeaderMap, params: &Params) -> PageResult {
    as_query(params)?;
    let request = Request::understand(app, params).await?;
    let Some(client) = &request.client else { return everywhere(app, browser, &request, params).await };
    let Some(session) = browser.session(app, &client.organization_slug).await? else {
        return match request.fault {
            Some(fault) => Err(PageError::bad(fault).link(Link::SignIn(client.organization_slug.clone()))),
            None => Ok(request.depart(app, client, Vec::new())),
        };
    };
    if request.fault.is_none() && request.is_of(&session) && is_top_level(headers) {
        return request.sign_out(app, browser).await;
    }
    let user = app.lookups.user(&session.user, app.now()).await?;
    let home = sign_in::home(&client.organization_slug);
    Ok(ask(
        app,
        browser,
        &request,
        params,
        &Question { brand: &client.organization_name, emails: &[&user.email], home: &home },
    ))
}

/// The user's confirmation. A request of a client continues with a GET, because a browser sends no cookies with the POST
/// of another site.
pub(crate) async fn post(
    State(app): State<App>,
    browser: Browser,
    ShortForm(form): ShortForm<BODY_MAX>,
) -> PageResult {
    if form.get("csrf").is_none() {
        let query = as_query(form.params())?;
        return Ok(see_other(&format!("/auth/logout?{query}"), Vec::new()));
    }
    let asked = Params::of(sent_again(form.params()).map(|(name, value)| (name, value.to_owned())));
    let question = format!("/auth/logout?{}", asked.to_form());
    confirmed(&app, &browser, &form).await.map_err(|error| error.of_form_at(question))
}

async fn confirmed(app: &App, browser: &Browser, form: &Form) -> PageResult {
    browser.check_csrf(app, form)?;
    Request::understand(app, form.params()).await?.sign_out(app, browser).await
}

/// A request as a query, if it is not too long.
fn as_query(params: &Params) -> Result<String, PageError> {
    let query = params.to_form();
    if query.len() > REQUEST_MAX {
        let what = Sentence::new("problem.request.too_long").value("bytes_max", REQUEST_MAX.to_string());
        return Err(PageError::bad("problem.request.too_long").what(what));
    }
    Ok(query)
}

/// The parameters that a confirmation sends again.
fn sent_again(params: &Params) -> impl Iterator<Item = (&'static str, &str)> {
    PARAMETERS.into_iter().filter_map(|name| Some((name, params.get(name)?)))
}

/// A request that was read.
struct Request {
    /// The client of the hint, or of `client_id`.
    client: Option<Arc<Client>>,
    /// Those of the hint, if it verifies and is the client's.
    claims: Option<IdClaims>,
    /// Where the user goes on to, with `state`.
    target: Option<String>,
    /// What is wrong with the request, as the key of a text. Then there is no target.
    fault: Option<&'static str>,
}

impl Request {
    async fn understand(app: &App, params: &Params) -> Result<Request, PageError> {
        let now = app.now();
        let (hint, named) = (params.get("id_token_hint"), params.get("client_id"));
        let (mut claims, mut fault) = (None, None);
        if let Some(hint) = hint {
            let ring = app.lookups.ring(now).await?;
            match tokens::verify_id_hint(&ring, &app.settings.issuer, hint, now) {
                None => fault = Some(NO_HINT),
                Some(own) if named.is_some_and(|named| named != own.aud) => fault = Some(HINT_OF_ANOTHER),
                Some(own) => claims = Some(own),
            }
        }
        let client = match claims.as_ref().map(|claims| &*claims.aud).or(named) {
            None => None,
            Some(id) => match app.lookups.client(id, now).await {
                Ok(client) => Some(client),
                Err(Error::NotFound { .. }) => {
                    fault = fault.or(Some(UNKNOWN_CLIENT));
                    None
                }
                Err(error) => return Err(error.into()),
            },
        };
        // Without a client nothing proves whose address it is.
        let sent = client.as_ref().zip(params.get("post_logout_redirect_uri"));
        if sent.is_some_and(|(client, uri)| !client.may_return_to(uri)) {
            fault = fault.or(Some(NOT_REGISTERED));
        }
        let target = sent.filter(|_| fault.is_none()).map(|(_, uri)| with_state(uri, params.get("state")));
        Ok(Request { client, claims, target, fault })
    }

    /// Whether the hint was issued in this session.
    fn is_of(&self, session: &Session) -> bool {
        self.claims
            .as_ref()
            .is_some_and(|claims| claims.sid == session.id.as_str() && claims.sub == session.user.as_str())
    }

    async fn sign_out(&self, app: &App, browser: &Browser) -> PageResult {
        let Some(client) = &self.client else {
            return Ok(signed_out(browser.language(app), browser.sign_out_everywhere(app).await?));
        };
        let cookies = browser.sign_out(app, &client.organization_slug).await?;
        Ok(self.depart(app, client, cookies))
    }

    /// Sends the user on. Without an address that is the sign-in page of the organization.
    fn depart(&self, app: &App, client: &Client, mut cookies: Vec<HeaderValue>) -> Response {
        match &self.target {
            Some(target) => see_other(target, cookies),
            None => {
                cookies.extend(Flash::SignedOut.cookie(app, &client.organization_slug));
                see_other(&addresses::sign_in_form(&client.organization_slug), cookies)
            }
        }
    }
}

fn with_state(uri: &str, state: Option<&str>) -> String {
    let Some(state) = state else { return uri.to_owned() };
    let joint = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{joint}state={}", encoded(state))
}

/// Who is asked before the sign-out, and where they stay otherwise.
struct Question<'a> {
    brand: &'a str,
    emails: &'a [&'a str],
    home: &'a str,
}

fn ask(
    app: &App,
    browser: &Browser,
    request: &Request,
    params: &Params,
    question: &Question<'_>,
) -> Response {
    let hidden: Vec<(&str, &str)> = match (&request.client, request.fault) {
        (Some(client), Some(_)) => vec![("client_id", client.id.as_str())],
        (Some(_), None) => sent_again(params).collect(),
        (None, _) => Vec::new(),
    };
    let fault = request.fault.map(Sentence::new);
    let view = SignOut {
        brand: question.brand,
        user_emails: question.emails,
        fault: fault.as_ref(),
        csrf: &browser.csrf(app),
        hidden: &hidden,
        action: "/auth/logout",
        stay_href: question.home,
    };
    browser.page(app, view.markup(browser.language(app)))
}

/// Answers a request without a client: all sessions of the browser would end.
async fn everywhere(app: &App, browser: &Browser, request: &Request, params: &Params) -> PageResult {
    let (mut emails, mut home) = (BTreeSet::new(), None);
    for (slug, session) in browser.sessions(app).await? {
        emails.insert(app.lookups.user(&session.user, app.now()).await?.email.clone());
        home.get_or_insert_with(|| sign_in::home(&slug));
    }
    match (home, request.fault) {
        (Some(home), _) => {
            let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
            let question = Question { brand: SARSEN, emails: &emails, home: &home };
            Ok(ask(app, browser, request, params, &question))
        }
        (None, Some(fault)) => Err(PageError::bad(fault)),
        (None, None) => Ok(signed_out(browser.language(app), Vec::new())),
    }
}

fn signed_out(language: &Language, cookies: Vec<HeaderValue>) -> Response {
    let done = Done { brand: SARSEN, title: "sign_out.done_title", text: "sign_out.done", good: true };
    page(language, StatusCode::OK, done.markup(language), cookies)
}
