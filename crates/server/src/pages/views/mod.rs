//! The HTML of the pages: data in, HTML out. No HTTP, no store, no clock; the handlers in `pages` have those.
//! The strict CSP holds here: no inline style, no script (but for `form_post`), nothing from other origins. Names that
//! others choose (organizations, clients, user agents) stand in `bdi`, so that they cannot change the direction of the text
//! around them.

mod account;
mod activate_confirm;
mod activate_enter;
mod activate_link;
mod activate_sign_in;
mod api_docs;
mod change_password;
mod confirm;
mod consent;
mod console;
mod demo_home;
mod dev_mail;
mod done;
mod enter_code;
mod field;
mod forgot;
mod form_post;
mod invitation;
mod one_time_link;
mod parts;
mod problem;
mod product;
#[cfg(test)]
pub(crate) mod samples;
mod set_password;
mod set_up;
mod sign_in;
mod sign_out;
mod sign_up;
mod sign_up_closed;
#[cfg(test)]
mod tests;

use super::assets::{LOGO, STYLESHEET};
use maud::{DOCTYPE, Markup, html};
use texts::Language;

pub use account::{Account, ConsentLine, SessionLine};
pub use activate_confirm::ActivateConfirm;
pub use activate_enter::ActivateEnter;
pub use activate_link::ActivateLink;
pub use activate_sign_in::ActivateSignIn;
pub use api_docs::ApiDocs;
pub use change_password::{ChangePassword, OldPassword};
pub use confirm::Confirm;
pub use consent::{Consent, ScopeLine};
pub use console::{Console, OrgLine};
pub use demo_home::DemoHome;
pub use dev_mail::{DevMail, DevMails, MailLine};
pub use done::Done;
pub use enter_code::EnterCode;
pub use field::FormError;
pub use forgot::Forgot;
pub use form_post::FormPost;
#[cfg(test)]
pub use form_post::SCRIPT;
pub use invitation::{Invitation, InvitationStep};
pub use one_time_link::OneTimeLink;
pub use parts::Contact;
pub use problem::{Label, Problem};
pub use product::{Accent, Product, ProductUser};
pub use set_password::SetPassword;
pub use set_up::SetUp;
pub use sign_in::{Note, SignIn};
pub use sign_out::SignOut;
pub use sign_up::SignUp;
pub use sign_up_closed::SignUpClosed;

/// The brand of the platform's own pages, which show a stone in place of an organization's initial.
/// No organization can take it as its display name.
pub const SARSEN: &str = "Sarsen";

/// A page with one narrow column, for one task. `brand` is the organization's display name,
/// or [`SARSEN`].
pub fn shell(language: &Language, title: &str, brand: &str, body: Markup) -> Markup {
    document(language, title, brand, "narrow", body)
}

/// A page with a wider column, for reading.
pub fn wide_shell(language: &Language, title: &str, brand: &str, body: Markup) -> Markup {
    document(language, title, brand, "wide", body)
}

fn document(language: &Language, title: &str, brand: &str, body_class: &str, body: Markup) -> Markup {
    let direction = Some(language.direction()).filter(|direction| *direction != "ltr");
    html! {
        (DOCTYPE)
        html lang=(language.tag()) dir=[direction] {
            head {
                meta charset="utf-8";
                title { (title) " · " (brand) }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                link rel="stylesheet" href=(STYLESHEET.address());
                link rel="icon" href=(LOGO.address()) type="image/svg+xml";
            }
            body class=(body_class) {
                header.top {
                    @if brand == SARSEN {
                        img src=(LOGO.address()) alt="" width="36" height="36";
                    } @else {
                        span.mark aria-hidden="true" { (initial(brand)) }
                    }
                    bdi { (brand) }
                }
                main { (body) }
                footer.bottom {
                    p { img src=(LOGO.address()) alt="" width="16" height="16"; (language.text("page.secured")) }
                }
            }
        }
    }
}

fn initial(brand: &str) -> String {
    brand.chars().find(|c| c.is_alphanumeric()).map_or_else(|| "·".into(), |c| c.to_uppercase().to_string())
}
