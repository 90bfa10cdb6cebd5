//! `/o/{slug}/account`: the user's profile and sessions.

use maud::{Markup, html};

use super::parts::{address, hidden_fields};
use super::wide_shell;

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
    pub name: &'a str,
    pub csrf: &'a str,
    /// A message about an event, if there is one.
    pub flash: Option<&'a str>,
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
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.stack {
                h1 { "Your account" }
                p.lead { "One account for everything from " strong { bdi { (self.org_name) } } "." }
                @if let Some(flash) = self.flash { p.notice role="status" { (flash) } }
                div.card {
                    dl.facts {
                        dt { "Name" } dd { bdi { (self.name) } }
                        dt { "E-mail" } dd { (address(self.user_email)) }
                        dt { "Password" } dd { a href=(self.password_href) { "Change your password" } }
                    }
                }
                p.small { "Not you? " a href=(self.switch_href) { "Use another account" } }
                h2 { "Where you are signed in" }
                p.lead { "End sessions that you do not recognize or no longer use. They end immediately." }
                form.stack method="post" action=(self.end_action) {
                    (hidden_fields(self.csrf, &[]))
                    ul.rows {
                        @for session in self.sessions { (self.session_row(session)) }
                    }
                    @if self.sessions.len() > 1 {
                        button.plain type="submit" name="end" value="others" { "Sign out everywhere else" }
                    }
                }
                @if !self.consents.is_empty() {
                    h2 { "What you have allowed" }
                    p.lead { "Applications that asked to use your account. Who loses access may ask you again." }
                    form.stack method="post" action=(self.withdraw_action) {
                        (hidden_fields(self.csrf, &[]))
                        ul.rows {
                            @for consent in self.consents { (self.consent_row(consent)) }
                        }
                    }
                }
            }
        };
        let title = self.flash.map_or("Your account".to_owned(), |flash| format!("{flash} Your account"));
        wide_shell(&title, self.org_name, body)
    }

    fn consent_row(&self, consent: &ConsentLine<'_>) -> Markup {
        html! {
            li.row.apart {
                div.text {
                    p { b { bdi { (consent.name) } } }
                    p.small { (consent.what) " · allowed " (consent.since) }
                }
                button.plain type="submit" name="withdraw" value=(consent.client) {
                    "Withdraw" span.visually-hidden { " the access of " bdi { (consent.name) } }
                }
            }
        }
    }

    fn session_row(&self, session: &SessionLine<'_>) -> Markup {
        html! {
            li.row.apart {
                div.text {
                    p.row {
                        b { bdi { (session.what) } }
                        @if session.current { span.badge.on { "This browser" } }
                    }
                    p.small {
                        @if !session.address.is_empty() { bdi { (session.address) } " · " }
                        "signed in " (session.signed_in)
                    }
                }
                @if session.current {
                    button.plain type="submit" formaction=(self.signout_action) {
                        "Sign out" span.visually-hidden { " of this browser" }
                    }
                } @else {
                    button.plain type="submit" name="end" value=(session.id) {
                        "Sign out" span.visually-hidden { " of " bdi { (session.what) } ", signed in " (session.signed_in) }
                    }
                }
            }
        }
    }
}
