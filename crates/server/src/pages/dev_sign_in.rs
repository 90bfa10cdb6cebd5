//! `/dev/sign-in`: a link that signs a test user in at once, as often as it is opened. Only the server of `sarsen dev` has
//! it, which listens on its own machine: every other server answers 404. Tests of a product need no form for it.
//!
//! Its token is derived from the server's secret key and the user, so nobody who lacks the printed link can make one.

use super::browser::{Asked, Browser, safe_next};
use super::respond::{PageError, PageResult};
use super::sign_in::{active, home};
use crate::app::App;
use axum::extract::State;
use http::header::SET_COOKIE;
use identity::authentication::{Authentication, Method};
use identity::ids::UserId;
use identity::{Error, organizations, users};

const PATH: &str = "/dev/sign-in";

/// What the token is derived from, beside the user.
const PURPOSE: &str = "dev sign-in";

/// The link for the user with this id.
pub(crate) fn url(app: &App, user: &str) -> String {
    let token = app.secret_key.derive(&[PURPOSE, user]);
    app.url(&format!("{PATH}?user={user}&token={token}"))
}

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    let user = asked.get("user").unwrap_or_default();
    let token = asked.get("token").unwrap_or_default();
    if !app.settings.dev_sign_in || !app.secret_key.derives(&[PURPOSE, user], token) {
        return Err(PageError::not_found(PATH));
    }
    let id = UserId::parse(user)?;
    let found = app.store.point(move |snapshot| {
        let user = users::get(snapshot, &id)?;
        let organization = organizations::get(snapshot, &user.organization)?;
        Ok::<_, Error>((user, organization.slug))
    });
    let (user, slug) = found.await?;
    active(&app, &slug).await?;
    let next = safe_next(asked.get("next"), &home(&slug)).to_owned();
    let mut response =
        browser.sign_in(&app, &user, Authentication::new(app.now(), &[Method::Link]), &slug, &next).await?;
    if let Some(cookie) = browser.own_cookie(&app) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(response)
}
