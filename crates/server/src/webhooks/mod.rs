//! Events that other servers send to this one, signed with a secret that both have.

pub(crate) mod billing;
pub(crate) mod stripe_event;
pub(crate) mod stripe_signature;
