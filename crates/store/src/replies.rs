//! Sends the results of a commit to its callers with one system call instead of one for each caller.
//!
//! Waking a task from a thread outside of its runtime costs a system call. So one task is spawned in the callers'
//! runtime, and it wakes the others. A busy runtime polls spawned tasks only once in many turns. For that reason a
//! runtime has at most one such task at a time, and a writer that waits for it batches more commands into its next
//! commit.

use crate::Error;
use crate::job::Command;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Id;

/// A command that was run, and the error that replaces its result.
pub(crate) type Reply = (Box<dyn Command>, Option<Error>);

#[derive(Default)]
pub(crate) struct Replies {
    pending: Arc<Pending>,
}

#[derive(Default)]
struct Pending {
    /// One for each runtime that has a task on its way. Locked to add replies or to take them.
    batches: Mutex<Vec<Batch>>,
    taken: Condvar,
}

struct Batch {
    runtime: Id,
    replies: Vec<Reply>,
    /// The writer has waited for it once. A runtime that is not driven must not slow down every commit.
    was_waited_for: bool,
}

/// Takes a runtime's replies and sends them when dropped: at the end of the task, or when the runtime ends and drops the
/// task without running it.
struct Delivery {
    pending: Arc<Pending>,
    runtime: Id,
}

impl Replies {
    /// Starts sending replies to the callers of a commit.
    pub(crate) fn send(&self, replies: Vec<Reply>) {
        let (mut direct, mut to_wake) = (Vec::new(), Vec::new());
        let mut batches = self.pending.batches.lock();
        for reply in replies {
            let Some(handle) = reply.0.runtime() else {
                direct.push(reply);
                continue;
            };
            let runtime = handle.id();
            match batches.iter_mut().find(|batch| batch.runtime == runtime) {
                Some(batch) => batch.replies.push(reply),
                None => {
                    to_wake.push(handle.clone());
                    batches.push(Batch { runtime, replies: vec![reply], was_waited_for: false });
                }
            }
        }
        // A runtime that has ended drops the task immediately, on this thread.
        drop(batches);
        for handle in to_wake {
            let delivery = Delivery { pending: self.pending.clone(), runtime: handle.id() };
            handle.spawn(async move { drop(delivery) });
        }
        deliver(direct);
    }

    /// Blocks until the replies of the last commit are being sent, for at most `most`.
    pub(crate) fn wait_until_taken(&self, most: Duration) {
        let mut batches = self.pending.batches.lock();
        if batches.iter().any(|batch| !batch.was_waited_for) {
            self.pending.taken.wait_for(&mut batches, most);
            batches.iter_mut().for_each(|batch| batch.was_waited_for = true);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut batches = self.pending.batches.lock();
        let place = batches.iter().position(|batch| batch.runtime == self.runtime);
        let batch = place.map(|place| batches.swap_remove(place));
        drop(batches);
        self.pending.taken.notify_all();
        batch.into_iter().for_each(|batch| deliver(batch.replies));
    }
}

fn deliver(replies: Vec<Reply>) {
    replies.into_iter().for_each(|(job, error)| job.reply(error));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tx;
    use std::sync::mpsc::{Sender, channel};
    use tokio::runtime::{Builder, Handle, Runtime};

    struct Job {
        caller: Option<Handle>,
        replied: Sender<()>,
    }

    impl Command for Job {
        fn name(&self) -> &'static str {
            "test"
        }

        fn is_batchable(&self) -> bool {
            false
        }

        fn runtime(&self) -> Option<&Handle> {
            self.caller.as_ref()
        }

        fn start(&self) -> bool {
            true
        }

        fn run(&mut self, _: &mut Tx<'_>) -> Result<bool, Error> {
            Ok(true)
        }

        fn reply(self: Box<Self>, _: Option<Error>) {
            self.replied.send(()).expect("the test receives");
        }
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().expect("a runtime")
    }

    #[test]
    fn an_idle_runtime_delays_one_commit_and_gets_its_replies_when_it_ends() {
        let (idle, (replied, has_replied)) = (runtime(), channel());
        let replies = Replies::default();
        let job = || -> Reply {
            (Box::new(Job { caller: Some(idle.handle().clone()), replied: replied.clone() }), None)
        };
        replies.send(vec![job(), job()]);
        replies.wait_until_taken(Duration::from_millis(1));
        replies.wait_until_taken(Duration::from_secs(3600));
        assert!(has_replied.try_recv().is_err());
        drop(idle);
        assert_eq!(has_replied.try_iter().count(), 2);
        assert!(replies.pending.batches.lock().is_empty());
    }

    #[test]
    fn replies_without_a_live_runtime_are_sent_at_once() {
        let (replied, has_replied) = channel();
        let ended = runtime().handle().clone();
        for caller in [None, Some(ended)] {
            Replies::default().send(vec![(Box::new(Job { caller, replied: replied.clone() }), None)]);
            assert_eq!(has_replied.try_iter().count(), 1);
        }
    }
}
