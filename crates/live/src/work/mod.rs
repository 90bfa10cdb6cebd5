//! Work that is not a request: tasks that are planned, and work that is repeated.

pub(crate) mod repeated;
pub(crate) mod tasks;
