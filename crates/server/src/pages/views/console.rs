//! `/console`: the organizations of this administrator, and the commands for them. A platform owner sees all of
//! them, because they approve them; they have no power inside of them.

use identity::organizations::PLATFORM;
use maud::{Markup, html};

use super::{
    SARSEN,
    parts::{address, hidden_fields, terminal},
    wide_shell,
};

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
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.stack {
                h1 { "Console" }
                p.lead {
                    "Signed in as " strong { (address(self.user_email)) }
                    @if self.platform_owner { ", an owner of this server" }
                    "."
                }
                @if self.is_first {
                    section.stack {
                        h2 { "Make the first organization" }
                        p.lead { "It has the users, products and plans of one company. Sign your terminal in as below, then:" }
                        (terminal("sarsen org create acme --name Acme"))
                    }
                }
                section.stack {
                    h2 { "Organizations" }
                    @if self.organizations.is_empty() {
                        p { "None yet. Sign your terminal in as below, then make the first one:" }
                        (terminal("sarsen org create acme --name Acme"))
                    } @else {
                        ul.rows {
                            @for organization in self.organizations { (self.row(organization)) }
                        }
                        @if self.more {
                            p { "There are more of them than this page shows." }
                            (terminal(if self.platform_owner { "sarsen org list --all" } else { "sarsen org list" }))
                        }
                    }
                }
                section.stack {
                    h2 { "From a terminal" }
                    p.lead { "Everything here is also a command. Sign your terminal in first." }
                    (terminal(&format!("sarsen login --server {}", self.server)))
                    (terminal(if self.platform_owner { "sarsen org list --all" } else { "sarsen org list" }))
                }
                div.row {
                    form method="post" action=(self.signout_action) {
                        (hidden_fields(self.csrf, &[]))
                        button.plain type="submit" { "Sign out" }
                    }
                    a href=(self.account_href) { "Where you are signed in" }
                }
            }
        };
        wide_shell("Console", SARSEN, body)
    }

    fn row(&self, organization: &OrgLine<'_>) -> Markup {
        html! {
            li.stack {
                div {
                    p.row.apart {
                        b.text { bdi { (organization.name) } }
                        span class={ "badge " (status_class(organization.status)) } { (organization.status) }
                    }
                    p.small {
                        code { (organization.slug) }
                        @if let Some(role) = organization.role { " · you are " (with_article(role)) }
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

/// The role with its article, "an owner". An unknown role stays as it is.
fn with_article(role: &str) -> String {
    let article = if role.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {role}")
}

fn status_class(status: &str) -> &'static str {
    match status {
        "active" => "on",
        "pending" => "warn",
        _ => "bad",
    }
}
