//! `POST /o/{slug}/verify`: a signed-in user asks for a mail that confirms their address. Its code or link leads to `confirm.rs`.

use super::addresses;
use super::browser::{Browser, Form};
use super::code;
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sentence::Sentence;
use super::sign_in::active;
use crate::app::App;
use crate::mail::asking::{self, Asking};
use crate::web::error::retry_after_value;
use crate::web::path::Path;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::mail::Purpose;
use identity::users::{self, User};

/// The target of the form on the account page, where it has one: the address is not confirmed, and this server sends mails.
pub(crate) fn form_address(app: &App, slug: &str, user: &User) -> Option<String> {
    let is_open = user.email_verified_at.is_none() && app.relay().is_some();
    is_open.then(|| format!("/o/{slug}/verify"))
}

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
    let (organization, account) = (active(app, slug).await?, addresses::account(slug));
    let Some(session) = browser.session(app, slug).await? else {
        return Ok(see_other(&addresses::sign_in(slug, &account), Vec::new()));
    };
    let user = app.store.point(move |snapshot| users::get(snapshot, &session.user)).await?;
    // Confirmed in another tab meanwhile, or no mails are sent: the page shows which.
    if form_address(app, slug, &user).is_none() {
        return Ok(see_other(&account, Vec::new()));
    }
    let counted = match app.mail_forms.begin(browser.address, app.now()) {
        Ok(counted) => counted,
        Err(wait) => {
            let error = PageError::new(StatusCode::TOO_MANY_REQUESTS, section!("problem.wait"))
                .what(Sentence::new("form.many_mails"))
                .link(Link::Account(slug.to_owned()));
            let mut response = error.into_response();
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
            return Ok(response);
        }
    };
    let asking = Asking {
        organization: &organization,
        address: &user.email,
        purpose: Purpose::Verify,
        user: Some(&user.id),
        name: "",
        next: &account,
        language: browser.language(app).tag(),
    };
    let cookies = asking::ask(app, browser, &asking).await?;
    counted.count();
    Ok(see_other(&code::address(slug, &account), cookies))
}
