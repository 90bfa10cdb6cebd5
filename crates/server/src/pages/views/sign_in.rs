//! `/login` and `/o/{slug}/login`: e-mail and password.

use maud::{Markup, html};

use super::{
    Contact,
    field::Field,
    parts::{address, error_notice, hidden_fields, titled},
    shell,
};

/// A message above the form.
#[derive(Clone, Copy)]
pub enum Note<'a> {
    /// An event, such as "You are signed out."
    Flash(&'a str),
    /// This user is signed in and must authenticate again.
    Again(&'a str),
    /// This user is signed in, and another user may sign in instead.
    Other(&'a str),
    /// The server has no owner yet, who would sign in here first.
    NoOwner,
}

pub struct SignIn<'a> {
    pub org_name: &'a str,
    /// The product to which the user returns, if a client sent them here.
    pub client_name: Option<&'a str>,
    /// The earlier input, or empty.
    pub email: &'a str,
    pub error: Option<&'a str>,
    /// Information that is no error.
    pub note: Option<Note<'a>>,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    /// Only where people may create accounts.
    pub signup_href: Option<&'a str>,
    pub contact: Option<Contact<'a>>,
    /// Whether administrators sign in here.
    pub is_platform: bool,
    /// Seconds until a retry makes sense: too many attempts, or the server is full.
    pub retry_after_s: Option<u64>,
}

impl SignIn<'_> {
    pub fn markup(&self) -> Markup {
        let error = self.error_text();
        let in_error = error.is_some() && self.retry_after_s.is_none();
        let email_known = !self.email.is_empty();
        let body = html! {
            div.card.stack {
                h1 { "Sign in" }
                p.lead {
                    @match self.client_name {
                        Some(client) => { "to continue to " strong { bdi { (client) } } }
                        None => { "with your " strong { bdi { (self.org_name) } } " account" }
                    }
                }
                @if self.is_platform { p.small { "This sign-in is for administrators of this server." } }
                (error_notice(error.as_deref()))
                @if self.is_platform && in_error {
                    p.small { "Users of a product sign in at the product: its accounts do not work here." }
                }
                @if let Some(note) = self.note { p.notice role="status" { (note.markup()) } }
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (Field { value: &text::mail::shown(self.email), autofocus: !email_known, in_error, ..Field::EMAIL }.markup())
                    (Field { autofocus: email_known, in_error, ..Field::PASSWORD }.markup())
                    button.full type="submit" { "Sign in" }
                }
                (self.forgotten())
                @if let Some(href) = self.signup_href {
                    p.small { "New here? " a href=(href) { "Create an account" } }
                }
                @if let Some(contact) = self.contact { (contact.markup()) }
            }
        };
        // The focus goes to a field at once, so screen readers read the message with the title.
        let title = self.note.map_or("Sign in".to_owned(), Note::title);
        shell(&titled(error.as_deref(), &title), self.org_name, body)
    }

    /// What to do without the password. Only an administrator who can identify the user makes a link.
    fn forgotten(&self) -> Markup {
        html! {
            details.small {
                summary { "Forgotten your password?" }
                @if self.is_platform {
                    p {
                        "Ask another owner of this server for a link to set a new one. If you have access to the \
                         server's machine, run " code { "sarsen owner recover" } " there."
                    }
                } @else {
                    p {
                        "Ask an administrator of " bdi { (self.org_name) } " for a link. With it you set a new password."
                    }
                }
            }
        }
    }

    fn error_text(&self) -> Option<String> {
        match (self.error, self.retry_after_s) {
            (error, None) => error.map(str::to_owned),
            (error, Some(seconds)) => {
                let what = error.unwrap_or("Too many people are signing in right now.");
                Some(format!("{what} Please try again in {}.", wait_in_words(seconds)))
            }
        }
    }
}

impl Note<'_> {
    fn markup(&self) -> Markup {
        html! {
            @match self {
                Note::Flash(text) => (text),
                Note::Again(email) => {
                    "You are signed in as " b { (address(email)) } ". Please enter your password again to go on."
                }
                Note::Other(email) => {
                    "You are signed in as " b { (address(email)) } ". Sign in here with another account, or with the \
                     same one again."
                }
                Note::NoOwner => {
                    "This server has no owner yet. The link in the file " code { "setup-link.txt" } " on its machine makes \
                     you the owner. It works for one hour; the server writes a new one when it starts."
                }
            }
        }
    }

    fn title(self) -> String {
        match self {
            Note::Flash(text) => format!("{text} Sign in"),
            Note::Again(_) => "Sign in again".to_owned(),
            Note::Other(_) => "Sign in with another account".to_owned(),
            Note::NoOwner => "Sign in".to_owned(),
        }
    }
}

pub fn wait_in_words(seconds: u64) -> String {
    match seconds {
        0 | 1 => "a second".into(),
        2..=90 => format!("{seconds} seconds"),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    }
}
