//! `/o/{slug}/forgot`: a user who has forgotten the password asks for a mail, where the server sends mails.
//!
//! The form looks nothing up: it notes the address and leads to the page for the code, the same for every address. Whether there is
//! an account is decided later (`mail/deciding.rs`), and only the mailbox learns it.

use super::addresses;
use super::browser::{Asked, Browser, Form, safe_next};
use super::code;
use super::form_errors;
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sign_in::{active, home};
use super::views::{Forgot, FormError};
use crate::app::App;
use crate::mail::asking::{self, Asking};
use crate::web::error::retry_after_value;
use crate::web::path::Path;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::mail::Purpose;
use identity::names;
use identity::organizations::Organization;

/// The answer of a server that sends no mails.
fn off(slug: &str) -> PageError {
    PageError::new(StatusCode::NOT_FOUND, section!("problem.no_mail")).link(Link::SignIn(slug.to_owned()))
}

pub(crate) async fn get(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(asked): Asked,
) -> PageResult {
    let organization = active(&app, &slug).await?;
    if app.relay().is_none() {
        return Err(off(&slug));
    }
    let email = asked.get("email").unwrap_or_default();
    Ok(show(&app, &browser, &organization, [email, asked.get("next").unwrap_or_default()], None))
}

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    let home = home(&slug);
    let next = safe_next(form.get("next"), &home);
    answer(&app, &slug, &browser, &form, next)
        .await
        .map_err(|error| error.of_form_at(addresses::forgot(&slug, next)))
}

async fn answer(app: &App, slug: &str, browser: &Browser, form: &Form, next: &str) -> PageResult {
    browser.check_csrf(app, form)?;
    let organization = active(app, slug).await?;
    if app.relay().is_none() {
        return Err(off(slug));
    }
    let email = form.text("email");
    if let Err(error) = names::email(email) {
        let error = form_errors::of(&error);
        return Ok(show(app, browser, &organization, [email, next], Some(&error)));
    }
    let counted = match app.mail_forms.begin(browser.address, app.now()) {
        Ok(counted) => counted,
        Err(wait) => {
            let error = FormError::of_form("form.many_mails");
            let mut response = show(app, browser, &organization, [email, next], Some(&error));
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
            return Ok(response);
        }
    };
    let asking = Asking {
        organization: &organization,
        address: email,
        purpose: Purpose::Reset,
        user: None,
        name: "",
        next,
        language: browser.language(app).tag(),
    };
    let cookies = asking::ask(app, browser, &asking).await?;
    counted.count();
    Ok(see_other(&code::address(slug, next), cookies))
}

fn show(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    [email, next]: [&str; 2],
    error: Option<&FormError>,
) -> Response {
    let (csrf, home) = (browser.csrf(app), home(&organization.slug));
    let next = safe_next(Some(next), &home);
    let view = Forgot {
        org_name: &organization.name,
        email,
        csrf: &csrf,
        hidden: &[("next", next)],
        action: &addresses::forgot_form(&organization.slug),
        signin_href: &addresses::sign_in(&organization.slug, next),
        error,
    };
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    browser.page_with(app, status, view.markup(browser.language(app)))
}
