//! Live queries and typed RPC: a back end whose answers stay up to date.
//!
//! A back end is an [`App`] of [`Query`]s and [`Mutation`]s, which are plain synchronous functions over a [`store::Snapshot`]
//! or a [`store::Tx`]. The app serves them as `POST /rpc/{name}`, and queries also as subscriptions of `POST /live`: a
//! client receives the answer, and the new answer after each change of what it depends on.
//!
//! ```no_run
//! use live::{App, Given, Mutation, Problem, Query, Settings, SignedIn};
//! use store::{Key, Snapshot, Sql, Tx, args, sql};
//!
//! static READ: Sql = sql("SELECT value FROM counters WHERE id = ?1");
//! static ADD: Sql = sql("UPDATE counters SET value = value + 1 WHERE id = ?1");
//!
//! fn counter(id: i64) -> Key {
//!     Key::row("counters", "id", &id.to_string())
//! }
//!
//! #[derive(serde::Deserialize, utoipa::ToSchema)]
//! struct GetCounter { id: i64 }
//!
//! impl Query for GetCounter {
//!     const NAME: &'static str = "get_counter";
//!     const POINT: bool = true;
//!     type Claims = SignedIn;
//!     type Value = i64;
//!     fn run(&self, snapshot: &mut Snapshot<'_>, _: &SignedIn) -> Result<i64, Problem> {
//!         snapshot.depends(|| [counter(self.id)]);
//!         let value = snapshot.one(&READ, args![self.id], |row| row.get(0))?;
//!         value.ok_or_else(|| Problem::not_found("Counter"))
//!     }
//! }
//!
//! #[derive(serde::Deserialize, utoipa::ToSchema)]
//! struct Increment { id: i64 }
//!
//! impl Mutation for Increment {
//!     const NAME: &'static str = "increment";
//!     type Claims = SignedIn;
//!     type Value = ();
//!     fn run(&self, tx: &mut Tx<'_>, _: &SignedIn, _: &Given) -> Result<(), Problem> {
//!         match tx.exec(&ADD, args![self.id])? {
//!             0 => Err(Problem::not_found("Counter")),
//!             _ => Ok(tx.changed(counter(self.id))),
//!         }
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let app = App::new().query::<GetCounter>().mutation::<Increment>().watched(&["counters"]);
//! let running = live::serve(app, Settings::new("sqlite:counters.db", "127.0.0.1:8080".parse()?)).await?;
//! running.until_signal().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//! - A frame is the query's answer in some state of the database, and carries that state's version. Versions of a
//!   subscription do not go back. After the last change, every subscriber receives its result.
//! - One change causes one run for each query, arguments and claims, whatever the number of subscribers.
//! - A caller receives nothing that their claims do not allow, also after their session has ended or their roles have
//!   changed.
//!
//! # Layout
//! - `app.rs`: what an app consists of; `limits.rs`, what it gives one client. `context.rs`: what routes and tasks reach;
//!   `given.rs`: what a command is given. `query.rs`, `caller.rs`: queries, mutations and whom they serve. `problem.rs`.
//! - `engine.rs`, `run_queue.rs`, `turns.rs`, `group.rs`, `members.rs`, `stream/`, `frame.rs`: live queries, from a change to the bytes on
//!   the wire.
//! - `http/`: the endpoints. `backend.rs`: what all requests have in common. `serve.rs`: a process that serves an app.
//!   `program.rs`: its arguments. `extract.rs`: for plain routes.
//! - `auth/`: verified tokens of a Sarsen server, of another issuer, or of the program itself.
//! - `idempotent.rs`: mutations that are sent again. [`work`]: work that is not a request.
//! - `described/`, `typescript.rs`, `openapi.rs`: what queries and mutations take and answer, for clients.
//! - `planted.rs`: bugs on purpose, for the checker of histories.

mod account;
mod app;
pub mod auth;
mod backend;
pub mod background;
mod caller;
mod context;
mod described;
mod engine;
pub mod extract;
mod frame;
mod given;
mod group;
mod http;
mod idempotent;
mod limits;
mod members;
mod once;
mod openapi;
#[cfg(not(feature = "fault-injection"))]
mod planted;
#[cfg(feature = "fault-injection")]
pub mod planted;
mod problem;
mod program;
mod query;
mod run_queue;
mod serve;
mod stream;
mod turns;
mod typescript;

pub use app::App;
pub use backend::ClientAddress;
pub use background::{Attempt, Effect, Failure, Lane, Task, Work, cancel, later, queue};
pub use caller::{Anyone, Authenticate, Authenticating, Caller, Claims, Following, SignedIn, Subject};
pub use context::Context;
pub use endpoint::fields::{FieldError, FieldErrors};
pub use given::Given;
pub use limits::Limits;
pub use problem::Problem;
pub use program::Program;
pub use query::{Mutation, Query, now};
pub use serve::{Error, Running, Settings, serve};
/// Of the ground below: settings of connections and of the request log.
pub use web::{AddressHeader, Cidr, Limits as ConnectionLimits, RequestLogFormat};
