//! The workloads, one module each: what is asked of which server, and what has to be answered.

mod cost;
mod floor;
mod overload;
mod sso;
mod sso_approval;
mod sso_baseline;
mod sso_ceiling;
mod subject;

pub use cost::{CostLine, CostReport, cost};
pub use floor::{FloorLoad, floor};
pub use overload::{MemoryOverTime, OverloadReport, overload};
pub use sso::{Mix, SsoLoad, sso};
pub use sso_ceiling::{CeilingReport, find_ceiling};
pub use subject::{Stage, Subject};
