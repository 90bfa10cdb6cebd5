//! What was revoked, as rows of the back end's database. All instances of a back end write them; the first one counts.

use crate::{Caller, Problem};
use serde_json::Value;
use std::time::Duration;
use store::{Key, Snapshot, Sql, Store, Time, args, insert_if_absent, sql};

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_revocations (
    id {key} NOT NULL PRIMARY KEY,
    until_ms BIGINT NOT NULL
) {table};";

/// Longer than any token lives.
const KEPT: Duration = Duration::from_secs(3600);
/// Rows of one command.
const PAGE: usize = 500;

static FIND: Sql = sql("SELECT 1 FROM live_revocations WHERE id = ?1");
static ADD: Sql = insert_if_absent("live_revocations", &["id", "until_ms"]);
static REMOVE: Sql = sql("DELETE FROM live_revocations WHERE id = ?1");
static WALK: Sql = sql("SELECT id, until_ms FROM live_revocations WHERE id > ?1 ORDER BY id LIMIT ?2");

/// What can be revoked: a session, a grant, or the trust in a process whose stream of events is stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject(String);

impl Subject {
    pub(super) fn session(id: &str) -> Subject {
        Subject(format!("session:{id}"))
    }

    pub(super) fn grant(id: &str) -> Subject {
        Subject(format!("grant:{id}"))
    }

    /// The row of a process. It has a number of its own.
    pub(super) fn stale(random: &[u8; 32]) -> Subject {
        let number = random.first_chunk().copied().map_or(0, u128::from_be_bytes);
        Subject(format!("stale:{number:032x}"))
    }

    /// What a caller's token stands on: its session, and its grant, which the token's id begins with.
    pub(super) fn of_caller(caller: &Caller) -> Vec<Subject> {
        let claim = |name: &str| caller.claims.get(name).and_then(Value::as_str);
        let grant = claim("jti").and_then(|jti| jti.split_once('.')).map(|(grant, _)| Subject::grant(grant));
        claim("sid").map(Subject::session).into_iter().chain(grant).collect()
    }

    fn key(&self) -> Key {
        Key::row("live_revocations", "id", &self.0)
    }
}

pub(super) fn is_revoked(snapshot: &mut Snapshot<'_>, subject: &Subject) -> Result<bool, Problem> {
    snapshot.depends(|| [subject.key()]);
    Ok(snapshot.one(&FIND, args![&subject.0], |row| row.get::<i64>(0))?.is_some())
}

/// Writes what was revoked.
pub(super) async fn add(store: &Store, subjects: Vec<Subject>, now: Time) -> Result<(), store::Error> {
    for page in subjects.chunks(PAGE) {
        let page = page.to_vec();
        let write = store.write("live.revoked", move |tx| {
            for subject in &page {
                if tx.exec(&ADD, args![&subject.0, now + KEPT])? == 1 {
                    tx.changed(subject.key());
                }
            }
            Ok::<_, store::Error>(())
        });
        write.await?;
    }
    Ok(())
}

/// Removes the row of a process that is fresh again.
pub(super) async fn remove(store: &Store, subject: Subject) -> Result<(), store::Error> {
    let write = store.write("live.trusted", move |tx| {
        if tx.exec(&REMOVE, args![&subject.0])? == 1 {
            tx.changed(subject.key());
        }
        Ok::<_, store::Error>(())
    });
    write.await
}

/// Removes the rows whose tokens have expired. A process that is stale for longer refuses tokens without its row.
pub(super) async fn clean(store: &Store, now: Time) -> Result<(), store::Error> {
    let mut after = String::new();
    loop {
        let from = after.clone();
        let read = move |snapshot: &mut Snapshot<'_>| {
            let row = |row: &store::Row<'_>| Ok((row.get::<String>(0)?, row.get::<Time>(1)?));
            snapshot.all(&WALK, args![&from, PAGE as i64], row)
        };
        let rows: Vec<(String, Time)> = store.read(read).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        after.clone_from(last);
        for (id, _) in rows.iter().filter(|(_, until)| *until <= now) {
            remove(store, Subject(id.clone())).await?;
        }
    }
}
