//! Fills a server with organizations and accounts, and signs each account in. It uses the API as an administrator and the
//! pages as a user.

mod account;
mod admin;
mod browser;
mod client;
mod device_flow;
mod person;
mod populate;
mod registrations;
mod sign_ins;
mod tenants;

pub use self::browser::{Browser, Page};
pub use account::{Account, AccountParts, Accounts, BodyFormat, CodeRequest, Tokens, refresh_tokens};
pub(crate) use admin::CLIENT_ID;
pub use admin::{Admin, Credentials};
pub use client::{Client, Reply};
pub use person::Person;
pub(crate) use person::{SCOPE, address_of, sign_in_with_password};
pub use populate::{Population, ProbeAccount, create_probe_accounts, populate};
pub use registrations::{Registrations, create_registrations};
pub(crate) use sign_ins::{ADDRESSES_APART, PASSWORD};
pub use sign_ins::{SignIn, create_sign_ins, create_throttled_sign_in};
pub use tenants::PLANS_SOLD;
