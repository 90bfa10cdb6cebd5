//! `/activate`: a user enters the code that a device shows, sees which client asks for what, and decides.
//!
//! A code is looked up, and counted if it is wrong, only when a form of ours enters it. A link with a code shows the
//! code and nothing else; nothing is approved by opening a link (RFC 8628 sections 3.3.1, 5.4). The address of the page
//! on which the user decides has a tag that only this browser can get, by entering the code.

use super::addresses::{self, encoded};
use super::browser::{Asked, Browser, Form};
use super::form_errors;
use super::respond::{PageError, PageResult, see_other};
use super::scope;
use super::sentence::Sentence;
use super::sign_in::{active, throttled};
use super::sign_up::BUSY;
use super::time::ago;
use super::views::{ActivateConfirm, ActivateEnter, ActivateLink, ActivateSignIn, Done, SARSEN, ScopeLine};
use crate::app::App;
use crate::authentication::{self, Attempt};
use crate::limits::user_code_attempts::{Guesser, Refusal, Who};
use crate::web::error::retry_after_value;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::clients::Client;
use identity::devices::{self, Decided, Decision, Device};
use identity::sessions::Session;
use identity::{Error, names, user_codes};
use std::sync::Arc;
use std::time::Duration;

/// Wrong, expired and used codes look the same.
const WRONG: &str = "form.wrong_code";

/// An administrator types the code, because a link to it may come from another person's terminal.
const TYPE_IT: &str = "form.code_typed";

/// How a code was entered in this browser.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// The user typed it.
    Typed,
    /// The user opened a link with it and went on.
    Link,
}

impl Entry {
    const ALL: [Entry; 2] = [Entry::Typed, Entry::Link];

    /// The name of the parameter with the tag.
    fn name(self) -> &'static str {
        match self {
            Entry::Typed => "typed",
            Entry::Link => "link",
        }
    }
}

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    let Some(sent) = asked.get("user_code") else { return Ok(enter(&app, &browser, "", None)) };
    let Some(user_code) = user_codes::read(sent) else { return Ok(enter(&app, &browser, sent, None)) };
    let tagged = |entry: &Entry| {
        let parts = tag_parts(*entry, &browser, &user_code);
        asked.get(entry.name()).is_some_and(|tag| app.secret_key.derives(&parts, tag))
    };
    let Some(entry) = Entry::ALL.into_iter().find(tagged) else {
        return Ok(compare(&app, &browser, &user_code));
    };
    // The code was right when it was entered, so this is no attempt.
    let waiting = match look_up(&app, user_code.clone()).await? {
        Some(waiting) if waiting.client.may_use_device_flow() => waiting,
        Some(_) => return Ok(wrong(&app, &browser, sent)),
        // The user may have gone back after the decision.
        None => match own_decision(&app, &browser, &user_code).await? {
            Some(made) => return decided(&app, &browser, &made, made.decision).await,
            None => return Ok(wrong(&app, &browser, sent)),
        },
    };
    let slug = &waiting.client.organization_slug;
    let Some(session) = browser.session(&app, slug).await? else {
        let own_address = address_of(&app, &browser, &waiting.user_code, entry);
        return Ok(see_other(&addresses::sign_in(slug, &own_address), Vec::new()));
    };
    confirm(&app, &browser, &waiting, &session, None, StatusCode::OK).await
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    let form_at = question(&form);
    answer(&app, &browser, &form).await.map_err(|error| error.of_form_at(form_at))
}

/// Where a form can be opened again. A code counts as one of a link there: the form does not prove that the user has
/// typed it.
fn question(form: &Form) -> String {
    let code = user_codes::read(form.text("user_code"));
    let code = code.filter(|_| form.get("decision").is_some() || form.get(Entry::Link.name()).is_some());
    code.map_or("/activate".to_owned(), |code| {
        format!("/activate?user_code={}", encoded(&user_codes::show(&code)))
    })
}

async fn answer(app: &App, browser: &Browser, form: &Form) -> PageResult {
    browser.check_csrf(app, form)?;
    if let Some(organization) = form.get("organization") {
        return Ok(go_to_sign_in(app, browser, organization));
    }
    let typed = form.text("user_code");
    let neither = || PageError::bad("problem.request.no_decision");
    let decision = form.get("decision").map(|word| Decision::parse(word).ok_or_else(neither)).transpose()?;
    // A second click, or a form that was sent again, has the session that decided.
    let decides_in = decision.map(|_| form.text("session"));
    let waiting = match attempt(app, browser, typed, decides_in).await? {
        Found::Waiting(waiting) => waiting,
        Found::Decided(made) => {
            return decided(app, browser, &made, decision.unwrap_or(made.decision)).await;
        }
        Found::Refused(response) => return Ok(response),
    };
    let Some(decision) = decision else {
        let entry = if form.get(Entry::Link.name()).is_some() { Entry::Link } else { Entry::Typed };
        if entry == Entry::Link && waiting.client.is_first_party() {
            return Ok(enter(app, browser, "", Some(&Sentence::new(TYPE_IT))));
        }
        return Ok(see_other(&address_of(app, browser, &waiting.user_code, entry), Vec::new()));
    };
    let slug = waiting.client.organization_slug.clone();
    let Some(session) = browser.session(app, &slug).await? else { return Err(PageError::forged()) };
    // Another user may have signed in since the page was shown: ask that user.
    if form.text("session") != session.id.as_str() {
        return confirm(app, browser, &waiting, &session, None, StatusCode::OK).await;
    }
    if decision == Decision::Allow
        && waiting.client.is_first_party()
        && let Some(refused) = ask_for_authentication(app, browser, &waiting, &session, form).await?
    {
        return Ok(refused);
    }
    decide(app, &waiting, &session, decision, browser).await
}

/// The address of the page for a code that was entered in this browser.
fn address_of(app: &App, browser: &Browser, user_code: &str, entry: Entry) -> String {
    let tag = app.secret_key.derive(&tag_parts(entry, browser, user_code));
    format!("/activate?user_code={}&{}={tag}", encoded(&user_codes::show(user_code)), entry.name())
}

fn tag_parts<'a>(entry: Entry, browser: &'a Browser, user_code: &'a str) -> [&'a str; 3] {
    [entry.name(), browser.id(), user_code]
}

/// A pending device authorization and its client.
struct Waiting {
    user_code: String,
    device: Device,
    client: Arc<Client>,
}

/// What a code of a form leads to.
enum Found {
    Waiting(Waiting),
    /// The same session has decided already.
    Decided(Decided),
    Refused(Response),
}

/// Looks up a code that a form has entered, and counts it if it is wrong. `decides_in` is the session of a form that
/// decides.
async fn attempt(
    app: &App,
    browser: &Browser,
    typed: &str,
    decides_in: Option<&str>,
) -> Result<Found, PageError> {
    let who = match browser.any_session(app).await? {
        Some((_, session)) => Who::User(session.user),
        None => Who::Browser(browser.id().to_owned()),
    };
    let guesser = Guesser { who, address: browser.address };
    let attempt = match app.user_code_attempts.begin(&guesser, app.now()) {
        Ok(attempt) => attempt,
        Err(Refusal::Wait(wait)) => {
            let error = Sentence::new("form.too_many_codes").wait(wait);
            let page = enter_with(app, browser, "", Some(&error), StatusCode::TOO_MANY_REQUESTS);
            return Ok(Found::Refused(with_wait(page, wait)));
        }
        Err(Refusal::SignIn(wait)) => {
            let page = ask_for_sign_in(app, browser, None, StatusCode::TOO_MANY_REQUESTS);
            return Ok(Found::Refused(with_wait(page, wait)));
        }
    };
    // Text that cannot be a code is looked up too, so that the time reveals nothing.
    let user_code = user_codes::read(typed).unwrap_or_default();
    let found = async {
        if let Some(waiting) = look_up(app, user_code.clone()).await? {
            return Ok(Some(match waiting.client.may_use_device_flow() {
                true => Found::Waiting(waiting),
                // The code was good, so it is no guess.
                false => Found::Refused(wrong(app, browser, typed)),
            }));
        }
        let Some(session) = decides_in else { return Ok(None) };
        let made = own_decision(app, browser, &user_code).await?;
        Ok(made.filter(|made| made.session.as_str() == session).map(Found::Decided))
    };
    let found: Result<Option<Found>, PageError> = found.await;
    attempt.end(matches!(found, Ok(None)));
    Ok(found?.unwrap_or_else(|| Found::Refused(wrong(app, browser, typed))))
}

async fn look_up(app: &App, user_code: String) -> Result<Option<Waiting>, PageError> {
    let now = app.now();
    let ids = app.user_codes.ids_of(&user_code, now)?;
    match app.store.point(move |snapshot| devices::find_pending(snapshot, &ids, now)).await {
        Ok(device) => {
            let client = app.lookups.client(device.client.as_str(), now).await?;
            Ok(Some(Waiting { user_code, device, client }))
        }
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The decision about a code that a session of this browser has made.
async fn own_decision(app: &App, browser: &Browser, user_code: &str) -> Result<Option<Decided>, PageError> {
    let ids = app.user_codes.ids_of(user_code, app.now())?;
    let made = app.store.point(move |snapshot| devices::decided(snapshot, &ids)).await?;
    for one in made {
        if browser.session_with_id(app, one.session.as_str()).await?.is_some() {
            return Ok(Some(one));
        }
    }
    Ok(None)
}

fn with_wait(mut response: Response, wait: Duration) -> Response {
    response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
    response
}

/// Shows the code of a link, which may exist or not.
fn compare(app: &App, browser: &Browser, user_code: &str) -> Response {
    let (csrf, shown) = (browser.csrf(app), user_codes::show(user_code));
    let hidden = [(Entry::Link.name(), "1")];
    let view =
        ActivateLink { brand: SARSEN, user_code: &shown, csrf: &csrf, hidden: &hidden, action: "/activate" };
    browser.page(app, view.markup(browser.language(app)))
}

/// Redirects to the sign-in page of the organization that the user named.
fn go_to_sign_in(app: &App, browser: &Browser, organization: &str) -> Response {
    match names::slug("organization", organization.trim()) {
        Ok(slug) => see_other(&addresses::sign_in(&slug, "/activate"), Vec::new()),
        Err(error) => {
            let error = form_errors::of(&error);
            ask_for_sign_in(app, browser, Some(&error.sentence), StatusCode::UNPROCESSABLE_ENTITY)
        }
    }
}

fn ask_for_sign_in(app: &App, browser: &Browser, error: Option<&Sentence>, status: StatusCode) -> Response {
    let csrf = browser.csrf(app);
    let view = ActivateSignIn { brand: SARSEN, error, csrf: &csrf, action: "/activate" };
    browser.page_with(app, status, view.markup(browser.language(app)))
}

fn wrong(app: &App, browser: &Browser, typed: &str) -> Response {
    enter_with(app, browser, typed, Some(&Sentence::new(WRONG)), StatusCode::UNPROCESSABLE_ENTITY)
}

fn enter(app: &App, browser: &Browser, typed: &str, error: Option<&Sentence>) -> Response {
    enter_with(app, browser, typed, error, StatusCode::OK)
}

fn enter_with(
    app: &App,
    browser: &Browser,
    typed: &str,
    error: Option<&Sentence>,
    status: StatusCode,
) -> Response {
    let csrf = browser.csrf(app);
    let view = ActivateEnter { brand: SARSEN, user_code: typed, error, csrf: &csrf, action: "/activate" };
    browser.page_with(app, status, view.markup(browser.language(app)))
}

async fn confirm(
    app: &App,
    browser: &Browser,
    waiting: &Waiting,
    session: &Session,
    error: Option<&Sentence>,
    status: StatusCode,
) -> PageResult {
    let Waiting { user_code, device, client } = waiting;
    let user = app.lookups.user(&session.user, app.now()).await?;
    let language = browser.language(app);
    let said: Vec<(String, String)> =
        device.scope.iter().map(|scope| (scope.to_owned(), scope::describe(language, scope))).collect();
    let lines: Vec<ScopeLine<'_>> = said.iter().map(|(name, says)| ScopeLine { name, says }).collect();
    let shown_code = user_codes::show(user_code);
    let csrf = browser.csrf(app);
    let entry = if client.is_first_party() { Entry::Typed } else { Entry::Link };
    let service = if client.is_first_party() { "Sarsen" } else { &client.service_name };
    let view = ActivateConfirm {
        org_name: &client.organization_name,
        client_name: &client.name,
        service_name: service,
        user_email: &user.email,
        user_code: &shown_code,
        scopes: &lines,
        requester_address: &device.address,
        requested_ago: &ago(language, app.now().since(device.created_at).as_secs()),
        requester_agent: &device.agent,
        ask_password: client.is_first_party(),
        error,
        csrf: &csrf,
        hidden: &[("user_code", &shown_code), ("session", session.id.as_str())],
        action: "/activate",
        switch_href: &addresses::switch(
            &client.organization_slug,
            &address_of(app, browser, user_code, entry),
        ),
    };
    Ok(browser.page_with(app, status, view.markup(browser.language(app))))
}

/// Asks an administrator to authenticate again, at this moment. `Some` if they did not.
async fn ask_for_authentication(
    app: &App,
    browser: &Browser,
    waiting: &Waiting,
    session: &Session,
    form: &Form,
) -> Result<Option<Response>, PageError> {
    let organization = active(app, &waiting.client.organization_slug).await?;
    let (error, wait) = match authentication::again(app, &organization, session, form, browser).await? {
        Attempt::Proved(..) => return Ok(None),
        Attempt::Wrong => (Sentence::new("form.wrong_password"), None),
        Attempt::Full(wait) => (Sentence::new(BUSY), Some(wait)),
        Attempt::Throttled(wait) => (throttled(wait), Some(wait)),
    };
    let Some(wait) = wait else {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Ok(Some(confirm(app, browser, waiting, session, Some(&error), status).await?));
    };
    let status = StatusCode::TOO_MANY_REQUESTS;
    let page = confirm(app, browser, waiting, session, Some(&error), status).await?;
    Ok(Some(with_wait(page, wait)))
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
    let stored = app.store.write("device.decide", move |tx| {
        devices::decide(tx, &device, &organization, decision, &session, &actor)
    });
    if stored.await? {
        return Ok(done(app, browser, &waiting.client, decision, decision));
    }
    // Of two clicks at the same time, the other one was first.
    match own_decision(app, browser, &waiting.user_code).await? {
        Some(made) => Ok(done(app, browser, &waiting.client, made.decision, decision)),
        None => Ok(wrong(app, browser, "")),
    }
}

/// Shows a decision that was made before. `wanted` is what the form says this time.
async fn decided(app: &App, browser: &Browser, made: &Decided, wanted: Decision) -> PageResult {
    let client = app.lookups.client(made.client.as_str(), app.now()).await?;
    Ok(done(app, browser, &client, made.decision, wanted))
}

fn done(app: &App, browser: &Browser, client: &Client, made: Decision, wanted: Decision) -> Response {
    let title = match made {
        Decision::Allow => "activate_confirm.allowed_title",
        Decision::Deny => "activate_confirm.denied_title",
    };
    let text = match (made, wanted) {
        (Decision::Allow, Decision::Allow) => "activate_confirm.allowed",
        (Decision::Allow, Decision::Deny) => "activate_confirm.allowed_before",
        (Decision::Deny, Decision::Deny) => "activate_confirm.denied",
        (Decision::Deny, Decision::Allow) => "activate_confirm.denied_before",
    };
    let view = Done { brand: &client.organization_name, title, text, good: made == Decision::Allow };
    browser.page(app, view.markup(browser.language(app)))
}
