//! `/console`: the organizations that this administrator may see, and the commands that run them.

use maud::{Markup, html};

use super::{
    SARSEN,
    parts::{hidden_fields, terminal},
    wide_shell,
};

/// An organization as its administrator sees it.
pub struct OrgLine<'a> {
    pub slug: &'a str,
    pub name: &'a str,
    /// The administrator's role there: `owner`, `admin`, `member`, or a role of the organization's own.
    pub role: &'a str,
    /// `pending`, `active`, `suspended` or `rejected`.
    pub status: &'a str,
}

pub struct Console<'a> {
    pub user_email: &'a str,
    pub organizations: &'a [OrgLine<'a>],
    pub platform_owner: bool,
    pub csrf: &'a str,
    pub signout_action: &'a str,
}

impl Console<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.stack {
                h1 { "Console" }
                p.lead {
                    "Signed in as " strong { bdi { (self.user_email) } }
                    @if self.platform_owner { ", an owner of this server" }
                    "."
                }
                section.stack {
                    h2 { "Organizations" }
                    @if self.organizations.is_empty() {
                        p { "None yet. Create the first one from a terminal:" }
                        (terminal("sarsen org create"))
                    } @else {
                        ul.rows {
                            @for organization in self.organizations { (self.row(organization)) }
                        }
                    }
                }
                section.stack {
                    h2 { "From a terminal" }
                    p.lead { "Everything here is also a command. Sign your terminal in first." }
                    (terminal("sarsen login"))
                    (terminal("sarsen org list"))
                }
                form method="post" action=(self.signout_action) {
                    (hidden_fields(self.csrf, &[]))
                    button.plain type="submit" { "Sign out" }
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
                        b { bdi { (organization.name) } }
                        span class={ "badge " (status_class(organization.status)) } { (organization.status) }
                    }
                    p.small { code { (organization.slug) } " · you are " (organization.role) }
                }
                (terminal(&self.hint(organization)))
            }
        }
    }

    /// The command that helps most with an organization in this state.
    fn hint(&self, organization: &OrgLine<'_>) -> String {
        match organization.status {
            "pending" if self.platform_owner => format!("sarsen org approve {}", organization.slug),
            "active" => format!("sarsen service list --org {}", organization.slug),
            _ => format!("sarsen org show {}", organization.slug),
        }
    }
}

fn status_class(status: &str) -> &'static str {
    match status {
        "active" => "on",
        "pending" => "warn",
        _ => "bad",
    }
}
