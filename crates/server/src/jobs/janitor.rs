//! What is done by the clock: deleting what has expired, in small slices, and renewing signing keys. Of several
//! instances on one database, one does it.
//!
//! What is found by the time in its id (codes, links, refresh tokens, revoked tokens) is deleted from the table's
//! beginning. Grants and sessions last as long as their users like: these are found by walks through the tables, a few
//! pages a turn, for an index would be written by every sign-in. Consents are kept: they are what a user has said, and
//! count until he says something else.

use crate::app::App;
use identity::cleanup;
use identity::keys::{self, Algorithm};
use identity::walks::Page;
use identity::{
    authorization_codes, authorization_requests, devices, grants, leases, links, revoked_tokens, sessions,
};
use parking_lot::Mutex;
use std::fmt::Display;
use std::time::Duration;
use store::{Snapshot, Time, Tx};
use tokio::sync::watch;

const EVERY: Duration = Duration::from_secs(30);
/// An instance that has not been heard of for this long does not tidy up any more.
const LEASE: Duration = Duration::from_secs(90);
/// Rows deleted by one command.
const SLICE: i64 = 200;
const BETWEEN_SLICES: Duration = Duration::from_millis(20);
/// Device codes are kept this long, so that their devices still hear "expired" for a while.
const DEVICES_KEPT: Duration = Duration::from_secs(2 * 3600);
/// Codes, links and revoked tokens are kept this long: a code that comes back late still revokes what it gave.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Sessions, grants and refresh tokens are kept this long after they ended, for whoever looks up what the audit trail
/// names. Much longer than codes, so that a code that comes back finds its grant.
const ENDED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Pages of [`SLICE`] rows that a walk looks at in one turn.
const PAGES: usize = 50;
/// A walk that has come to the end begins again after this long.
const REST: Duration = Duration::from_secs(3600);

/// How far the walks have come. Who takes the work over begins anew.
#[derive(Default)]
pub(crate) struct Walks {
    grants: Mutex<Walk>,
    sessions: Mutex<Walk>,
}

#[derive(Clone, Default)]
struct Walk {
    /// The last id that was looked at; empty at the beginning.
    after: String,
    rests_until: Time,
}

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
    sweep(app, "codes.tidy", before, authorization_codes::delete_older).await?;
    sweep(app, "links.tidy", before, links::delete_older).await?;
    sweep(app, "authorization_requests.tidy", before, authorization_requests::delete_older).await?;
    sweep(app, "tokens.tidy", before, revoked_tokens::delete_older).await?;
    let before = app.now() - ENDED_KEPT - grants::REFRESH_LIFE;
    sweep(app, "grants.tidy", before, cleanup::delete_refresh_tokens).await?;
    let delete = |tx: &mut Tx<'_>, ids: &[_], _| cleanup::delete_grants(tx, ids).map(|()| true);
    walk(app, &app.walks.grants, "grants.delete", grants::over, delete).await?;
    walk(app, &app.walks.sessions, "sessions.delete", sessions::over, cleanup::delete_sessions).await?;
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

/// Goes on with a walk and deletes what has been over for [`ENDED_KEPT`]. `delete` says whether all of it is gone.
async fn walk<I: Display + Clone + Send + Sync + 'static>(
    app: &App,
    walk: &Mutex<Walk>,
    name: &'static str,
    look: fn(&mut Snapshot<'_>, &str, Time, i64) -> identity::Result<Page<I>>,
    delete: fn(&mut Tx<'_>, &[I], i64) -> identity::Result<bool>,
) -> identity::Result<()> {
    let Walk { mut after, rests_until } = walk.lock().clone();
    let now = app.now();
    if now < rests_until {
        return Ok(());
    }
    let before = now - ENDED_KEPT;
    for _ in 0..PAGES {
        let page = app.store.read(move |snapshot| look(snapshot, &after, before, SLICE)).await?;
        let mut is_done = page.over.is_empty();
        while !is_done {
            let over = page.over.clone();
            is_done = app.store.write(name, move |tx| delete(tx, &over, SLICE)).await?;
            tokio::time::sleep(BETWEEN_SLICES).await;
        }
        let Some(last) = page.last else {
            *walk.lock() = Walk { after: String::new(), rests_until: now + REST };
            return Ok(());
        };
        after = last.to_string();
        walk.lock().after.clone_from(&after);
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
