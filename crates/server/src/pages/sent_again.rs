//! A form that is sent twice by one browser: a second click, or an answer that was lost. The browser shows the answer to
//! the second one, which therefore leads where the first did.
//!
//! A form that made an account has no session when it is sent again, so its password proves who sends it: it counts and
//! takes its turn like any password.

use super::browser::Browser;
use super::respond::PageResult;
use crate::app::App;
use crate::authentication::{Attempt, by_password};
use axum::response::Response;
use identity::organizations::Organization;
use std::time::Duration;

/// How long after the first form another one counts as the same.
pub(crate) const SENT_AGAIN_WITHIN: Duration = Duration::from_secs(60);

/// What the password of a repeated form did.
pub(crate) enum Again {
    SignedIn(Response),
    Wrong,
    /// The server cannot check it now.
    Busy(Duration),
}

/// Signs in the account that the first form made or took over.
pub(crate) async fn sign_in_again(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    [email, password]: [&str; 2],
    next: &str,
) -> Result<Again, super::respond::PageError> {
    let response: PageResult = match by_password(app, organization, email, password, browser).await? {
        Attempt::Proved(user, how) => browser.sign_in(app, &user, how, &organization.slug, next).await,
        Attempt::Wrong => return Ok(Again::Wrong),
        Attempt::Full(wait) | Attempt::Throttled(wait) => return Ok(Again::Busy(wait)),
    };
    response.map(Again::SignedIn)
}
