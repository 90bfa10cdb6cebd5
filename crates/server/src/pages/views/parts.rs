//! Pieces that several pages share: notices, hidden fields, the two buttons of a decision, terminal lines.

use maud::{Markup, html};

use super::{
    ScopeLine,
    field::{ERROR_ID, FormError},
};

/// The title of a page with a form: a screen reader announces an error first.
pub(super) fn titled(error: Option<&str>, title: &str) -> String {
    if error.is_some() { format!("Error: {title}") } else { title.to_owned() }
}

/// The text of a form's error.
pub(super) fn text_of(error: Option<&FormError>) -> Option<&str> {
    error.map(|error| &*error.text)
}

pub(super) fn error_notice(error: Option<&str>) -> Markup {
    error_notice_with(error, None)
}

/// The same with a link, as text and address, that leads out of the error.
pub(super) fn error_notice_with(error: Option<&str>, link: Option<(&str, &str)>) -> Markup {
    html! {
        @if let Some(error) = error {
            p.notice.bad id=(ERROR_ID) role="alert" {
                (error)
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
pub(super) fn decision_buttons() -> Markup {
    html! {
        div.decide {
            button type="submit" name="decision" value="allow" { "Allow" }
            button.plain type="submit" name="decision" value="deny" formnovalidate { "Deny" }
        }
    }
}

pub(super) fn scope_list(scopes: &[ScopeLine<'_>]) -> Markup {
    html! {
        @if scopes.is_empty() {
            p { "It asks for nothing beyond signing you in." }
        } @else {
            p.label { "If you allow it, it can" }
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

/// Whom users ask for help, in the words of an organization.
#[derive(Clone, Copy)]
pub struct Contact<'a> {
    /// Whose contact it is.
    pub of: &'a str,
    /// Text that the organization chose. It is no link, because nobody has checked where it would lead.
    pub text: &'a str,
}

impl Contact<'_> {
    pub(super) fn markup(&self) -> Markup {
        html! { p.small { "Contact for " bdi { (self.of) } ": " bdi { (self.text) } } }
    }
}

/// The account that the page is about, and a link for another user.
pub(super) fn signed_in_as(user_email: &str, switch_href: &str) -> Markup {
    html! {
        p.who {
            "Signed in as " b { (address(user_email)) } ". "
            span { "Not you? " a href=(switch_href) { "Sign out" } }
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
