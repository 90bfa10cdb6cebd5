//! `/invitation`: the inviter, the organization, the role, and the visitor's next step.

use maud::{Markup, html};

use super::{
    FormError, SARSEN,
    field::Field,
    parts::{address, error_notice, hidden_fields, text_of, titled},
    shell,
    sign_up::person_fields_for,
};

/// The visitor's next step.
pub enum InvitationStep<'a> {
    /// They are signed in with the invited address.
    Accept { later_href: &'a str },
    /// The visitor is signed out. `name` is the earlier input.
    NewAccount { name: &'a str, error: Option<&'a FormError>, signin_href: &'a str },
    /// They are signed in, but their address was not verified before the link proved it.
    NewPassword { name: &'a str, error: Option<&'a FormError> },
    /// They are signed in with another address.
    OtherUser { user_email: &'a str, switch_href: &'a str },
}

pub struct Invitation<'a> {
    /// The organization; none for a platform owner.
    pub org_name: Option<&'a str>,
    /// `member`, `admin`, `owner` or `platform_owner`.
    pub role: &'a str,
    /// The e-mail address of the inviter.
    pub inviter: &'a str,
    /// The invited address.
    pub email: &'a str,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    pub step: InvitationStep<'a>,
}

impl Invitation<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.card.stack {
                h1 {
                    @match self.org_name {
                        Some(organization) => { "Administer " bdi { (organization) } }
                        None => "Become an owner of this server"
                    }
                }
                p.lead {
                    strong { bdi { (self.inviter) } } " invites " strong { (address(self.email)) }
                    @if self.org_name.is_some() { ", with the role " strong { (self.role) } }
                    ". " (may(self.role))
                }
                (self.step())
                p.small { "The invitation can be accepted once. If you did not expect it, close this page." }
            }
        };
        shell(&titled(text_of(self.error()), "Invitation"), SARSEN, body)
    }

    fn error(&self) -> Option<&FormError> {
        match self.step {
            InvitationStep::NewAccount { error, .. } | InvitationStep::NewPassword { error, .. } => error,
            _ => None,
        }
    }

    fn step(&self) -> Markup {
        match self.step {
            InvitationStep::Accept { later_href } => html! {
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    button.full type="submit" { "Accept" }
                }
                p.small { a href=(later_href) { "Not now" } }
            },
            InvitationStep::NewAccount { name, error, signin_href } => html! {
                p {
                    "You need an administrator account of this server with this address. An account with which you use a \
                     product is another one."
                }
                p {
                    "If you have one, " a href=(signin_href) { "sign in" } ". You come back to this page and accept here."
                }
                p {
                    "If not, create one here: enter your name and choose a password. You accept the invitation with it and \
                     are signed in."
                }
                (self.person(name, error, "Create account and accept"))
            },
            InvitationStep::NewPassword { name, error } => html! {
                p {
                    "Nobody has verified the address of this account before. Choose a new password: the one from "
                    "before is void, and all other sessions end."
                }
                (self.person(name, error, "Set password and accept"))
            },
            InvitationStep::OtherUser { user_email, switch_href } => html! {
                p.notice.bad role="alert" {
                    "You are signed in as " strong { (address(user_email)) }
                    ". Only " strong { (address(self.email)) } " can accept this invitation."
                }
                p { a href=(switch_href) { "Use another account" } }
            },
        }
    }

    fn person(&self, name: &str, error: Option<&FormError>, button: &str) -> Markup {
        let email = text::mail::shown(self.email);
        let email = Field { read_only: true, value: &email, ..Field::EMAIL };
        html! {
            (error_notice(text_of(error)))
            form.stack method="post" action=(self.action) {
                (hidden_fields(self.csrf, self.hidden))
                (person_fields_for(name, email, error))
                button.full type="submit" { (button) }
            }
        }
    }
}

/// The permissions of the role.
fn may(role: &str) -> &'static str {
    match role {
        "owner" => "Owners change everything and decide who administers it.",
        "admin" => "Admins change its services, clients, plans, subscriptions and users.",
        "platform_owner" => "Owners approve and suspend organizations and invite other owners.",
        _ => "Members see its settings, plans and users, and change nothing.",
    }
}
