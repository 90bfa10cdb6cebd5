//! `/auth/logout` (OpenID Connect RP-Initiated Logout 1.0): a client sends its user here to sign out.
//!
//! - An `id_token_hint` of the browser's own session signs out at once.
//! - `client_id` alone, a hint of another session, or one that cannot be verified asks the user first.
//! - Without parameters, all sessions of the browser end.
//! - `post_logout_redirect_uri` alone asks the user, ends all sessions and stays here: nothing proves whose address it is.
//!
//! Afterwards the user goes to `post_logout_redirect_uri`, if it is registered for the client. This works without a
//! session too: a product also signs out users whose session has ended here.

use super::params::Params;
use crate::app::App;
use crate::pages::browser::{Asked, Browser, Form, ShortForm, encoded};
use crate::pages::flash::Flash;
use crate::pages::respond::{Link, PageError, PageResult, page, see_other};
use crate::pages::sign_in;
use crate::pages::views::{Done, SARSEN, SignOut};
use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode};
use identity::Error;
use identity::clients::Client;
use identity::sessions::Session;
use identity::tokens::{self, IdClaims};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The parameters of a request.
const PARAMETERS: [&str; 5] = ["id_token_hint", "client_id", "post_logout_redirect_uri", "state", ASK];
/// The parameter of our own with which a confirmation of all sign-outs asks again.
const ASK: &str = "sarsen_ask";
/// The most bytes of a request. A posted one becomes an address, and one in an address becomes the form of a confirmation.
const REQUEST_MAX: usize = 8 * 1024;
/// The most bytes of a posted form: a request, and the CSRF token of a confirmation.
const BODY_MAX: usize = REQUEST_MAX + 1024;

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(params): Asked) -> PageResult {
    let understood = match as_query(&params) {
        Ok(_) => understand(&app, &params).await,
        Err(error) => Err(error),
    };
    let understood = match understood {
        Ok(understood) => understood,
        Err(error) => return Err(browser.lead_on(&app, error).await),
    };
    let request = match understood {
        Logout::OfClient(request) => request,
        Logout::Everywhere => return sign_out_everywhere(&app, &browser).await,
        Logout::EverywhereIfConfirmed => return ask_everywhere(&app, &browser).await,
    };
    let Some(session) = browser.session(&app, request.slug()).await? else {
        return Ok(request.depart(&app, Vec::new()));
    };
    match request.is_of(&session) {
        true => request.sign_out(&app, &browser).await,
        false => ask(&app, &browser, &request, &session, &params).await,
    }
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
    match understand(app, form.params()).await? {
        Logout::OfClient(request) => request.sign_out(app, browser).await,
        Logout::Everywhere | Logout::EverywhereIfConfirmed => sign_out_everywhere(app, browser).await,
    }
}

/// A request as a query, if it is not too long.
fn as_query(params: &Params) -> Result<String, PageError> {
    let query = params.to_form();
    if query.len() > REQUEST_MAX {
        return Err(PageError::bad(format!("The request is too long: {REQUEST_MAX} bytes are allowed.")));
    }
    Ok(query)
}

/// The parameters that a confirmation sends again.
fn sent_again(params: &Params) -> impl Iterator<Item = (&'static str, &str)> {
    PARAMETERS.into_iter().filter_map(|name| Some((name, params.get(name)?)))
}

/// What a request asks for.
enum Logout {
    /// To sign out of the organization of a client.
    OfClient(Box<Request>),
    /// To sign out of all organizations.
    Everywhere,
    /// The same, by somebody who names an address and no client.
    EverywhereIfConfirmed,
}

/// A request of a client, with an address that is registered for it.
struct Request {
    client: Arc<Client>,
    claims: Option<IdClaims>,
    /// Where the user goes on to, with `state`.
    target: Option<String>,
}

/// Reads a request.
async fn understand(app: &App, params: &Params) -> Result<Logout, PageError> {
    let now = app.now();
    let (hint, named) = (params.get("id_token_hint"), params.get("client_id"));
    let claims = match hint {
        Some(hint) => {
            let ring = app.lookups.ring(now).await?;
            tokens::verify_id_hint(&ring, &app.settings.issuer, hint, now)
        }
        None => None,
    };
    let hinted = claims.as_ref().map(|claims| &*claims.aud);
    if hinted.is_some() && named.is_some() && hinted != named {
        return Err(PageError::bad("client_id is not the client that received id_token_hint."));
    }
    let target = params.get("post_logout_redirect_uri");
    let wrong_hint = || PageError::bad("id_token_hint is not a valid ID token of this server.");
    // A hint that cannot be verified names the client, as `client_id` would, and proves nothing.
    let unverified = match hint {
        Some(hint) if hinted.or(named).is_none() => {
            Some(tokens::unverified_client(hint).ok_or_else(wrong_hint)?)
        }
        _ => None,
    };
    let Some(id) = hinted.or(named).or(unverified.as_deref()) else {
        let asks = target.is_some() || params.get(ASK).is_some();
        return Ok(if asks { Logout::EverywhereIfConfirmed } else { Logout::Everywhere });
    };
    let client = match app.lookups.client(id, now).await {
        Ok(client) => client,
        Err(Error::NotFound { .. }) if unverified.is_some() => return Err(wrong_hint()),
        Err(Error::NotFound { .. }) => return Err(PageError::bad("The client is not known.")),
        Err(error) => return Err(error.into()),
    };
    if target.is_some_and(|uri| !client.may_return_to(uri)) {
        let error = PageError::bad(
            "post_logout_redirect_uri is not registered for this product. It must be equal, byte for byte.",
        );
        return Err(error.link(Link::SignIn(client.organization_slug.clone())));
    }
    let target = target.map(|uri| with_state(uri, params.get("state")));
    Ok(Logout::OfClient(Box::new(Request { client, claims, target })))
}

fn with_state(uri: &str, state: Option<&str>) -> String {
    let Some(state) = state else { return uri.to_owned() };
    let joint = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{joint}state={}", encoded(state))
}

impl Request {
    fn slug(&self) -> &str {
        &self.client.organization_slug
    }

    /// Whether the hint was issued in this session.
    fn is_of(&self, session: &Session) -> bool {
        self.claims
            .as_ref()
            .is_some_and(|claims| claims.sid == session.id.as_str() && claims.sub == session.user.as_str())
    }

    async fn sign_out(&self, app: &App, browser: &Browser) -> PageResult {
        Ok(self.depart(app, browser.sign_out(app, self.slug()).await?))
    }

    /// Sends the user on. Without an address that is the sign-in page of the organization.
    fn depart(&self, app: &App, mut cookies: Vec<HeaderValue>) -> Response {
        match &self.target {
            Some(target) => see_other(target, cookies),
            None => {
                cookies.extend(Flash::SignedOut.cookie(app, self.slug()));
                see_other(&sign_in::path(self.slug()), cookies)
            }
        }
    }
}

async fn ask(
    app: &App,
    browser: &Browser,
    request: &Request,
    session: &Session,
    params: &Params,
) -> PageResult {
    let user = app.lookups.user(&session.user, app.now()).await?;
    let hidden: Vec<(&str, &str)> = sent_again(params).collect();
    let view = SignOut {
        brand: &request.client.organization_name,
        user_emails: &[&user.email],
        csrf: &browser.csrf(app),
        hidden: &hidden,
        action: "/auth/logout",
        stay_href: &sign_in::home(request.slug()),
    };
    Ok(browser.page(app, view.markup()))
}

/// Asks before all sessions of the browser end.
async fn ask_everywhere(app: &App, browser: &Browser) -> PageResult {
    let (mut emails, mut home) = (BTreeSet::new(), None);
    for (slug, session) in browser.sessions(app).await? {
        emails.insert(app.lookups.user(&session.user, app.now()).await?.email.clone());
        home.get_or_insert_with(|| sign_in::home(&slug));
    }
    let Some(home) = home else { return sign_out_everywhere(app, browser).await };
    let emails: Vec<&str> = emails.iter().map(String::as_str).collect();
    let view = SignOut {
        brand: SARSEN,
        user_emails: &emails,
        csrf: &browser.csrf(app),
        hidden: &[(ASK, "1")],
        action: "/auth/logout",
        stay_href: &home,
    };
    Ok(browser.page(app, view.markup()))
}

async fn sign_out_everywhere(app: &App, browser: &Browser) -> PageResult {
    let cookies = browser.sign_out_everywhere(app).await?;
    let done = Done {
        brand: SARSEN,
        title: "You are signed out",
        text: "All sign-ins of this browser have ended. You can close this page.",
        good: true,
    };
    Ok(page(StatusCode::OK, done.markup(), cookies))
}
