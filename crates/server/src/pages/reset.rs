//! `/o/{slug}/reset`: a new password in place of a forgotten one, by a mailed link in any browser or by its code in the browser that
//! asked. Opening the page does nothing; its form sets the password, once. The user is signed in, ends signed out everywhere
//! else, and is told by a mail.

use super::addresses::encoded;
use super::browser::{Asked, Browser, Form, safe_next};
use super::flash::Flash;
use super::form_errors;
use super::kept_link::KeptLink;
use super::respond::{Link, PageError, PageResult, section, see_other};
use super::sign_in::{active, home};
use super::sign_up::{self, Refused};
use super::views::{FormError, SetPassword};
use crate::app::App;
use crate::mail::asking::{self, hash_of};
use crate::mail::{given, queue};
use crate::web::error::retry_after_value;
use crate::web::path::Path;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use http::header::{RETRY_AFTER, SET_COOKIE};
use identity::authentication::{Authentication, Method};
use identity::ids::{LinkId, MailId};
use identity::mail::{NewMail, Purpose, requests};
use identity::organizations::Organization;
use identity::password_changes::{self, MailProof};
use identity::users::{self, User};
use identity::{Error, passwords};
use std::time::Duration;

/// How long it is tried to tell the user.
const NOTICE_LIFE: Duration = Duration::from_secs(24 * 3600);

fn path(slug: &str) -> String {
    format!("/o/{slug}/reset")
}

/// The form, which redirects to `next` afterwards.
pub(crate) fn address(slug: &str, next: &str) -> String {
    format!("{}?next={}", path(slug), encoded(next))
}

/// The answer where nothing shows that a password may be set.
fn void(slug: &str) -> PageError {
    PageError::new(StatusCode::NOT_FOUND, section!("problem.void_mail")).link(Link::SignIn(slug.to_owned()))
}

/// Opens the mailed link with this token: its secret moves into a cookie.
pub(super) async fn open(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    token: &str,
) -> PageResult {
    match find(app, organization, vec![MailProof::Link(token.to_owned())], None).await? {
        Some(_) => Ok(see_other(&path(&organization.slug), KeptLink::Reset.keep(app, browser, token)?)),
        None => Err(void(&organization.slug)),
    }
}

/// What shows that a password may be set here.
struct Reset {
    proof: MailProof,
    /// The link of the mail, which its form names: another mail may have been opened in another tab meanwhile.
    link: LinkId,
    user: User,
    has_password: bool,
}

pub(crate) async fn get(
    State(app): State<App>,
    Path(slug): Path<String>,
    browser: Browser,
    Asked(sent): Asked,
) -> PageResult {
    let organization = active(&app, &slug).await?;
    let proofs = proofs(&app, &browser, &organization).await?;
    match find(&app, &organization, proofs, None).await? {
        Some(found) => Ok(show(&app, &browser, &organization, &found, sent.get("next"), None)),
        None => Err(void(&slug)),
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
    let (home, sent) = (home(&slug), form.get("next"));
    let next = safe_next(sent, &home);
    let proofs = proofs(&app, &browser, &organization).await?;
    if is_done(&app, &proofs, &form).await? {
        return Ok(done(&app, see_other(next, Vec::new())));
    }
    let wanted = LinkId::parse(form.text("link")).map_err(|_| PageError::forged())?;
    let Some(found) = find(&app, &organization, proofs.clone(), Some(&wanted)).await? else {
        return Err(void(&slug));
    };
    if let Err(error) = passwords::check_for(form.text("password"), &found.user, &organization) {
        return Ok(show(&app, &browser, &organization, &found, sent, Some(&form_errors::of(&error))));
    }
    let asker = browser.asker_for(&app, &slug, &found.user);
    let hash = match sign_up::hash(&app, form.text("password"), asker).await {
        Ok(hash) => hash,
        Err(Refused::Full(wait)) => {
            let busy = FormError::of_form("form.busy");
            let mut response = show(&app, &browser, &organization, &found, sent, Some(&busy));
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, retry_after_value(wait));
            return Ok(response);
        }
        Err(Refused::Error(error)) => return Err(error.into()),
    };
    let user = match set(&app, &browser, &found, hash).await {
        Ok(user) => user,
        Err(Error::NotFound { .. }) if is_done(&app, &proofs, &form).await? => {
            return Ok(done(&app, see_other(next, Vec::new())));
        }
        Err(Error::NotFound { .. }) => return Err(void(&slug)),
        Err(error) => return Err(error.into()),
    };
    let how = Authentication::new(app.now(), &[Method::Email]);
    let mut response = browser.sign_in(&app, &user, how, &slug, next).await?;
    if let Some(said) = Flash::PasswordSet.cookie(&app, &slug) {
        response.headers_mut().append(SET_COOKIE, said);
    }
    Ok(done(&app, response))
}

/// Sets the password, and queues the mail that says so.
async fn set(app: &App, browser: &Browser, found: &Reset, hash: String) -> Result<User, Error> {
    let (proof, actor) = (found.proof.clone(), app.actor(&found.user.id, browser.address));
    let (now, given) = (app.now(), given(app));
    let notice = NewMail {
        id: MailId::new(now, app.random()),
        organization: found.user.organization.clone(),
        user: Some(found.user.id.clone()),
        address: found.user.email.clone(),
        purpose: Purpose::PasswordChanged,
        language: browser.language(app).tag().to_owned(),
        sealed: None,
        is_unproven: false,
        expires_at: now + NOTICE_LIFE,
    };
    let set = app.store.write("password.reset", move |tx| {
        let user = password_changes::reset(tx, &proof, &hash, &actor.clone())?;
        queue(tx, &given(), &notice)?;
        Ok(user)
    });
    set.await
}

/// The browser needs the secrets no more.
fn done(app: &App, mut response: Response) -> Response {
    KeptLink::Reset.forget(app, &mut response);
    KeptLink::Asked.forget(app, &mut response);
    response
}

/// What this browser has that may show that a password may be set: a mailed link that it has opened, and a code that it has
/// entered. The one that was opened comes first.
async fn proofs(
    app: &App,
    browser: &Browser,
    organization: &Organization,
) -> Result<Vec<MailProof>, PageError> {
    let link = KeptLink::Reset.read(app, browser).map(MailProof::Link);
    let code = match asking::Asked::read(app, browser, &organization.slug) {
        None => None,
        Some(asked) => {
            let (id, hash, now) = (asked.id()?, hash_of(browser), app.now());
            let proof = app.store.point(move |snapshot| requests::proof(snapshot, &id, &hash, now)).await?;
            let proof = proof
                .filter(|proof| proof.purpose == Purpose::Reset && proof.organization == organization.id);
            proof.map(|proof| MailProof::Code(proof.link))
        }
    };
    Ok(link.into_iter().chain(code).collect())
}

/// The first of the proofs that is valid, of the link `wanted` if one is.
async fn find(
    app: &App,
    organization: &Organization,
    proofs: Vec<MailProof>,
    wanted: Option<&LinkId>,
) -> Result<Option<Reset>, Error> {
    let (of, now, wanted) = (organization.id.clone(), app.now(), wanted.cloned());
    let found = app.store.point(move |snapshot| {
        for proof in proofs {
            let Some(link) = proof.link().filter(|link| wanted.as_ref().is_none_or(|one| one == link)) else {
                continue;
            };
            let Some(user) = password_changes::peek_reset(snapshot, &proof, now)? else { continue };
            let user = users::get(snapshot, &user)?;
            if user.organization == of {
                let has_password = passwords::get(snapshot, &user.id)?.is_some();
                return Ok(Some(Reset { proof, link, user, has_password }));
            }
        }
        Ok(None)
    });
    found.await
}

/// Whether this form has set the password already: a second click, or a form that was sent again.
async fn is_done(app: &App, proofs: &[MailProof], form: &Form) -> Result<bool, Error> {
    let is_of_form = |proof: &&MailProof| proof.link().is_some_and(|link| link.as_str() == form.text("link"));
    let Some(proof) = proofs.iter().find(is_of_form).cloned() else { return Ok(false) };
    app.store.point(move |snapshot| password_changes::was_reset(snapshot, &proof)).await
}

fn show(
    app: &App,
    browser: &Browser,
    organization: &Organization,
    found: &Reset,
    sent: Option<&str>,
    error: Option<&FormError>,
) -> Response {
    let (csrf, home) = (browser.csrf(app), home(&organization.slug));
    let view = SetPassword {
        brand: &organization.name,
        user_email: &found.user.email,
        has_password: found.has_password,
        may_wait: false,
        csrf: &csrf,
        hidden: &[("link", found.link.as_str()), ("next", safe_next(sent, &home))],
        action: &path(&organization.slug),
        error,
    };
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    browser.page_with(app, status, view.markup(browser.language(app)))
}
