//! The demo's start page: what to try, in five steps.

use maud::{Markup, html};
use texts::Language;

use super::{SARSEN, parts::terminal, wide_shell};

/// The passwords are invented for the demo; a real server never shows one.
pub struct DemoHome<'a> {
    pub owner_email: &'a str,
    pub owner_password: &'a str,
    /// The administrator of the organization.
    pub admin_email: &'a str,
    pub admin_password: &'a str,
    /// E-mail, password, plan.
    pub users: &'a [(&'a str, &'a str, &'a str)],
    /// Name and URL. The first one is where the visitor starts.
    pub products: &'a [(&'a str, &'a str)],
    /// The shell function that the later lines use to read a field of an answer.
    pub field_line: &'a str,
    /// Requests a device code with `curl`.
    pub curl_line: &'a str,
    /// Fetches the tokens for the code after its approval.
    pub token_line: &'a str,
    /// Reads the user's subscription with a token.
    pub api_line: &'a str,
    /// Signs the `sarsen` command in to this server.
    pub login_line: &'a str,
    /// Changes a plan with that command.
    pub plan_line: &'a str,
    pub console_href: &'a str,
    /// The mails that this demo would send, if it has any to send.
    pub mail_href: Option<&'a str>,
}

impl DemoHome<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let (first, others) = self.products.split_at(self.products.len().min(1));
        let body = html! {
            div.stack {
                h1 { "The demo is running" }
                p.lead {
                    "A whole identity server with an organization, products, plans and people in it. "
                    "Five things to try, about a minute each."
                }
                ol.steps {
                    li.stack {
                        h2 { "Sign in to a product" }
                        p { "Open it, choose Sign in, and be one of these people." }
                        ul.rows { @for user in self.users { (person_row(user)) } }
                        (product_links(first))
                    }
                    li.stack {
                        h2 { "Walk into another one" }
                        p { "It knows you already: one sign-in holds for all products of an organization." }
                        (product_links(others))
                    }
                    li.stack {
                        h2 { "Sign in a terminal" }
                        p { "Ask for a code, the way a command-line tool or a television does." }
                        (terminal(self.field_line))
                        (terminal(self.curl_line))
                        p {
                            "Open the " code { "verification_uri_complete" } " of the answer as one of the two "
                            "people above, compare the code, and allow it. Then fetch the tokens:"
                        }
                        (terminal(self.token_line))
                        p { "With the access token, ask what its user may use:" }
                        (terminal(self.api_line))
                    }
                    li.stack {
                        h2 { "Change a plan from a terminal" }
                        p { "Our own command does all of that in one go. Allow it in the browser as" }
                        ul.rows { (person_row(&(self.admin_email, self.admin_password, "administrator"))) }
                        (terminal(self.login_line))
                        p { "Then change what ada has, and load a product's page again:" }
                        (terminal(self.plan_line))
                    }
                    li.stack {
                        h2 { "Look behind the curtain" }
                        p { "In the console, the owner of this server sees every organization. Sign in as" }
                        ul.rows { (person_row(&(self.owner_email, self.owner_password, "owner"))) }
                        p { a.button.plain href=(self.console_href) { "Open the console" } }
                        @if let Some(href) = self.mail_href {
                            p { "No mail leaves this demo. " a href=(href) { "Read what it would send" } "." }
                        }
                    }
                }
            }
        };
        wide_shell(language, "Demo", SARSEN, body)
    }
}

fn person_row(&(email, password, plan): &(&str, &str, &str)) -> Markup {
    html! {
        li {
            p.row.apart { b.pick translate="no" { (email) } span.badge { (plan) } }
            p.small { "Password " code.pick translate="no" { (password) } }
        }
    }
}

fn product_links(products: &[(&str, &str)]) -> Markup {
    html! {
        p.row {
            @for (name, href) in products { a.button href=(href) { "Open " (name) } }
        }
    }
}
