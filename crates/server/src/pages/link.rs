//! `/o/{slug}/link`: a one-time link that was mailed, or that an administrator made for a user to sign in. The secret of the link
//! moves into a cookie ([`KeptLink`]). Opening it does nothing. A mailed link leads to the page whose form uses it. The form
//! here signs in, once; the command that uses the link creates the session, so a link is not lost without one.

use super::browser::{Asked, Browser, Form};
use super::confirm;
use super::kept_link::{KeptLink, id_of};
use super::reset;
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sign_in::{active, home};
use super::views::OneTimeLink;
use crate::app::App;
use crate::web::path::Path;
use axum::extract::State;
use http::StatusCode;
use identity::authentication::{Authentication, Method};
use identity::links::{self, Purpose};
use identity::organizations::Organization;
use identity::password_changes::{self, LinkUse};
use identity::users::{self, User};
use identity::{Error, secrets};

fn void(slug: &str) -> PageError {
    PageError::new(StatusCode::NOT_FOUND, section!("problem.void_link")).link(Link::SignIn(slug.to_owned()))
}

/// The user of a valid link, if they belong to this organization.
async fn user_of(app: &App, organization: &Organization, token: &str) -> Result<User, PageError> {
    let (wanted, now) = (token.to_owned(), app.now());
    let found =
        app.store.point(move |snapshot| match links::peek(snapshot, Purpose::SignIn, &wanted, now)? {
            Some(Some(id)) => users::get(snapshot, &id).map(Some),
            _ => Ok::<_, Error>(None),
        });
    found.await?.filter(|user| user.organization == organization.id).ok_or_else(|| void(&organization.slug))
}

/// The user of a link that is valid or was used, if they belong to this organization.
async fn user_of_any(app: &App, organization: &Organization, token: &str) -> Result<User, PageError> {
    let wanted = token.to_owned();
    let found = app.store.point(move |snapshot| {
        let Some(id) = links::user_of_used(snapshot, Purpose::SignIn, &wanted)? else { return Ok(None) };
        match users::get(snapshot, &id) {
            Err(Error::NotFound { .. }) => Ok(None),
            user => user.map(Some),
        }
    });
    match found.await? {
        Some(user) if user.organization == organization.id => Ok(user),
        _ => user_of(app, organization, token).await,
    }
}

/// The secret of the link in this browser.
fn kept(app: &App, browser: &Browser, slug: &str) -> Result<String, PageError> {
    KeptLink::SignIn.read(app, browser).ok_or_else(|| {
        PageError::new(StatusCode::NOT_FOUND, section!("problem.no_link")).link(Link::SignIn(slug.to_owned()))
    })
}

/// The page's own address, without a secret.
fn path(slug: &str) -> String {
    format!("/o/{slug}/link")
}

pub(crate) async fn get(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(asked): Asked,
) -> PageResult {
    let organization = active(&app, &slug).await?;
    if let Some(token) = asked.get("token") {
        let wanted = token.to_owned();
        let purpose = app.store.point(move |snapshot| links::purpose_of(snapshot, &wanted)).await?;
        match purpose {
            Some(Purpose::Reset) => return reset::open(&app, &browser, &organization, token).await,
            Some(Purpose::Verify) => return confirm::open(&app, &browser, &organization, token).await,
            _ => {}
        }
        user_of(&app, &organization, token).await?;
        return Ok(see_other(&path(&slug), KeptLink::SignIn.keep(&app, &browser, token)?));
    }
    let token = kept(&app, &browser, &slug)?;
    let user = user_of(&app, &organization, &token).await?;
    let csrf = browser.csrf(&app);
    let view = OneTimeLink {
        org_name: &organization.name,
        user_email: &user.email,
        csrf: &csrf,
        hidden: &[("link", id_of(&token))],
        action: &path(&slug),
    };
    Ok(browser.page(&app, view.markup(browser.language(&app))))
}

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let organization = active(&app, &slug).await?;
    let token = kept(&app, &browser, &slug)?;
    if form.text("link") != id_of(&token) {
        return Err(PageError::forged());
    }
    // A link that was used is good for the browser that has just used it.
    let user = user_of_any(&app, &organization, &token).await?;
    let (new, secret) = browser.new_session(&app, &user, Authentication::new(app.now(), &[Method::Link]));
    let by = LinkUse {
        token,
        browser: secrets::hash(browser.id().as_bytes()),
        session: new,
        cookie: browser.cookie(&app, &slug).map(str::to_owned),
        organization: slug.clone(),
    };
    let actor = app.actor(&user.id, browser.address);
    let used =
        app.store.write("link.use", move |tx| password_changes::sign_in_by_link(tx, &by, &actor.clone()));
    let (user, session) = match used.await {
        Err(Error::NotFound { .. }) => return Err(void(&slug)),
        used => used?,
    };
    let mut response = browser.signed_in(&app, &user, &slug, [session.as_str(), &secret], &home(&slug));
    KeptLink::SignIn.forget(&app, &mut response);
    Ok(response)
}
