//! `/invitation`: a user accepts the invitation of an administrator, with the account of `platform` that has the
//! invited address, or with a new one. Opening the link changes nothing.

use super::addresses;
use super::browser::{Asked, Browser, Form};
use super::form_errors::{self, check_new_account};
use super::kept_link::{KeptLink, id_of};
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sent_again::{Again, SENT_AGAIN_WITHIN, sign_in_again};
use super::sentence::Sentence;
use super::sign_in::{self, Prompt, active};
use super::sign_up::{self, BUSY, Refused};
use super::views::{self, FormError, InvitationStep};
use crate::app::App;
use crate::web::error::retry_after_value;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use identity::Error;
use identity::authentication::{Authentication, Method};
use identity::invitations::{self, Offer, Valid};
use identity::organizations::PLATFORM;
use identity::users::{NewUser, Profile, User};

/// The page's own address, without a secret.
const HERE: &str = "/invitation";
/// Where the account with the role goes next.
const CONSOLE: &str = "/console";

fn void() -> PageError {
    PageError::new(StatusCode::NOT_FOUND, section!("problem.void_invitation"))
        .link(Link::SignIn(PLATFORM.to_owned()))
}

/// The invitation in this browser, with its secret.
async fn kept(app: &App, browser: &Browser) -> Result<(String, Valid), PageError> {
    let Some(token) = KeptLink::Invitation.read(app, browser) else {
        let error = PageError::new(StatusCode::NOT_FOUND, section!("problem.no_invitation"));
        return Err(error.link(Link::SignIn(PLATFORM.to_owned())));
    };
    let valid = find(app, &token).await?;
    Ok((token, valid))
}

async fn find(app: &App, token: &str) -> Result<Valid, PageError> {
    let (token, now) = (token.to_owned(), app.now());
    let found = app.store.point(move |snapshot| invitations::peek(snapshot, &token, now)).await?;
    found.ok_or_else(void)
}

/// The signed-in user of `platform`.
async fn visitor(app: &App, browser: &Browser) -> Result<Option<User>, PageError> {
    let Some(session) = browser.session(app, PLATFORM).await? else { return Ok(None) };
    let user = app.store.point(move |snapshot| identity::users::get(snapshot, &session.user)).await?;
    Ok(Some(user))
}

pub(crate) async fn get(State(app): State<App>, browser: Browser, Asked(asked): Asked) -> PageResult {
    if let Some(token) = asked.get("token") {
        find(&app, token).await?;
        return Ok(see_other(HERE, KeptLink::Invitation.keep(&app, &browser, token)?));
    }
    let (_, valid) = kept(&app, &browser).await?;
    let visitor = visitor(&app, &browser).await?;
    Ok(show(&app, &browser, &valid, visitor.as_ref(), &Typed::default()))
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    browser.check_csrf(&app, &form)?;
    if let Some(response) = sent_again(&app, &browser, &form).await? {
        return Ok(response);
    }
    let (token, valid) = kept(&app, &browser).await?;
    // Another invitation may have been opened in another tab since this form was shown.
    if form.text("invitation") != valid.invitation.id.as_str() {
        return Ok(see_other(HERE, Vec::new()));
    }
    if form.get("password").is_some() {
        return accept_as_new(&app, &browser, &token, &valid, &form).await;
    }
    let Some(user) = visitor(&app, &browser).await? else {
        return Ok(see_other(&addresses::sign_in(PLATFORM, HERE), Vec::new()));
    };
    let actor = app.actor(&user.id, browser.address);
    let accepted =
        app.store.write("invitation.accept", move |tx| invitations::accept(tx, &token, &user.id, &actor));
    match accepted.await {
        Ok(_) => Ok(done(&app, see_other(CONSOLE, Vec::new()))),
        Err(error) => refused_unless_sent_again(&app, &browser, &form, error, &valid).await,
    }
}

/// The answer to a form whose invitation this browser has just accepted.
async fn sent_again(app: &App, browser: &Browser, form: &Form) -> Result<Option<Response>, PageError> {
    let Some(token) = KeptLink::Invitation.read(app, browser) else { return Ok(None) };
    if form.text("invitation") != id_of(&token) {
        return Ok(None);
    }
    let since = app.now() - SENT_AGAIN_WITHIN;
    let found = app.store.point(move |snapshot| invitations::accepted_after(snapshot, &token, since)).await?;
    let Some((email, user)) = found else { return Ok(None) };
    if visitor(app, browser).await?.is_some_and(|visitor| visitor.id == user) {
        return Ok(Some(done(app, see_other(CONSOLE, Vec::new()))));
    }
    let Some(password) = form.get("password") else { return Ok(None) };
    let platform = active(app, PLATFORM).await?;
    match sign_in_again(app, browser, &platform, [&email, password], CONSOLE).await? {
        Again::SignedIn(response) => Ok(Some(done(app, response))),
        Again::Wrong | Again::Busy(_) => Ok(None),
    }
}

async fn refused_unless_sent_again(
    app: &App,
    browser: &Browser,
    form: &Form,
    error: Error,
    valid: &Valid,
) -> PageResult {
    match sent_again(app, browser, form).await? {
        Some(response) => Ok(response),
        None => refused(error, valid),
    }
}

/// The page for a person who is not signed in, or whose account needs a new password.
async fn accept_as_new(app: &App, browser: &Browser, token: &str, valid: &Valid, form: &Form) -> PageResult {
    let (name, password) = (form.text("name"), form.text("password"));
    let again = async |status: StatusCode, error: &FormError| {
        let visitor = visitor(app, browser).await?;
        let typed = Typed { status, name, error: Some(error) };
        Ok(show(app, browser, valid, visitor.as_ref(), &typed))
    };
    if let Err(wrong) = check_new_account(name, &valid.invitation.email, password, &valid.organization) {
        return again(StatusCode::UNPROCESSABLE_ENTITY, &wrong).await;
    }
    let hash = match sign_up::hash(app, password, browser.asker(PLATFORM)).await {
        Ok(hash) => hash,
        Err(Refused::Full(wait)) => {
            let mut response = again(StatusCode::TOO_MANY_REQUESTS, &FormError::of_form(BUSY)).await?;
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
            return Ok(response);
        }
        Err(Refused::Error(error)) => return Err(error.into()),
    };
    let now = app.now();
    let new = NewUser {
        profile: Profile::named(name),
        ..NewUser::new(valid.invitation.email.clone(), now, app.random())
    };
    let (token, actor) = (token.to_owned(), app.actor(&new.id, browser.address));
    let accepted = app
        .store
        .write("invitation.accept", move |tx| invitations::accept_as_new(tx, &token, &new, &hash, &actor));
    match accepted.await {
        Ok((_, user)) => Ok(done(
            app,
            browser
                .sign_in(app, &user, Authentication::new(app.now(), &[Method::Link]), PLATFORM, CONSOLE)
                .await?,
        )),
        Err(Error::Taken { .. }) => {
            again(StatusCode::UNPROCESSABLE_ENTITY, &FormError::of_form("form.invitation_taken")).await
        }
        Err(error @ Error::Invalid { .. }) => {
            again(StatusCode::UNPROCESSABLE_ENTITY, &form_errors::of(&error)).await
        }
        Err(error) => refused_unless_sent_again(app, browser, form, error, valid).await,
    }
}

/// The role is given, so the secret is useless now.
fn done(app: &App, mut response: Response) -> Response {
    KeptLink::Invitation.forget(app, &mut response);
    response
}

fn refused(error: Error, valid: &Valid) -> PageResult {
    match error {
        Error::NotFound { what: "invitation" } => Err(void()),
        // Another user has signed in, or a verification changed the page: the page shows the next step.
        Error::Refused { code: "other_address" | "password_needed", .. } => Ok(see_other(HERE, Vec::new())),
        Error::Refused { code: "already_administrator", .. } => {
            let what = Sentence::new("problem.already_administrator.what")
                .value("email", &valid.invitation.email)
                .value("organization", &valid.organization.name);
            let error = PageError::new(StatusCode::CONFLICT, section!("problem.already_administrator"));
            Err(error.what(what).link(Link::SignIn(PLATFORM.to_owned())))
        }
        error => Err(error.into()),
    }
}

/// The person's earlier input, and the error in it.
struct Typed<'a> {
    status: StatusCode,
    name: &'a str,
    error: Option<&'a FormError>,
}

impl Default for Typed<'_> {
    fn default() -> Self {
        Typed { status: StatusCode::OK, name: "", error: None }
    }
}

fn show(app: &App, browser: &Browser, valid: &Valid, visitor: Option<&User>, typed: &Typed<'_>) -> Response {
    let csrf = browser.csrf(app);
    let invitation = &valid.invitation;
    let sign_in = sign_in::address_for(PLATFORM, &invitation.email, HERE);
    let switch = sign_in::address_with(PLATFORM, Prompt::SelectAccount, HERE);
    let step = match visitor {
        None => InvitationStep::NewAccount { name: typed.name, error: typed.error, signin_href: &sign_in },
        Some(user) if user.email != invitation.email => {
            InvitationStep::OtherUser { user_email: &user.email, switch_href: &switch }
        }
        Some(user) if valid.must_take_over(user) => {
            let name = if typed.name.is_empty() { &user.profile.name } else { typed.name };
            InvitationStep::NewPassword { name, error: typed.error }
        }
        Some(_) => InvitationStep::Accept { later_href: CONSOLE },
    };
    let view = views::Invitation {
        org_name: (invitation.offer != Offer::PlatformOwner).then_some(&valid.organization.name),
        role: invitation.offer.as_str(),
        inviter: invitation.inviter_email.as_deref(),
        email: &invitation.email,
        hidden: &[("invitation", invitation.id.as_str())],
        csrf: &csrf,
        action: HERE,
        step,
    };
    browser.page_with(app, typed.status, view.markup(browser.language(app)))
}
