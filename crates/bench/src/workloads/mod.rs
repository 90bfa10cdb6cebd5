//! The workloads, one module each: what is asked of which server, and what has to be answered.

mod cost;
mod disturbance;
mod floor;
mod moving;
mod moving_check;
mod moving_report;
mod moving_source;
mod overload;
mod revocation;
mod revocation_probe;
mod revocation_report;
mod revocation_tally;
mod sso;
mod sso_approval;
mod sso_baseline;
mod sso_ceiling;
mod subject;

pub use cost::{CostLine, CostReport, cost};
pub use floor::{FloorLoad, floor};
pub use moving::{TableRow, moving};
pub use moving_check::Served;
pub use moving_report::{KilledRow, MoveReport};
pub use overload::{MemoryOverTime, OverloadReport, overload};
pub use revocation::revocation;
pub use revocation_report::{BrokenRow, ProbeRow, RevocationReport};
pub use sso::{Mix, SsoLoad, sso};
pub use sso_ceiling::{CeilingReport, find_ceiling};
pub use subject::{Stage, Subject};
