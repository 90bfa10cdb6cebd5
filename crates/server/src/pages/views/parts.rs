//! Pieces that several pages share: notices, hidden fields, the two buttons of a decision, terminal lines.

use maud::{Markup, html};
use texts::Language;

use super::{
    ScopeLine,
    field::{ERROR_ID, FormError},
};
use crate::pages::language::Html as _;
use crate::pages::sentence::Sentence;

/// The title of a page with a form: a screen reader announces an error first.
pub(super) fn titled(language: &Language, is_error: bool, title: &str) -> String {
    if is_error { language.fill("page.error_title", &[("title", title)]) } else { title.to_owned() }
}

/// The text of a form's error.
pub(super) fn sentence_of(error: Option<&FormError>) -> Option<&Sentence> {
    error.map(|error| &error.sentence)
}

pub(super) fn error_notice(language: &Language, error: Option<&Sentence>) -> Markup {
    error_notice_with(language, error, None)
}

/// The same with a link, as text and address, that leads out of the error.
pub(super) fn error_notice_with(
    language: &Language,
    error: Option<&Sentence>,
    link: Option<(&str, &str)>,
) -> Markup {
    html! {
        @if let Some(error) = error {
            p.notice.bad id=(ERROR_ID) role="alert" {
                (error.markup(language))
                @if let Some((text, href)) = link { " " a href=(href) { (text) } }
            }
        }
    }
}

pub(super) fn hidden_fields(csrf: &str, hidden: &[(&str, &str)]) -> Markup {
    html! {
        input type="hidden" name="csrf" value=(csrf);
        @for (name, value) in hidden {
            input type="hidden" name=(name) value=(value);
        }
    }
}

/// The buttons to allow and deny. Deny needs no field. Allow comes first, so that Enter in a password
/// field allows.
pub(super) fn decision_buttons(language: &Language) -> Markup {
    html! {
        div.decide {
            button type="submit" name="decision" value="allow" { (language.text("page.allow")) }
            button.plain type="submit" name="decision" value="deny" formnovalidate { (language.text("page.deny")) }
        }
    }
}

pub(super) fn scope_list(language: &Language, scopes: &[ScopeLine<'_>]) -> Markup {
    html! {
        @if scopes.is_empty() {
            p { (language.text("page.asks_nothing")) }
        } @else {
            p.label { (language.text("page.scopes")) }
            ul.ticks {
                @for scope in scopes {
                    li data-scope=(scope.name) { bdi { (scope.says) } }
                }
            }
        }
    }
}

/// An e-mail address in a sentence: an internationalized domain in its own letters, where that is safe.
pub(super) fn address(email: &str) -> Markup {
    html! { bdi { (text::mail::shown(email)) } }
}

/// A name that others chose, where it stands out in a sentence.
pub(super) fn name(text: &str) -> Markup {
    html! { strong { bdi { (text) } } }
}

/// Whom users ask for help, in the words of an organization.
#[derive(Clone, Copy)]
pub struct Contact<'a> {
    /// Whose contact it is; this server's, if that of no organization.
    pub of: Option<&'a str>,
    /// Text that the organization chose. It is no link, because nobody has checked where it would lead.
    pub text: &'a str,
}

impl Contact<'_> {
    pub(super) fn markup(&self, language: &Language) -> Markup {
        let of = self.of.unwrap_or(language.text("page.this_server"));
        let values = [("organization", html! { bdi { (of) } }), ("contact", html! { bdi { (self.text) } })];
        html! { p.small { (language.html("page.contact", &values)) } }
    }
}

/// The account that the page is about, and a link for another user.
pub(super) fn signed_in_as(language: &Language, user_email: &str, switch_href: &str) -> Markup {
    html! {
        p.who {
            (language.html("page.signed_in_as", &[("email", html! { b { (address(user_email)) } })])) " "
            span { (language.text("page.not_you")) " " a href=(switch_href) { (language.text("page.sign_out")) } }
        }
    }
}

/// A line for a terminal. It wraps, but never inside of `--flag`, and one click selects all of it.
pub(super) fn terminal(line: &str) -> Markup {
    html! {
        pre translate="no" {
            code {
                @for (index, word) in line.split(' ').enumerate() {
                    @if index > 0 { " " }
                    @if word.starts_with('-') { span { (word) } } @else { (word) }
                }
            }
        }
    }
}
