//! Endpoints for operators and monitoring.

pub(crate) mod health;
pub mod look;
pub(crate) mod metrics;
