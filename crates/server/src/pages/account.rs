//! `/o/{slug}/account`: who is signed in here and where; and signing out.

use super::activate::ago;
use super::agent;
use super::browser::{Asked, Browser, Form, safe_next};
use super::respond::{PageResult, see_other};
use super::sign_in::{self, Prompt, home};
use super::told::Told;
use super::views::{Account, SessionLine};
use crate::app::App;
use axum::extract::{Path, State};
use identity::organizations;
use identity::sessions::{self, Session};

pub(crate) async fn get(State(app): State<App>, Path(slug): Path<String>, browser: Browser) -> PageResult {
    let wanted = slug.clone();
    let organization = app.store.point(move |snapshot| organizations::find(snapshot, &wanted)).await?;
    let Some(session) = browser.session(&app, &slug).await? else {
        return Ok(see_other(&sign_in::address(&slug, &home(&slug)), Vec::new()));
    };
    let now = app.now();
    let user = app.directory.user(&session.user, now).await?;
    let id = session.user.clone();
    let all = app.store.read(move |snapshot| sessions::of_user(snapshot, &id, now)).await?;
    let told = all.iter().map(|one| (name(one), ago(now.since(one.authenticated_at).as_secs())));
    let told: Vec<(String, String)> = told.collect();
    let lines: Vec<SessionLine<'_>> = all
        .iter()
        .zip(&told)
        .map(|(one, (what, signed_in))| SessionLine {
            what,
            address: &one.address,
            signed_in,
            current: one.id == session.id,
        })
        .collect();
    let csrf = browser.csrf(&app);
    let view = Account {
        org_name: &organization.name,
        user_email: &user.email,
        name: &user.name,
        csrf: &csrf,
        signout_action: &format!("/o/{slug}/logout"),
        switch_href: &sign_in::address_with(&slug, Prompt::SelectAccount, &home(&slug)),
        sessions: &lines,
    };
    Ok(browser.page(&app, view.markup()))
}

/// What the session is among people: a browser, or the program that was signed in, by its name.
fn name(session: &Session) -> String {
    match session.kind.as_str() {
        "device" => session.agent.clone(),
        _ => agent::name(&session.agent),
    }
}

pub(crate) async fn sign_out(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let mut cookies = browser.sign_out(&app, &slug).await?;
    cookies.extend(Told::SignedOut.cookie(&app, &slug));
    let otherwise = sign_in::path(&slug);
    Ok(see_other(safe_next(form.get("next"), &otherwise), cookies))
}

/// "Not you?": asks before it signs out, because a link must not do anything by itself.
pub(crate) async fn ask_sign_out(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(asked): Asked,
) -> PageResult {
    let home = home(&slug);
    let next = safe_next(asked.get("next"), &home);
    let Some(session) = browser.session(&app, &slug).await? else { return Ok(see_other(next, Vec::new())) };
    let user = app.directory.user(&session.user, app.now()).await?;
    let wanted = slug.clone();
    let organization = app.store.point(move |snapshot| organizations::find(snapshot, &wanted)).await?;
    let csrf = browser.csrf(&app);
    let action = format!("/o/{slug}/logout");
    let view = super::views::SignOut {
        brand: &organization.name,
        user_email: &user.email,
        csrf: &csrf,
        hidden: &[("next", next)],
        action: &action,
    };
    Ok(browser.page(&app, view.markup()))
}
