//! `/o/{slug}/login` and `/login`: sign-in. A signed-in user is redirected at once, unless the URL asks for a new sign-in
//! (`prompt`). What proves who signs in is checked in `authentication/`.

use super::addresses::{self, encoded};
use super::browser::{Asked, Browser, Form, safe_next};
use super::contact::Contact;
use super::flash::clear;
use super::respond::{PageError, PageResult, section, see_other};
use super::sentence::Sentence;
use super::sign_up;
use super::views::{Note, SignIn};
use crate::app::App;
use crate::authentication::{self, Attempt};
use crate::web::error::retry_after_value;
use crate::web::path::Path;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::organizations::{self, Organization, PLATFORM, Status};
use identity::{administrators, names};
use std::time::Duration;

pub(crate) async fn get(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(asked): Asked,
) -> PageResult {
    let organization = active(&app, &slug).await?;
    let (next, prompt) = (asked.get("next"), asked.get("prompt").and_then(Prompt::read));
    let hint = next.and_then(login_hint).unwrap_or_default();
    match (browser.session(&app, &slug).await?, prompt) {
        (Some(_), None) => Ok(see_other(safe_next(next, &home(&slug)), Vec::new())),
        (Some(session), Some(prompt)) => {
            let user = app.lookups.user(&session.user, app.now()).await?;
            let (email, note) = match prompt {
                Prompt::Login => (&*user.email, Note::Again(&user.email)),
                Prompt::SelectAccount => (&*hint, Note::Other(&user.email)),
            };
            let shown = Shown { next, email, note: Some(note), failure: None };
            Ok(show(&app, &browser, &organization, &shown).await)
        }
        (None, _) => {
            let flash = browser.flash(&app, &slug).filter(|flash| flash.is_for_sign_in());
            let note = flash.map(|flash| Note::Flash(flash.text()));
            let email = asked.get("email").unwrap_or(&hint);
            let shown = Shown { next, email, note, ..Shown::default() };
            let mut response = show(&app, &browser, &organization, &shown).await;
            if flash.is_some() {
                clear(&app, &mut response);
            }
            Ok(response)
        }
    }
}

pub(crate) async fn get_platform(State(app): State<App>, browser: Browser, asked: Asked) -> PageResult {
    get(State(app), Path(PLATFORM.to_owned()), browser, asked).await
}

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    let home = home(&slug);
    let form_at = addresses::sign_in(&slug, safe_next(form.get("next"), &home));
    answer(&app, &slug, &browser, &form).await.map_err(|error| error.of_form_at(form_at))
}

async fn answer(app: &App, slug: &str, browser: &Browser, form: &Form) -> PageResult {
    browser.check_csrf(app, form)?;
    let organization = active(app, slug).await?;
    let (next, email) = (form.get("next"), form.text("email"));
    let failure = match authentication::by_form(app, &organization, email, form, browser).await? {
        Attempt::Proved(user, how) => {
            return browser.sign_in(app, &user, how, slug, safe_next(next, &home(slug))).await;
        }
        Attempt::Wrong => Failure::Wrong,
        Attempt::Full(wait) => Failure::Full(wait),
        Attempt::Throttled(wait) => Failure::Throttled(wait),
    };
    let shown = Shown { next, email, failure: Some(failure), ..Shown::default() };
    Ok(show(app, browser, &organization, &shown).await)
}

pub(crate) async fn post_platform(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    post(State(app), Path(PLATFORM.to_owned()), browser, form).await
}

/// The page after a sign-in that no product asked for.
pub(crate) fn home(slug: &str) -> String {
    if slug == PLATFORM { "/console".to_owned() } else { format!("/o/{slug}/account") }
}

/// Why a signed-in user sees the form: the values of `prompt` in OpenID Connect.
#[derive(Clone, Copy)]
pub(crate) enum Prompt {
    /// The same user must authenticate again.
    Login,
    /// Another user may sign in.
    SelectAccount,
}

impl Prompt {
    fn word(self) -> &'static str {
        match self {
            Prompt::Login => "login",
            Prompt::SelectAccount => "select_account",
        }
    }

    fn read(word: &str) -> Option<Prompt> {
        [Prompt::Login, Prompt::SelectAccount].into_iter().find(|prompt| prompt.word() == word)
    }
}

/// The sign-in page with the e-mail address filled in. It redirects to `next` after a sign-in.
pub(crate) fn address_for(slug: &str, email: &str, next: &str) -> String {
    format!("{}?email={}&next={}", addresses::sign_in_form(slug), encoded(email), encoded(next))
}

/// The sign-in page that also asks a signed-in user, and then redirects to `next`.
pub(crate) fn address_with(slug: &str, prompt: Prompt, next: &str) -> String {
    format!("{}?prompt={}&next={}", addresses::sign_in_form(slug), prompt.word(), encoded(next))
}

/// The organization with this slug, if sign-in is open there.
pub(crate) async fn active(app: &App, slug: &str) -> Result<Organization, PageError> {
    let wanted = slug.to_owned();
    let organization = app.store.point(move |snapshot| organizations::find(snapshot, &wanted)).await?;
    match organization.status {
        Status::Active => Ok(organization),
        Status::Suspended => Err(not_active(
            Sentence::new("problem.not_active.suspended").value("organization", organization.name),
        )),
        // The name of one that was not approved is not shown.
        Status::Pending => Err(not_active(Sentence::new("problem.not_active.pending"))),
        Status::Rejected => Err(not_active(Sentence::new("problem.not_active.rejected"))),
        Status::Deleted => Err(not_active(Sentence::new("problem.not_active.deleted"))),
    }
}

fn not_active(what: Sentence) -> PageError {
    PageError::new(StatusCode::FORBIDDEN, section!("problem.not_active")).what(what)
}

enum Failure {
    Wrong,
    Full(Duration),
    Throttled(Duration),
}

/// Why a form refuses a password without checking it.
pub(crate) fn throttled(wait: Duration) -> Sentence {
    Sentence::new("form.throttled").wait(wait)
}

/// The form's values besides its organization.
#[derive(Default)]
struct Shown<'a> {
    next: Option<&'a str>,
    email: &'a str,
    note: Option<Note<'a>>,
    failure: Option<Failure>,
}

/// The name of the product that the user goes on to, if `next` is the authorization request of one of the organization's
/// clients. A name that cannot be read is left out: the page works without it.
pub(crate) async fn product(app: &App, organization: &Organization, next: &str) -> Option<String> {
    let query = next.strip_prefix("/auth/authorize?")?;
    let (_, id) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "client_id")?;
    let client = app.lookups.client(&id, app.now()).await.ok()?;
    (client.organization == organization.id).then(|| client.product().to_owned())
}

/// The e-mail address that the client knows of the user (`login_hint`), if `next` is an authorization request. Other hints
/// would fill the field with something that nobody can sign in with.
pub(super) fn login_hint(next: &str) -> Option<String> {
    let query = next.strip_prefix("/auth/authorize?")?;
    let (_, hint) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "login_hint")?;
    let hint = hint.trim();
    names::email(hint).is_ok().then(|| hint.to_owned())
}

/// Whether this is the sign-in of a server that nobody owns. Without an answer the page says nothing of it.
async fn has_no_owner(app: &App, organization: &Organization) -> bool {
    organization.slug == PLATFORM
        && app.store.point(administrators::has_platform_owner).await.is_ok_and(|has_owner| !has_owner)
}

async fn show(app: &App, browser: &Browser, organization: &Organization, shown: &Shown<'_>) -> Response {
    let (status, error, wait) = match shown.failure {
        None => (StatusCode::OK, None, None),
        Some(Failure::Wrong) => {
            (StatusCode::UNPROCESSABLE_ENTITY, Some(Sentence::new("form.wrong_sign_in")), None)
        }
        Some(Failure::Full(wait)) => {
            let busy = Sentence::new("form.busy_for").wait(wait);
            (StatusCode::TOO_MANY_REQUESTS, Some(busy), Some(wait))
        }
        Some(Failure::Throttled(wait)) => (StatusCode::TOO_MANY_REQUESTS, Some(throttled(wait)), Some(wait)),
    };
    let csrf = browser.csrf(app);
    let home = home(&organization.slug);
    let next = safe_next(shown.next, &home);
    let action = addresses::sign_in_form(&organization.slug);
    let sign_up = sign_up::address(&organization.slug, next);
    let forgotten = addresses::forgot(&organization.slug, next);
    let product = product(app, organization, next).await;
    let contact = Contact::of(app, organization).await;
    let view = SignIn {
        org_name: &organization.name,
        client_name: product.as_deref(),
        email: shown.email,
        error: error.as_ref(),
        note: if has_no_owner(app, organization).await { Some(Note::NoOwner) } else { shown.note },
        csrf: &csrf,
        hidden: &[("next", next)],
        action: &action,
        signup_href: organization.allows_sign_up(app.settings.sign_up).then_some(&sign_up),
        forgotten_href: app.relay().is_some().then_some(&forgotten),
        contact: contact.as_ref().map(Contact::view),
        is_platform: organization.slug == PLATFORM,
        is_busy: wait.is_some(),
    };
    let mut response = browser.page_with(app, status, view.markup(browser.language(app)));
    if let Some(wait) = wait {
        response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
    }
    response
}
