//! Serves [`App`] on sockets: the routes, and the jobs of this instance from the start to the stop.
//!
//! The connections, their limits and the steps of a stop are those of the crate `web`.

use super::middleware;
use crate::app::App;
use crate::mail;
use crate::router::router;
use axum::body::Body;
use axum::response::Response;
use endpoint::routes::Routes;
use http::Request;
use live::background::RunningWork;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use web::{Bound, ConnectionCounts, Limits, Peer, RequestBody, Running, Service};

/// A stop does not wait longer for the rows of failed sign-ins. With the requests that end before, it stays below the 20
/// seconds of the files in `deploy`.
const LAST_ROWS_MAX: Duration = Duration::from_secs(2);
/// How often rows of failed sign-ins are written that are due.
const BETWEEN_ROWS: Duration = Duration::from_secs(30);

/// Serves on all of `addresses`. An address with port 0 gets a free one.
pub async fn serve(app: App, addresses: &[SocketAddr], limits: Limits) -> std::io::Result<Running> {
    serve_on(app, Bound::new(addresses)?, limits).await
}

/// Serves on addresses that were bound before.
pub async fn serve_on(app: App, bound: Bound, mut limits: Limits) -> std::io::Result<Running> {
    limits.unshared.extend(&app.settings.trusted_proxies);
    app.metrics.note_tls(limits.tls.as_ref());
    let (stop, stopped) = watch::channel(false);
    let jobs = if app.settings.housekeeping { Jobs::start(&app, &stopped)? } else { Jobs::default() };
    let jobs = Mutex::new(jobs);
    let routes = router();
    app.metrics.count(routes.listed());
    web::serve_on(Serving { app, routes, stop, jobs }, bound, limits).await
}

struct Serving {
    app: App,
    routes: Routes<App>,
    /// Ends the jobs.
    stop: watch::Sender<bool>,
    jobs: Mutex<Jobs>,
}

/// The jobs that run while the server does.
#[derive(Default)]
struct Jobs {
    presence: Option<JoinHandle<()>>,
    work: Option<RunningWork>,
    others: Vec<JoinHandle<()>>,
}

impl Jobs {
    fn start(app: &App, stopped: &watch::Receiver<bool>) -> std::io::Result<Jobs> {
        let work = mail::add_to(app.work(), app).start().map_err(std::io::Error::other)?;
        let presence = app.store.is_shared();
        Ok(Jobs {
            presence: presence.then(|| tokio::spawn(app.presence.clone().run(stopped.clone()))),
            work: Some(work),
            others: std::iter::once(tokio::spawn(write_failed_sign_ins(app.clone(), stopped.clone())))
                .chain(app.backups().map(|backups| tokio::spawn(backups.run(stopped.clone()))))
                .collect(),
        })
    }
}

/// Writes the rows of failed sign-ins that are due. Each instance has its own.
async fn write_failed_sign_ins(app: App, mut stopped: watch::Receiver<bool>) {
    loop {
        app.failed_sign_ins.write_due(&app.store, app.now(), app.random());
        tokio::select! {
            () = tokio::time::sleep(BETWEEN_ROWS) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

impl Service for Serving {
    type Body = Body;

    fn call(
        &self,
        peer: Peer,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response> + Send + use<> {
        middleware::serve(&self.app, &self.routes, peer, request)
    }

    fn refuse_head(&self, head: &Request<()>) -> Response {
        middleware::refuse_head(&self.app, head)
    }

    fn counts(&self) -> &ConnectionCounts {
        &self.app.metrics.connections
    }

    fn release(&self) {
        // If no job is left, none has to be stopped.
        let _ = self.stop.send(true);
        if let Some(work) = &self.jobs.lock().work {
            work.begin_stop();
        }
        self.app.long_polls.close();
        self.app.streams.close();
    }

    /// Writes what is only in memory, drains the writer and leaves no log of the database behind.
    async fn finish(&self) {
        let Jobs { presence, work, others } = std::mem::take(&mut *self.jobs.lock());
        others.into_iter().for_each(|job| job.abort());
        if let Some(work) = work {
            work.stop().await;
        }
        if let Some(presence) = presence {
            presence.abort();
            self.app.presence.end().await;
        }
        self.write_last_rows().await;
        let store = self.app.store.clone();
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("the database was not closed cleanly");
        }
    }
}

impl Serving {
    async fn write_last_rows(&self) {
        let app = &self.app;
        let written = app.failed_sign_ins.write_all(&app.store, app.now(), app.random());
        let why = match tokio::time::timeout(LAST_ROWS_MAX, written).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the database did not answer in time".to_owned(),
        };
        tracing::warn!(error = why, "failed sign-ins of the last minute are missing in the audit trail");
    }
}
