//! What operators and their monitoring read.

pub(crate) mod health;
pub(crate) mod metrics;
