//! `POST /o/{slug}/account/sessions`: a user ends one of their sessions by its id, or all others. The tokens that
//! products got from an ended session end with it, as after a sign-out there.

use super::leave;
use crate::app::App;
use crate::pages::addresses;
use crate::pages::browser::{Browser, Form};
use crate::pages::flash::Flash;
use crate::pages::respond::{PageError, PageResult, see_other};
use crate::web::path::Path;
use axum::extract::State;
use identity::ids::SessionId;
use identity::sessions::{self, Own};

/// The form's value in place of an id.
const OTHERS: &str = "others";

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    answer(&app, &slug, &browser, &form).await.map_err(|error| error.of_form_at(addresses::account(&slug)))
}

async fn answer(app: &App, slug: &str, browser: &Browser, form: &Form) -> PageResult {
    browser.check_csrf(app, form)?;
    let Some(session) = browser.session(app, slug).await? else {
        return Ok(see_other(&addresses::sign_in(slug, &addresses::account(slug)), Vec::new()));
    };
    let (which, flash) = match form.text("end") {
        OTHERS => (Own::Others, Flash::OthersEnded),
        id if id == session.id.as_str() => {
            return leave(app, slug, browser, &addresses::sign_in_form(slug)).await;
        }
        id => match SessionId::parse(id) {
            Ok(id) => (Own::One(id), Flash::SessionEnded),
            Err(_) => return Err(PageError::bad("problem.request.no_session")),
        },
    };
    let actor = app.actor(&session.user, browser.address);
    let user = session.user.clone();
    let ended =
        app.store.write("session.end_own", move |tx| sessions::end_own(tx, &session, &which, &actor)).await?;
    let mut cookies = Vec::new();
    if ended.is_some() {
        // Ending a session that has ended already is a success.
        cookies.extend(flash.cookie(app, slug));
        // The user's epoch has changed: this browser gets a new tag.
        cookies.extend(browser.known_cookie(app, &*app.lookups.user(&user, app.now()).await?));
    }
    Ok(see_other(&addresses::account(slug), cookies))
}
