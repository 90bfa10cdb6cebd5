//! Endpoints for operators and monitoring.

pub(crate) mod health;
pub(crate) mod metrics;
