//! Mutations and plain routes that a client sends again with the same `Idempotency-Key`: what a key counts for, and its row. The rest
//! is in `endpoint::idempotency`.
//!
//! Answers may have secrets, such as a token, so they are sealed with a key that is derived from the client's
//! `Idempotency-Key`, which the database does not have. The release before this one reads these rows and writes them.

use crate::Problem;
use crate::context::Context;
use crate::given::sha256;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use endpoint::idempotency::{Found, InvalidKey, KEPT, Kept, Refused, Row, SentKey, Stored};
use http::StatusCode;
use store::{Snapshot, Sql, Time, Tx, args, insert_if_absent, sql, update};

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_call_answers (
    id {hash} NOT NULL PRIMARY KEY,
    body {hash} NOT NULL,
    at_ms BIGINT NOT NULL,
    answer {long_bytes} NOT NULL
) {table};";

/// 22 letters of base64url have 128 bits.
const ANONYMOUS_KEY_BYTES_MIN: usize = 22;
const PAGE: usize = 500;
/// So many answers are deleted in one command: each may be as long as a body.
const DELETED_AT_ONCE: usize = 50;

static INSERT: Sql = insert_if_absent("live_call_answers", &["id", "body", "at_ms", "answer"]);
static READ: Sql = sql("SELECT body, answer, at_ms FROM live_call_answers WHERE id = ?1");
static KEEP: Sql = update("live_call_answers", "id", &["answer"]);
static DROP: Sql = sql("DELETE FROM live_call_answers WHERE id = ?1");
static WALK: Sql = sql("SELECT id, at_ms FROM live_call_answers WHERE id > ?1 ORDER BY id LIMIT ?2");

/// The key of a request.
pub(crate) struct Key {
    id: [u8; 32],
    body: [u8; 32],
    /// Seals the answer.
    sealing: [u8; 32],
}

impl Key {
    /// The key of a request. It counts for one caller, one mutation (or method and path) and one body.
    pub(crate) fn of(sent: &SentKey, subject: Option<&str>, what: &str) -> Result<Key, Problem> {
        let key = sent.key();
        // Callers without a subject share their keys: who guesses one gets the answer of another.
        if subject.is_none() && key.len() < ANONYMOUS_KEY_BYTES_MIN {
            let detail = format!(
                "Without a token `Idempotency-Key` must have at least {ANONYMOUS_KEY_BYTES_MIN} characters, \
                 chosen at random, such as a UUID."
            );
            return Err(Problem::new(StatusCode::BAD_REQUEST, InvalidKey::CODE, detail));
        }
        let scope = format!("{}\0{what}\0{key}", subject.map_or(String::new(), |user| format!("u{user}")));
        let mut sealing = [0; 32];
        let secret = hmac::Key::new(hmac::HMAC_SHA256, scope.as_bytes());
        sealing.copy_from_slice(hmac::sign(&secret, b"sealing of a stored answer").as_ref());
        Ok(Key { id: sha256(scope.as_bytes()), body: sha256(sent.body()), sealing })
    }

    fn sealing_key(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, &self.sealing).map(LessSafeKey::new).ok()
    }

    fn seal(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = answer.to_vec();
        // Made from all that is sealed: a command may run again and answer something else, and no nonce may serve twice.
        let mut hash = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.sealing));
        hash.update(&self.body);
        hash.update(answer);
        let hash = hash.sign();
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&hash.as_ref()[..NONCE_LEN]);
        let unique = Nonce::assume_unique_for_key(nonce);
        self.sealing_key()?.seal_in_place_append_tag(unique, Aad::from(self.body), &mut sealed).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    fn open(&self, mut answer: Vec<u8>) -> Option<Vec<u8>> {
        let (nonce, sealed) = answer.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.sealing_key()?.open_in_place(nonce, Aad::from(self.body), sealed).ok()?;
        Some(opened.to_vec())
    }
}

impl Row for Key {
    type Error = Problem;

    fn insert(&self, tx: &mut Tx<'_>, now: Time) -> Result<bool, Problem> {
        Ok(tx.exec(&INSERT, args![&self.id, &self.body, now, b"".as_slice()])? == 1)
    }

    fn find(&self, tx: &mut Tx<'_>) -> Result<Option<Found>, Problem> {
        let row = tx.one(&READ, args![&self.id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let Some((body, sealed, at)): Option<(Vec<u8>, Vec<u8>, Time)> = row else { return Ok(None) };
        let opened = self.open(sealed).map(|body| Stored { status: StatusCode::OK, body });
        Ok(Some(Found { is_same: body == self.body, at, answer: opened.map_or(Kept::Gone, Kept::Answer) }))
    }

    fn keep(&self, tx: &mut Tx<'_>, answer: Stored) -> Result<(), Problem> {
        let sealed = self.seal(&answer.body).ok_or_else(|| Problem::defect("an answer cannot be sealed"))?;
        tx.exec_one(&KEEP, args![&self.id, &sealed])?;
        Ok(())
    }

    fn delete(&self, tx: &mut Tx<'_>) -> Result<(), Problem> {
        tx.exec(&DROP, args![&self.id])?;
        Ok(())
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused.problem() {
            Some((status, code, detail)) => {
                Problem { retry_after: refused.retry_after(), ..Problem::new(status, code, detail) }
            }
            None => Problem::defect(format!("{refused:?}")),
        }
    }
}

impl From<InvalidKey> for Problem {
    fn from(invalid: InvalidKey) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, InvalidKey::CODE, invalid.to_string())
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
    use http::{HeaderMap, HeaderValue, Method};

    #[test]
    fn only_the_client_s_key_opens_an_answer() {
        let key = |key, body: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", HeaderValue::from_static(key));
            let sent = SentKey::of(&Method::POST, &headers).ok().flatten().expect("a good key");
            sent.has_body(&body.into());
            Key::of(&sent, Some("ada"), "register").expect("a key")
        };
        let (mine, answer) = (key("k1", b"{}"), b"{\"token\":\"secret\"}");
        let sealed = mine.seal(answer).expect("sealed");
        assert!(!sealed.windows(6).any(|part| part == b"secret"), "{sealed:?}");
        assert_eq!(mine.open(sealed.clone()).expect("opened"), answer);
        let mut changed = sealed.clone();
        changed[NONCE_LEN] ^= 1;
        for (other, sealed) in [
            (&key("k2", b"{}"), sealed.clone()),
            (&key("k1", b"[]"), sealed),
            (&mine, changed),
            (&mine, vec![]),
        ] {
            assert_eq!(other.open(sealed), None);
        }
    }
}
