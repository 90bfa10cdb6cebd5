//! `/o/{slug}/signup`: a user creates an account, where the organization allows it.
//!
//! A form with an address that is taken says so. It cannot hide that: without mail, a free address ends in a session at
//! once, and a taken one cannot. See docs/design/0031.

use super::addresses::{self, encoded};
use super::browser::{Asked, Browser, Form, safe_next};
use super::contact::Contact;
use super::form_errors::{self, check_new_account};
use super::respond::PageResult;
use super::sent_again::{Again, SENT_AGAIN_WITHIN, sign_in_again};
use super::sentence::Sentence;
use super::sign_in::{self, active, home};
use super::views::{FormError, SignUp, SignUpClosed};
use crate::app::App;
use crate::authentication::Fixed;
use crate::lanes::Asker;
use crate::web::error::retry_after_value;
use crate::web::path::Path;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::authentication::{Authentication, Method};
use identity::idempotent_writes::{self, KeyedRequest};
use identity::ids::IdempotentWriteId;
use identity::organizations::Organization;
use identity::users::{self, NewUser, Profile, User};
use identity::{Error, names, passwords};
use std::time::Duration;

/// Whose writes the rows of sent forms are.
const SIGN_UP: &str = "sign-up";

const UNPROCESSABLE: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;

pub(crate) async fn get(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(asked): Asked,
) -> PageResult {
    let organization = active(&app, &slug).await?;
    if !organization.allows_sign_up(app.settings.sign_up) {
        return Ok(closed(&app, &browser, &organization, asked.get("next")).await);
    }
    let next = asked.get("next");
    let hint = next.and_then(sign_in::login_hint).unwrap_or_default();
    let fields = Fields { next, email: &hint, ..Fields::default() };
    Ok(show(&app, &browser, &organization, &fields, None, StatusCode::OK).await)
}

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    let home = home(&slug);
    let form_at = address(&slug, safe_next(form.get("next"), &home));
    answer(&app, &slug, &browser, &form).await.map_err(|error| error.of_form_at(form_at))
}

/// The form, which redirects to `next` afterwards.
pub(crate) fn address(slug: &str, next: &str) -> String {
    format!("{}?next={}", path(slug), encoded(next))
}

fn path(slug: &str) -> String {
    format!("/o/{slug}/signup")
}

async fn answer(app: &App, slug: &str, browser: &Browser, form: &Form) -> PageResult {
    browser.check_csrf(app, form)?;
    let organization = active(app, slug).await?;
    if !organization.allows_sign_up(app.settings.sign_up) {
        return Ok(closed(app, browser, &organization, form.get("next")).await);
    }
    let (name, email, next) = (form.text("name"), form.text("email"), form.get("next"));
    let (fields, password) = (Fields { name, email, next, is_taken: false }, form.text("password"));
    if let Err(wrong) = check_new_account(name, email, password, &organization) {
        return Ok(show(app, browser, &organization, &fields, Some(&wrong), UNPROCESSABLE).await);
    }
    let later = async |wait, sentence: Sentence| {
        let (status, wrong) = (StatusCode::TOO_MANY_REQUESTS, FormError::from(sentence));
        let mut response = show(app, browser, &organization, &fields, Some(&wrong), status).await;
        response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
        Ok(response)
    };
    let counted = match app.sign_ups.begin(browser.address, app.now()) {
        Ok(counted) => counted,
        Err(wait) => return later(wait, Sentence::new("form.many_accounts").wait(wait)).await,
    };
    let refused = async |error: Error| {
        let is_taken = matches!(error, Error::Taken { .. });
        let (fields, wrong) = (Fields { is_taken, ..fields }, form_errors::of(&error));
        Ok(show(app, browser, &organization, &fields, Some(&wrong), UNPROCESSABLE).await)
    };
    match make(app, &organization, name, email, password, browser).await {
        Ok(Made::Now(user)) => {
            counted.count();
            let next = safe_next(fields.next, &home(slug)).to_owned();
            browser
                .sign_in(app, &user, Authentication::new(app.now(), &[Method::Password]), slug, &next)
                .await
        }
        Ok(Made::Before(error)) => {
            let next = safe_next(fields.next, &home(slug)).to_owned();
            match sign_in_again(app, browser, &organization, [email, password], &next).await? {
                Again::SignedIn(response) => Ok(response),
                Again::Wrong => refused(error).await,
                Again::Busy(wait) => later(wait, Sentence::new(BUSY)).await,
            }
        }
        Err(Refused::Full(wait)) => later(wait, Sentence::new(BUSY)).await,
        Err(Refused::Error(error @ Error::Taken { .. })) => {
            // It tells who has an account, so it is as dear as making one.
            counted.count();
            refused(error).await
        }
        Err(Refused::Error(error @ Error::Invalid { .. })) => refused(error).await,
        Err(Refused::Error(error)) => Err(error.into()),
    }
}

async fn closed(app: &App, browser: &Browser, organization: &Organization, next: Option<&str>) -> Response {
    let home = home(&organization.slug);
    let sign_in = addresses::sign_in(&organization.slug, safe_next(next, &home));
    let contact = Contact::of(app, organization).await;
    let view = SignUpClosed {
        org_name: &organization.name,
        contact: contact.as_ref().map(Contact::view),
        signin_href: &sign_in,
    };
    browser.page_with(app, StatusCode::FORBIDDEN, view.markup(browser.language(app)))
}

#[derive(Clone, Copy, Default)]
struct Fields<'a> {
    name: &'a str,
    email: &'a str,
    next: Option<&'a str>,
    /// The e-mail address has an account: the page leads to the sign-in, with the address filled in.
    is_taken: bool,
}

async fn show(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    fields: &Fields<'_>,
    error: Option<&FormError>,
    status: StatusCode,
) -> Response {
    let csrf = browser.csrf(app);
    let home = home(&organization.slug);
    let next = safe_next(fields.next, &home);
    let sign_in = match fields.is_taken {
        true => sign_in::address_for(&organization.slug, fields.email, next),
        false => addresses::sign_in(&organization.slug, next),
    };
    let product = sign_in::product(app, organization, next).await;
    let view = SignUp {
        org_name: &organization.name,
        client_name: product.as_deref(),
        name: fields.name,
        email: fields.email,
        error,
        is_taken: fields.is_taken,
        csrf: &csrf,
        hidden: &[("next", next)],
        action: &path(&organization.slug),
        signin_href: &sign_in,
    };
    browser.page_with(app, status, view.markup(browser.language(app)))
}

/// The text of a form when the hash lane is full.
pub(crate) const BUSY: &str = "form.busy";

/// Why no account was made.
pub(crate) enum Refused {
    Full(Duration),
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Error(error)
    }
}

/// What a form did.
enum Made {
    Now(User),
    /// The same browser has made the account a moment ago. The error is for a form with another password.
    Before(Error),
}

/// Creates an account with a password, whose fields were checked. The password is hashed before the lookup of the address,
/// so that free and taken addresses take the same time.
async fn make(
    app: &App,
    organization: &Organization,
    name: &str,
    email: &str,
    password: &str,
    browser: &Browser,
) -> Result<Made, Refused> {
    let hash = hash(app, password, browser.asker(&organization.slug)).await?;
    let now = app.now();
    let new = NewUser { profile: Profile::named(name), ..NewUser::new(email, now, app.random()) };
    let actor = app.actor(&new.id, browser.address);
    // One row for each browser and address: the form that comes after it is the same one, sent again.
    let form = IdempotentWriteId::new(now, app.random());
    let form = KeyedRequest::new(
        form,
        SIGN_UP,
        ["POST", &path(&organization.slug), &browser.form_key(&new.email)],
        "",
        b"",
    );
    let organization = organization.id.clone();
    let made = app.store.write("user.sign_up", move |tx| {
        if !idempotent_writes::insert(tx, &form, now)?
            && let Some(user) = users::find(tx.snapshot(), &organization, &names::email(&new.email)?)?
            && now.since(user.created_at) < SENT_AGAIN_WITHIN
        {
            return Ok(Made::Before(Error::Taken { field: "email", value: user.email }));
        }
        let user = users::create(tx, &organization, &new, &actor)?;
        passwords::put(tx, &user.id, &hash, now)?;
        Ok::<_, Error>(Made::Now(user))
    });
    Ok(made.await?)
}

/// Hashes a new password on the lane.
pub(crate) async fn hash(app: &App, password: &str, asker: Asker<'_>) -> Result<String, Refused> {
    let mut salt = [0; 16];
    app.random().fill(&mut salt);
    let password = password.to_owned();
    let hashed =
        app.hash_lane.run(asker, move |memory| passwords::hash(&password, &Fixed(salt), memory)).await;
    match hashed {
        Ok(hash) => Ok(hash?),
        Err(full) => Err(Refused::Full(full.retry_after)),
    }
}
