//! `/o/{slug}/code`: the code of a mail, in the browser that asked for it. The page is the same whether a mail was sent, and each
//! try counts, whether there is a code or not.

use super::addresses::{self, encoded};
use super::browser::{Asked, Browser, Form, safe_next};
use super::confirm;
use super::reset;
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sign_in::{active, home};
use super::views::{EnterCode, FormError};
use crate::app::App;
use crate::mail::asking::{self, hash_of};
use crate::web::path::Path;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use identity::mail::Purpose;
use identity::mail::requests::{self, CODE_LENGTH, CODE_LIFE, Tried};
use identity::organizations::Organization;

fn path(slug: &str) -> String {
    format!("/o/{slug}/code")
}

/// The form, whose user goes on to `next` in the end.
pub(crate) fn address(slug: &str, next: &str) -> String {
    format!("{}?next={}", path(slug), encoded(next))
}

/// What this browser has asked for.
fn asked_here(app: &App, browser: &Browser, slug: &str) -> Result<asking::Asked, PageError> {
    asking::Asked::read(app, browser, slug).ok_or_else(|| {
        PageError::new(StatusCode::NOT_FOUND, section!("problem.no_code")).link(Link::SignIn(slug.to_owned()))
    })
}

pub(crate) async fn get(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(sent): Asked,
) -> PageResult {
    let organization = active(&app, &slug).await?;
    let asked = asked_here(&app, &browser, &slug)?;
    Ok(show(&app, &browser, &organization, &asked, sent.get("next"), None))
}

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let organization = active(&app, &slug).await?;
    let asked = asked_here(&app, &browser, &slug)?;
    let sent = form.get("next");
    let code = requests::typed_code(form.text("code"));
    let refused = |key: &'static str| {
        let error = FormError::of_field("code", key);
        Ok(show(&app, &browser, &organization, &asked, sent, Some(&error)))
    };
    if code.len() != CODE_LENGTH || !code.bytes().all(|letter| letter.is_ascii_digit()) {
        return refused("form.code_digits");
    }
    let (id, hash, key, now) = (asked.id()?, hash_of(&browser), app.secret_key.clone(), app.now());
    let tried =
        app.store.write("mail.code", move |tx| requests::try_code(tx, &id, &hash, &code, &key, now)).await?;
    let home = home(&slug);
    match tried {
        Tried::Wrong => refused("form.code_wrong"),
        Tried::Ended => refused("form.code_ended"),
        Tried::Right(Purpose::Reset) => {
            Ok(see_other(&reset::address(&slug, safe_next(sent, &home)), Vec::new()))
        }
        Tried::Right(Purpose::Verify) => {
            let next = safe_next(sent.or(Some(&asked.next)), &home);
            confirm::by_code(&app, &browser, &organization, &asked, next).await
        }
        Tried::Right(_) => Ok(see_other(&home, Vec::new())),
    }
}

fn show(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    asked: &asking::Asked,
    sent: Option<&str>,
    error: Option<&FormError>,
) -> Response {
    let (csrf, home, slug) = (browser.csrf(app), home(&organization.slug), &organization.slug);
    let next = safe_next(sent.or(Some(&asked.next)), &home);
    let is_own = asked.purpose == Purpose::Verify.as_str();
    let again_href = if is_own { addresses::account(slug) } else { addresses::forgot(slug, next) };
    let view = EnterCode {
        org_name: &organization.name,
        email: &asked.address,
        is_own,
        minutes: CODE_LIFE.as_secs() / 60,
        csrf: &csrf,
        hidden: &[("next", next)],
        action: &path(slug),
        again_href: &again_href,
        error,
    };
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    browser.page_with(app, status, view.markup(browser.language(app)))
}
