//! Endpoints for operators and monitoring.

pub(crate) mod counters;
pub(crate) mod health;
pub mod look;
pub(crate) mod metrics;
