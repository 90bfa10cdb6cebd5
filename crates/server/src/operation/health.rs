//! `/healthz`: the process runs. `/readyz`: the server can read and write the database, has its schema and is not
//! stopping.

use crate::app::App;
use crate::jobs::presence;
use crate::web::error::{Problem, Result};
use axum::extract::State;
use identity::organizations::{self, PLATFORM};
use identity::schema::MIGRATIONS;
use std::time::Duration;

const RETRY_AFTER: Duration = Duration::from_secs(5);
/// An answer does not wait longer for a write that is tried.
const TRY_MAX: Duration = Duration::from_secs(2);

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
    if !app.store.is_shared() {
        // Tried now, for the next answer. If the last try failed, it may have been long ago: only this one counts.
        let trying = app.clone();
        let tried = tokio::spawn(async move { presence::renew(&trying).await });
        if !app.presence.can_write(now) {
            let _ = tokio::time::timeout(TRY_MAX, tried).await;
        }
    }
    match app.presence.can_write(now) {
        true => Ok(()),
        false => Err(Problem::unavailable(
            "The database has accepted no write for 10 seconds. Try again.",
            RETRY_AFTER,
        )),
    }
}
