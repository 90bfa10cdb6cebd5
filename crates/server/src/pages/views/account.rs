//! `/o/{slug}/account`: who the user is here, and where they are signed in.

use maud::{Markup, html};

use super::{parts::hidden_fields, wide_shell};

/// One place where the user is signed in.
pub struct SessionLine<'a> {
    /// A browser or a device, such as "Firefox on Linux".
    pub what: &'a str,
    pub address: &'a str,
    /// When the user last proved there who they are, in words: "5 minutes ago".
    pub signed_in: &'a str,
    /// The session that looks at this page.
    pub current: bool,
}

pub struct Account<'a> {
    pub org_name: &'a str,
    pub user_email: &'a str,
    pub name: &'a str,
    pub csrf: &'a str,
    pub signout_action: &'a str,
    /// Where somebody else signs in, in the place of this user.
    pub switch_href: &'a str,
    pub sessions: &'a [SessionLine<'a>],
}

impl Account<'_> {
    pub fn markup(&self) -> Markup {
        let body = html! {
            div.stack {
                h1 { "Your account" }
                p.lead { "One account for everything from " strong { bdi { (self.org_name) } } "." }
                div.card {
                    dl.facts {
                        dt { "Name" } dd { bdi { (self.name) } }
                        dt { "E-mail" } dd { bdi { (self.user_email) } }
                    }
                }
                h2 { "Where you are signed in" }
                ul.rows {
                    @for session in self.sessions { (session_row(session)) }
                }
                div.row {
                    form method="post" action=(self.signout_action) {
                        (hidden_fields(self.csrf, &[]))
                        button.plain type="submit" { "Sign out of this browser" }
                    }
                    a href=(self.switch_href) { "Use another account" }
                }
            }
        };
        wide_shell("Your account", self.org_name, body)
    }
}

fn session_row(session: &SessionLine<'_>) -> Markup {
    html! {
        li {
            p.row.apart {
                b { bdi { (session.what) } }
                @if session.current { span.badge.on { "This browser" } }
            }
            p.small { bdi { (session.address) } " · signed in " (session.signed_in) }
        }
    }
}
