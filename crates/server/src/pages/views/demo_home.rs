//! The demo's own address: what to try, in four steps.

use maud::{Markup, html};

use super::{SARSEN, parts::terminal, wide_shell};

/// Everything here is made up for the demo; a real server never shows a password.
pub struct DemoHome<'a> {
    pub owner_email: &'a str,
    pub owner_password: &'a str,
    /// E-mail, password, plan.
    pub users: &'a [(&'a str, &'a str, &'a str)],
    /// Name, address. The first one is where the visitor starts.
    pub products: &'a [(&'a str, &'a str)],
    /// Asks for a device code with `curl`.
    pub curl_line: &'a str,
    /// Signs the `sarsen` command in to this server.
    pub login_line: &'a str,
    pub console_href: &'a str,
}

impl DemoHome<'_> {
    pub fn markup(&self) -> Markup {
        let (first, others) = self.products.split_at(self.products.len().min(1));
        let body = html! {
            div.stack {
                h1 { "The demo is running" }
                p.lead {
                    "A whole identity server with an organization, products, plans and people in it. "
                    "Four things to try, about a minute each."
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
                        (terminal(self.curl_line))
                        p {
                            "Open the address in the answer, compare the code, and allow it. "
                            "Our own command does the same in one go:"
                        }
                        (terminal(self.login_line))
                    }
                    li.stack {
                        h2 { "Look behind the curtain" }
                        p { "In the console, the owner of this server sees every organization. Sign in as" }
                        ul.rows { (person_row(&(self.owner_email, self.owner_password, "owner"))) }
                        p { a.button.plain href=(self.console_href) { "Open the console" } }
                    }
                }
            }
        };
        wide_shell("Demo", SARSEN, body)
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
