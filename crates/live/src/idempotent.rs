//! Mutations and plain routes that a client sends again with the same `Idempotency-Key`.
//!
//! The answer is stored in the transaction of the command, so it happens once however often the request arrives. Answers
//! are kept for a day. They may have secrets, such as a token, so they are sealed with a key that is derived from the client's
//! `Idempotency-Key`, which the database does not have.

use crate::Problem;
use crate::context::Context;
use crate::given::sha256;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use http::{HeaderMap, StatusCode};
use std::time::Duration;
use store::{Snapshot, Sql, Time, Tx, args, insert, sql};

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_call_answers (
    id {hash} NOT NULL PRIMARY KEY,
    body {hash} NOT NULL,
    at_ms BIGINT NOT NULL,
    answer {long_bytes} NOT NULL
) {table};";

pub(crate) const HEADER: &str = "idempotency-key";
pub(crate) const KEPT: Duration = Duration::from_secs(24 * 3600);
const KEY_BYTES_MAX: usize = 255;
/// 22 letters of base64url have 128 bits.
const ANONYMOUS_KEY_BYTES_MIN: usize = 22;
const PAGE: usize = 500;
/// So many answers are deleted in one command: each may be as long as a body.
const DELETED_AT_ONCE: usize = 50;

static READ: Sql = sql("SELECT body, answer, at_ms FROM live_call_answers WHERE id = ?1");
static DROP: Sql = sql("DELETE FROM live_call_answers WHERE id = ?1");
static KEEP: Sql = insert("live_call_answers", &[&["id", "body", "at_ms", "answer"]]);
static WALK: Sql = sql("SELECT id, at_ms FROM live_call_answers WHERE id > ?1 ORDER BY id LIMIT ?2");

/// The hash of the body, the sealed answer, and when it was stored.
type Row = (Vec<u8>, Vec<u8>, Time);

/// The key of a request.
#[derive(Clone)]
pub(crate) struct Key {
    id: [u8; 32],
    body: [u8; 32],
    /// Seals the answer.
    sealing: [u8; 32],
}

impl Key {
    /// The key of a request, if it has one. It counts for one caller, one mutation (or method and path) and one body.
    pub(crate) fn of(
        headers: &HeaderMap,
        subject: Option<&str>,
        mutation: &str,
        body: [u8; 32],
    ) -> Result<Option<Key>, Problem> {
        let mut sent = headers.get_all(HEADER).iter();
        let Some(key) = sent.next() else { return Ok(None) };
        let key = key.to_str().ok().filter(|_| sent.next().is_none()).ok_or_else(|| {
            let detail =
                "`Idempotency-Key` must be sent once, with visible ASCII characters, such as a UUID.";
            Problem::new(StatusCode::BAD_REQUEST, "invalid_idempotency_key", detail)
        })?;
        Key::new(key, subject, mutation, body).map(Some)
    }

    fn new(key: &str, subject: Option<&str>, mutation: &str, body: [u8; 32]) -> Result<Key, Problem> {
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
        let mut sealing = [0; 32];
        let secret = hmac::Key::new(hmac::HMAC_SHA256, scope.as_bytes());
        sealing.copy_from_slice(hmac::sign(&secret, b"sealing of a stored answer").as_ref());
        Ok(Key { id: sha256(scope.as_bytes()), body, sealing })
    }

    /// The stored answer. An expired one is deleted, so that the key can be used again.
    pub(crate) fn answer(&self, tx: &mut Tx<'_>, now: Time) -> Result<Option<String>, Problem> {
        match self.row(tx.snapshot())? {
            Some((_, _, at)) if now.since(at) >= KEPT => {
                tx.exec(&DROP, args![&self.id])?;
                Ok(None)
            }
            row => self.opened(row),
        }
    }

    /// The same without a transaction.
    pub(crate) fn stored(&self, snapshot: &mut Snapshot<'_>, now: Time) -> Result<Option<String>, Problem> {
        let row = self.row(snapshot)?;
        self.opened(row.filter(|(_, _, at)| now.since(*at) < KEPT))
    }

    fn row(&self, snapshot: &mut Snapshot<'_>) -> Result<Option<Row>, Problem> {
        Ok(snapshot.one(&READ, args![&self.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?)
    }

    fn opened(&self, row: Option<Row>) -> Result<Option<String>, Problem> {
        match row {
            None => Ok(None),
            Some((body, answer, _)) if body == self.body => self.open(answer).map(Some),
            Some(_) => Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "This `Idempotency-Key` was used with another body. Use a new key for each new request.",
            )),
        }
    }

    fn sealing_key(&self) -> Result<LessSafeKey, Problem> {
        UnboundKey::new(&AES_256_GCM, &self.sealing).map(LessSafeKey::new).map_err(Problem::defect)
    }

    fn seal(&self, answer: &str) -> Result<Vec<u8>, Problem> {
        let mut sealed = answer.as_bytes().to_vec();
        // Made from all that is sealed: a command may run again and answer something else, and no nonce may serve twice.
        let mut hash = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.sealing));
        hash.update(&self.body);
        hash.update(answer.as_bytes());
        let hash = hash.sign();
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&hash.as_ref()[..NONCE_LEN]);
        let unique = Nonce::assume_unique_for_key(nonce);
        let done = self.sealing_key()?.seal_in_place_append_tag(unique, Aad::from(self.body), &mut sealed);
        done.map_err(Problem::defect)?;
        Ok([&nonce[..], &sealed].concat())
    }

    fn open(&self, mut answer: Vec<u8>) -> Result<String, Problem> {
        let lost = || {
            let detail = "The call with this `Idempotency-Key` was done, but its answer cannot be read. Read the object to see \
                          the result.";
            Problem::conflict("idempotency_answer_lost", detail)
        };
        let (nonce, sealed) = answer.split_at_mut_checked(NONCE_LEN).ok_or_else(lost)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| lost())?;
        let opened =
            self.sealing_key()?.open_in_place(nonce, Aad::from(self.body), sealed).map_err(|_| lost())?;
        String::from_utf8(opened.to_vec()).map_err(|_| lost())
    }

    /// Stores the answer.
    pub(crate) fn keep(&self, tx: &mut Tx<'_>, answer: &str, now: Time) -> Result<(), Problem> {
        tx.exec_one(&KEEP, args![&self.id, &self.body, now, &self.seal(answer)?])?;
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
        for some in expired.chunks(DELETED_AT_ONCE).map(<[_]>::to_vec) {
            let delete =
                move |tx: &mut Tx<'_>| some.iter().try_for_each(|id| tx.exec(&DROP, args![id]).map(drop));
            context.store().write::<_, store::Error, _>("live.clean_answers", delete).await?;
        }
        match page.last() {
            Some((last, _)) if page.len() == PAGE => after = last.clone(),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_client_s_key_opens_an_answer() {
        let key = |key, body: &[u8]| Key::new(key, Some("ada"), "register", sha256(body)).expect("a key");
        let (mine, answer) = (key("k1", b"{}"), "{\"token\":\"secret\"}");
        let sealed = mine.seal(answer).expect("sealed");
        assert!(!sealed.windows(6).any(|part| part == b"secret"), "{sealed:?}");
        assert_eq!(mine.open(sealed.clone()).expect("opened"), answer);
        let mut changed = sealed.clone();
        changed[NONCE_LEN] ^= 1;
        for (other, sealed) in [
            (key("k2", b"{}"), sealed.clone()),
            (key("k1", b"[]"), sealed),
            (mine.clone(), changed),
            (mine, vec![]),
        ] {
            assert_eq!(other.open(sealed).expect_err("lost").code, "idempotency_answer_lost");
        }
    }
}
