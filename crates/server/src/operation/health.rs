//! `/healthz`: the process runs. `/readyz`: the server can read and write the database, has its schema and is not
//! stopping.

use crate::app::App;
use crate::web::error::{Problem, Result};
use axum::extract::State;
use identity::organizations::{self, PLATFORM};
use identity::schema::MIGRATIONS;
use std::time::Duration;

const RETRY_AFTER: Duration = Duration::from_secs(5);
/// An answer does not wait longer for a write that is tried …
const TRY_MAX: Duration = Duration::from_secs(2);
/// … or only for a moment, when the last one succeeded.
const LOOK_MAX: Duration = Duration::from_millis(250);

pub(crate) async fn healthz() -> &'static str {
    "ok"
}

pub(crate) async fn readyz(State(app): State<App>) -> Result<&'static str> {
    check(&app).await.map(|()| "ready")
}

/// Whether this instance is ready, or why not.
pub(crate) async fn check(app: &App) -> Result<()> {
    let now = app.now();
    app.lookups.ring(now).await.map_err(Problem::from)?;
    app.store.point(|snapshot| organizations::find(snapshot, PLATFORM)).await?;
    let schema = app.store.point(store::schema_version).await?;
    let known = MIGRATIONS.last().map_or(0, |migration| migration.number);
    if schema > known {
        let detail = format!(
            "The database has schema {schema}, this program knows up to {known}. Start the newer program."
        );
        return Err(Problem::unavailable(detail, RETRY_AFTER));
    }
    if !app.store.is_shared() || !app.presence.has_written() {
        let ended = app.presence.ended();
        let presence = app.presence.clone();
        tokio::spawn(async move { presence.renew().await });
        // If writes were possible the last time, an answer does not wait for a queue. If not, it may have been long ago: only
        // this try counts.
        let most = if app.presence.problem(now).is_none() { LOOK_MAX } else { TRY_MAX };
        // What is known then is the answer.
        let _ = tokio::time::timeout(most, ended).await;
    }
    match app.presence.problem(now) {
        None => Ok(()),
        Some(detail) => Err(Problem::unavailable(detail, RETRY_AFTER)),
    }
}
