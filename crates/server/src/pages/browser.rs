//! The browser of a request: its cookies, its sessions, its CSRF token.
//!
//! One cookie identifies the browser (CSRF tokens are derived from it), and one its session in
//! each organization. On https they are `__Host-` and Secure; they are always HttpOnly and SameSite=Lax.

use super::language::WantedLanguages;
use super::respond::{Link, PageError, page, see_other};
use crate::app::App;
use crate::lanes::Asker;
use crate::oauth::params::Params;
use crate::web::auth::Address;
use crate::web::fetch_metadata::may_be_own_form;
use crate::web::json;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use identity::authentication::Authentication;
use identity::ids::SessionId;
use identity::secrets::{self, Hash, SecretKey};
use identity::sessions::{self, NewSession, Own, Session};
use identity::users::{self, User};
use identity::{Result, names};
use maud::Markup;
use std::borrow::Cow;
use std::net::IpAddr;
use texts::Language;

/// The pages to which a sign-in may redirect: only our own.
const NEXT: &[&str] = &["/auth/authorize?", "/activate", "/o/", "/console", "/account", "/invitation"];

/// A request reads the sessions of at most this many organizations, because a browser may send any number of cookies.
const ORGANIZATIONS_MAX: usize = 50;

/// The most cookies of ours that are read: those of the organizations, and the ones without an organization.
const COOKIES_MAX: usize = ORGANIZATIONS_MAX + 10;

/// The most cookies of all programs on this host. Browsers keep fewer.
const ALL_COOKIES_MAX: usize = 500;

/// The kind of the browser's own cookie; no slug begins with `_`.
const BROWSER: &str = "_browser";

/// The kind of the cookie with a tag for each user who has signed in with this browser.
const KNOWN: &str = "_known";
/// The most tags in that cookie, the latest sign-in first.
const KNOWN_USERS_MAX: usize = 8;
/// The most session cookies that are looked up to find a live session.
const SESSIONS_TRIED_MAX: usize = 8;
/// The lifetime of these two cookies, the longest that browsers accept (RFC 6265bis).
const BROWSER_LIFE_S: u64 = 400 * 24 * 3600;

/// The browser of a request.
pub(crate) struct Browser {
    /// 256 random bits, the value of its cookie.
    id: String,
    /// Whether the cookie is new and must be sent.
    fresh: bool,
    cookies: Vec<(String, String)>,
    pub address: IpAddr,
    /// Its `User-Agent`.
    pub agent: String,
    /// Whether the headers allow that the form came from one of our pages.
    is_own_form: bool,
    wanted: WantedLanguages,
}

impl FromRequestParts<App> for Browser {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(
        parts: &mut Parts,
        app: &App,
    ) -> std::result::Result<Browser, Self::Rejection> {
        let Address(address) = Address::from_request_parts(parts, app).await?;
        let wanted = WantedLanguages::from_request_parts(parts, app).await?;
        let cookies = cookies(&parts.headers, &cookie_name(app, ""));
        let name = cookie_name(app, BROWSER);
        let known = cookies.iter().find(|(cookie, value)| *cookie == name && value.len() == 43);
        let id = known.map_or_else(|| secrets::secret(app.random()), |(_, value)| value.clone());
        let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_own_form = may_be_own_form(&parts.headers, &app.settings.issuer);
        Ok(Browser {
            fresh: known.is_none(),
            id,
            address,
            agent: names::remark(agent),
            cookies,
            is_own_form,
            wanted,
        })
    }
}

impl Browser {
    /// The CSRF token for this browser's forms.
    pub(crate) fn csrf(&self, app: &App) -> String {
        app.secret_key.derive(&["csrf", &self.id])
    }

    /// Fails unless the form came from one of our pages in this browser.
    pub(crate) fn check_csrf(&self, app: &App, form: &Form) -> std::result::Result<(), PageError> {
        let sent = form.get("csrf").unwrap_or_default();
        let good = self.is_own_form && !self.fresh && app.secret_key.derives(&["csrf", &self.id], sent);
        if good { Ok(()) } else { Err(PageError::forged()) }
    }

    /// The caller of the hash lane for a sign-in in which this browser is not known for the account.
    pub(crate) fn asker<'a>(&self, organization: &'a str) -> Asker<'a> {
        Asker { address: self.address, organization, known: None }
    }

    /// The caller of the hash lane for an account that exists. A browser that is known for it may use the lane's reserve.
    pub(crate) fn asker_for<'a>(&self, app: &App, organization: &'a str, user: &User) -> Asker<'a> {
        let known = self.is_known(app, user).then(|| format!("{} {}", user.id, self.id));
        Asker { known, ..self.asker(organization) }
    }

    /// Whether this user has signed in with this browser since they last changed their password or signed out
    /// everywhere.
    pub(crate) fn is_known(&self, app: &App, user: &User) -> bool {
        is_known_as(&app.secret_key, &self.known_as(app), user)
    }

    /// What says for whom it is known, for [`is_known_as`]: a secret.
    pub(crate) fn known_as(&self, app: &App) -> String {
        let tags: Vec<&str> = self.known_tags(app).collect();
        [&self.id, "\n", &tags.join(".")].concat()
    }

    /// The cookie that makes this browser known for a user. It must be sent again when the user's epoch has changed.
    pub(crate) fn known_cookie(&self, app: &App, user: &User) -> Option<HeaderValue> {
        let epoch = user.known_browsers_epoch.to_string();
        let tag = app.secret_key.derive(&[KNOWN, &self.id, user.id.as_str(), &epoch]);
        let others = self.known_tags(app).filter(|known| *known != tag);
        let tags: Vec<&str> = std::iter::once(&*tag).chain(others).take(KNOWN_USERS_MAX).collect();
        set_cookie(app, KNOWN, &tags.join("."), BROWSER_LIFE_S)
    }

    fn known_tags(&self, app: &App) -> impl Iterator<Item = &str> {
        self.cookie(app, KNOWN)
            .unwrap_or_default()
            .split('.')
            .filter(|tag| tag.len() == 43)
            .take(KNOWN_USERS_MAX)
    }

    /// The key of this browser's rate limits.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// What a form of this browser about `subject` has in common with the same form, sent again. It is no secret.
    pub(crate) fn form_key(&self, subject: &str) -> String {
        URL_SAFE_NO_PAD.encode(secrets::hash([self.id.as_str(), subject].join("\n").as_bytes()))
    }

    /// The value of one of our cookies in this request.
    pub(super) fn cookie(&self, app: &App, what: &str) -> Option<&str> {
        let name = cookie_name(app, what);
        self.cookies.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// The slugs of the first organizations for which it sends a session cookie, and these cookies.
    fn session_cookies(&self, app: &App) -> Vec<(String, String)> {
        let prefix = cookie_name(app, "");
        let named = |(name, value): &(String, String)| {
            Some((name.strip_prefix(&prefix)?.to_owned(), value.to_owned()))
        };
        let cookies = self.cookies.iter().filter_map(named);
        cookies.filter(|(slug, _)| names::slug("slug", slug).is_ok()).take(ORGANIZATIONS_MAX).collect()
    }

    /// Its live sessions with the slugs of their organizations, read in one snapshot.
    pub(crate) async fn sessions(&self, app: &App) -> Result<Vec<(String, Session)>> {
        let (cookies, now) = (self.session_cookies(app), app.now());
        let query = move |snapshot: &mut store::Snapshot<'_>| {
            let mut found = Vec::new();
            for (slug, cookie) in &cookies {
                if let Some(session) = sessions::by_cookie(snapshot, slug, cookie, now)? {
                    found.push((slug.clone(), session));
                }
            }
            Ok(found)
        };
        app.store.read(query).await
    }

    /// Its live session in an organization.
    pub(crate) async fn session(&self, app: &App, organization: &str) -> Result<Option<Session>> {
        let Some(cookie) = self.cookie(app, organization) else { return Ok(None) };
        let (slug, cookie, now) = (organization.to_owned(), cookie.to_owned(), app.now());
        app.store.point(move |snapshot| sessions::by_cookie(snapshot, &slug, &cookie, now)).await
    }

    /// Its live session with this id.
    pub(crate) async fn session_with_id(&self, app: &App, id: &str) -> Result<Option<Session>> {
        let prefix = cookie_name(app, "");
        let is_of = |value: &str| value.strip_prefix(id).is_some_and(|secret| secret.starts_with('.'));
        let cookie = self.cookies.iter().find(|(_, value)| is_of(value));
        match cookie.and_then(|(name, _)| name.strip_prefix(&prefix)) {
            Some(organization) => self.session(app, organization).await,
            None => Ok(None),
        }
    }

    /// A live session in any organization, with the organization's slug.
    pub(crate) async fn any_session(&self, app: &App) -> Result<Option<(String, Session)>> {
        let prefix = cookie_name(app, "");
        let organizations = self.cookies.iter().filter_map(|(name, _)| name.strip_prefix(&prefix));
        for organization in organizations.filter(|name| !name.starts_with('_')).take(SESSIONS_TRIED_MAX) {
            if let Some(session) = self.session(app, organization).await? {
                return Ok(Some((organization.to_owned(), session)));
            }
        }
        Ok(None)
    }

    /// The error with a link to the user's account page where it would have none for users. If no session can be read, the
    /// page works without it.
    pub(crate) async fn lead_on(&self, app: &App, error: PageError) -> PageError {
        if !error.leads_to_start() {
            return error;
        }
        match self.any_session(app).await {
            Ok(Some((organization, _))) => error.link(Link::Account(organization)),
            Ok(None) | Err(_) => error,
        }
    }

    /// The languages that it asks for.
    pub(crate) fn wanted(&self) -> &WantedLanguages {
        &self.wanted
    }

    /// The language of its pages.
    pub(crate) fn language<'a>(&self, app: &'a App) -> &'a Language {
        self.wanted.language(app)
    }

    /// A page, with the browser's cookie if it has none yet.
    pub(crate) fn page(&self, app: &App, markup: Markup) -> Response {
        self.page_with(app, StatusCode::OK, markup)
    }

    /// The same with another status.
    pub(crate) fn page_with(&self, app: &App, status: StatusCode, markup: Markup) -> Response {
        page(self.language(app), status, markup, self.own_cookie(app).into_iter().collect())
    }

    /// The browser's cookie, if it has none yet.
    pub(super) fn own_cookie(&self, app: &App) -> Option<HeaderValue> {
        if self.fresh { set_cookie(app, BROWSER, &self.id, BROWSER_LIFE_S) } else { None }
    }

    /// A session for a user who has authenticated, and the secret of its cookie.
    pub(super) fn new_session(&self, app: &App, user: &User, how: Authentication) -> (NewSession, String) {
        let (now, secret) = (app.now(), secrets::secret(app.random()));
        let hash: Hash = secrets::hash(secret.as_bytes());
        let new = NewSession {
            id: SessionId::new(now, app.random()),
            organization: user.organization.clone(),
            user: user.id.clone(),
            kind: "browser",
            hash: Some(hash),
            address: self.address.to_string(),
            agent: self.agent.clone(),
            created_at: now,
            authentication: how,
            expires_at: now + app.settings.session_life,
        };
        (new, secret)
    }

    /// Signs in a user who has authenticated, and redirects to `next`. The secret in the session's cookie is always new,
    /// so a cookie from before the sign-in is void.
    pub(crate) async fn sign_in(
        &self,
        app: &App,
        user: &User,
        how: Authentication,
        organization: &str,
        next: &str,
    ) -> super::respond::PageResult {
        let (new, secret) = self.new_session(app, user, how);
        let (slug, cookie) = (organization.to_owned(), self.cookie(app, organization).map(str::to_owned));
        let actor = app.actor(&user.id, self.address);
        let verified = user.clone();
        let signed_in = app.store.write("session.create", move |tx| {
            users::require_unchanged(tx, &verified)?;
            sessions::sign_in(tx, &new, &slug, cookie.as_deref(), &actor.clone())
        });
        Ok(self.signed_in(app, user, organization, [signed_in.await?.as_str(), &secret], next))
    }

    /// Redirects a user who has signed in. `session` is the session's id and the secret of its cookie.
    pub(super) fn signed_in(
        &self,
        app: &App,
        user: &User,
        organization: &str,
        session: [&str; 2],
        next: &str,
    ) -> Response {
        let life = app.settings.session_life.as_secs();
        let session = set_cookie(app, organization, &session.join("."), life);
        let known = self.known_cookie(app, user);
        see_other(next, [session, known].into_iter().flatten().collect())
    }

    /// Ends the browser's session in an organization; the cookie to send.
    pub(crate) async fn sign_out(&self, app: &App, organization: &str) -> Result<Vec<HeaderValue>> {
        if let Some(session) = self.session(app, organization).await? {
            self.end(app, session).await?;
        }
        Ok(set_cookie(app, organization, "", 0).into_iter().collect())
    }

    /// Ends the browser's sessions in all organizations; the cookies to send.
    pub(crate) async fn sign_out_everywhere(&self, app: &App) -> Result<Vec<HeaderValue>> {
        for (_, session) in self.sessions(app).await? {
            self.end(app, session).await?;
        }
        let slugs = self.session_cookies(app).into_iter();
        Ok(slugs.filter_map(|(slug, _)| set_cookie(app, &slug, "", 0)).collect())
    }

    async fn end(&self, app: &App, session: Session) -> Result<()> {
        let (actor, own) = (app.actor(&session.user, self.address), Own::One(session.id.clone()));
        app.store.write("session.end", move |tx| sessions::end_own(tx, &session, &own, &actor)).await?;
        Ok(())
    }
}

/// [`Browser::is_known`] by what [`Browser::known_as`] gave.
pub(crate) fn is_known_as(key: &SecretKey, known_as: &str, user: &User) -> bool {
    let Some((id, tags)) = known_as.split_once('\n') else { return false };
    let epoch = user.known_browsers_epoch.to_string();
    let parts = [KNOWN, id, user.id.as_str(), &epoch];
    tags.split('.').any(|tag| key.derives(&parts, tag))
}

/// Names and values of the cookies of the request whose names begin with `prefix`, in their order. It compares bytes:
/// browsers send the cookies of all sites of the domain in one header, and these may contain any bytes.
pub(crate) fn cookies(headers: &HeaderMap, prefix: &str) -> Vec<(String, String)> {
    let sent = headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let all = sent.take(ALL_COOKIES_MAX).map(<[u8]>::trim_ascii);
    let own = all.filter(|pair| pair.starts_with(prefix.as_bytes()));
    let pairs = own.filter_map(|pair| std::str::from_utf8(pair).ok()?.split_once('='));
    pairs.take(COOKIES_MAX).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The address after a sign-in: the requested one if it is one of our own pages.
pub(crate) fn safe_next<'a>(sent: Option<&'a str>, otherwise: &'a str) -> &'a str {
    sent.filter(|address| is_own_page(address)).unwrap_or(otherwise)
}

/// Whether a sign-in may lead to this address.
pub(crate) fn is_own_page(address: &str) -> bool {
    let is_plain = address.bytes().all(|letter| letter.is_ascii_graphic() && letter != b'\\');
    is_plain && NEXT.iter().any(|prefix| address.starts_with(prefix)) && !address.starts_with("//")
}

/// `__Host-` needs Secure, and Secure needs https. On http the port keeps servers on one host apart.
fn cookie_name(app: &App, what: &str) -> String {
    match app.settings.issuer.strip_prefix("http://") {
        Some(host) => format!("sarsen_{}_{what}", host.rsplit_once(':').map_or("80", |(_, port)| port)),
        None => format!("__Host-sarsen_{what}"),
    }
}

pub(super) fn set_cookie(app: &App, what: &str, value: &str, life_s: u64) -> Option<HeaderValue> {
    let secure = if app.settings.issuer.starts_with("https://") { "; Secure" } else { "" };
    let name = cookie_name(app, what);
    let cookie = format!("{name}={value}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&cookie).ok()
}

/// The fields of a page's form.
pub(crate) struct Form(Params);

impl Form {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }

    async fn read(request: Request, most: usize) -> std::result::Result<Form, PageError> {
        if json::media_type(request.headers()) != "application/x-www-form-urlencoded" {
            return Err(PageError::bad("problem.request.no_form"));
        }
        let wanted = request.extensions().get::<WantedLanguages>().cloned();
        let bytes = json::read_body_up_to(request, most).await?;
        if let (Some(wanted), Ok(form)) = (wanted, std::str::from_utf8(&bytes)) {
            wanted.note(form);
        }
        Params::from_form(&bytes).map(Form).map_err(PageError::unreadable)
    }

    /// All fields.
    pub(crate) fn params(&self) -> &Params {
        &self.0
    }

    /// The value, or an empty text.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = PageError;
    async fn from_request(request: Request, _: &S) -> std::result::Result<Form, PageError> {
        Form::read(request, json::BODY_MAX).await
    }
}

/// A form of at most `MAX` bytes.
pub(crate) struct ShortForm<const MAX: usize>(pub(crate) Form);

impl<const MAX: usize, S: Send + Sync> FromRequest<S> for ShortForm<MAX> {
    type Rejection = PageError;
    async fn from_request(request: Request, _: &S) -> std::result::Result<ShortForm<MAX>, PageError> {
        Form::read(request, MAX).await.map(ShortForm)
    }
}

/// The parameters in the address of a page.
pub(crate) struct Asked(pub Params);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = PageError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> std::result::Result<Asked, PageError> {
        let query = parts.uri.query().unwrap_or_default();
        let params = Params::from_form(query.as_bytes());
        params.map(Asked).map_err(PageError::unreadable)
    }
}

/// The pairs of a query or a form.
pub(super) fn encoded_pairs(form: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    form_urlencoded::parse(form.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_leads_to_our_own_pages_only() {
        for good in
            ["/auth/authorize?client_id=x", "/activate?user_code=BCDF-GHJK", "/o/acme/account", "/console"]
        {
            assert_eq!(safe_next(Some(good), "/home"), good);
        }
        for bad in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/o/\\evil",
            "/o/ x",
            "javascript:1",
            "/auth/token",
        ] {
            assert_eq!(safe_next(Some(bad), "/home"), "/home", "{bad}");
        }
    }
}
