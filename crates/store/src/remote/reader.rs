//! A thread that runs queries, each in a snapshot. Queued point reads share one, because most of their cost is
//! its beginning and its end. It is opened after all of them were queued, so each sees the earlier writes.

use super::{ReconnectingSession, Session, TxMode};
use crate::engine::Shared;
use crate::job::Query;
use crate::threads::again_after_panics;
use crate::{Error, Snapshot};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Point reads in one snapshot, at most.
const POINTS_MAX: usize = 32;
/// Nor does it stay open for longer than this, whatever the server has to do.
const SHARED_FOR: Duration = Duration::from_millis(50);

type Job = Box<dyn Query>;

/// Serves queries until the queue is closed and empty.
pub(super) fn answer_queries<S: Session>(mut session: ReconnectingSession<S>, shared: &Shared) {
    again_after_panics(|| {
        session.forget();
        serve_queue(&mut session, shared);
    });
}

fn serve_queue<S: Session>(session: &mut ReconnectingSession<S>, shared: &Shared) {
    session.connect_early();
    let queries = &shared.queries;
    let mut taken: VecDeque<Job> = VecDeque::new();
    while let Some(_turn) = queries.take_turn(&mut taken, POINTS_MAX) {
        let mut opened = None;
        for query in taken.drain(..) {
            queries.started(&query);
            answer(query, &mut opened, session, shared);
        }
        if opened.is_some() {
            session.finish();
        }
    }
}

/// Answers a query in the snapshot that was `opened` then, or in a new one.
fn answer<S: Session>(
    mut query: Job,
    opened: &mut Option<Instant>,
    session: &mut ReconnectingSession<S>,
    shared: &Shared,
) {
    if !query.start() {
        return;
    }
    let began = Instant::now();
    if opened.is_some_and(|since| began.duration_since(since) > SHARED_FOR) {
        *opened = None;
        session.finish();
    }
    match connection_in_snapshot(opened, session, began + shared.queries.deadline) {
        Ok(connection) => {
            if let Some(info) = connection.snapshot_info() {
                shared.feed.note_shown(info.end);
            }
            query.run(&mut Snapshot::new(connection, shared.options.check));
            let failure = connection.failure();
            let is_background = query.is_background();
            // Nothing was written: the caller need not wait for the end of the transaction.
            query.reply(None);
            if failure.is_some() {
                *opened = None;
                session.finish();
            }
            if !is_background {
                shared.queries.timings.record_run(1, began.elapsed());
            }
        }
        Err(error) => query.reply(Some(error)),
    }
}

fn connection_in_snapshot<'l, S: Session>(
    opened: &mut Option<Instant>,
    session: &'l mut ReconnectingSession<S>,
    until: Instant,
) -> Result<&'l mut S, Error> {
    if opened.is_some() {
        return session.current();
    }
    let connection = session.begin(TxMode::Query, until)?;
    *opened = Some(Instant::now());
    Ok(connection)
}
