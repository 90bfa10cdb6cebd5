//! A sample product of the demo, which uses Sarsen for sign-in and plans.

use maud::{Markup, html};
use texts::Language;

use super::document;
use super::parts::{address, terminal};
use crate::pages::assets::PRODUCT_SCRIPT;

/// The sample products' colours: a closed list, because the CSP allows no colour from data.
#[derive(Clone, Copy)]
pub enum Accent {
    Sea,
    Clay,
}

/// The user at the product, from its token and `GET /api/subscription`.
pub struct ProductUser<'a> {
    pub email: &'a str,
    pub name: &'a str,
    pub plan: &'a str,
    pub features: &'a [&'a str],
}

pub struct Product<'a> {
    pub product_name: &'a str,
    pub accent: Accent,
    /// None if nobody is signed in.
    pub user: Option<ProductUser<'a>>,
    /// The stream of what changes for the user.
    pub live_href: &'a str,
    pub signin_href: &'a str,
    pub signout_href: &'a str,
    pub other_name: &'a str,
    pub other_href: &'a str,
    /// The administrators who can change the plan.
    pub admin_email: &'a str,
    /// The command that changes the user's plan.
    pub plan_command: &'a str,
}

impl Product<'_> {
    pub fn markup(&self, language: &Language) -> Markup {
        let body = html! {
            div.stack {
                div.cairn aria-hidden="true" { i {} i {} i {} }
                @match &self.user {
                    Some(user) => (self.signed_in(user)),
                    None => (self.signed_out()),
                }
            }
        };
        document(language, "Sample product", self.product_name, self.body_class(), body)
    }

    fn signed_out(&self) -> Markup {
        html! {
            h1 { "Hello from " bdi { (self.product_name) } }
            p.lead {
                "A sample product with no password form and no table of users. "
                "It asks Sarsen who you are and what you have paid for."
            }
            p { a.button href=(self.signin_href) { "Sign in" } }
        }
    }

    fn signed_in(&self, user: &ProductUser<'_>) -> Markup {
        html! {
            h1 { "Hello, " bdi { (user.name) } }
            p.lead {
                (self.product_name) " knows you as " strong { (address(user.email)) }
                ", and never saw your password."
            }
            section.card.stack {
                div.row.apart { h2 { "Your plan" } span.badge.on { (user.plan) } }
                @if user.features.is_empty() {
                    p { "This plan has no extra features." }
                } @else {
                    ul.ticks { @for feature in user.features { li { (feature) } } }
                }
            }
            section.stack {
                h2 { "You are known next door" }
                p { "One sign-in works for every product: the other one needs no password." }
                p { a.button href=(self.other_href) { "Open " bdi { (self.other_name) } } }
            }
            section.stack {
                h2 { "Change the plan" }
                p {
                    "Run this in a terminal that " code { "sarsen login" } " has signed in as "
                    strong { (address(self.admin_email)) } ". This page shows the new plan at once; without JavaScript, load it again."
                }
                (terminal(self.plan_command))
            }
            p { a href=(self.signout_href) { "Sign out" } }
            script type="module" src=(PRODUCT_SCRIPT.address()) data-live=(self.live_href) {}
        }
    }

    fn body_class(&self) -> &'static str {
        match self.accent {
            Accent::Sea => "wide sea",
            Accent::Clay => "wide clay",
        }
    }
}
