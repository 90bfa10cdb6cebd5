//! What is done by the clock: deleting what has expired, in small slices, and renewing signing keys. Of several
//! instances on one database, one does it.

use crate::app::App;
use identity::keys::{self, Algorithm};
use identity::{codes, devices, grants, leases, links};
use std::time::Duration;
use store::{Time, Tx};
use tokio::sync::watch;

const EVERY: Duration = Duration::from_secs(30);
/// An instance that has not been heard of for this long does not tidy up any more.
const LEASE: Duration = Duration::from_secs(90);
/// Rows deleted by one command.
const SLICE: i64 = 200;
const BETWEEN_SLICES: Duration = Duration::from_millis(20);
/// Device codes are kept this long, so that their devices still hear "expired" for a while.
const DEVICES_KEPT: Duration = Duration::from_secs(2 * 3600);
/// Everything else is kept this long: a code that comes back late still revokes what it gave.
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

/// One turn; false when it is another instance's.
pub(crate) async fn tidy(app: &App) -> identity::Result<bool> {
    let (holder, now) = (app.instance.clone(), app.now());
    let is_ours =
        app.store.write("janitor.lease", move |tx| leases::take(tx, "janitor", &holder, now, now + LEASE));
    if !is_ours.await? {
        return Ok(false);
    }
    for algorithm in [Algorithm::Es256, Algorithm::Rs256] {
        renew(app, algorithm).await?;
    }
    sweep(app, "devices.tidy", app.now() - DEVICES_KEPT, devices::delete_older).await?;
    let before = app.now() - KEPT;
    sweep(app, "codes.tidy", before, codes::delete_older).await?;
    sweep(app, "links.tidy", before, links::delete_older).await?;
    sweep(app, "grants.tidy", before - grants::REFRESH_LIFE, grants::delete_older).await?;
    Ok(true)
}

/// Deletes slice by slice until little is left; others go first.
async fn sweep(
    app: &App,
    name: &'static str,
    before: Time,
    delete: fn(&mut Tx<'_>, Time, i64) -> identity::Result<usize>,
) -> identity::Result<()> {
    while app.store.write(name, move |tx| delete(tx, before, SLICE)).await? as i64 >= SLICE {
        tokio::time::sleep(BETWEEN_SLICES).await;
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
    app.store.write("key.add", move |tx| keys::add_if_due(tx, &new, now)).await
}
