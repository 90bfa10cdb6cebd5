//! `POST /o/{slug}/account/sessions`: a user ends their own sessions, one by its id or all the others. What was given
//! to products with an ended session ends with it, as when one signs out there.

use super::{address, leave};
use crate::app::App;
use crate::pages::browser::{Browser, Form};
use crate::pages::flash::Flash;
use crate::pages::respond::{PageError, PageResult, see_other};
use crate::pages::sign_in;
use crate::web::path::Path;
use axum::extract::State;
use identity::ids::SessionId;
use identity::sessions::{self, Own};

/// What the form says in place of an id.
const OTHERS: &str = "others";

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let Some(session) = browser.session(&app, &slug).await? else {
        return Ok(see_other(&sign_in::address(&slug, &address(&slug)), Vec::new()));
    };
    let (which, flash) = match form.text("end") {
        OTHERS => (Own::Others, Flash::OthersEnded),
        id if id == session.id.as_str() => {
            return leave(&app, &slug, &browser, &sign_in::path(&slug)).await;
        }
        id => match SessionId::parse(id) {
            Ok(id) => (Own::One(id), Flash::SessionEnded),
            Err(_) => return Err(PageError::bad("The form does not say which session is to end.")),
        },
    };
    let actor = app.actor(&session.user, browser.address);
    let user = session.user.clone();
    let ended =
        app.store.write("session.end_own", move |tx| sessions::end_own(tx, &session, &which, &actor)).await?;
    let mut cookies = Vec::new();
    if ended.is_some() {
        // A session that had ended before is ended too.
        cookies.extend(flash.cookie(&app, &slug));
        // All browsers are unknown now; this one is the user's.
        cookies.extend(browser.known_cookie(&app, &*app.lookups.user(&user, app.now()).await?));
    }
    Ok(see_other(&address(&slug), cookies))
}
