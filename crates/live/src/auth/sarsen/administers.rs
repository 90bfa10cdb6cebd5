//! The organizations that users administer, as the server's events name them (`member.changed`), as rows of the back end's
//! database. They replace the claim `administers` of tokens from before the change.

use crate::Problem;
use serde_json::Value;
use std::time::Duration;
use store::{Key, Snapshot, Sql, Store, Time, args, sql, upsert};

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_administers (
    user_id {key} NOT NULL PRIMARY KEY,
    administers {text} NOT NULL,
    until_ms BIGINT NOT NULL
) {table};";

/// Longer than any token lives: later tokens have been issued after the change.
const KEPT: Duration = Duration::from_secs(3600);
/// Rows of one command.
const PAGE: usize = 500;
/// The limit on the list of a user, in bytes. MySQL keeps no longer text.
const LIST_SIZE_MAX: usize = 60_000;

static FIND: Sql = sql("SELECT administers FROM live_administers WHERE user_id = ?1 AND until_ms > ?2");
static SET: Sql = upsert("live_administers", &["user_id"], &["administers", "until_ms"]);
static REMOVE: Sql = sql("DELETE FROM live_administers WHERE user_id = ?1 AND until_ms <= ?2");
static CLEAR: Sql = sql("DELETE FROM live_administers");
static WALK: Sql =
    sql("SELECT user_id, until_ms FROM live_administers WHERE user_id > ?1 ORDER BY user_id LIMIT ?2");

fn key(user: &str) -> Key {
    Key::row("live_administers", "user_id", user)
}

/// The organizations that a user administers, as the last event named them; `None` if there was none lately.
pub(super) fn of_user(snapshot: &mut Snapshot<'_>, user: &str) -> Result<Option<Value>, Problem> {
    snapshot.depends(|| [key(user)]);
    let list: Option<String> = snapshot.one(&FIND, args![user, crate::now(snapshot)], |row| row.get(0))?;
    list.map(|list| serde_json::from_str(&list).map_err(Problem::defect)).transpose()
}

/// Writes the lists of users, in the order of the events.
pub(super) async fn set(store: &Store, changed: Vec<(String, Value)>, now: Time) -> Result<(), store::Error> {
    for page in changed.chunks(PAGE) {
        let page: Vec<(String, String)> =
            page.iter().map(|(user, list)| (user.clone(), text(list))).collect();
        let write = store.write("live.administers", move |tx| {
            for (user, list) in &page {
                tx.exec(&SET, args![user, list, now + KEPT])?;
                tx.changed(key(user));
            }
            Ok::<_, store::Error>(())
        });
        write.await?;
    }
    Ok(())
}

/// Removes all rows. The next event behind the state that was just read sets what changes from there on; what changed before
/// it, while no stream was open, is not known.
pub(super) async fn clear(store: &Store) -> Result<(), store::Error> {
    let write = store.write("live.clear_administers", |tx| {
        if tx.exec(&CLEAR, &[])? > 0 {
            tx.changed(Key::table("live_administers"));
        }
        Ok::<_, store::Error>(())
    });
    write.await
}

/// Too many organizations count as none.
fn text(list: &Value) -> String {
    let text = list.to_string();
    if text.len() <= LIST_SIZE_MAX {
        return text;
    }
    tracing::warn!(
        bytes = text.len(),
        "a user administers more organizations than fit into the database; they count as none"
    );
    "[]".to_owned()
}

/// Removes the rows that no token is older than.
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
        let old = rows.into_iter().filter(|(_, until)| *until <= now).map(|(user, _)| user);
        let old: Vec<String> = old.collect();
        let write = store.write("live.clean_administers", move |tx| {
            for user in &old {
                if tx.exec(&REMOVE, args![user, now])? == 1 {
                    tx.changed(key(user));
                }
            }
            Ok::<_, store::Error>(())
        });
        write.await?;
    }
}
