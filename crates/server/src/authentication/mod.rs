//! Proves who a user is, by whichever method the form of a page uses. A page that needs a proof asks here and names no method;
//! what it gets says how the user authenticated, for the session and all that follows from it.

mod password;

use crate::app::App;
use crate::pages::browser::{Browser, Form};
use identity::Error;
use identity::authentication::{Authentication, Level};
use identity::organizations::Organization;
use identity::sessions::{self, Session};
use identity::users::User;
use std::time::Duration;

pub(crate) use password::{Fixed, by_password};

/// The levels that a user can reach by the methods that there are (`acr_values_supported`).
pub(crate) const REACHABLE: [Level; 1] = [Level::One];

/// What an attempt to authenticate came to.
pub(crate) enum Attempt {
    /// This user, who is not suspended, has authenticated.
    Proved(User, Authentication),
    /// The proof is wrong, or there is no such user, or they may not sign in.
    Wrong,
    /// The server cannot check it now.
    Full(Duration),
    /// Too many wrong attempts for this account, or from this network.
    Throttled(Duration),
}

/// Checks the proof in a form for the account with this address.
pub(crate) async fn by_form(
    app: &App,
    organization: &Organization,
    email: &str,
    form: &Form,
    browser: &Browser,
) -> Result<Attempt, Error> {
    by_password(app, organization, email, form.text("password"), browser).await
}

/// Checks the proof in a form of the user of a session, for something that needs one at this moment. The session then has
/// this authentication and nothing of the one before.
pub(crate) async fn again(
    app: &App,
    organization: &Organization,
    session: &Session,
    form: &Form,
    browser: &Browser,
) -> Result<Attempt, Error> {
    let user = app.lookups.user(&session.user, app.now()).await?;
    let attempt = by_form(app, organization, &user.email, form, browser).await?;
    match &attempt {
        Attempt::Proved(user, _) if user.id != session.user => return Ok(Attempt::Wrong),
        Attempt::Proved(_, how) => {
            let (id, how) = (session.id.clone(), how.clone());
            app.store.write("session.authenticated", move |tx| sessions::authenticate(tx, &id, &how)).await?;
        }
        Attempt::Wrong | Attempt::Full(_) | Attempt::Throttled(_) => {}
    }
    Ok(attempt)
}
