//! How callers hear of a commit: without a system call for each, and without a line of commits before theirs.
//!
//! Waking a task from a foreign thread costs a system call; so one task of the callers' own runtime is woken, and
//! that one wakes the others. A busy runtime looks at what comes from outside once in many turns: there is at most
//! one such task, and a writer does well to wait for it before it commits for a few more.

use crate::Error;
use crate::job::Command;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;

/// A command that was run, and the error that replaces what it returned.
pub(crate) type Reply = (Box<dyn Command>, Option<Error>);

#[derive(Default)]
pub(crate) struct Replies {
    /// The runtime of those who wait.
    runtime: OnceLock<Handle>,
    pending: Arc<Pending>,
}

#[derive(Default)]
struct Pending {
    replies: Mutex<Vec<Reply>>,
    taken: Condvar,
}

impl Replies {
    /// Notes where callers live, from one of them. All live in the same runtime.
    pub(crate) fn note_runtime(&self) {
        if self.runtime.get().is_none() {
            // Whoever came first meanwhile lives in the same one.
            let _ = self.runtime.set(Handle::current());
        }
    }

    /// Sends the replies to the callers of a commit, soon.
    pub(crate) fn send(&self, ran: Vec<Reply>) {
        let Some(runtime) = self.runtime.get() else {
            return deliver(ran);
        };
        let mut replies = self.pending.replies.lock();
        let is_scheduled = !replies.is_empty();
        replies.extend(ran);
        if is_scheduled || replies.is_empty() {
            return;
        }
        let pending = self.pending.clone();
        runtime.spawn(async move {
            let taken = std::mem::take(&mut *pending.replies.lock());
            pending.taken.notify_all();
            deliver(taken);
        });
    }

    /// Waits until the last commit's callers are being told, for `most` at most.
    pub(crate) fn wait_until_taken(&self, most: Duration) {
        let mut replies = self.pending.replies.lock();
        if !replies.is_empty() {
            self.pending.taken.wait_for(&mut replies, most);
        }
    }
}

fn deliver(replies: Vec<Reply>) {
    replies.into_iter().for_each(|(job, error)| job.reply(error));
}
