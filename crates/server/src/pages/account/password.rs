//! `/o/{slug}/account/password`: a user changes their password, with the old one or shortly after a sign-in. Their other
//! sessions end, with the tokens that products got from them.

use crate::app::App;
use crate::authentication::{self, Attempt, by_password};
use crate::pages::addresses;
use crate::pages::browser::{Browser, Form};
use crate::pages::flash::Flash;
use crate::pages::form_errors;
use crate::pages::respond::{PageError, PageResult, see_other};
use crate::pages::sent_again::SENT_AGAIN_WITHIN;
use crate::pages::sentence::Sentence;
use crate::pages::sign_in::{active, throttled};
use crate::pages::sign_up::{self, BUSY, Refused};
use crate::pages::views::{ChangePassword, FormError, OldPassword};
use crate::web::error::retry_after_value;
use crate::web::path::Path;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::organizations::Organization;
use identity::password_changes::{self, RECENT_SIGN_IN};
use identity::sessions::Session;
use identity::users::User;
use identity::{Error, passwords, users};

pub(crate) async fn get(State(app): State<App>, Path(slug): Path<String>, browser: Browser) -> PageResult {
    let organization = active(&app, &slug).await?;
    match Asking::of(&app, &browser, organization).await? {
        Some((_, asking)) => Ok(asking.show(&app, &browser, None)),
        None => Ok(to_sign_in(&slug)),
    }
}

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let organization = active(&app, &slug).await?;
    let Some((session, asking)) = Asking::of(&app, &browser, organization).await? else {
        return Ok(to_sign_in(&slug));
    };
    let refused = |error: FormError| Ok(asking.show(&app, &browser, Some(&error)));
    let busy = |sentence: Sentence, wait| {
        let mut response = asking.show(&app, &browser, Some(&FormError::from(sentence)));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
        Ok(response)
    };
    if let Err(error) = passwords::check_for(form.text("new_password"), &asking.user, &asking.organization) {
        return refused(FormError { field: Some("new_password"), ..form_errors::of(&error) });
    }
    match asking.old {
        OldPassword::NotNeeded => {}
        OldPassword::None => {
            return refused(FormError::of_form("form.no_password"));
        }
        OldPassword::Needed => {
            let email = &asking.user.email;
            match authentication::by_form(&app, &asking.organization, email, &form, &browser).await? {
                Attempt::Proved(user, _) if user.id == session.user => {}
                Attempt::Wrong
                    if is_changed_to(&app, &asking, form.text("new_password"), &browser).await? =>
                {
                    return changed_page(&app, &slug, &asking.user, &browser).await;
                }
                Attempt::Proved(..) | Attempt::Wrong => {
                    return refused(FormError::of_field("password", "form.wrong_current_password"));
                }
                Attempt::Full(wait) => return busy(Sentence::new(BUSY), wait),
                Attempt::Throttled(wait) => return busy(throttled(wait), wait),
            }
        }
    }
    let hash =
        match sign_up::hash(&app, form.text("new_password"), browser.asker_for(&app, &slug, &asking.user))
            .await
        {
            Ok(hash) => hash,
            Err(Refused::Full(wait)) => return busy(Sentence::new(BUSY), wait),
            Err(Refused::Error(error)) => return Err(error.into()),
        };
    let actor = app.actor(&session.user, browser.address);
    let changed = app
        .store
        .write("password.change", move |tx| password_changes::change(tx, &session, &hash, &actor.clone()));
    match changed.await? {
        Some(_) => changed_page(&app, &slug, &asking.user, &browser).await,
        None => Ok(to_sign_in(&slug)),
    }
}

/// Leads to the account's page, which says that the password was changed.
async fn changed_page(app: &App, slug: &str, user: &User, browser: &Browser) -> PageResult {
    let user = app.lookups.user(&user.id, app.now()).await?;
    let cookies = [Flash::PasswordChanged.cookie(app, slug), browser.known_cookie(app, &user)];
    Ok(see_other(&addresses::account(slug), cookies.into_iter().flatten().collect()))
}

/// Whether the password was changed to this one a moment ago: the form was sent twice.
async fn is_changed_to(app: &App, asking: &Asking, new: &str, browser: &Browser) -> Result<bool, PageError> {
    let id = asking.user.id.clone();
    let changed_at = app.store.point(move |snapshot| passwords::changed_at(snapshot, &id)).await?;
    if changed_at.is_none_or(|moment| app.now().since(moment) >= SENT_AGAIN_WITHIN) {
        return Ok(false);
    }
    let attempt = by_password(app, &asking.organization, &asking.user.email, new, browser).await?;
    Ok(matches!(attempt, Attempt::Proved(..)))
}

/// The address of the form.
pub(crate) fn address(slug: &str) -> String {
    format!("{}/password", addresses::account(slug))
}

fn to_sign_in(slug: &str) -> Response {
    see_other(&addresses::sign_in(slug, &address(slug)), Vec::new())
}

/// The signed-in user, and the proof that the browser's user is that person.
struct Asking {
    organization: Organization,
    user: User,
    old: OldPassword,
}

impl Asking {
    async fn of(
        app: &App,
        browser: &Browser,
        organization: Organization,
    ) -> Result<Option<(Session, Asking)>, PageError> {
        let Some(session) = browser.session(app, &organization.slug).await? else { return Ok(None) };
        let id = session.user.clone();
        let found = app.store.point(move |snapshot| {
            Ok::<_, Error>((users::get(snapshot, &id)?, passwords::get(snapshot, &id)?.is_some()))
        });
        let (user, has_password) = found.await?;
        let old = match has_password {
            _ if app.now().since(session.authentication.at) < RECENT_SIGN_IN => OldPassword::NotNeeded,
            true => OldPassword::Needed,
            false => OldPassword::None,
        };
        Ok(Some((session, Asking { organization, user, old })))
    }

    fn show(&self, app: &App, browser: &Browser, error: Option<&FormError>) -> Response {
        let (csrf, slug) = (browser.csrf(app), &self.organization.slug);
        let view = ChangePassword {
            brand: &self.organization.name,
            user_email: &self.user.email,
            old: self.old,
            csrf: &csrf,
            action: &address(slug),
            account_href: &addresses::account(slug),
            error,
        };
        let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
        browser.page_with(app, status, view.markup(browser.language(app)))
    }
}
