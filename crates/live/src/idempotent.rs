//! Mutations that a client sends again with the same `Idempotency-Key`.
//!
//! The answer is stored in the transaction of the mutation, so it happens once however often the request arrives. Answers
//! are kept for a day.

use crate::Problem;
use crate::app::{Context, sha256};
use http::StatusCode;
use std::time::Duration;
use store::{Snapshot, Sql, Time, Tx, args, insert, sql};

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_answers (
    id {hash} NOT NULL PRIMARY KEY,
    body {hash} NOT NULL,
    answer {long_text} NOT NULL,
    at_ms BIGINT NOT NULL
) {table};";

pub(crate) const KEPT: Duration = Duration::from_secs(24 * 3600);
const KEY_BYTES_MAX: usize = 255;
/// 22 letters of base64url have 128 bits.
const ANONYMOUS_KEY_BYTES_MIN: usize = 22;
const PAGE: usize = 500;

static READ: Sql = sql("SELECT body, answer, at_ms FROM live_answers WHERE id = ?1");
static DROP: Sql = sql("DELETE FROM live_answers WHERE id = ?1");
static KEEP: Sql = insert("live_answers", &[&["id", "body", "answer", "at_ms"]]);
static WALK: Sql = sql("SELECT id, at_ms FROM live_answers WHERE id > ?1 ORDER BY id LIMIT ?2");

/// The key of a request.
#[derive(Clone)]
pub(crate) struct Key {
    id: [u8; 32],
    body: [u8; 32],
}

impl Key {
    /// A key counts for one caller, one mutation and one body.
    pub(crate) fn new(key: &str, subject: Option<&str>, mutation: &str, body: &[u8]) -> Result<Key, Problem> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            let detail = format!("`Idempotency-Key` must have 1 to {KEY_BYTES_MAX} characters.");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid_idempotency_key", detail));
        }
        // Callers without a subject share their keys: who guesses one gets the answer of another.
        if subject.is_none() && key.len() < ANONYMOUS_KEY_BYTES_MIN {
            let detail = format!(
                "Without a token `Idempotency-Key` must have at least {ANONYMOUS_KEY_BYTES_MIN} characters, \
                 chosen at random, such as a UUID."
            );
            return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid_idempotency_key", detail));
        }
        let scope =
            format!("{}\0{mutation}\0{key}", subject.map_or(String::new(), |user| format!("u{user}")));
        Ok(Key { id: sha256(scope.as_bytes()), body: sha256(body) })
    }

    /// The stored answer.
    pub(crate) fn answer(&self, tx: &mut Tx<'_>, now: Time) -> Result<Option<String>, Problem> {
        let stored = tx.one(&READ, args![&self.id], |row| {
            Ok((row.get::<Vec<u8>>(0)?, row.get::<String>(1)?, row.get::<Time>(2)?))
        })?;
        match stored {
            None => Ok(None),
            Some((_, _, at)) if now.since(at) >= KEPT => {
                tx.exec(&DROP, args![&self.id])?;
                Ok(None)
            }
            Some((body, answer, _)) if body == self.body => Ok(Some(answer)),
            Some(_) => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "This `Idempotency-Key` was used with another body. Use a new key for each new request.",
            )),
        }
    }

    /// Stores the answer.
    pub(crate) fn keep(&self, tx: &mut Tx<'_>, answer: &str, now: Time) -> Result<(), Problem> {
        tx.exec_one(&KEEP, args![&self.id, &self.body, answer, now])?;
        Ok(())
    }
}

/// Deletes expired answers, page by page.
pub(crate) async fn clean(context: Context) -> Result<(), Problem> {
    let mut after: Vec<u8> = Vec::new();
    loop {
        let now = context.now();
        let from = after.clone();
        let page = context.store().read(move |snapshot: &mut Snapshot<'_>| {
            snapshot.all(&WALK, args![&from, PAGE as i64], |row| {
                Ok((row.get::<Vec<u8>>(0)?, row.get::<Time>(1)?))
            })
        });
        let page: Vec<(Vec<u8>, Time)> = page.await?;
        let expired: Vec<Vec<u8>> =
            page.iter().filter(|(_, at)| now.since(*at) > KEPT).map(|(id, _)| id.clone()).collect();
        if !expired.is_empty() {
            let delete =
                move |tx: &mut Tx<'_>| expired.iter().try_for_each(|id| tx.exec(&DROP, args![id]).map(drop));
            context.store().write::<_, store::Error, _>("live.clean_answers", delete).await?;
        }
        match page.last() {
            Some((last, _)) if page.len() == PAGE => after = last.clone(),
            _ => return Ok(()),
        }
    }
}
