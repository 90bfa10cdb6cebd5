//! A command that is run once for each key, in one transaction with its answer.
//!
//! The row of the key is inserted before the command runs: of two requests at once, the second waits there for the commit of
//! the first, and then finds the answer. The caller authorizes before this, in the same transaction.
//!
//! There is a [`Row`] in `server/src/web/idempotency.rs`, of the API, and one in `live/src/idempotent.rs`, of mutations.

use super::{KEPT, Outcome, Refused, Respond, Stored};
use std::time::Duration;
use store::{Time, Tx};

/// How long the answer of an earlier release may come after its commit. That release stores it with a second command; without
/// one after this time, its process has ended in between.
const UNFINISHED_MAX: Duration = Duration::from_secs(60);

/// The row of one key in the table of an interface, in the form that releases before have given it.
pub trait Row {
    /// What a command of the interface fails with.
    type Error: From<store::Error> + From<Refused>;

    /// Inserts it without an answer. Returns false if the key has a row. A transaction that is inserting it is waited for.
    fn insert(&self, tx: &mut Tx<'_>, now: Time) -> Result<bool, Self::Error>;
    /// What the key's row says.
    fn find(&self, tx: &mut Tx<'_>) -> Result<Option<Found>, Self::Error>;
    /// Seals the answer and stores it in the row.
    fn keep(&self, tx: &mut Tx<'_>, answer: Stored) -> Result<(), Self::Error>;
    /// Deletes the key's row.
    fn delete(&self, tx: &mut Tx<'_>) -> Result<(), Self::Error>;
}

/// What the row of an earlier request says.
#[derive(Clone, Debug)]
pub struct Found {
    /// Whether it was for the same request: the same body, and what belongs to it.
    pub is_same: bool,
    /// When it came.
    pub at: Time,
    /// Its answer.
    pub answer: Kept,
}

/// An answer in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It was opened.
    Answer(Stored),
    /// It was sealed with another key, or was dropped since.
    Gone,
    /// Not stored yet, by a release that stores it after the commit.
    Unfinished,
}

/// Runs a command once for its key, and each time without one.
pub fn once<R: Row, T: Respond>(
    row: Option<&R>,
    tx: &mut Tx<'_>,
    now: Time,
    command: impl FnOnce(&mut Tx<'_>) -> Result<T, R::Error>,
) -> Result<Outcome<T>, R::Error> {
    let Some(row) = row else { return command(tx).map(Outcome::Done) };
    if let Some(answer) = begin(row, tx, now)? {
        return Ok(Outcome::Repeated(answer));
    }
    let done = command(tx)?;
    let answer = done.respond().map_err(|error| Refused::Defect(error.to_string()))?;
    row.keep(tx, answer)?;
    Ok(Outcome::Done(done))
}

/// Inserts the row. Returns the answer of an earlier request, if there was one.
fn begin<R: Row>(row: &R, tx: &mut Tx<'_>, now: Time) -> Result<Option<Stored>, R::Error> {
    // Twice: an old row may be in the way, or one that is deleted at this moment because of its age.
    for _ in 0..2 {
        if row.insert(tx, now)? {
            return Ok(None);
        }
        match row.find(tx)? {
            None => {}
            Some(found) if now.since(found.at) >= KEPT => row.delete(tx)?,
            Some(found) => return answer(found, now).map(Some).map_err(R::Error::from),
        }
    }
    Err(Refused::InProgress.into())
}

fn answer(found: Found, now: Time) -> Result<Stored, Refused> {
    match found.answer {
        _ if !found.is_same => Err(Refused::Reused),
        Kept::Answer(answer) => Ok(answer),
        Kept::Unfinished if now.since(found.at) < UNFINISHED_MAX => Err(Refused::InProgress),
        Kept::Unfinished | Kept::Gone => Err(Refused::Lost),
    }
}
