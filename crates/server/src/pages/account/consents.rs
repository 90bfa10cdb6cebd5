//! `POST /o/{slug}/account/consents`: a user withdraws a consent. The tokens that the client has of them end, and it asks
//! again the next time.

use crate::app::App;
use crate::pages::addresses;
use crate::pages::browser::{Browser, Form};
use crate::pages::flash::Flash;
use crate::pages::respond::{PageError, PageResult, see_other};
use crate::web::path::Path;
use axum::extract::State;
use identity::consents;
use identity::ids::ClientId;

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
    let Ok(client) = ClientId::parse(form.text("withdraw")) else {
        return Err(PageError::bad("problem.request.no_consent"));
    };
    // A command ends some of the grants. A consent that has ended already is a success.
    loop {
        let (actor, by, of) = (app.actor(&session.user, browser.address), session.clone(), client.clone());
        let withdraw =
            app.store.write("consent.withdraw", move |tx| consents::withdraw(tx, &by, &of, &actor));
        if withdraw.await? {
            break;
        }
    }
    Ok(see_other(&addresses::account(slug), Flash::ConsentWithdrawn.cookie(app, slug).into_iter().collect()))
}

/// The address of the form.
pub(crate) fn form_address(slug: &str) -> String {
    format!("{}/consents", addresses::account(slug))
}
