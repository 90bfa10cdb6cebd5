//! A thread that answers queries, each in a snapshot. Point reads that have gathered share one, for what they cost is
//! mostly its beginning and its end; it was opened when all of them had been asked, so each sees what was written
//! before.

use super::{Link, Purpose, Session};
use crate::job::Query;
use crate::store::Shared;
use crate::{Error, Snapshot};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Point reads in one snapshot, at most.
const POINTS_MAX: usize = 32;
/// Nor does it stay open for longer than this, whatever the server has to do.
const SHARED_FOR: Duration = Duration::from_millis(50);

type Job = Box<dyn Query>;

/// Serves queries until the queue is closed and empty.
pub(super) fn answer_queries<S: Session>(mut link: Link<S>, shared: &Shared) {
    link.warm_up();
    let queries = &shared.queries;
    let mut taken: VecDeque<Job> = VecDeque::new();
    while let Some(_turn) = queries.take_turn(&mut taken, POINTS_MAX) {
        let mut opened = None;
        for query in taken.drain(..) {
            queries.started();
            answer(query, &mut opened, &mut link, shared);
        }
        if opened.is_some() {
            link.finish();
        }
    }
}

/// Answers a query in the snapshot that was `opened` then, or in a new one.
fn answer<S: Session>(mut query: Job, opened: &mut Option<Instant>, link: &mut Link<S>, shared: &Shared) {
    if !query.start() {
        return;
    }
    let began = Instant::now();
    if opened.is_some_and(|since| began.duration_since(since) > SHARED_FOR) {
        *opened = None;
        link.finish();
    }
    match session(opened, link, began + shared.queries.deadline) {
        Ok(session) => {
            if let Some(view) = session.view() {
                shared.feed.shows(view.next);
            }
            query.run(&mut Snapshot::new(session, shared.options.check));
            let met = session.trouble();
            // Nothing was written: the caller need not wait for the end of the transaction.
            query.answer(None);
            if met.is_some() {
                *opened = None;
                link.finish();
            }
            shared.queries.pace.ran(1, began.elapsed());
        }
        Err(error) => query.answer(Some(error)),
    }
}

fn session<'l, S: Session>(
    opened: &mut Option<Instant>,
    link: &'l mut Link<S>,
    until: Instant,
) -> Result<&'l mut S, Error> {
    if opened.is_some() {
        return link.current();
    }
    let session = link.begin(Purpose::Query, until)?;
    *opened = Some(Instant::now());
    Ok(session)
}
