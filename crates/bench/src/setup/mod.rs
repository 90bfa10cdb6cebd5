//! Fills a server with organizations and accounts, and signs each account in. It uses the API as an administrator and the
//! pages as a user.

mod account;
mod admin;
mod browser;
mod client;
mod cookies;
mod device_flow;
mod html;
mod person;
mod populate;
mod tenants;

pub use account::{Account, AccountParts, Accounts, BodyFormat, CodeRequest, Tokens, refresh_tokens};
pub(crate) use admin::CLIENT_ID;
pub use admin::{Admin, Credentials};
pub(crate) use browser::local_path;
pub use browser::{Browser, Page};
pub use client::{Client, Reply};
pub use cookies::Cookies;
pub use html::{Form, KnownValues, Submission, forms};
pub use person::Person;
pub(crate) use person::{SCOPE, sign_in_with_password};
pub use populate::{Population, ProbeAccount, create_probe_accounts, populate};
pub use tenants::PLANS_SOLD;
