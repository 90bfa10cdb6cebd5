//! The lease of a reader of effects: a row in `live_schedules` whose time is its end.
//!
//! An instance takes it when there is something to do and no other has it, and keeps it while it works. It is not given back after
//! the work, so that the next effect costs no commit for it; a stop does give it back. If the instance dies, another one takes the
//! lease after its end. A database that is not shared has no other instance: a lease there is of an earlier start, and is taken
//! at once.

use super::Worker;
use super::repeated::{CLOCKS_APART, LEASE, Turn, next_turn};
use store::Error;

/// The lease of one reader, as far as this instance has it.
pub(super) struct Lease {
    name: &'static str,
    turn: Option<Turn>,
}

impl Lease {
    pub(super) fn new(name: &'static str) -> Lease {
        Lease { name, turn: None }
    }

    /// Whether this instance has the lease, which it takes or renews if need be.
    pub(super) async fn keep(&mut self, worker: &Worker) -> bool {
        let kept = match &mut self.turn {
            Some(turn) if turn.until > worker.now() + LEASE * 2 / 3 => return true,
            Some(turn) => match turn.move_to(worker, self.name, worker.now() + LEASE).await {
                Err(error) if !turn.may_be_lost(worker) => {
                    tracing::warn!(%error, effect = self.name, "the lease of an effect cannot be kept");
                    return true;
                }
                kept => kept,
            },
            None => self.take(worker).await,
        };
        match kept {
            Ok(true) => true,
            Ok(false) => {
                self.turn = None;
                false
            }
            Err(error) => {
                tracing::warn!(%error, effect = self.name, "the lease of an effect cannot be taken; trying again");
                self.turn = None;
                false
            }
        }
    }

    async fn take(&mut self, worker: &Worker) -> Result<bool, Error> {
        let (now, next) = (worker.now(), next_turn(worker, self.name).await?);
        // Further away than a lease: written by a clock that was wrong.
        let is_free = next <= now || next > now + LEASE + CLOCKS_APART || !worker.store().is_shared();
        if !is_free {
            return Ok(false);
        }
        let mut turn = Turn::new(now, next);
        let is_taken = turn.move_to(worker, self.name, now + LEASE).await?;
        self.turn = Some(turn).filter(|_| is_taken);
        Ok(is_taken)
    }

    /// Gives it back.
    pub(super) async fn release(&mut self, worker: &Worker) {
        let Some(mut turn) = self.turn.take() else { return };
        if let Err(error) = turn.move_to(worker, self.name, worker.now()).await {
            tracing::debug!(%error, effect = self.name, "another instance takes the lease of an effect when it ends");
        }
    }
}
