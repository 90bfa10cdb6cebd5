//! What is done by the clock: deleting what has expired, in small slices, and renewing signing keys.

use crate::app::App;
use identity::keys::{self, Algorithm};
use identity::{codes, devices};
use std::time::Duration;
use tokio::sync::watch;

const EVERY: Duration = Duration::from_secs(30);
/// Rows deleted by one command.
const SLICE: i64 = 200;
/// Expired codes are kept this long, so that their devices still hear "expired".
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Works until the server stops.
pub(crate) async fn run(app: App, mut stopped: watch::Receiver<bool>) {
    loop {
        if let Err(error) = tidy(&app).await {
            tracing::warn!(%error, "tidying up failed; it is tried again");
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

async fn tidy(app: &App) -> identity::Result<()> {
    for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
        renew(app, algorithm).await?;
    }
    let before = app.now() - KEPT;
    while app.store.write("devices.tidy", move |tx| devices::delete_older(tx, before, SLICE)).await? as i64
        == SLICE
    {
        // Others go first.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while app.store.write("codes.tidy", move |tx| codes::delete_older(tx, before, SLICE)).await? as i64
        >= SLICE
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Makes a key when one is due. Slow: on a thread of its own.
pub(crate) async fn renew(app: &App, algorithm: Algorithm) -> identity::Result<()> {
    let now = app.now();
    if !app.store.point(move |snapshot| keys::is_due(snapshot, algorithm, now)).await? {
        return Ok(());
    }
    let maker = app.clone();
    let made = tokio::task::spawn_blocking(move || {
        keys::generate(algorithm, now, maker.random(), &maker.secret_key)
    });
    let new = made.await.map_err(|error| identity::Error::Broken(format!("making a key: {error}")))??;
    app.store.write("key.add", move |tx| keys::add(tx, &new, now)).await
}
