//! `/consent`: a user decides whether a client gets the scopes that it requests.

use super::addresses;
use super::browser::{Browser, Form, is_own_page};
use super::respond::{PageError, PageResult, see_other};
use super::scope;
use super::views::{Consent, ScopeLine};
use crate::app::App;
use crate::oauth::authorize::{self, Request};
use axum::extract::State;
use identity::consents;
use identity::sessions::Session;

/// The question.
pub(crate) async fn ask(app: &App, browser: &Browser, session: &Session, request: &Request) -> PageResult {
    let user = app.lookups.user(&session.user, app.now()).await?;
    let language = browser.language(app);
    let said: Vec<(String, String)> =
        request.scope.iter().map(|scope| (scope.to_owned(), scope::describe(language, scope))).collect();
    let lines: Vec<ScopeLine<'_>> = said.iter().map(|(name, says)| ScopeLine { name, says }).collect();
    let csrf = browser.csrf(app);
    let next = request.address(app, Some(session));
    let view = Consent {
        org_name: &request.client.organization_name,
        client_name: &request.client.name,
        service_name: &request.client.service_name,
        user_email: &user.email,
        unreviewed: request.client.needs_review.then(|| destination(request.redirect_uri())),
        scopes: &lines,
        csrf: &csrf,
        hidden: &[("next", &next), ("session", session.id.as_str())],
        action: "/consent",
        switch_href: &addresses::switch(&request.client.organization_slug, &next),
    };
    Ok(browser.page(app, view.markup(language)))
}

/// Where a redirect URI leads, in short: its origin, or the scheme of an app's own address.
fn destination(uri: &str) -> &str {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return uri.split_once(':').map_or(uri, |(scheme, _)| scheme);
    };
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    &uri[..scheme.len() + "://".len() + authority]
}

pub(crate) async fn post(State(app): State<App>, browser: Browser, form: Form) -> PageResult {
    let next = form.text("next");
    let answered = answer(&app, &browser, &form).await;
    // The request itself asks the question again.
    answered.map_err(|error| if is_own_page(next) { error.of_form_at(next) } else { error })
}

async fn answer(app: &App, browser: &Browser, form: &Form) -> PageResult {
    browser.check_csrf(app, form)?;
    let query = form.text("next").strip_prefix("/auth/authorize?").unwrap_or_default();
    match authorize::understand(app, query, browser.wanted()).await? {
        Ok(request) => request.or_busy(decide(app, browser, form, &request).await),
        Err(redirect) => Ok(redirect),
    }
}

async fn decide(app: &App, browser: &Browser, form: &Form, request: &Request) -> PageResult {
    let Some(session) = browser.session(app, &request.client.organization_slug).await? else {
        return Ok(see_other(
            &addresses::sign_in(&request.client.organization_slug, &request.address(app, None)),
            Vec::new(),
        ));
    };
    // Another user may have signed in since the page was shown. They are asked again.
    if form.text("session") != session.id.as_str() {
        return ask(app, browser, &session, request).await;
    }
    match form.text("decision") {
        "allow" => allow(app, browser, session, request).await,
        "deny" => Ok(request.refuse("access_denied", "The user said no.")),
        _ => Err(PageError::bad("problem.request.no_decision")),
    }
}

async fn allow(app: &App, browser: &Browser, session: Session, request: &Request) -> PageResult {
    let (client, scope) = (request.client.id.clone(), request.scope.clone());
    let actor = app.actor(&session.user, browser.address);
    app.store.write("consent.give", move |tx| consents::give(tx, &session, &client, &scope, &actor)).await?;
    // The consent is for this request, so it is answered here: the address of a request that was kept from before the
    // consent must not get a code by it.
    authorize::decide(app, browser, request, true).await
}
