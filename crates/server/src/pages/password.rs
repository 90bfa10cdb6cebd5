//! `/password`: a one-time link with which a user sets a password.
//!
//! The link has its secret in the query. The server moves it into a cookie and redirects, so that the secret stays neither
//! in the address bar nor in the history. Opening the page does nothing; its form sets the password, once. "Not now"
//! changes nothing, and the link stays valid.

use super::browser::{Asked, Browser, Form, set_cookie};
use super::flash::Flash;
use super::respond::{PageError, PageResult, see_other};
use super::sign_in::{self, active, home};
use super::sign_up::{self, BUSY, Refused};
use super::views::SetPassword;
use crate::app::App;
use crate::web::error::retry_after_value;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::{RETRY_AFTER, SET_COOKIE};
use identity::links::{self, Purpose};
use identity::organizations::{self, Organization};
use identity::users::{self, User};
use identity::{Error, password_changes, passwords, secrets};

/// The cookie with the link's token; no slug begins with `_`.
const COOKIE: &str = "_password";
/// The time that a user has for the form.
const COOKIE_LIFE_S: u64 = 30 * 60;
const PATH: &str = "/password";

fn void() -> PageError {
    let what = "The link was already used, it is too old, or a password was set after it was made.";
    let advice = "Sign in with your password, or ask an administrator of your organization for a new link.";
    PageError::new(StatusCode::NOT_FOUND, "This link does not work", what, advice)
}

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    if let Some(token) = asked.get("token") {
        // What is no token could break the cookie.
        let is_token = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
        let token = if is_token { token } else { "" };
        return Ok(see_other(PATH, set_cookie(&app, COOKIE, token, COOKIE_LIFE_S).into_iter().collect()));
    }
    let link = PasswordLink::of(&app, &browser).await?;
    Ok(show(&app, &browser, &link, None))
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let link = PasswordLink::of(&app, &browser).await?;
    // Another link may have been opened in another tab since this form was shown.
    if form.text("link") != link.id() {
        return Err(PageError::forged());
    }
    let slug = &link.organization.slug;
    if form.get("later").is_some() {
        let cookies = [Flash::PasswordKept.cookie(&app, slug), set_cookie(&app, COOKIE, "", 0)];
        return Ok(see_other(&sign_in::path(slug), cookies.into_iter().flatten().collect()));
    }
    if let Err(error) = passwords::check_for(form.text("password"), &link.user, &link.organization) {
        return Ok(show(&app, &browser, &link, Some(&error.to_string())));
    }
    let hash =
        match sign_up::hash(&app, form.text("password"), browser.asker_for(&app, slug, &link.user)).await {
            Ok(hash) => hash,
            Err(Refused::Full(wait)) => {
                let mut response = show(&app, &browser, &link, Some(BUSY));
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
        Err(Error::NotFound { .. }) => return Err(void()),
        Err(error) => return Err(error.into()),
    };
    let mut response = browser.sign_in(&app, &user, slug, &home(slug)).await?;
    let cookies = [Flash::PasswordSet.cookie(&app, slug), set_cookie(&app, COOKIE, "", 0)];
    for cookie in cookies.into_iter().flatten() {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// A valid link.
struct PasswordLink {
    token: String,
    user: User,
    has_password: bool,
    organization: Organization,
}

impl PasswordLink {
    /// The link in the browser's cookie.
    async fn of(app: &App, browser: &Browser) -> Result<PasswordLink, PageError> {
        let token = browser.cookie(app, COOKIE).ok_or_else(void)?.to_owned();
        let (wanted, now) = (token.clone(), app.now());
        let found = app.store.point(move |snapshot| {
            let Some(Some(id)) = links::peek(snapshot, Purpose::Password, &wanted, now)? else {
                return Ok(None);
            };
            let user = users::get(snapshot, &id)?;
            let organization = organizations::get(snapshot, &user.organization)?;
            let has_password = passwords::get(snapshot, &id)?.is_some();
            Ok::<_, Error>(Some(PasswordLink { token: wanted, user, has_password, organization }))
        });
        let link = found.await?.ok_or_else(void)?;
        active(app, &link.organization.slug).await?;
        Ok(link)
    }

    /// The part of the token that is no secret.
    fn id(&self) -> &str {
        secrets::split_token(&self.token).map_or("", |(id, _)| id)
    }
}

fn show(app: &App, browser: &Browser, link: &PasswordLink, error: Option<&str>) -> Response {
    let csrf = browser.csrf(app);
    let view = SetPassword {
        brand: &link.organization.name,
        user_email: &link.user.email,
        has_password: link.has_password,
        csrf: &csrf,
        hidden: &[("link", link.id())],
        action: PATH,
        error,
    };
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    browser.page_with(app, status, view.markup())
}
