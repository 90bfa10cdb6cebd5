//! The JSON API: one file a noun. A handler says who asks, what they send, one domain call, what goes back.

pub(crate) mod administrators;
pub(crate) mod audit;
pub(crate) mod clients;
pub(crate) mod customers;
pub(crate) mod organizations;
pub(crate) mod plans;
pub(crate) mod platform;
pub(crate) mod services;
pub(crate) mod subscription;
pub(crate) mod subscriptions;
pub(crate) mod user;
pub(crate) mod users;
