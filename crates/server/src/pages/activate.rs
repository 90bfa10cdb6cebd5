//! `/activate`: a person types the code that a device shows, sees who asks for what from where, and
//! decides. Nothing is approved by opening a link (RFC 8628 sections 3.3.1, 5.4).

use super::browser::{Asked, Browser, Form, encoded};
use super::consent::switch_address;
use super::respond::{PageError, PageResult, see_other};
use super::sign_in::{self, Checked, active, check_password};
use super::views::{ActivateConfirm, ActivateEnter, Done, SARSEN, ScopeLine};
use crate::app::App;
use crate::web::error::retry_after_value;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::clients::Client;
use identity::devices::{self, Decision, Device};
use identity::sessions::Session;
use identity::{Error, scopes, user_codes};
use std::sync::Arc;

/// Wrong, expired and used codes look the same.
const WRONG: &str = "This code is wrong or has expired. Check your device: it may show a new code.";

/// Who administers types the code: a link to it may come from somebody else's terminal.
const TYPE_IT: &str = "Enter the code that your own terminal shows. A link is not enough for this sign-in.";

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    let Some(typed) = asked.get("user_code") else { return Ok(enter(&app, &browser, "", None)) };
    let waiting = match find(&app, &browser, typed).await? {
        Found::Waiting(waiting) => waiting,
        Found::Refused(response) => return Ok(response),
    };
    let typed_here = is_typed(&app, &browser, &waiting.user_code, asked.get("typed"));
    if waiting.client.is_first_party() && !typed_here {
        return Ok(enter(&app, &browser, "", Some(TYPE_IT)));
    }
    let slug = &waiting.client.organization_slug;
    let own_address = address_of(&app, &browser, &waiting.user_code, typed_here);
    let Some(session) = browser.session(&app, slug).await? else {
        return Ok(see_other(&sign_in::address(slug, &own_address), Vec::new()));
    };
    confirm(&app, &browser, &waiting, &session, None, StatusCode::OK).await
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let typed = form.text("user_code");
    let decision = match form.get("decision") {
        // The form with the code only: look at what it asks for.
        None => {
            let address = match user_codes::read(typed) {
                Some(code) => address_of(&app, &browser, &code, true),
                None => format!("/activate?user_code={}", encoded(typed)),
            };
            return Ok(see_other(&address, Vec::new()));
        }
        Some("allow") => Decision::Allow,
        Some("deny") => Decision::Deny,
        Some(_) => return Err(PageError::bad("The form says neither allow nor deny.")),
    };
    let waiting = match find(&app, &browser, typed).await? {
        Found::Waiting(waiting) => waiting,
        Found::Refused(response) => return Ok(response),
    };
    let slug = waiting.client.organization_slug.clone();
    let Some(session) = browser.session(&app, &slug).await? else { return Err(PageError::forged()) };
    // Somebody else may have signed in since the page was shown: then he is asked anew.
    if form.text("session") != session.id.as_str() {
        return confirm(&app, &browser, &waiting, &session, None, StatusCode::OK).await;
    }
    if decision == Decision::Allow
        && waiting.client.is_first_party()
        && let Some(refused) = ask_password(&app, &browser, &waiting, &session, &form).await?
    {
        return Ok(refused);
    }
    decide(&app, &waiting, &session, decision, &browser).await
}

/// Where the page for a code is. It says whether the code was typed in this browser: nobody can send somebody else
/// a link that says so.
fn address_of(app: &App, browser: &Browser, user_code: &str, typed: bool) -> String {
    let address = format!("/activate?user_code={}", encoded(&user_codes::show(user_code)));
    if typed {
        format!("{address}&typed={}", app.secret_key.derive(&typed_parts(browser, user_code)))
    } else {
        address
    }
}

fn is_typed(app: &App, browser: &Browser, user_code: &str, tag: Option<&str>) -> bool {
    tag.is_some_and(|tag| app.secret_key.derives(&typed_parts(browser, user_code), tag))
}

fn typed_parts<'a>(browser: &'a Browser, user_code: &'a str) -> [&'a str; 3] {
    ["typed", browser.id(), user_code]
}

/// A device authorization that waits, and the client that asks.
struct Waiting {
    user_code: String,
    device: Device,
    client: Arc<Client>,
}

enum Found {
    Waiting(Waiting),
    Refused(Response),
}

async fn find(app: &App, browser: &Browser, typed: &str) -> Result<Found, PageError> {
    let now = app.now();
    // What cannot be a code is looked up all the same, so that time tells nothing.
    let user_code = user_codes::read(typed).unwrap_or_default();
    let ids = app.user_codes.ids_of(&user_code, now)?;
    if let Err(wait) = app.user_code_attempts.begin(browser.id(), browser.address, now) {
        let text =
            format!("Too many attempts. Please wait {} s, then enter the code again.", wait.as_secs().max(1));
        let mut refused = enter_with(app, browser, "", Some(&text), StatusCode::TOO_MANY_REQUESTS);
        refused.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
        return Ok(Found::Refused(refused));
    }
    let found = app.store.point(move |snapshot| devices::find_pending(snapshot, &ids, now)).await;
    app.user_code_attempts.end(browser.id(), browser.address, matches!(found, Err(Error::NotFound { .. })));
    match found {
        Ok(device) => {
            let client = app.lookups.client(device.client.as_str(), now).await?;
            if !client.may_use_device_flow() {
                // The code was good, so it is no guess.
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                return Ok(Found::Refused(enter_with(app, browser, typed, Some(WRONG), status)));
            }
            Ok(Found::Waiting(Waiting { user_code, device, client }))
        }
        Err(Error::NotFound { .. }) => {
            Ok(Found::Refused(enter_with(app, browser, typed, Some(WRONG), StatusCode::UNPROCESSABLE_ENTITY)))
        }
        Err(error) => Err(error.into()),
    }
}

fn enter(app: &App, browser: &Browser, typed: &str, error: Option<&str>) -> Response {
    enter_with(app, browser, typed, error, StatusCode::OK)
}

fn enter_with(
    app: &App,
    browser: &Browser,
    typed: &str,
    error: Option<&str>,
    status: StatusCode,
) -> Response {
    let csrf = browser.csrf(app);
    let view = ActivateEnter { brand: SARSEN, user_code: typed, error, csrf: &csrf, action: "/activate" };
    browser.page_with(app, status, view.markup())
}

async fn confirm(
    app: &App,
    browser: &Browser,
    waiting: &Waiting,
    session: &Session,
    error: Option<&str>,
    status: StatusCode,
) -> PageResult {
    let Waiting { user_code, device, client } = waiting;
    let user = app.lookups.user(&session.user, app.now()).await?;
    let said: Vec<(String, String)> =
        device.scope.iter().map(|scope| (scope.to_owned(), scopes::describe(scope))).collect();
    let lines: Vec<ScopeLine<'_>> = said.iter().map(|(name, says)| ScopeLine { name, says }).collect();
    let shown_code = user_codes::show(user_code);
    let csrf = browser.csrf(app);
    let service = if client.is_first_party() { "Sarsen" } else { &client.service_name };
    let view = ActivateConfirm {
        org_name: &client.organization_name,
        client_name: &client.name,
        service_name: service,
        user_email: &user.email,
        user_code: &shown_code,
        scopes: &lines,
        requester_address: &device.address,
        requested_ago: &ago(app.now().since(device.created_at).as_secs()),
        requester_agent: &device.agent,
        ask_password: client.is_first_party(),
        error,
        csrf: &csrf,
        hidden: &[("user_code", &shown_code), ("session", session.id.as_str())],
        action: "/activate",
        switch_href: &switch_address(
            &client.organization_slug,
            &address_of(app, browser, user_code, client.is_first_party()),
        ),
    };
    Ok(browser.page_with(app, status, view.markup()))
}

/// Who administers proves again who he is. `Some` when he did not.
async fn ask_password(
    app: &App,
    browser: &Browser,
    waiting: &Waiting,
    session: &Session,
    form: &Form,
) -> Result<Option<Response>, PageError> {
    let organization = active(app, &waiting.client.organization_slug).await?;
    let user = app.lookups.user(&session.user, app.now()).await?;
    let checked = check_password(app, &organization, &user.email, form.text("password"), browser).await?;
    let text = match checked {
        Checked::Right(_) => {
            let (id, now) = (session.id.clone(), app.now());
            app.store
                .write("session.authenticated", move |tx| {
                    identity::sessions::set_authenticated_at(tx, &id, now)
                })
                .await?;
            return Ok(None);
        }
        Checked::Wrong => "The password is wrong.",
        Checked::Full(wait) => {
            let text = "Many people are signing in at this moment. Please try again in a few seconds.";
            let status = StatusCode::TOO_MANY_REQUESTS;
            let mut response = confirm(app, browser, waiting, session, Some(text), status).await?;
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
            return Ok(Some(response));
        }
    };
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(Some(confirm(app, browser, waiting, session, Some(text), status).await?))
}

async fn decide(
    app: &App,
    waiting: &Waiting,
    session: &Session,
    decision: Decision,
    browser: &Browser,
) -> PageResult {
    let actor = app.actor(&session.user, browser.address);
    let (device, organization, session) =
        (waiting.device.id.clone(), waiting.client.organization.clone(), session.id.clone());
    let decided = app.store.write("device.decide", move |tx| {
        devices::decide(tx, &device, &organization, decision, &session, &actor)
    });
    if !decided.await? {
        return Ok(enter_with(app, browser, "", Some(WRONG), StatusCode::UNPROCESSABLE_ENTITY));
    }
    let (title, text, good) = match decision {
        Decision::Allow => {
            ("Your device is signed in", "You can close this page and go back to your device.", true)
        }
        Decision::Deny => (
            "Nothing was allowed",
            "The device gets no access. If you did not request this, you need not do anything else.",
            false,
        ),
    };
    let view = Done { brand: &waiting.client.organization_name, title, text, good };
    Ok(browser.page(app, view.markup()))
}

/// "2 minutes ago".
pub(crate) fn ago(seconds: u64) -> String {
    match seconds {
        0..5 => "just now".to_owned(),
        5..60 => format!("{seconds} seconds ago"),
        60..120 => "a minute ago".to_owned(),
        120..3600 => format!("{} minutes ago", seconds / 60),
        3600..7200 => "an hour ago".to_owned(),
        7200..172_800 => format!("{} hours ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
