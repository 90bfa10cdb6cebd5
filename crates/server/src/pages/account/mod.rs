//! `/o/{slug}/account`: the user's sessions in this organization, and sign-out. `sessions.rs` ends other sessions,
//! `password.rs` changes the password, `consents.rs` withdraws consents.

pub(crate) mod consents;
pub(crate) mod password;
pub(crate) mod sessions;

use super::agent;
use super::browser::{Asked, Browser, Form, is_own_page, safe_next};
use super::flash::{Flash, clear};
use super::respond::{PageResult, see_other};
use super::scope;
use super::sign_in::{self, Prompt, home};
use super::time::ago;
use super::verify;
use super::views::{Account, ConsentLine, SessionLine, SignOut};
use crate::app::App;
use crate::pages::addresses;
use crate::web::path::Path;
use axum::extract::State;
use identity::consents::Consent;
use identity::sessions::{Session, of_user};
use identity::{Error, organizations};
use texts::Language;

pub(crate) async fn get(State(app): State<App>, Path(slug): Path<String>, browser: Browser) -> PageResult {
    let wanted = slug.clone();
    let organization = app.store.point(move |snapshot| organizations::find(snapshot, &wanted)).await?;
    let Some(session) = browser.session(&app, &slug).await? else {
        return Ok(see_other(&addresses::sign_in(&slug, &addresses::account(&slug)), Vec::new()));
    };
    let now = app.now();
    let user = app.lookups.user(&session.user, now).await?;
    let id = session.user.clone();
    let read = move |snapshot: &mut store::Snapshot<'_>| {
        Ok::<_, Error>((of_user(snapshot, &id, now)?, identity::consents::of_user(snapshot, &id)?))
    };
    let (mut all, given) = app.store.read(read).await?;
    // This browser's session comes first, because a long list is cut.
    all.retain(|one| one.id != session.id);
    all.insert(0, session);
    let language = browser.language(&app);
    let ago = |since| ago(language, now.since(since).as_secs());
    let words = all.iter().map(|one| (name(language, one), ago(one.created_at)));
    let words: Vec<(String, String)> = words.collect();
    let lines: Vec<SessionLine<'_>> = all
        .iter()
        .zip(&words)
        .enumerate()
        .map(|(index, (one, (what, signed_in)))| SessionLine {
            id: one.id.as_str(),
            what,
            address: &one.address,
            signed_in,
            current: index == 0,
        })
        .collect();
    let allowed: Vec<(String, String)> =
        given.iter().map(|one| (allowed(language, one), ago(one.granted_at))).collect();
    let consents: Vec<ConsentLine<'_>> = given
        .iter()
        .zip(&allowed)
        .map(|(one, (what, since))| ConsentLine {
            client: one.client.as_str(),
            name: &one.client_name,
            what,
            since,
        })
        .collect();
    let (csrf, flash) = (browser.csrf(&app), browser.flash(&app, &slug));
    let confirm_action = verify::form_address(&app, &slug, &user);
    let view = Account {
        org_name: &organization.name,
        user_email: &user.email,
        confirm_action: confirm_action.as_deref(),
        name: &user.profile.name,
        csrf: &csrf,
        flash: flash.map(Flash::text),
        signout_action: &addresses::sign_out(&slug, None),
        end_action: &format!("{}/sessions", addresses::account(&slug)),
        password_href: &password::address(&slug),
        switch_href: &sign_in::address_with(&slug, Prompt::SelectAccount, &home(&slug)),
        sessions: &lines,
        withdraw_action: &consents::form_address(&slug),
        consents: &consents,
    };
    let mut response = browser.page(&app, view.markup(language));
    if flash.is_some() {
        clear(&app, &mut response);
    }
    Ok(response)
}

/// What a user has allowed, in words.
fn allowed(language: &Language, consent: &Consent) -> String {
    let what: Vec<String> = consent.scope.iter().map(|scope| scope::describe(language, scope)).collect();
    what.join(" · ")
}

/// The name of a session for people: the browser, or the program that was signed in.
fn name(language: &Language, session: &Session) -> String {
    match session.kind.as_str() {
        "device" => session.agent.clone(),
        _ => agent::name(language, &session.agent),
    }
}

pub(crate) async fn sign_out(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    let next = form.get("next").filter(|next| is_own_page(next));
    let left = match browser.check_csrf(&app, &form) {
        Ok(()) => leave(&app, &slug, &browser, next.unwrap_or(&addresses::sign_in_form(&slug))).await,
        Err(error) => Err(error),
    };
    left.map_err(|error| error.of_form_at(addresses::sign_out(&slug, next)))
}

/// Ends the browser's own session and redirects to one of our pages.
async fn leave(app: &App, slug: &str, browser: &Browser, next: &str) -> PageResult {
    let mut cookies = browser.sign_out(app, slug).await?;
    cookies.extend(Flash::SignedOut.cookie(app, slug));
    Ok(see_other(next, cookies))
}

/// "Not you?": asks before it signs out, because opening a link changes nothing.
pub(crate) async fn ask_sign_out(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(asked): Asked,
) -> PageResult {
    let home = home(&slug);
    let next = safe_next(asked.get("next"), &home);
    let Some(session) = browser.session(&app, &slug).await? else { return Ok(see_other(next, Vec::new())) };
    let user = app.lookups.user(&session.user, app.now()).await?;
    let wanted = slug.clone();
    let organization = app.store.point(move |snapshot| organizations::find(snapshot, &wanted)).await?;
    let csrf = browser.csrf(&app);
    let action = addresses::sign_out(&slug, None);
    let view = SignOut {
        brand: &organization.name,
        user_emails: &[&user.email],
        fault: None,
        csrf: &csrf,
        hidden: &[("next", next)],
        action: &action,
        // While the user is signed in, a sign-in page at `next` redirects at once.
        stay_href: next,
    };
    Ok(browser.page(&app, view.markup(browser.language(&app))))
}
