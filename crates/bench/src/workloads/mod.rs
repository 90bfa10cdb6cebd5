//! The workloads, one module each: which requests they send to which server, and which responses they accept.

mod attempts;
mod auth;
mod back_end;
mod capacity;
mod cost;
mod fault;
mod floor;
mod live;
mod login;
mod move_database;
mod overload;
mod revocation;
mod servers;
mod sso;
mod writes;

pub use attempts::{AttemptsReport, attempts};
pub use auth::{AuthReport, auth};
pub(crate) use back_end::postgres_version;
pub use capacity::{CapacityReport, Climb, InUsers, capacity};
pub use cost::{CostLine, CostReport, cost};
pub use floor::{FloorLoad, floor};
pub use live::{EndState, LiveLevel, LiveReport, live};
pub use login::{LoginLevel, LoginReport, login};
pub use move_database::{KilledRow, MoveReport, Served, TableRow, move_database};
pub use overload::{MemoryOverTime, OverloadReport, overload};
pub use revocation::{BrokenRow, ProbeRow, RevocationReport, revocation};
pub use servers::{ServerUnderTest, TestBed};
pub use sso::{CeilingReport, Mix, SsoLoad, find_ceiling, sso};
pub use writes::{HeyLevel, HeyReport, HeySummary, WritesReport, writes};
