//! `/setup`: the one-time link for the first platform owner. It is void once there is an owner. The secret of the link
//! moves into a cookie ([`KeptLink`]).

use super::browser::{Asked, Browser, Form};
use super::form_errors::{self, check_new_account};
use super::kept_link::{KeptLink, id_of};
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sent_again::{Again, SENT_AGAIN_WITHIN, sign_in_again};
use super::sign_in::active;
use super::sign_up::{self, BUSY, Refused};
use super::views::{FormError, SetUp};
use crate::app::App;
use crate::web::error::retry_after_value;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::authentication::{Authentication, Method};
use identity::links::{self, Purpose};
use identity::organizations::{Organization, PLATFORM};
use identity::users::{self, NewUser, Profile};
use identity::{Error, administrators, passwords};

const PATH: &str = "/setup";
/// Where the new owner goes next.
const CONSOLE: &str = "/console";

fn void() -> PageError {
    let error = PageError::new(StatusCode::NOT_FOUND, section!("problem.void_set_up"));
    error.link(Link::SignIn(PLATFORM.to_owned()))
}

async fn check(app: &App, token: &str) -> Result<(), PageError> {
    let (token, now) = (token.to_owned(), app.now());
    let good = app.store.point(move |snapshot| links::peek(snapshot, Purpose::SetUp, &token, now)).await?;
    good.map(|_| ()).ok_or_else(void)
}

/// The secret of the link in this browser.
fn kept(app: &App, browser: &Browser) -> Result<String, PageError> {
    KeptLink::SetUp.read(app, browser).ok_or_else(|| {
        PageError::new(StatusCode::NOT_FOUND, section!("problem.no_link"))
            .link(Link::SignIn(PLATFORM.to_owned()))
    })
}

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    if let Some(token) = asked.get("token") {
        check(&app, token).await?;
        return Ok(see_other(PATH, KeptLink::SetUp.keep(&app, &browser, token)?));
    }
    let token = kept(&app, &browser)?;
    check(&app, &token).await?;
    Ok(show(&app, &browser, &token, "", "", None))
}

fn show(
    app: &App,
    browser: &Browser,
    token: &str,
    email: &str,
    name: &str,
    error: Option<&FormError>,
) -> Response {
    let csrf = browser.csrf(app);
    let hidden = [("link", id_of(token))];
    let view = SetUp { csrf: &csrf, action: PATH, hidden: &hidden, error, email, name };
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    browser.page_with(app, status, view.markup(browser.language(app)))
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let (email, name) = (form.text("email"), form.text("name"));
    let token = kept(&app, &browser)?;
    if form.text("link") != id_of(&token) {
        return Err(PageError::forged());
    }
    let organization = active(&app, PLATFORM).await?;
    if let Err(error) = check(&app, &token).await {
        return sent_again(&app, &browser, &organization, &token, &form).await?.ok_or(error);
    }
    if let Err(wrong) = check_new_account(name, email, form.text("password"), &organization) {
        return Ok(show(&app, &browser, &token, email, name, Some(&wrong)));
    }
    let hash = match sign_up::hash(&app, form.text("password"), browser.asker(PLATFORM)).await {
        Ok(hash) => hash,
        Err(Refused::Full(wait)) => {
            let mut response = show(&app, &browser, &token, email, name, Some(&FormError::of_form(BUSY)));
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
            return Ok(response);
        }
        Err(Refused::Error(error)) => return Err(error.into()),
    };
    let now = app.now();
    let new = NewUser {
        profile: Profile::named(name),
        // The link proves access to the server's own files.
        email_verified: true,
        ..NewUser::new(email, now, app.random())
    };
    let actor = app.actor(&new.id, browser.address);
    let (platform, link) = (organization.id.clone(), token.clone());
    let made = app.store.write("platform.set_up", move |tx| {
        links::use_once(tx, Purpose::SetUp, &link, now)?;
        let user = users::create(tx, &platform, &new, &actor)?;
        passwords::put(tx, &user.id, &hash, now)?;
        administrators::add_platform_owner(tx, &platform, &user.id, &actor)?;
        Ok::<_, Error>(user)
    });
    match made.await {
        Ok(user) => {
            let mut response = browser
                .sign_in(&app, &user, Authentication::new(app.now(), &[Method::Link]), PLATFORM, CONSOLE)
                .await?;
            KeptLink::SetUp.forget(&app, &mut response);
            Ok(response)
        }
        Err(Error::NotFound { .. }) => {
            sent_again(&app, &browser, &organization, &token, &form).await?.ok_or_else(void)
        }
        Err(error @ (Error::Invalid { .. } | Error::Taken { .. })) => {
            Ok(show(&app, &browser, &token, email, name, Some(&form_errors::of(&error))))
        }
        Err(error) => Err(error.into()),
    }
}

/// The answer to a form whose link this browser has just used.
async fn sent_again(
    app: &App,
    browser: &Browser,
    platform: &Organization,
    token: &str,
    form: &Form,
) -> Result<Option<Response>, PageError> {
    let (link, since) = (token.to_owned(), app.now() - SENT_AGAIN_WITHIN);
    let used = app
        .store
        .point(move |snapshot| links::was_used_after(snapshot, Purpose::SetUp, &link, since))
        .await?;
    if !used {
        return Ok(None);
    }
    let (email, password) = (form.text("email"), form.text("password"));
    match sign_in_again(app, browser, platform, [email, password], CONSOLE).await? {
        Again::SignedIn(mut response) => {
            KeptLink::SetUp.forget(app, &mut response);
            Ok(Some(response))
        }
        Again::Wrong => Ok(None),
        Again::Busy(wait) => {
            let busy = FormError::of_form(BUSY);
            let mut response = show(app, browser, token, email, form.text("name"), Some(&busy));
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
            Ok(Some(response))
        }
    }
}
