//! `/login` and `/o/{slug}/login`: e-mail and password.

use maud::{Markup, html};
use texts::Language;

use super::{
    Contact,
    field::Field,
    parts::{address, error_notice, hidden_fields, name, titled},
    shell,
};
use crate::pages::language::Html as _;
use crate::pages::sentence::Sentence;

/// A message above the form.
#[derive(Clone, Copy)]
pub enum Note<'a> {
    /// An event, such as "You are signed out.": the key of its text.
    Flash(&'static str),
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
    pub error: Option<&'a Sentence>,
    /// Information that is no error.
    pub note: Option<Note<'a>>,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    /// Only where people may create accounts.
    pub signup_href: Option<&'a str>,
    /// Only where the server sends mails.
    pub forgotten_href: Option<&'a str>,
    pub contact: Option<Contact<'a>>,
    /// Whether administrators sign in here.
    pub is_platform: bool,
    /// Whether the input was not checked: too many attempts, or the server is full.
    pub is_busy: bool,
}

impl SignIn<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let in_error = self.error.is_some() && !self.is_busy;
        let email_known = !self.email.is_empty();
        let body = html! {
            div.card.stack {
                h1 { (language.text("sign_in.title")) }
                p.lead {
                    @match self.client_name {
                        Some(client) => (language.html("sign_in.to_client", &[("client", name(client))])),
                        None => (language.html("sign_in.with_account", &[("organization", name(self.org_name))])),
                    }
                }
                @if self.is_platform { p.small { (language.text("sign_in.platform")) } }
                (error_notice(language, self.error))
                @if self.is_platform && in_error {
                    p.small { (language.text("sign_in.platform_users")) }
                }
                @if let Some(note) = self.note { p.notice role="status" { (note.markup(language)) } }
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    (Field { value: &text::mail::shown(self.email), autofocus: !email_known, in_error, ..Field::EMAIL }.markup(language))
                    (Field { autofocus: email_known, in_error, ..Field::PASSWORD }.markup(language))
                    button.full type="submit" { (language.text("sign_in.title")) }
                }
                (self.forgotten(language))
                @if let Some(href) = self.signup_href {
                    p.small { (language.text("sign_in.new_here")) " " a href=(href) { (language.text("sign_in.create_account")) } }
                }
                @if let Some(contact) = self.contact { (contact.markup(language)) }
            }
        };
        // The focus goes to a field at once, so screen readers read the message with the title.
        let title = self.note.map_or(language.text("sign_in.title").to_owned(), |note| note.title(language));
        shell(language, &titled(language, self.error.is_some(), &title), self.org_name, body)
    }

    /// What to do without the password. Where no mail is sent, an administrator who can identify the user makes a link.
    fn forgotten(&self, language: &Language) -> Markup {
        if let Some(href) = self.forgotten_href {
            return html! { p.small { a href=(href) { (language.text("sign_in.forgotten")) } } };
        }
        html! {
            details.small {
                summary { (language.text("sign_in.forgotten")) }
                @if self.is_platform {
                    p { (language.html("sign_in.forgotten_platform", &[("command", html! { code { "sarsen owner recover" } })])) }
                } @else {
                    p { (language.html("sign_in.forgotten_organization", &[("organization", html! { bdi { (self.org_name) } })])) }
                }
            }
        }
    }
}

impl Note<'_> {
    fn markup(&self, language: &Language) -> Markup {
        let of = |email: &str| [("email", html! { b { (address(email)) } })];
        match self {
            Note::Flash(key) => html! { (language.text(key)) },
            Note::Again(email) => language.html("sign_in.again", &of(email)),
            Note::Other(email) => language.html("sign_in.another", &of(email)),
            Note::NoOwner => {
                language.html("sign_in.no_owner", &[("file", html! { code { "setup-link.txt" } })])
            }
        }
    }

    fn title(self, language: &Language) -> String {
        let sign_in = language.text("sign_in.title");
        match self {
            Note::Flash(key) => {
                language.fill("page.flash_title", &[("flash", language.text(key)), ("title", sign_in)])
            }
            Note::Again(_) => language.text("sign_in.again_title").to_owned(),
            Note::Other(_) => language.text("sign_in.another_title").to_owned(),
            Note::NoOwner => sign_in.to_owned(),
        }
    }
}
