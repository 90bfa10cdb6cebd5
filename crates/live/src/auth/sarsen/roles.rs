//! Roles of users as the server's events name them (`member.changed`), as rows of the back end's database. They replace the
//! claim `roles` of tokens from before the change.

use crate::Problem;
use serde_json::Value;
use std::time::Duration;
use store::{Key, Snapshot, Sql, Store, Time, args, sql, upsert};

/// The table, made at the start of every app.
pub(crate) const TABLE: &str = "CREATE TABLE IF NOT EXISTS live_roles (
    user_id {key} NOT NULL PRIMARY KEY,
    roles {text} NOT NULL,
    until_ms BIGINT NOT NULL
) {table};";

/// Longer than any token lives: later tokens have been issued after the change.
const KEPT: Duration = Duration::from_secs(3600);
/// Rows of one command.
const PAGE: usize = 500;
/// The limit on the roles of a user, in bytes. MySQL keeps no longer text.
const ROLES_SIZE_MAX: usize = 60_000;

static FIND: Sql = sql("SELECT roles FROM live_roles WHERE user_id = ?1 AND until_ms > ?2");
static SET: Sql = upsert("live_roles", &["user_id"], &["roles", "until_ms"]);
static REMOVE: Sql = sql("DELETE FROM live_roles WHERE user_id = ?1 AND until_ms <= ?2");
static CLEAR: Sql = sql("DELETE FROM live_roles");
static WALK: Sql =
    sql("SELECT user_id, until_ms FROM live_roles WHERE user_id > ?1 ORDER BY user_id LIMIT ?2");

fn key(user: &str) -> Key {
    Key::row("live_roles", "user_id", user)
}

/// The roles of a user as the last event named them; `None` if there was none lately.
pub(super) fn of_user(snapshot: &mut Snapshot<'_>, user: &str) -> Result<Option<Value>, Problem> {
    snapshot.depends(|| [key(user)]);
    let roles: Option<String> = snapshot.one(&FIND, args![user, crate::now(snapshot)], |row| row.get(0))?;
    roles.map(|roles| serde_json::from_str(&roles).map_err(Problem::defect)).transpose()
}

/// Writes the roles of users, in the order of the events.
pub(super) async fn set(store: &Store, changed: Vec<(String, Value)>, now: Time) -> Result<(), store::Error> {
    for page in changed.chunks(PAGE) {
        let page: Vec<(String, String)> =
            page.iter().map(|(user, roles)| (user.clone(), text(roles))).collect();
        let write = store.write("live.roles", move |tx| {
            for (user, roles) in &page {
                tx.exec(&SET, args![user, roles, now + KEPT])?;
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
    let write = store.write("live.clear_roles", |tx| {
        if tx.exec(&CLEAR, &[])? > 0 {
            tx.changed(Key::table("live_roles"));
        }
        Ok::<_, store::Error>(())
    });
    write.await
}

/// Too many roles count as none.
fn text(roles: &Value) -> String {
    let text = roles.to_string();
    if text.len() <= ROLES_SIZE_MAX {
        return text;
    }
    tracing::warn!(
        bytes = text.len(),
        "a user has more roles than fit into the database; they count as none"
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
        let write = store.write("live.clean_roles", move |tx| {
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
