//! `/o/{slug}/account`: the user's profile and sessions.

use maud::{Markup, html};
use texts::Language;

use super::parts::{address, hidden_fields, name};
use super::wide_shell;
use crate::pages::language::Html as _;

/// A session.
pub struct SessionLine<'a> {
    pub id: &'a str,
    /// A browser or a device, such as "Firefox on Linux".
    pub what: &'a str,
    /// The place of the sign-in; empty if unknown.
    pub address: &'a str,
    /// The time of the sign-in, in words: "5 minutes ago".
    pub signed_in: &'a str,
    /// The session that requests this page.
    pub current: bool,
}

/// What the user has allowed an application.
pub struct ConsentLine<'a> {
    pub client: &'a str,
    pub name: &'a str,
    /// What it may do, in words.
    pub what: &'a str,
    /// The time of the consent, in words.
    pub since: &'a str,
}

pub struct Account<'a> {
    pub org_name: &'a str,
    pub user_email: &'a str,
    /// The target of the form that asks for a mail, if the address is not confirmed and mails are sent.
    pub confirm_action: Option<&'a str>,
    pub name: &'a str,
    pub csrf: &'a str,
    /// A message about an event, if there is one: the key of its text.
    pub flash: Option<&'static str>,
    pub signout_action: &'a str,
    /// The target of the form with the field `end`: an id, or `others`.
    pub end_action: &'a str,
    /// The address at which another user signs in instead.
    pub switch_href: &'a str,
    /// The address of the page that changes the password.
    pub password_href: &'a str,
    pub sessions: &'a [SessionLine<'a>],
    /// The target of the form with the field `withdraw`: the id of a client.
    pub withdraw_action: &'a str,
    pub consents: &'a [ConsentLine<'a>],
}

impl Account<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.stack {
                h1 { (language.text("account.title")) }
                p.lead { (language.html("account.lead", &[("organization", name(self.org_name))])) }
                @if let Some(flash) = self.flash { p.notice role="status" { (language.text(flash)) } }
                div.card {
                    dl.facts {
                        dt { (language.text("field.name")) } dd { bdi { (self.name) } }
                        dt { (language.text("field.email")) } dd { (self.email(language)) }
                        dt { (language.text("account.password")) }
                        dd { a href=(self.password_href) { (language.text("account.change_password")) } }
                    }
                }
                p.small { (language.text("page.not_you")) " " a href=(self.switch_href) { (language.text("account.switch")) } }
                h2 { (language.text("account.sessions")) }
                p.lead { (language.text("account.sessions_lead")) }
                form.stack method="post" action=(self.end_action) {
                    (hidden_fields(self.csrf, &[]))
                    ul.rows {
                        @for session in self.sessions { (self.session_row(language, session)) }
                    }
                    @if self.sessions.len() > 1 {
                        button.plain type="submit" name="end" value="others" { (language.text("account.sign_out_others")) }
                    }
                }
                @if !self.consents.is_empty() {
                    h2 { (language.text("account.consents")) }
                    p.lead { (language.text("account.consents_lead")) }
                    form.stack method="post" action=(self.withdraw_action) {
                        (hidden_fields(self.csrf, &[]))
                        ul.rows {
                            @for consent in self.consents { (self.consent_row(language, consent)) }
                        }
                    }
                }
            }
        };
        let title = language.text("account.title");
        let title = self.flash.map_or(title.to_owned(), |flash| {
            language.fill("page.flash_title", &[("flash", language.text(flash)), ("title", title)])
        });
        wide_shell(language, &title, self.org_name, body)
    }

    fn email(&self, language: &Language) -> Markup {
        html! {
            (address(self.user_email))
            @if let Some(action) = self.confirm_action {
                " " span.badge.warn { (language.text("account.not_confirmed")) }
                form method="post" action=(action) {
                    (hidden_fields(self.csrf, &[]))
                    button.plain type="submit" { (language.text("account.confirm")) }
                }
            }
        }
    }

    fn consent_row(&self, language: &Language, consent: &ConsentLine<'_>) -> Markup {
        let of_client = [("client", html! { bdi { (consent.name) } })];
        html! {
            li.row.apart {
                div.text {
                    p { b { bdi { (consent.name) } } }
                    p.small { (language.fill("account.allowed", &[("what", consent.what), ("ago", consent.since)])) }
                }
                button.plain type="submit" name="withdraw" value=(consent.client) {
                    (language.text("account.withdraw"))
                    span.visually-hidden { " " (language.html("account.withdraw_of", &of_client)) }
                }
            }
        }
    }

    fn session_row(&self, language: &Language, session: &SessionLine<'_>) -> Markup {
        let of_session =
            [("session", html! { bdi { (session.what) } }), ("ago", html! { (session.signed_in) })];
        html! {
            li.row.apart {
                div.text {
                    p.row {
                        b { bdi { (session.what) } }
                        @if session.current { span.badge.on { (language.text("account.this_browser")) } }
                    }
                    p.small {
                        @if !session.address.is_empty() { bdi { (session.address) } " · " }
                        (language.fill("account.signed_in", &[("ago", session.signed_in)]))
                    }
                }
                @if session.current {
                    button.plain type="submit" formaction=(self.signout_action) {
                        (language.text("page.sign_out"))
                        span.visually-hidden { " " (language.text("account.sign_out_here")) }
                    }
                } @else {
                    button.plain type="submit" name="end" value=(session.id) {
                        (language.text("page.sign_out"))
                        span.visually-hidden { " " (language.html("account.sign_out_of", &of_session)) }
                    }
                }
            }
        }
    }
}
