//! Writes that carried an `Idempotency-Key`. The row of a write is inserted in the write's own transaction, so that of
//! several requests with one key exactly one is executed, also across a crash. Its answer is added, sealed, before the
//! server sends it.

use crate::ids::{self, IdempotentWriteId};
use crate::sealed_column::SealedColumn;
use crate::secrets::{self, Hash, Random, SecretKey};
use crate::{Result, Time};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt::Display;
use std::time::Duration;
use store::{Tx, args, insert_if_absent, sql, statements, update};

/// A row is kept at least this long.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
/// A write whose answer is missing after this long was interrupted between its commit and its answer.
const RUNNING_MAX: Duration = Duration::from_secs(60);

/// A request with a key, for [`begin`].
#[derive(Clone, Debug)]
pub struct KeyedRequest {
    /// The new id. It also distinguishes this request from others with the same key.
    pub id: IdempotentWriteId,
    /// The hash of the method, the path and the key.
    name: String,
    /// The hash of everything else that must be equal.
    fingerprint: Hash,
}

impl KeyedRequest {
    /// Hashes what identifies the write (`method`, `path`, `key`) and what must be the same each time.
    pub fn new(
        id: IdempotentWriteId,
        [method, path, key]: [&str; 3],
        query: &str,
        body: &[u8],
    ) -> KeyedRequest {
        // None of the parts but the last can contain a line break.
        let name = secrets::hash([method, path, key].join("\n").as_bytes());
        let fingerprint = secrets::hash(&[query.as_bytes(), b"\n", body].concat());
        KeyedRequest { id, name: URL_SAFE_NO_PAD.encode(name), fingerprint }
    }
}

/// An earlier request with the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// It had another body.
    Different,
    /// It is being answered.
    Running,
    /// It was executed, but its answer was lost in a crash, or dropped with a new secret key.
    Lost,
    /// It was answered.
    Answered {
        /// Its id, to which the answer is sealed.
        id: IdempotentWriteId,
        /// The HTTP status.
        status: u16,
        /// The sealed body.
        answer: Vec<u8>,
    },
}

statements! {
    static INSERT = insert_if_absent("idempotent_writes", &["id", "caller", "name", "fingerprint", "created_at"]);
    static FIND = sql("SELECT id, fingerprint, created_at, status, answer FROM idempotent_writes
     WHERE caller = ?1 AND name = ?2");
    static SET_ANSWER = update("idempotent_writes", "id", &["status", "answer"]);
    static SEALED = sql("SELECT id, answer FROM idempotent_writes WHERE id > ?1 ORDER BY id LIMIT ?2");
    static NEXT = sql("SELECT id FROM idempotent_writes WHERE id > ?1 ORDER BY id LIMIT ?2");
    static OLD = sql("SELECT id FROM idempotent_writes WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM idempotent_writes WHERE id = ?1");
}

/// Begins a write of `caller` in its transaction, after the authorization. Returns the earlier request if there was one;
/// then nothing may be written. Concurrent requests with the same key wait for the first one's commit here.
pub fn begin(tx: &mut Tx<'_>, caller: &str, request: &KeyedRequest, now: Time) -> Result<Option<Earlier>> {
    let KeyedRequest { id, name, fingerprint } = request;
    if tx.exec(&INSERT, args![id, caller, name, fingerprint, now])? == 1 {
        return Ok(None);
    }
    type Stored = (IdempotentWriteId, Vec<u8>, Time, Option<i64>, Option<Vec<u8>>);
    let stored: Option<Stored> = tx.one(&FIND, args![caller, name], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    // The cleanup may have deleted the row that was in the way.
    let Some((earlier, before, created_at, status, answer)) = stored else {
        return Ok(Some(Earlier::Running));
    };
    if earlier == *id {
        // The second command of the same request.
        return Ok(None);
    }
    let status = status.and_then(|status| u16::try_from(status).ok());
    Ok(Some(match status.zip(answer) {
        _ if before != fingerprint => Earlier::Different,
        Some((status, answer)) => Earlier::Answered { id: earlier, status, answer },
        None if now.since(created_at) < RUNNING_MAX => Earlier::Running,
        None => Earlier::Lost,
    }))
}

/// The binding of a sealed answer.
fn binding(id: &dyn Display) -> String {
    format!("idempotent_writes/{id}/answer")
}

/// Seals the answer to a write.
pub fn seal_answer(
    id: &IdempotentWriteId,
    answer: &[u8],
    key: &SecretKey,
    random: &dyn Random,
) -> Result<Vec<u8>> {
    key.seal(&binding(id), answer, random)
}

/// Opens a sealed answer.
pub fn open_answer(id: &IdempotentWriteId, sealed: &[u8], key: &SecretKey) -> Result<Vec<u8>> {
    key.open(&binding(id), sealed)
}

/// The sealed answers.
pub(crate) static ANSWERS: SealedColumn =
    SealedColumn { migration: 9, page: &SEALED, set: None, binding: |id| binding(&id) };

/// Stores the answer to a write.
pub fn set_answer(tx: &mut Tx<'_>, id: &IdempotentWriteId, status: u16, sealed: &[u8]) -> Result<()> {
    tx.exec(&SET_ANSWER, args![id, i64::from(status), sealed])?;
    Ok(())
}

/// Drops the answers of up to `most` writes after the id `after`, because the secret key changes: too many for the one
/// transaction in which everything else is sealed again. The rows stay, so that no write is executed twice; a repeated
/// one finds its answer lost. Returns the last id, or `None` at the end.
pub fn drop_answers(tx: &mut Tx<'_>, after: &str, most: i64) -> Result<Option<String>> {
    let ids: Vec<String> = tx.all(&NEXT, args![after, most], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&SET_ANSWER, args![id, Option::<i64>::None, Option::<&[u8]>::None])?;
    }
    Ok(ids.into_iter().next_back())
}

/// Deletes up to `most` rows created before `moment`. Returns the number of deleted rows.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let before = ids::smallest_at(IdempotentWriteId::PREFIX, moment);
    let old: Vec<IdempotentWriteId> = tx.all(&OLD, args![&before, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
