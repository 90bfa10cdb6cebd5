//! `/auth/authorize` (RFC 6749 section 4.1.1, OpenID Connect Core 3.1.2): a client sends a user here for a code.
//!
//! Until the client and the redirect URI are verified, errors are shown here; after that they go to the client
//! (`authorization_response.rs`). Sign-in and consent return to this address, so the request is checked again from its
//! beginning each time.

use super::authorization_response::{RESPONSE_MODES, ReplyTo};
use super::error::OAuthError;
use super::params::{Params, Posted};
use super::resource;
use super::sign_in_note::Note;
use super::wanted_level::{Step, Wanted};
use crate::app::App;
use crate::pages::addresses::{self, encoded};
use crate::pages::browser::Browser;
use crate::pages::consent;
use crate::pages::language::WantedLanguages;
use crate::pages::respond::{Link, PageError, PageResult, see_other};
use crate::pages::sign_in::{self, Prompt};
use crate::pages::sign_up;
use crate::pages::views::Label;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use identity::Error;
use identity::authorization_codes::{self, NewCode, is_pkce_text};
use identity::clients::{Client, Pkce};
use identity::consents;
use identity::organizations::{self, Status};
use identity::scopes::Scope;
use identity::sessions::Session;
use identity::tokens;
use std::sync::Arc;
use std::time::Duration;

/// The longest request: with our note, it is one parameter of the sign-in page.
const REQUEST_MAX: usize = 7680;
/// The longest request as it stands in the address of the sign-in page. A head has 16 KiB, with the browser's cookies.
const ENCODED_MAX: usize = 12 * 1024;

pub(crate) async fn get(State(app): State<App>, browser: Browser, RawQuery(query): RawQuery) -> PageResult {
    let request = match understand(&app, &query.unwrap_or_default(), browser.wanted()).await {
        Ok(Ok(request)) => request,
        Ok(Err(redirect)) => return Ok(redirect),
        Err(error) => return Err(browser.lead_on(&app, error).await),
    };
    request.or_busy(decide(&app, &browser, &request, false).await)
}

/// Leads on to a GET with the same parameters. Nothing is stored or looked up.
pub(crate) async fn post(
    State(app): State<App>,
    wanted: WantedLanguages,
    posted: Result<Posted, OAuthError>,
) -> PageResult {
    let form = posted.map_err(PageError::unreadable)?.params.to_form();
    if !is_too_long(&form) {
        return Ok(see_other(&format!("/auth/authorize?{form}"), Vec::new()));
    }
    wanted.note(&form);
    match understand(&app, &form, &wanted).await? {
        // Only the note is too much, which no client sends.
        Ok(request) => Ok(request.refuse("invalid_request", &too_long())),
        Err(redirect) => Ok(redirect),
    }
}

/// Whether the sign-in page cannot get this request as the place where it leads to.
fn is_too_long(query: &str) -> bool {
    query.len() > REQUEST_MAX || encoded(query).len() > ENCODED_MAX
}

fn too_long() -> String {
    format!(
        "The request is too long: {REQUEST_MAX} bytes are allowed, and {ENCODED_MAX} when it is encoded once more."
    )
}

/// A request whose client and redirect URI are good, and whose parameters make sense.
pub(crate) struct Request {
    pub client: Arc<Client>,
    pub scope: Scope,
    reply_to: ReplyTo,
    nonce: Option<String>,
    challenge: Option<String>,
    prompt: Vec<String>,
    max_age: Option<Duration>,
    wanted: Option<Wanted>,
    hint: Option<String>,
    note: Option<Note>,
    /// The request as a query, without the note.
    query: String,
}

impl Request {
    /// Where the answer goes.
    pub(crate) fn redirect_uri(&self) -> &str {
        self.reply_to.redirect_uri()
    }

    /// This request's own address, with a note that lets the user of `session` sign in for it.
    pub(crate) fn address(&self, app: &App, session: Option<&Session>) -> String {
        let note = match &self.note {
            Some(note) if note.is_for(session) => note.text().to_owned(),
            _ => Note::new(app, &self.query, session).text().to_owned(),
        };
        format!("/auth/authorize?{}&{note}", self.query)
    }

    /// Whether the user of this session has signed in for this request.
    fn has_signed_in(&self, session: &Session) -> bool {
        self.note.as_ref().is_some_and(|note| note.is_before(session))
    }

    /// What has to happen so that it gets the level of authentication that it asks for.
    fn step(&self, session: Option<&Session>) -> Step {
        let has_signed_in = session.is_some_and(|session| self.has_signed_in(session));
        let how = session.map(|session| &session.authentication);
        self.wanted.as_ref().map_or(Step::None, |wanted| wanted.step(how, has_signed_in))
    }

    /// Whether its `prompt` has a word.
    fn prompts(&self, word: &str) -> bool {
        self.prompt.iter().any(|known| known == word)
    }

    /// Sends the client a temporary error in place of a page.
    pub(crate) fn or_busy(&self, answer: PageResult) -> PageResult {
        match answer {
            Err(error) if error.is_temporary() => {
                Ok(self.refuse("temporarily_unavailable", "The server is busy; try again."))
            }
            other => other,
        }
    }

    /// Sends an error to the client.
    pub(crate) fn refuse(&self, error: &str, description: &str) -> Response {
        self.reply_to.refuse(error, description)
    }
}

async fn known_client(app: &App, params: &Params) -> Result<Arc<Client>, PageError> {
    let id = params.get("client_id").ok_or_else(|| PageError::bad("problem.request.no_client_id"))?;
    match app.lookups.client(id, app.now()).await {
        Ok(client) => Ok(client),
        Err(Error::NotFound { .. }) => Err(PageError::bad("problem.request.unknown_client")),
        Err(error) => Err(error.into()),
    }
}

/// Where a user of this client can sign in, or find their account.
fn sign_in_of(client: &Client) -> Link {
    Link::SignIn(client.organization_slug.clone())
}

/// The page of a request that cannot go back to the client. It shows what came, as text.
fn wrong_redirect_uri(client: &Client, uri: &str) -> PageError {
    PageError::bad("problem.request.wrong_redirect_uri")
        .labelled(Label::Text("problem.request.product"), &client.name)
        .detail("client_id", client.id.as_str())
        .detail("redirect_uri", uri)
        .labelled(
            Label::Text("problem.request.administrators"),
            &format!("sarsen client problems {}", client.id),
        )
}

/// Sends the client the error of a request that cannot be read, if `client_id` and `redirect_uri` come once and are valid
/// (RFC 6749 section 4.1.2.1).
async fn refuse_unreadable(
    app: &App,
    query: &str,
    error: OAuthError,
    wanted: &WantedLanguages,
) -> Result<Response, PageError> {
    let once = |name: &str| {
        let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(known, _)| known == name);
        let (_, value) = values.next().filter(|(_, value)| !value.contains('\u{fffd}'))?;
        values.next().is_none().then(|| value.into_owned())
    };
    let (Some(client), Some(uri)) = (once("client_id"), once("redirect_uri")) else {
        return Err(PageError::unreadable(error));
    };
    let readable = ["state", "response_mode"].into_iter().filter_map(|name| Some((name, once(name)?)));
    match app.lookups.client(&client, app.now()).await {
        Ok(client) if client.may_redirect_to(&uri) => {
            let reply_to = ReplyTo::new(app, &client, &uri, &Params::of(readable), wanted);
            Ok(reply_to.refuse(error.error, &error.description))
        }
        Ok(client) => Err(PageError::unreadable(error).or_link(sign_in_of(&client))),
        Err(Error::NotFound { .. }) => Err(PageError::unreadable(error)),
        Err(error) => Err(error.into()),
    }
}

/// Reads a request. The inner error is an answer to the client.
pub(crate) async fn understand(
    app: &App,
    query: &str,
    wanted: &WantedLanguages,
) -> Result<Result<Request, Response>, PageError> {
    let params = match Params::from_form(query.as_bytes()) {
        Ok(params) => params,
        Err(error) => return refuse_unreadable(app, query, error, wanted).await.map(Err),
    };
    let client = known_client(app, &params).await?;
    let link = sign_in_of(&client);
    understand_of(app, client, params, query, wanted).await.map_err(|error| error.or_link(link))
}

/// Reads the request of a known client.
async fn understand_of(
    app: &App,
    client: Arc<Client>,
    params: Params,
    query: &str,
    wanted: &WantedLanguages,
) -> Result<Result<Request, Response>, PageError> {
    let uri = params.get("redirect_uri").ok_or_else(|| PageError::bad("problem.request.no_redirect_uri"))?;
    if !client.may_redirect_to(uri) {
        app.redirect_problems.note(&client, uri, app.now());
        return Err(wrong_redirect_uri(&client, uri));
    }
    let reply_to = ReplyTo::new(app, &client, uri, &params, wanted);
    let refuse = |error: &str, description: &str| Ok(Err(reply_to.refuse(error, description)));
    if let Err((error, description)) = check(&client, &params) {
        return refuse(error, description);
    }
    if let Err(OAuthError { error, description, .. }) = resource::check(app, &params) {
        return refuse(error, &description);
    }
    let scope = match Scope::grant(params.get("scope"), client.is_first_party()) {
        Ok(scope) => scope,
        Err(error) => {
            let OAuthError { error, description, .. } = error.into();
            return refuse(error, &description);
        }
    };
    let max_age = match params.get("max_age").map(str::parse::<u32>) {
        None => None,
        Some(Ok(seconds)) => Some(Duration::from_secs(seconds.into())),
        Some(Err(_)) => return refuse("invalid_request", "max_age is not a number of seconds."),
    };
    let (note, query) = Note::read(app, query);
    if is_too_long(&query) {
        return refuse("invalid_request", &too_long());
    }
    let own = |name: &str| params.get(name).map(str::to_owned);
    Ok(Ok(Request {
        scope,
        nonce: own("nonce"),
        challenge: own("code_challenge"),
        prompt: prompts(&params),
        max_age,
        wanted: Wanted::read(&params),
        hint: own("id_token_hint"),
        note,
        query,
        reply_to,
        client,
    }))
}

fn prompts(params: &Params) -> Vec<String> {
    params
        .get("prompt")
        .unwrap_or_default()
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What is wrong with the parameters, as an OAuth error.
fn check(client: &Client, params: &Params) -> Result<(), (&'static str, &'static str)> {
    let absent = [
        ("request", "request_not_supported", "Request objects are not supported."),
        ("request_uri", "request_uri_not_supported", "Requests by reference are not supported."),
        ("registration", "registration_not_supported", "Registration in a request is not supported."),
    ];
    if let Some((_, error, text)) = absent.into_iter().find(|(name, ..)| params.get(name).is_some()) {
        return Err((error, text));
    }
    match params.get("response_type") {
        Some("code") => {}
        Some(_) => return Err(("unsupported_response_type", "response_type must be code.")),
        None => return Err(("invalid_request", "The parameter response_type is missing; it must be code.")),
    }
    if params.get("response_mode").is_some_and(|mode| !RESPONSE_MODES.contains(&mode)) {
        return Err(("invalid_request", "response_mode must be query or form_post."));
    }
    if !client.may("authorization_code") {
        return Err(("unauthorized_client", "This client may not use the authorization code grant."));
    }
    match (params.get("code_challenge"), params.get("code_challenge_method")) {
        (Some(challenge), Some("S256")) if is_pkce_text(challenge) => {}
        (Some(_), Some("S256")) => {
            return Err(("invalid_request", "code_challenge has not the form of RFC 7636."));
        }
        (Some(_), _) => return Err(("invalid_request", "code_challenge_method must be S256.")),
        (None, Some(_)) => return Err(("invalid_request", "code_challenge is missing.")),
        (None, None) if client.pkce == Pkce::Required || !client.kind.is_confidential() => {
            return Err(("invalid_request", "PKCE is required: send code_challenge with method S256."));
        }
        (None, None) => {}
    }
    // Values that are not known are ignored (OpenID Connect Core 3.1.2.1).
    let prompt = prompts(params);
    if prompt.len() > 1 && prompt.iter().any(|word| word == "none") {
        return Err(("invalid_request", "prompt=none stands alone."));
    }
    Ok(())
}

/// Answers a request, whose user may have agreed to it a moment ago.
pub(crate) async fn decide(app: &App, browser: &Browser, request: &Request, has_agreed: bool) -> PageResult {
    let organization = request.client.organization.clone();
    let organization = app.store.point(move |snapshot| organizations::get(snapshot, &organization)).await?;
    if organization.status != Status::Active {
        return Ok(request.refuse("access_denied", "The organization is not active."));
    }
    let silent = request.prompts("none");
    let slug = &request.client.organization_slug;
    let session = browser.session(app, slug).await?;
    if request.step(session.as_ref()) == Step::Unmet {
        let text = "The level of authentication that is essential (acr) cannot be reached.";
        return Ok(request.refuse("unmet_authentication_requirements", text));
    }
    let fresh = session.as_ref().filter(|session| is_fresh_enough(app, session, request));
    let Some(session) = fresh else {
        if silent {
            return Ok(request.refuse("login_required", "The user is not signed in."));
        }
        let back = request.address(app, session.as_ref());
        if request.prompts("create") && organization.allows_sign_up(app.settings.sign_up) {
            return Ok(see_other(&sign_up::address(slug, &back), Vec::new()));
        }
        let prompt = if request.prompts("select_account") || request.prompts("create") {
            Prompt::SelectAccount
        } else {
            Prompt::Login
        };
        let sign_in = match session {
            Some(_) => sign_in::address_with(slug, prompt, &back),
            None => addresses::sign_in(slug, &back),
        };
        return Ok(see_other(&sign_in, Vec::new()));
    };
    if let Some(hint) = &request.hint {
        let now = app.now();
        let ring = app.lookups.ring(now).await?;
        match tokens::verify_id_hint(&ring, &app.settings.issuer, hint, now) {
            Some(claims) if claims.sub == session.user.as_str() => {}
            Some(_) => return Ok(request.refuse("login_required", "Another user is signed in.")),
            // The user can see who is signed in, so a hint that proves nothing is left out.
            None if !silent => {}
            None => {
                let text = "id_token_hint is not a valid ID token of this server.";
                return Ok(request.refuse("login_required", text));
            }
        }
    }
    if !has_agreed && needs_consent(app, session, request).await? {
        if silent {
            return Ok(request.refuse("consent_required", "The user has not agreed yet."));
        }
        return consent::ask(app, browser, session, request).await;
    }
    give_code(app, session, request).await
}

fn is_fresh_enough(app: &App, session: &Session, request: &Request) -> bool {
    let again = ["login", "select_account", "create"].iter().any(|word| request.prompts(word));
    let has_signed_in = request.has_signed_in(session);
    if again && !has_signed_in {
        return false;
    }
    if request.step(Some(session)) == Step::SignIn {
        return false;
    }
    request.max_age.is_none_or(|age| has_signed_in || app.now().since(session.authentication.at) < age)
}

async fn needs_consent(app: &App, session: &Session, request: &Request) -> Result<bool, PageError> {
    if request.prompts("consent") {
        return Ok(true);
    }
    let client = &request.client;
    if !client.consent_required {
        return Ok(false);
    }
    if !client.keeps_consent(request.reply_to.redirect_uri()) {
        return Ok(true);
    }
    let (user, client, scope) = (session.user.clone(), client.id.clone(), request.scope.clone());
    let consented =
        app.store.point(move |snapshot| consents::has_consented(snapshot, &user, &client, &scope)).await?;
    Ok(!consented)
}

async fn give_code(app: &App, session: &Session, request: &Request) -> PageResult {
    let now = app.now();
    let mut new = NewCode::generate(
        request.client.id.clone(),
        session,
        request.reply_to.redirect_uri().to_owned(),
        request.scope.clone(),
        now,
        app.random(),
    );
    new.challenge = request.challenge.clone();
    new.nonce = request.nonce.clone();
    if new.challenge.is_some() {
        app.pkce_use.note(&app.store, &request.client.id, now);
    }
    let code = new.code.clone();
    app.store.write("code.create", move |tx| authorization_codes::create(tx, &new, now)).await?;
    Ok(request.reply_to.accept(&code))
}
