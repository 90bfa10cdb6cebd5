//! The table `counters`, with everything that reads and changes it.

use live::{Given, Mutation, Problem, Query, SignedIn, Subject};
use serde::{Deserialize, Serialize};
use store::{Error, Key, Row, Snapshot, Tx, args, insert, select, sql, statements};
use utoipa::ToSchema;

/// A row.
#[derive(Serialize, ToSchema)]
pub struct Counter {
    id: i64,
    name: String,
    value: i64,
}

const ROWS: &str = "SELECT id, name, value FROM counters";

statements! {
    static FIND = select(ROWS, "WHERE id = ?1");
    static PAGE = select(ROWS, "WHERE id > ?1 ORDER BY id LIMIT 20");
    static ADVANCE = sql("UPDATE newest_counter SET id = id + 1 WHERE singleton = 1");
    static NEWEST = sql("SELECT id FROM newest_counter WHERE singleton = 1");
    static INSERT = insert("counters", &[&["id", "name", "owner_id", "value"]]);
    static INCREMENT = sql("UPDATE counters SET value = value + 1 WHERE id = ?1");
}

/// One counter.
fn row_key(id: i64) -> Key {
    Key::row("counters", "id", &id.to_string())
}

/// The list of counters: which there are, not their values. Each new one changes this row.
fn list_key() -> Key {
    Key::row("newest_counter", "singleton", "1")
}

/// The counter with this id.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetCounter {
    id: i64,
}

impl Query for GetCounter {
    const NAME: &'static str = "get_counter";
    const POINT: bool = true;
    type Claims = SignedIn;
    type Value = Counter;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &SignedIn) -> Result<Counter, Problem> {
        find(snapshot, self.id)
    }
}

/// Twenty counters after an id.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListCounters {
    #[serde(default)]
    after: i64,
}

impl Query for ListCounters {
    const NAME: &'static str = "list_counters";
    const ROW_KEY: Option<&'static str> = Some("id");
    type Claims = SignedIn;
    type Value = Vec<Counter>;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &SignedIn) -> Result<Vec<Counter>, Problem> {
        let page = snapshot.all(&PAGE, args![self.after], read)?;
        snapshot.depends(|| page.iter().map(|counter| row_key(counter.id)).chain([list_key()]));
        Ok(page)
    }
}

/// Creates a counter that begins at zero.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCounter {
    name: String,
}

impl Mutation for CreateCounter {
    const NAME: &'static str = "create_counter";
    type Claims = Subject;
    type Value = Counter;

    fn validate(&self) -> Result<(), Problem> {
        crate::check_name(&self.name)
    }

    fn run(&self, tx: &mut Tx<'_>, Subject(user): &Subject, _: &Given) -> Result<Counter, Problem> {
        crate::users::require_known(tx.snapshot(), user)?;
        // Locks the row until the commit, so that no two counters get the same id.
        tx.exec(&ADVANCE, &[])?;
        let id = tx.one(&NEWEST, &[], |row| row.get(0))?.ok_or_else(Problem::internal)?;
        tx.exec(&INSERT, args![id, &self.name, user, 0])?;
        tx.changed(row_key(id));
        tx.changed(list_key());
        Ok(Counter { id, name: self.name.clone(), value: 0 })
    }
}

/// Adds one to a counter, of whichever user.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Increment {
    id: i64,
}

impl Mutation for Increment {
    const NAME: &'static str = "increment";
    const BATCHED: bool = true;
    type Claims = SignedIn;
    type Value = Counter;

    fn run(&self, tx: &mut Tx<'_>, _: &SignedIn, _: &Given) -> Result<Counter, Problem> {
        tx.exec_one(&INCREMENT, args![self.id])?;
        tx.changed(row_key(self.id));
        find(tx.snapshot(), self.id)
    }
}

fn find(snapshot: &mut Snapshot<'_>, id: i64) -> Result<Counter, Problem> {
    snapshot.depends(|| [row_key(id)]);
    snapshot.one(&FIND, args![id], read)?.ok_or_else(|| Problem::not_found("Counter"))
}

fn read(row: &Row<'_>) -> Result<Counter, Error> {
    Ok(Counter { id: row.get(0)?, name: row.get(1)?, value: row.get(2)? })
}
