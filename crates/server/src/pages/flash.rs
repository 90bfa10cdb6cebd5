//! A message that the next page shows once, such as "You are signed out.": a cookie with a life of a minute names one of
//! our own sentences, and the page that shows it deletes the cookie. The URL has no part in it, so no link can make a page
//! show a message, and a reloaded page shows none.

use super::browser::{Browser, set_cookie};
use crate::app::App;
use axum::response::Response;
use http::HeaderValue;
use http::header::SET_COOKIE;

/// The kind of the cookie; no slug begins with `_`.
const COOKIE: &str = "_flash";
const LIFE_S: u64 = 60;

/// An event to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flash {
    SignedOut,
    SessionEnded,
    OthersEnded,
    PasswordChanged,
    PasswordSet,
    PasswordKept,
    ConsentWithdrawn,
    /// By a user who is signed in.
    AddressConfirmed,
    /// Elsewhere, where what was set before is void.
    AddressProved,
}

impl Flash {
    const ALL: [Flash; 9] = [
        Flash::SignedOut,
        Flash::SessionEnded,
        Flash::OthersEnded,
        Flash::PasswordChanged,
        Flash::PasswordSet,
        Flash::PasswordKept,
        Flash::ConsentWithdrawn,
        Flash::AddressConfirmed,
        Flash::AddressProved,
    ];

    fn word(self) -> &'static str {
        match self {
            Flash::SignedOut => "signed_out",
            Flash::SessionEnded => "session_ended",
            Flash::OthersEnded => "others_ended",
            Flash::PasswordChanged => "password_changed",
            Flash::PasswordSet => "password_set",
            Flash::PasswordKept => "password_kept",
            Flash::ConsentWithdrawn => "consent_withdrawn",
            Flash::AddressConfirmed => "address_confirmed",
            Flash::AddressProved => "address_proved",
        }
    }

    /// The key of its text.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Flash::SignedOut => "flash.signed_out",
            Flash::SessionEnded => "flash.session_ended",
            Flash::OthersEnded => "flash.others_ended",
            Flash::PasswordChanged => "flash.password_changed",
            Flash::PasswordSet => "flash.password_set",
            Flash::PasswordKept => "flash.password_kept",
            Flash::ConsentWithdrawn => "flash.consent_withdrawn",
            Flash::AddressConfirmed => "flash.address_confirmed",
            Flash::AddressProved => "flash.address_proved",
        }
    }

    /// Whether the sign-in page shows it. The account page shows all.
    pub(crate) fn is_for_sign_in(self) -> bool {
        matches!(self, Flash::SignedOut | Flash::PasswordKept | Flash::AddressProved)
    }

    /// The cookie with the message for a page of an organization.
    pub(crate) fn cookie(self, app: &App, organization: &str) -> Option<HeaderValue> {
        set_cookie(app, COOKIE, &format!("{}.{organization}", self.word()), LIFE_S)
    }
}

impl Browser {
    /// The message for a page of an organization.
    pub(crate) fn flash(&self, app: &App, organization: &str) -> Option<Flash> {
        let (word, shown_by) = self.cookie(app, COOKIE)?.split_once('.')?;
        Flash::ALL.into_iter().find(|told| told.word() == word && shown_by == organization)
    }
}

/// Deletes the cookie.
pub(crate) fn clear(app: &App, response: &mut Response) {
    if let Some(gone) = set_cookie(app, COOKIE, "", 0) {
        response.headers_mut().append(SET_COOKIE, gone);
    }
}
