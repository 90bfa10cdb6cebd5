//! `/console`: the organizations of this administrator, and the commands for them. A platform owner sees all of
//! them, because they approve them; they have no power inside of them.

use identity::organizations::PLATFORM;
use maud::{Markup, html};
use texts::Language;

use super::{
    SARSEN,
    parts::{address, hidden_fields, terminal},
    wide_shell,
};
use crate::pages::language::Html as _;

/// An organization, for its administrator.
pub struct OrgLine<'a> {
    pub slug: &'a str,
    pub name: &'a str,
    /// The administrator's role: `owner`, `admin` or `member`; empty if they have none.
    pub role: Option<&'a str>,
    /// `pending`, `active`, `suspended` or `rejected`.
    pub status: &'a str,
}

pub struct Console<'a> {
    pub user_email: &'a str,
    pub organizations: &'a [OrgLine<'a>],
    pub platform_owner: bool,
    /// The server has no organization yet but that of its owners.
    pub is_first: bool,
    /// There are more organizations than these.
    pub more: bool,
    /// This server's own address.
    pub server: &'a str,
    pub csrf: &'a str,
    pub signout_action: &'a str,
    /// The address of the user's account page.
    pub account_href: &'a str,
}

impl Console<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let signed_in_as = match self.platform_owner {
            true => "console.signed_in_as_owner",
            false => "console.signed_in_as",
        };
        let body = html! {
            div.stack {
                h1 { (language.text("console.title")) }
                p.lead { (language.html(signed_in_as, &[("email", html! { strong { (address(self.user_email)) } })])) }
                @if self.is_first {
                    section.stack {
                        h2 { (language.text("console.first")) }
                        p.lead { (language.text("console.first_lead")) }
                        (terminal("sarsen org create acme --name Acme"))
                    }
                }
                section.stack {
                    h2 { (language.text("console.organizations")) }
                    @if self.organizations.is_empty() {
                        p { (language.text("console.none")) }
                        (terminal("sarsen org create acme --name Acme"))
                    } @else {
                        ul.rows {
                            @for organization in self.organizations { (self.row(language, organization)) }
                        }
                        @if self.more {
                            p { (language.text("console.more")) }
                            (terminal(if self.platform_owner { "sarsen org list --all" } else { "sarsen org list" }))
                        }
                    }
                }
                section.stack {
                    h2 { (language.text("console.terminal")) }
                    p.lead { (language.text("console.terminal_lead")) }
                    (terminal(&format!("sarsen login --server {}", self.server)))
                    (terminal(if self.platform_owner { "sarsen org list --all" } else { "sarsen org list" }))
                }
                div.row {
                    form method="post" action=(self.signout_action) {
                        (hidden_fields(self.csrf, &[]))
                        button.plain type="submit" { (language.text("page.sign_out")) }
                    }
                    a href=(self.account_href) { (language.text("console.sessions")) }
                }
            }
        };
        wide_shell(language, language.text("console.title"), SARSEN, body)
    }

    fn row(&self, language: &Language, organization: &OrgLine<'_>) -> Markup {
        html! {
            li.stack {
                div {
                    p.row.apart {
                        b.text { bdi { (organization.name) } }
                        span class={ "badge " (status_class(organization.status)) } { (status(language, organization.status)) }
                    }
                    p.small {
                        code { (organization.slug) }
                        @if let Some(role) = organization.role { " · " (you_are(language, role)) }
                    }
                }
                (terminal(&self.hint(organization)))
            }
        }
    }

    /// The most useful command for an organization in this state.
    fn hint(&self, organization: &OrgLine<'_>) -> String {
        match organization.status {
            "pending" if self.platform_owner => format!("sarsen org approve {}", organization.slug),
            "active" if organization.slug == PLATFORM => "sarsen owner list".to_owned(),
            "active" if organization.role.is_some() => {
                format!("sarsen service list --org {}", organization.slug)
            }
            _ => format!("sarsen org show {}", organization.slug),
        }
    }
}

/// What the administrator is. An unknown role stays as it is.
fn you_are<'a>(language: &'a Language, role: &'a str) -> &'a str {
    match role {
        "owner" => language.text("console.you_are_owner"),
        "admin" => language.text("console.you_are_admin"),
        "member" => language.text("console.you_are_member"),
        other => other,
    }
}

fn status<'a>(language: &'a Language, status: &'a str) -> &'a str {
    match status {
        "active" => language.text("console.status_active"),
        "pending" => language.text("console.status_pending"),
        "suspended" => language.text("console.status_suspended"),
        "rejected" => language.text("console.status_rejected"),
        other => other,
    }
}

fn status_class(status: &str) -> &'static str {
    match status {
        "active" => "on",
        "pending" => "warn",
        _ => "bad",
    }
}
