//! `/healthz`: the process runs. `/readyz`: the server can read the database and is not stopping.

use crate::app::App;
use crate::web::error::{Problem, Result};
use axum::extract::State;

pub(crate) async fn healthz() -> &'static str {
    "ok"
}

pub(crate) async fn readyz(State(app): State<App>) -> Result<&'static str> {
    let now = app.now();
    app.lookups.ring(now).await.map_err(Problem::from)?;
    app.store
        .point(|snapshot| identity::organizations::find(snapshot, identity::organizations::PLATFORM))
        .await?;
    Ok("ready")
}
