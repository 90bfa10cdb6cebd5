//! A thread that answers queries, each in a snapshot of its own.

use super::{Link, Purpose, Session};
use crate::Snapshot;
use crate::job::Query;
use crate::store::Shared;
use std::collections::VecDeque;
use std::time::Instant;

/// Serves queries until the queue is closed and empty.
pub(super) fn answer_queries<S: Session>(mut link: Link<S>, shared: &Shared) {
    link.warm_up();
    let mut taken: VecDeque<Box<dyn Query>> = VecDeque::new();
    while shared.queries.take(&mut taken, 1) {
        for mut query in taken.drain(..) {
            shared.queries.started();
            if query.start() {
                answer(query, &mut link, shared);
            }
        }
    }
}

fn answer<S: Session>(mut query: Box<dyn Query>, link: &mut Link<S>, shared: &Shared) {
    let began = Instant::now();
    match link.begin(Purpose::Query, began + shared.queries.deadline) {
        Ok(connection) => {
            if let Some(view) = connection.view() {
                shared.feed.shows(view.next);
            }
            query.run(&mut Snapshot::new(connection, shared.options.check));
            // Nothing was written: the caller need not wait for the end of the transaction.
            query.answer(None);
            link.finish();
            shared.queries.pace.ran(1, began.elapsed());
        }
        Err(error) => query.answer(Some(error)),
    }
}
