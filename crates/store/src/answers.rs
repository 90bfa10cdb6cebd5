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
pub(crate) type Answer = (Box<dyn Command>, Option<Error>);

#[derive(Default)]
pub(crate) struct Answers {
    /// The runtime of those who wait.
    runtime: OnceLock<Handle>,
    due: Arc<Due>,
}

#[derive(Default)]
struct Due {
    answers: Mutex<Vec<Answer>>,
    taken: Condvar,
}

impl Answers {
    /// Notes where callers live, from one of them. All live in the same runtime.
    pub(crate) fn caller_is_here(&self) {
        if self.runtime.get().is_none() {
            // Whoever came first meanwhile lives in the same one.
            let _ = self.runtime.set(Handle::current());
        }
    }

    /// Answers the callers of a commit, soon.
    pub(crate) fn hand_out(&self, ran: Vec<Answer>) {
        let Some(runtime) = self.runtime.get() else {
            return tell(ran);
        };
        let mut answers = self.due.answers.lock();
        let somebody_comes = !answers.is_empty();
        answers.extend(ran);
        if somebody_comes || answers.is_empty() {
            return;
        }
        let due = self.due.clone();
        runtime.spawn(async move {
            let taken = std::mem::take(&mut *due.answers.lock());
            due.taken.notify_all();
            tell(taken);
        });
    }

    /// Waits until the last commit's callers are being told, for `most` at most.
    pub(crate) fn wait_until_taken(&self, most: Duration) {
        let mut answers = self.due.answers.lock();
        if !answers.is_empty() {
            self.due.taken.wait_for(&mut answers, most);
        }
    }
}

fn tell(answers: Vec<Answer>) {
    answers.into_iter().for_each(|(job, error)| job.answer(error));
}
