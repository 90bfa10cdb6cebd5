//! `/password`: a one-time link with which a user sets a password.
//!
//! The secret of the link moves into a cookie ([`KeptLink`]). Opening the page does nothing; its form sets the password,
//! once. "Not now" changes nothing, and the link stays valid.

use super::addresses;
use super::browser::{Asked, Browser, Form};
use super::flash::Flash;
use super::form_errors;
use super::kept_link::{KeptLink, id_of};
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sign_in::{active, home};
use super::sign_up::{self, BUSY, Refused};
use super::views::{FormError, SetPassword};
use crate::app::App;
use crate::web::error::retry_after_value;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::{RETRY_AFTER, SET_COOKIE};
use identity::authentication::{Authentication, Method};
use identity::ids::UserId;
use identity::links::{self, Purpose};
use identity::organizations::{self, Organization};
use identity::users::{self, User};
use identity::{Error, password_changes, passwords};
use store::Snapshot;

const PATH: &str = "/password";

/// The error of a link that is not valid. It leads to the sign-in of the link's organization.
async fn void(app: &App, browser: &Browser, token: &str) -> PageError {
    let error = PageError::new(StatusCode::NOT_FOUND, section!("problem.void_link"));
    match organization_of(app, token.to_owned(), links::user_of_any).await {
        Ok(Some(slug)) => error.link(Link::SignIn(slug)),
        Ok(None) => browser.lead_on(app, error).await,
        Err(error) => error.into(),
    }
}

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    if let Some(token) = asked.get("token") {
        find(&app, &browser, token).await?;
        return Ok(see_other(PATH, KeptLink::Password.keep(&app, &browser, token)?));
    }
    let link = kept(&app, &browser).await?;
    Ok(show(&app, &browser, &link, None))
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    browser.check_csrf(&app, &form)?;
    if let Some(slug) = used_here(&app, &browser, &form).await? {
        return Ok(done(&app, see_other(&home(&slug), Vec::new())));
    }
    let link = kept(&app, &browser).await?;
    if form.text("link") != id_of(&link.token) {
        return Err(PageError::forged());
    }
    let slug = &link.organization.slug;
    if form.get("later").is_some() {
        let said = Flash::PasswordKept.cookie(&app, slug);
        return Ok(done(&app, see_other(&addresses::sign_in_form(slug), said.into_iter().collect())));
    }
    if let Err(error) = passwords::check_for(form.text("password"), &link.user, &link.organization) {
        return Ok(show(&app, &browser, &link, Some(&form_errors::of(&error))));
    }
    let hash =
        match sign_up::hash(&app, form.text("password"), browser.asker_for(&app, slug, &link.user)).await {
            Ok(hash) => hash,
            Err(Refused::Full(wait)) => {
                let mut response = show(&app, &browser, &link, Some(&FormError::of_form(BUSY)));
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
                return Ok(response);
            }
            Err(Refused::Error(error)) => return Err(error.into()),
        };
    let (token, actor) = (link.token.clone(), app.actor(&link.user.id, browser.address));
    let set = app
        .store
        .write("password.set", move |tx| password_changes::set_by_link(tx, &token, &hash, &actor.clone()));
    let user = match set.await {
        Ok(user) => user,
        Err(Error::NotFound { .. }) => match used_here(&app, &browser, &form).await? {
            Some(slug) => return Ok(done(&app, see_other(&home(&slug), Vec::new()))),
            None => return Err(void(&app, &browser, &link.token).await),
        },
        Err(error) => return Err(error.into()),
    };
    let mut response = browser
        .sign_in(&app, &user, Authentication::new(app.now(), &[Method::Link]), slug, &home(slug))
        .await?;
    if let Some(said) = Flash::PasswordSet.cookie(&app, slug) {
        response.headers_mut().append(SET_COOKIE, said);
    }
    Ok(done(&app, response))
}

/// The browser needs the secret no more.
fn done(app: &App, mut response: Response) -> Response {
    KeptLink::Password.forget(app, &mut response);
    response
}

/// A valid link.
struct PasswordLink {
    token: String,
    user: User,
    has_password: bool,
    organization: Organization,
}

/// The link in this browser.
async fn kept(app: &App, browser: &Browser) -> Result<PasswordLink, PageError> {
    let Some(token) = KeptLink::Password.read(app, browser) else {
        let error = PageError::new(StatusCode::NOT_FOUND, section!("problem.no_password_link"));
        return Err(browser.lead_on(app, error).await);
    };
    find(app, browser, &token).await
}

/// The organization of this browser's link, if the link was used and this is its form: a second click on the button, or
/// a form that was sent again. The user goes on to their account, or to the sign-in page if another browser has used
/// the link.
async fn used_here(app: &App, browser: &Browser, form: &Form) -> Result<Option<String>, PageError> {
    let Some(token) = KeptLink::Password.read(app, browser) else { return Ok(None) };
    if form.text("link") != id_of(&token) {
        return Ok(None);
    }
    Ok(organization_of(app, token, links::user_of_used).await?)
}

/// The organization of the user that `user_of` finds for a token.
async fn organization_of(
    app: &App,
    token: String,
    user_of: fn(&mut Snapshot<'_>, Purpose, &str) -> Result<Option<UserId>, Error>,
) -> Result<Option<String>, Error> {
    let found = app.store.point(move |snapshot| {
        let Some(id) = user_of(snapshot, Purpose::Password, &token)? else { return Ok(None) };
        let user = match users::get(snapshot, &id) {
            Err(Error::NotFound { .. }) => return Ok(None),
            user => user?,
        };
        Ok::<_, Error>(Some(organizations::get(snapshot, &user.organization)?.slug))
    });
    found.await
}

async fn find(app: &App, browser: &Browser, token: &str) -> Result<PasswordLink, PageError> {
    let (wanted, now) = (token.to_owned(), app.now());
    let found = app.store.point(move |snapshot| {
        let Some(Some(id)) = links::peek(snapshot, Purpose::Password, &wanted, now)? else {
            return Ok(None);
        };
        let user = users::get(snapshot, &id)?;
        let organization = organizations::get(snapshot, &user.organization)?;
        let has_password = passwords::get(snapshot, &id)?.is_some();
        Ok::<_, Error>(Some(PasswordLink { token: wanted, user, has_password, organization }))
    });
    let Some(link) = found.await? else { return Err(void(app, browser, token).await) };
    active(app, &link.organization.slug).await?;
    Ok(link)
}

fn show(app: &App, browser: &Browser, link: &PasswordLink, error: Option<&FormError>) -> Response {
    let csrf = browser.csrf(app);
    let view = SetPassword {
        brand: &link.organization.name,
        user_email: &link.user.email,
        has_password: link.has_password,
        may_wait: true,
        csrf: &csrf,
        hidden: &[("link", id_of(&link.token))],
        action: PATH,
        error,
    };
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    browser.page_with(app, status, view.markup(browser.language(app)))
}
