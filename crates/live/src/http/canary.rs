//! A change that must come out at the other end of the live path, for `/readyz`.
//!
//! A command touches a row of its own, and an internal subscriber must receive the new value. At most once in five
//! seconds, and only when somebody asks.

use crate::caller::{Caller, Claims};
use crate::context::Context;
use crate::stream::Wanted;
use crate::{Problem, Query};
use axum::body::Bytes;
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::time::{Duration, Instant};
use store::{Key, Snapshot, Sql, Tx, args, sql};
use utoipa::ToSchema;

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_canary (
    instance {key} NOT NULL PRIMARY KEY,
    written_at BIGINT NOT NULL
) {table};";

static READ: Sql = sql("SELECT written_at FROM live_canary WHERE instance = ?1");
static WRITE: Sql = store::upsert("live_canary", &["instance"], &["written_at"]);

const LIMIT: Duration = Duration::from_secs(2);
/// How old the last result may be for `/readyz`.
pub(super) const KNOWN: Duration = Duration::from_secs(5);
/// How old it may be for `/metrics`: a page that is read often shall not make most of what it counts.
pub(super) const KNOWN_FOR_PAGE: Duration = Duration::from_secs(30);
/// Nobody else has this subject: it is not text of a token.
const SUBJECT: &str = "\0canary";

/// What the last canary found.
#[derive(Default)]
pub(crate) struct Canary(tokio::sync::Mutex<Option<Last>>);

struct Last {
    at: Instant,
    well: bool,
    /// Commands that had been committed then.
    commands: u64,
}

/// The query that the internal subscriber has.
#[derive(Deserialize, ToSchema)]
pub(crate) struct WrittenAt {
    instance: String,
}

/// Nobody but the canary.
#[derive(Clone, Serialize)]
pub(crate) struct CanaryOnly;

impl Claims for CanaryOnly {
    fn of(caller: &Caller) -> Result<CanaryOnly, Problem> {
        match caller.subject.as_deref() {
            Some(SUBJECT) => Ok(CanaryOnly),
            _ => Err(Problem::forbidden("This query is for the server itself.")),
        }
    }
}

impl Query for WrittenAt {
    const NAME: &'static str = "live.canary";
    const POINT: bool = true;
    type Claims = CanaryOnly;
    type Value = i64;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &CanaryOnly) -> Result<i64, Problem> {
        snapshot.depends(|| [key(&self.instance)]);
        Ok(snapshot.one(&READ, args![&self.instance], |row| row.get(0))?.unwrap_or_default())
    }
}

fn key(instance: &str) -> Key {
    Key::row("live_canary", "instance", instance)
}

impl Canary {
    /// Whether a change has reached a subscriber, as far as it was tried within `known`.
    pub(super) async fn is_well(context: Context, known: Duration) -> bool {
        // On its own: what was found is remembered also if the request ends before.
        let trying = tokio::spawn(async move { context.0.canary.try_it(&context, known).await });
        trying.await.unwrap_or(false)
    }

    async fn try_it(&self, context: &Context, known: Duration) -> bool {
        let mut last = self.0.lock().await;
        if let Some(last) = &*last
            && last.at.elapsed() < known
        {
            return last.well;
        }
        let well = match tokio::time::timeout(LIMIT, change_arrives(context)).await {
            Ok(Ok(())) => true,
            // A full server works. If each of several called itself unready, none would be left. One that commits nothing
            // meanwhile is not full: another program holds the lock, or the disk hangs.
            Ok(Err(problem)) if problem.code == "overloaded" => {
                let commands = context.store().stats().commands;
                last.as_ref().is_none_or(|last| last.well && commands > last.commands)
            }
            Ok(Err(problem)) => {
                tracing::warn!(code = %problem.code, cause = ?problem.cause, "the change that tests live queries failed");
                false
            }
            Err(_) => {
                tracing::warn!("a change did not reach a live query within {} s", LIMIT.as_secs());
                false
            }
        };
        *last = Some(Last { at: Instant::now(), well, commands: context.store().stats().commands });
        well
    }
}

async fn change_arrives(context: &Context) -> Result<(), Problem> {
    let caller = Caller { subject: Some(SUBJECT.to_owned()), ..Caller::default() };
    let instance = context.0.instance.clone();
    let wanted = Wanted::new(WrittenAt::NAME, &serde_json::json!({ "instance": instance }));
    let body = context.0.streams.once_for_the_server(context, caller, wanted);
    let now = context.now();
    let command = move |tx: &mut Tx<'_>| {
        tx.exec(&WRITE, args![&instance, now])?;
        tx.changed(key(&instance));
        Ok::<_, store::Error>(())
    };
    context.store().write("live.canary", command).await?;
    let value = format!("\"value\":{}}}", now.millis());
    loop {
        match poll_fn(|task| body.stream.poll_events(task)).await {
            Some(events) => {
                let has = |piece: &Bytes| String::from_utf8_lossy(piece).contains(&value);
                if events.finish().iter().any(has) {
                    return Ok(());
                }
            }
            None => return Err(Problem::internal()),
        }
    }
}
