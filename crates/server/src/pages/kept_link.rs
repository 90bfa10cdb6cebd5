//! The secret of a one-time link, moved from the URL into a cookie.
//!
//! A link carries its secret in the query, because a fragment reaches no server without JavaScript. The page moves the
//! secret into a cookie at once and redirects to its own address. So the secret is in no `Referer`, in no title of a
//! history entry that stays, and in no address that a user copies. The cookie is sealed for this browser, so its value
//! is no copy of the link.

use super::browser::{Browser, set_cookie};
use crate::app::App;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use http::header::SET_COOKIE;
use identity::{Result, secrets};

/// Long enough for a sign-in or a new password, short enough for a shared computer.
const LIFE_S: u64 = 30 * 60;

/// The kind of the link; no slug begins with `_`.
#[derive(Clone, Copy)]
pub(crate) enum KeptLink {
    /// No link, but what this browser has asked a mail for.
    Asked,
    Invitation,
    Password,
    Reset,
    SetUp,
    SignIn,
    Verify,
}

/// The part of a link's token that is no secret. A form names its link by it, because another link may have been opened
/// in another tab since the form was shown.
pub(crate) fn id_of(token: &str) -> &str {
    secrets::split_token(token).map_or("", |(id, _)| id)
}

impl KeptLink {
    fn cookie(self) -> &'static str {
        match self {
            KeptLink::Asked => "_asked",
            KeptLink::Invitation => "_invitation",
            KeptLink::Password => "_password",
            KeptLink::Reset => "_reset",
            KeptLink::SetUp => "_set_up",
            KeptLink::SignIn => "_sign_in",
            KeptLink::Verify => "_verify",
        }
    }

    /// What the sealed value is bound to.
    fn bound_to(self, browser: &Browser) -> String {
        format!("cookie/{}/{}", self.cookie(), browser.id())
    }

    /// The cookies that keep the secret `token` in this browser.
    pub(crate) fn keep(self, app: &App, browser: &Browser, token: &str) -> Result<Vec<HeaderValue>> {
        let sealed = app.secret_key.seal(&self.bound_to(browser), token.as_bytes(), app.random())?;
        let kept = set_cookie(app, self.cookie(), &URL_SAFE_NO_PAD.encode(sealed), LIFE_S);
        Ok(browser.own_cookie(app).into_iter().chain(kept).collect())
    }

    /// The secret that this browser keeps.
    pub(crate) fn read(self, app: &App, browser: &Browser) -> Option<String> {
        let sealed = URL_SAFE_NO_PAD.decode(browser.cookie(app, self.cookie())?).ok()?;
        let token = app.secret_key.open(&self.bound_to(browser), &sealed).ok()?;
        String::from_utf8(token).ok()
    }

    /// Makes the browser forget the secret.
    pub(crate) fn forget(self, app: &App, response: &mut Response) {
        if let Some(gone) = set_cookie(app, self.cookie(), "", 0) {
            response.headers_mut().append(SET_COOKIE, gone);
        }
    }
}
