//! Prepares a database for its first server: the check of the `secret_key`, the platform organization with its clients,
//! a signing key, and the set-up link for the first owner.

use crate::app::App;
use crate::operation::look;
use identity::clients::{self, Kind, NewClient};
use identity::ids::{ClientId, LinkId, OrganizationId};
use identity::keys::Algorithm;
use identity::links::{self, NewLink, Purpose};
use identity::organizations::{self, PLATFORM};
use identity::{Error, Result, administrators, database_move, settings};
use std::time::{Duration, Instant};
use store::{Error as StoreError, Snapshot};

/// How long the start waits for a database server …
const PATIENCE: Duration = Duration::from_secs(10);
/// … and between two tries.
const PAUSE: Duration = Duration::from_millis(100);
const CONSOLE: &str = "console";
const CONSOLE_PATH: &str = "/console";

/// Creates what is missing, and lets the console follow a changed `issuer`. Fails if the database belongs to another `secret_key` or is the target of an unfinished
/// move. Several instances may start on one database at the same time.
pub async fn prepare(app: &App) -> Result<()> {
    patiently(app, async || make_ready(app).await).await?;
    warn_of_clock(app).await;
    Ok(())
}

/// A start does not fail because the database does not answer a question that only serves a warning.
async fn warn_of_clock(app: &App) {
    match app.store.point(look::latest).await {
        Ok(latest) => {
            if let Some(behind) = look::clock_behind(&latest, app.now()) {
                tracing::warn!("{}", behind.text);
            }
        }
        Err(error) => tracing::debug!(%error, "the clock was not compared with the database"),
    }
}

/// Does something at the start again while a database server ends connections, or is away, for ten seconds at most. What was done
/// is found the next time.
async fn patiently<T>(app: &App, work: impl AsyncFn() -> Result<T>) -> Result<T> {
    let until = Instant::now() + PATIENCE;
    loop {
        match work().await {
            Err(Error::Store(error))
                if app.store.is_shared() && may_pass(&error) && Instant::now() < until =>
            {
                tracing::warn!(%error, "the start waits for the database");
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

fn may_pass(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. }
            | StoreError::OutcomeUnknown
            | StoreError::Overloaded { .. }
            | StoreError::TooSlow { .. }
    )
}

async fn make_ready(app: &App) -> Result<()> {
    app.store.point(database_move::check_finished).await?;
    let sealed = settings::make_check(&app.secret_key, app.random())?;
    app.store.write("settings.seal", move |tx| settings::seal_check(tx, &sealed)).await?;
    let key = app.secret_key.clone();
    app.store.point(move |snapshot| settings::check(snapshot, &key)).await?;
    make_platform(app).await?;
    follow_issuer(app).await?;
    app.key_maker().renew(Algorithm::Es256).await
}

async fn make_platform(app: &App) -> Result<()> {
    if app.store.point(has_platform).await? {
        return Ok(());
    }
    let (id, actor) = (OrganizationId::new(app.now(), app.random()), app.system());
    let cli = NewClient::new(ClientId::parse("cli")?, Kind::Device, "Sarsen command line", Vec::new());
    let address = vec![app.url(CONSOLE_PATH)];
    let console = NewClient::new(ClientId::parse(CONSOLE)?, Kind::Spa, "Sarsen console", address);
    let made = app.store.write("platform.create", move |tx| {
        settings::lock_installation(tx)?;
        if has_platform(tx.snapshot())? {
            return Ok(());
        }
        organizations::create_platform(tx, &id, &actor)?;
        clients::create(tx, &id, None, &cli, &actor)?;
        clients::create(tx, &id, None, &console, &actor)
    });
    made.await
}

/// The console signs in at the address of the issuer, which may have changed since the database was made.
async fn follow_issuer(app: &App) -> Result<()> {
    let (id, wanted, actor) = (ClientId::parse(CONSOLE)?, vec![app.url(CONSOLE_PATH)], app.system());
    let read = id.clone();
    let console = app.store.point(move |snapshot| clients::get(snapshot, &read)).await?;
    if console.redirect_uris == wanted {
        return Ok(());
    }
    let moved = app.store.write("console.redirect", move |tx| {
        let console = clients::get(tx.snapshot(), &id)?;
        clients::redirect_built_in(tx, &console, &wanted, &actor)
    });
    moved.await
}

fn has_platform(snapshot: &mut Snapshot<'_>) -> Result<bool> {
    match organizations::find(snapshot, PLATFORM) {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the installation has an owner.
pub async fn has_owner(app: &App) -> Result<bool> {
    app.store.point(administrators::has_platform_owner).await
}

/// Creates a set-up link, unless the installation has an owner.
pub async fn link(app: &App) -> Result<Option<String>> {
    patiently(app, async || make_link(app).await).await
}

async fn make_link(app: &App) -> Result<Option<String>> {
    if has_owner(app).await? {
        return Ok(None);
    }
    let now = app.now();
    let link = NewLink::generate(
        LinkId::new(now, app.random()),
        Purpose::SetUp,
        None,
        now + links::LIFE,
        app.random(),
    );
    let token = link.token.clone();
    app.store.write("link.create", move |tx| links::create(tx, &link, "system", now)).await?;
    Ok(Some(app.url(&format!("/setup?token={token}"))))
}
