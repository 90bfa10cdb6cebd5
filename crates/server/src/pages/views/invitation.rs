//! `/invitation`: the inviter, the organization, the role, and the visitor's next step.

use maud::{Markup, html};
use texts::Language;

use super::{
    FormError, SARSEN,
    field::Field,
    parts::{address, error_notice, hidden_fields, name, sentence_of, titled},
    shell,
    sign_up::person_fields_for,
};
use crate::pages::language::Html as _;

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
    /// The e-mail address of the inviter, whose account may be deleted.
    pub inviter: Option<&'a str>,
    /// The invited address.
    pub email: &'a str,
    pub csrf: &'a str,
    pub hidden: &'a [(&'a str, &'a str)],
    pub action: &'a str,
    pub step: InvitationStep<'a>,
}

impl Invitation<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.card.stack {
                h1 {
                    @match self.org_name {
                        Some(organization) => (language.html("invitation.heading", &[("organization", html! { bdi { (organization) } })])),
                        None => (language.text("invitation.heading_owner")),
                    }
                }
                p.lead { (self.invites(language)) " " (language.text(may(self.role))) }
                (self.step(language))
                p.small { (language.text("invitation.about")) }
            }
        };
        let title = titled(language, self.error().is_some(), language.text("invitation.title"));
        shell(language, &title, SARSEN, body)
    }

    fn invites(&self, language: &Language) -> Markup {
        let inviter = self.inviter.unwrap_or(language.text("invitation.deleted_inviter"));
        let key = if self.org_name.is_some() { "invitation.invites" } else { "invitation.invites_owner" };
        let values = [
            ("inviter", name(inviter)),
            ("email", html! { strong { (address(self.email)) } }),
            ("role", html! { strong { (role(language, self.role)) } }),
        ];
        language.html(key, &values)
    }

    fn error(&self) -> Option<&FormError> {
        match self.step {
            InvitationStep::NewAccount { error, .. } | InvitationStep::NewPassword { error, .. } => error,
            _ => None,
        }
    }

    fn step(&self, language: &Language) -> Markup {
        match self.step {
            InvitationStep::Accept { later_href } => html! {
                form.stack method="post" action=(self.action) {
                    (hidden_fields(self.csrf, self.hidden))
                    button.full type="submit" { (language.text("invitation.accept")) }
                }
                p.small { a href=(later_href) { (language.text("page.not_now")) } }
            },
            InvitationStep::NewAccount { name, error, signin_href } => html! {
                @let link = html! { a href=(signin_href) { (language.text("invitation.have_account_link")) } };
                p { (language.text("invitation.need_account")) }
                p { (language.html("invitation.have_account", &[("link", link)])) }
                p { (language.text("invitation.create_account")) }
                (self.person(language, name, error, "invitation.create_submit"))
            },
            InvitationStep::NewPassword { name, error } => html! {
                p { (language.text("invitation.new_password")) }
                (self.person(language, name, error, "invitation.new_password_submit"))
            },
            InvitationStep::OtherUser { user_email, switch_href } => html! {
                @let email = html! { strong { (address(user_email)) } };
                @let invited = html! { strong { (address(self.email)) } };
                p.notice.bad role="alert" {
                    (language.html("invitation.other_user", &[("email", email), ("invited", invited)]))
                }
                p { a href=(switch_href) { (language.text("invitation.other_user_link")) } }
            },
        }
    }

    fn person(
        &self,
        language: &Language,
        name: &str,
        error: Option<&FormError>,
        button: &'static str,
    ) -> Markup {
        let email = text::mail::shown(self.email);
        let email = Field { read_only: true, value: &email, ..Field::EMAIL };
        html! {
            (error_notice(language, sentence_of(error)))
            form.stack method="post" action=(self.action) {
                (hidden_fields(self.csrf, self.hidden))
                (person_fields_for(language, name, email, error))
                button.full type="submit" { (language.text(button)) }
            }
        }
    }
}

/// The role's name.
fn role<'a>(language: &'a Language, role: &'a str) -> &'a str {
    match role {
        "owner" => language.text("role.owner"),
        "admin" => language.text("role.admin"),
        "member" => language.text("role.member"),
        other => other,
    }
}

/// The text about the permissions of the role.
fn may(role: &str) -> &'static str {
    match role {
        "owner" => "invitation.may_owner",
        "admin" => "invitation.may_admin",
        "platform_owner" => "invitation.may_platform_owner",
        _ => "invitation.may_member",
    }
}
