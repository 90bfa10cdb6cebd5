//! Writes that carried an `Idempotency-Key`: their table. A row is inserted in the write's own transaction, with its sealed
//! answer. So exactly one of several requests with the same key is executed, also if the server crashes.
//! `endpoint::idempotency` decides what a row means for a request.
//!
//! The release before this one reads these rows and writes them: it adds the answer after the commit.

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

/// A request with a key.
#[derive(Clone, Debug)]
pub struct KeyedRequest {
    /// The new id.
    id: IdempotentWriteId,
    /// Whose key it is.
    caller: String,
    /// The hash of the method, the path and the key.
    name: String,
    /// The hash of everything else that must be equal.
    fingerprint: Hash,
}

impl KeyedRequest {
    /// Hashes what identifies a write of `caller` (`method`, `path`, `key`) and what must be the same each time.
    pub fn new(
        id: IdempotentWriteId,
        caller: &str,
        [method, path, key]: [&str; 3],
        query: &str,
        body: &[u8],
    ) -> KeyedRequest {
        // None of the parts but the last can contain a line break.
        let name = secrets::hash([method, path, key].join("\n").as_bytes());
        let fingerprint = secrets::hash(&[query.as_bytes(), b"\n", body].concat());
        KeyedRequest { id, caller: caller.to_owned(), name: URL_SAFE_NO_PAD.encode(name), fingerprint }
    }
}

/// The row of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// Its id, to which the answer is sealed.
    pub id: IdempotentWriteId,
    /// Whether it had the same body and query string.
    pub is_same: bool,
    /// When it was inserted.
    pub created_at: Time,
    /// The HTTP status. None until the release before this one adds the answer.
    pub status: Option<u16>,
    /// The sealed body. None with a status: it was dropped, because the secret key has changed.
    pub answer: Option<Vec<u8>>,
}

statements! {
    static INSERT = insert_if_absent("idempotent_writes", &["id", "caller", "name", "fingerprint", "created_at"]);
    static FIND = sql("SELECT id, fingerprint, created_at, status, answer FROM idempotent_writes
     WHERE caller = ?1 AND name = ?2");
    static SET_ANSWER = update("idempotent_writes", "id", &["status", "answer"]);
    static DROP_ANSWER = update("idempotent_writes", "id", &["answer"]);
    static SEALED = sql("SELECT id, answer FROM idempotent_writes WHERE id > ?1 ORDER BY id LIMIT ?2");
    static NEXT = sql("SELECT id FROM idempotent_writes WHERE id > ?1 ORDER BY id LIMIT ?2");
    static OLD = sql("SELECT id FROM idempotent_writes WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM idempotent_writes WHERE id = ?1");
    static DELETE_OF_KEY = sql("DELETE FROM idempotent_writes WHERE caller = ?1 AND name = ?2");
}

/// Inserts the row of a request, without an answer. Returns false if its key has one. Concurrent requests with the same key
/// wait for the first one's commit here.
pub fn insert(tx: &mut Tx<'_>, request: &KeyedRequest, now: Time) -> Result<bool> {
    let KeyedRequest { id, caller, name, fingerprint } = request;
    Ok(tx.exec(&INSERT, args![id, caller, name, fingerprint, now])? == 1)
}

/// The row of a request's key.
pub fn find(tx: &mut Tx<'_>, request: &KeyedRequest) -> Result<Option<Earlier>> {
    let found = tx.one(&FIND, args![&request.caller, &request.name], |row| {
        let status: Option<i64> = row.get(3)?;
        Ok(Earlier {
            id: row.get(0)?,
            is_same: row.get::<Vec<u8>>(1)? == request.fingerprint,
            created_at: row.get(2)?,
            status: status.and_then(|status| u16::try_from(status).ok()),
            answer: row.get(4)?,
        })
    });
    Ok(found?)
}

/// Stores the answer to a request that has a row: its status and its body, sealed.
pub fn set_answer(
    tx: &mut Tx<'_>,
    request: &KeyedRequest,
    (status, body): (u16, &[u8]),
    key: &SecretKey,
    random: &dyn Random,
) -> Result<()> {
    let sealed = seal_answer(&request.id, body, key, random)?;
    tx.exec_one(&SET_ANSWER, args![&request.id, i64::from(status), &sealed])?;
    Ok(())
}

/// Deletes the row of a request's key.
pub fn delete(tx: &mut Tx<'_>, request: &KeyedRequest) -> Result<()> {
    tx.exec(&DELETE_OF_KEY, args![&request.caller, &request.name])?;
    Ok(())
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

/// Drops the answers of up to `most` writes after the id `after`, because the secret key changes: too many for the one
/// transaction in which everything else is sealed again. The rows stay, so that no write is executed twice; a repeated
/// one finds its answer lost. Returns the last id, or `None` at the end.
pub fn drop_answers(tx: &mut Tx<'_>, after: &str, most: i64) -> Result<Option<String>> {
    let ids: Vec<String> = tx.all(&NEXT, args![after, most], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&DROP_ANSWER, args![id, Option::<&[u8]>::None])?;
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
