//! `/o/{slug}/confirm`: confirms the address of an account by a mailed link, in any browser, or by its code in the browser that asked
//! (`code.rs`). Opening the page does nothing, and it signs nobody in.
//!
//! Where the user is signed in, who reads the mails is who uses the account: the password stays, and all other sessions end.
//! In another browser it is not known who made the account and asked for the mail, so what was set before is void. The page
//! says which it is, and its form does no other than the page said.

use super::addresses;
use super::browser::{Browser, Form};
use super::code;
use super::flash::Flash;
use super::kept_link::{KeptLink, id_of};
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sign_in::{self, Prompt, active, home};
use super::views::Confirm;
use crate::app::App;
use crate::mail::asking::{Asked, hash_of};
use crate::web::path::Path;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::SET_COOKIE;
use identity::Error;
use identity::mail::{Purpose, requests};
use identity::organizations::Organization;
use identity::password_changes::{self, MailProof};
use identity::sessions::Session;
use identity::users::User;

/// The form's field that repeats what its page said, and its values.
const PASSWORD: &str = "old_password";
const KEPT: &str = "kept";
const VOID: &str = "void";

fn path(slug: &str) -> String {
    format!("/o/{slug}/confirm")
}

/// The answer where nothing proves an address.
fn void(slug: &str) -> PageError {
    PageError::new(StatusCode::NOT_FOUND, section!("problem.void_mail")).link(Link::SignIn(slug.to_owned()))
}

/// The secret of the link in this browser.
fn kept(app: &App, browser: &Browser, slug: &str) -> Result<String, PageError> {
    KeptLink::Verify.read(app, browser).ok_or_else(|| {
        PageError::new(StatusCode::NOT_FOUND, section!("problem.no_link")).link(Link::SignIn(slug.to_owned()))
    })
}

/// The user whose address a proof would confirm.
async fn find(app: &App, organization: &Organization, proof: &MailProof) -> Result<Option<User>, Error> {
    let (proof, now) = (proof.clone(), app.now());
    let found = app.store.point(move |snapshot| password_changes::peek_verify(snapshot, &proof, now)).await?;
    Ok(found.filter(|user| user.organization == organization.id))
}

/// The session of this user in this browser.
async fn session_of(
    app: &App,
    browser: &Browser,
    slug: &str,
    user: &User,
) -> Result<Option<Session>, PageError> {
    Ok(browser.session(app, slug).await?.filter(|session| session.user == user.id))
}

/// Opens the mailed link with this token: its secret moves into a cookie.
pub(super) async fn open(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    token: &str,
) -> PageResult {
    let (slug, proof) = (&organization.slug, MailProof::Link(token.to_owned()));
    match find(app, organization, &proof).await? {
        Some(_) => Ok(see_other(&path(slug), KeptLink::Verify.keep(app, browser, token)?)),
        None => Err(void(slug)),
    }
}

pub(crate) async fn get(State(app): State<App>, Path(slug): Path<String>, browser: Browser) -> PageResult {
    let organization = active(&app, &slug).await?;
    let token = kept(&app, &browser, &slug)?;
    let Some(user) = find(&app, &organization, &MailProof::Link(token.clone())).await? else {
        return Err(void(&slug));
    };
    let keeps_password = session_of(&app, &browser, &slug, &user).await?.is_some();
    let csrf = browser.csrf(&app);
    let view = Confirm {
        org_name: &organization.name,
        user_email: &user.email,
        keeps_password,
        csrf: &csrf,
        hidden: &[("link", id_of(&token)), (PASSWORD, if keeps_password { KEPT } else { VOID })],
        action: &path(&slug),
    };
    Ok(browser.page(&app, view.markup(browser.language(&app))))
}

pub(crate) async fn post(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    form: Form,
) -> PageResult {
    browser.check_csrf(&app, &form)?;
    let organization = active(&app, &slug).await?;
    let token = kept(&app, &browser, &slug)?;
    if form.text("link") != id_of(&token) {
        return Err(PageError::forged());
    }
    let keeps_password = form.text(PASSWORD) == KEPT;
    let proof = MailProof::Link(token);
    let end = End { keeps_password, next: &home(&slug) };
    let Some(user) = find(&app, &organization, &proof).await? else {
        return end.again(&app, &slug, &proof).await;
    };
    let session = session_of(&app, &browser, &slug, &user).await?;
    if session.is_some() != keeps_password {
        // Signed in or out since the page was shown, which is shown again.
        return Ok(see_other(&path(&slug), Vec::new()));
    }
    match verify(&app, &browser, &user, &proof, session.as_ref()).await {
        Ok(user) => Ok(end.first(&app, &browser, &slug, &user)),
        Err(Error::NotFound { what: "session" }) => Ok(see_other(&path(&slug), Vec::new())),
        Err(Error::NotFound { .. }) => end.again(&app, &slug, &proof).await,
        Err(error) => Err(error.into()),
    }
}

/// Confirms the address by the code that this browser has entered, and leads to `next`.
pub(super) async fn by_code(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    asked: &Asked,
    next: &str,
) -> PageResult {
    let (slug, id, hash, now) = (&organization.slug, asked.id()?, hash_of(browser), app.now());
    let proved = app.store.point(move |snapshot| requests::proof(snapshot, &id, &hash, now)).await?;
    let proof = proved
        .filter(|proved| proved.purpose == Purpose::Verify && proved.organization == organization.id)
        .map(|proved| MailProof::Code(proved.link))
        .ok_or_else(|| void(slug))?;
    let end = End { keeps_password: true, next };
    let Some(user) = find(app, organization, &proof).await? else {
        return end.again(app, slug, &proof).await;
    };
    // The code is for who has asked. If that session is over, they sign in, and enter it again.
    let sign_in = || {
        see_other(&sign_in::address_with(slug, Prompt::SelectAccount, &code::address(slug, next)), Vec::new())
    };
    let Some(session) = session_of(app, browser, slug, &user).await? else { return Ok(sign_in()) };
    match verify(app, browser, &user, &proof, Some(&session)).await {
        Ok(user) => Ok(end.first(app, browser, slug, &user)),
        Err(Error::NotFound { what: "session" }) => Ok(sign_in()),
        Err(Error::NotFound { .. }) => end.again(app, slug, &proof).await,
        Err(error) => Err(error.into()),
    }
}

async fn verify(
    app: &App,
    browser: &Browser,
    user: &User,
    proof: &MailProof,
    session: Option<&Session>,
) -> Result<User, Error> {
    let (proof, by) = (proof.clone(), session.map(|session| session.id.clone()));
    let actor = app.actor(&user.id, browser.address);
    let verified = app
        .store
        .write("user.verify", move |tx| password_changes::verify(tx, &proof, by.as_ref(), &actor.clone()));
    verified.await
}

/// Where a confirmation ends, with the first click and with the second.
struct End<'a> {
    keeps_password: bool,
    /// Where a signed-in user goes on.
    next: &'a str,
}

impl End<'_> {
    fn first(&self, app: &App, browser: &Browser, slug: &str, user: &User) -> Response {
        let mut response = self.answer(app, slug);
        // No browser stays known, so this one is told again.
        if let Some(known) = browser.known_cookie(app, user).filter(|_| self.keeps_password) {
            response.headers_mut().append(SET_COOKIE, known);
        }
        response
    }

    /// The answer to a form that may have been sent before.
    async fn again(&self, app: &App, slug: &str, proof: &MailProof) -> PageResult {
        let used = proof.clone();
        match app.store.point(move |snapshot| password_changes::was_verified(snapshot, &used)).await? {
            true => Ok(self.answer(app, slug)),
            false => Err(void(slug)),
        }
    }

    /// The browser needs the secrets no more.
    fn answer(&self, app: &App, slug: &str) -> Response {
        let (address, flash) = match self.keeps_password {
            true => (self.next.to_owned(), Flash::AddressConfirmed),
            false => (addresses::sign_in_form(slug), Flash::AddressProved),
        };
        let mut response = see_other(&address, flash.cookie(app, slug).into_iter().collect());
        KeptLink::Verify.forget(app, &mut response);
        KeptLink::Asked.forget(app, &mut response);
        response
    }
}
