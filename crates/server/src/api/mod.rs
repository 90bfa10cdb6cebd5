//! The JSON API: one file per noun. A handler extracts the caller and the body, makes one call into the domain and
//! returns the answer.

pub(crate) mod administrators;
pub(crate) mod audit;
pub(crate) mod billing;
pub(crate) mod branding;
pub(crate) mod clients;
pub(crate) mod customers;
pub(crate) mod invitations;
pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod organizations;
pub(crate) mod plans;
pub(crate) mod platform;
pub(crate) mod service;
pub(crate) mod services;
pub(crate) mod subscription;
pub(crate) mod subscription_answers;
pub(crate) mod subscriptions;
pub(crate) mod user;
pub(crate) mod users;
