//! Whole tables: pages in the order of a key with several columns, and what they cost on MySQL and MariaDB.

use crate::support::{Database, TestStore};
use store::transfer::{self, Table, TableRow};
use store::{Error, Migration, Snapshot, Sql, Store, Value, args, sql};

on_each_database!(pages_hold_every_row_once_and_in_order, deleted_rows_are_gone_and_no_others);

static MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "steps",
    text: "CREATE TABLE steps (
    area {key} NOT NULL,
    number BIGINT NOT NULL,
    name {key} NOT NULL,
    note {text},
    PRIMARY KEY (area, number, name),
    INDEX steps_name (name)
) {table};
",
}];

fn open(database: Database) -> (TestStore, Table) {
    let test = database.open_with(|options| options.migrations = MIGRATIONS);
    let mut tables = transfer::tables(MIGRATIONS).expect("tables");
    (test, tables.remove(0))
}

fn row(area: &str, number: i64, name: &str) -> TableRow {
    vec![area.to_owned().into(), number.into(), name.to_owned().into(), Value::Null]
}

/// Keys that begin alike in one column, in two or in none, in the order of their bytes.
fn rows() -> Vec<TableRow> {
    let mut rows = Vec::new();
    for area in ["", "B", "a", "a ", "é"] {
        for number in [i64::MIN, -1, 0, 7] {
            rows.extend(["", "x", "x ", "y", "ÿ"].map(|name| row(area, number, name)));
        }
    }
    rows
}

async fn insert(store: &Store, table: &Table, rows: &[TableRow]) {
    for slice in rows.chunks(500) {
        let (table, slice) = (table.clone(), slice.to_vec());
        let put = store.write("steps.put", move |tx| table.insert(tx, &slice)).await;
        put.map_err(|error: Error| error).expect("writes");
    }
}

async fn page(store: &Store, table: &Table, after: Option<TableRow>, most: usize) -> Vec<TableRow> {
    let table = table.clone();
    let read = store.read(move |snapshot| table.rows_after(snapshot, after.as_deref(), most));
    read.await.map_err(|error: Error| error).expect("reads")
}

async fn pages_hold_every_row_once_and_in_order(database: Database) {
    let (test, table) = open(database);
    let mut shuffled = rows();
    shuffled.reverse();
    shuffled.rotate_left(31);
    insert(&test.store, &table, &shuffled).await;
    for most in [1, 3, 20, 1000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let next = page(&test.store, &table, after.clone(), most).await;
            let Some(last) = next.last() else { break };
            after = Some(table.key_of(last));
            assert!(next.len() == most || found.len() + next.len() == shuffled.len(), "a full page");
            found.extend(next);
        }
        assert_eq!(found, rows(), "{most} at a time");
    }
    let absent = table.key_of(&row("a", 3, "x"));
    assert_eq!(page(&test.store, &table, Some(absent), 2).await, [row("a", 7, ""), row("a", 7, "x")]);
}

async fn deleted_rows_are_gone_and_no_others(database: Database) {
    let (test, table) = open(database);
    // More than go into one statement.
    let many: Vec<TableRow> = (0..150).map(|number| row("many", number, "x")).collect();
    insert(&test.store, &table, &many).await;
    insert(&test.store, &table, &rows()).await;
    let (cleared, gone) = (table.clone(), many.clone());
    let clear = test.store.write("steps.clear", move |tx| cleared.delete(tx, &gone)).await;
    assert_eq!(clear.map_err(|error: Error| error).expect("deletes"), 150);
    assert_eq!(page(&test.store, &table, None, 1000).await, rows());
}

/// A table with an area of 3,000 rows, on MySQL or MariaDB.
async fn large() -> Option<(TestStore, Table)> {
    let (test, table) = open(Database::mysql()?);
    let number = |area: &'static str, count| (0..count).map(move |number| row(area, number, "x"));
    let rows: Vec<TableRow> = number("a", 10).chain(number("m", 3000)).chain(number("z", 10)).collect();
    insert(&test.store, &table, &rows).await;
    Some((test, table))
}

/// How many rows the server reads in this session for `work`, without those that telling it takes.
fn rows_read<T>(
    snapshot: &mut Snapshot<'_>,
    work: impl FnOnce(&mut Snapshot<'_>) -> Result<T, Error>,
) -> Result<(T, u64), Error> {
    let before = rows_read_so_far(snapshot)?;
    let telling = rows_read_so_far(snapshot)? - before;
    let before = rows_read_so_far(snapshot)?;
    let done = work(snapshot)?;
    Ok((done, rows_read_so_far(snapshot)? - before - telling))
}

fn rows_read_so_far(snapshot: &mut Snapshot<'_>) -> Result<u64, Error> {
    static READ: Sql = sql("SHOW SESSION STATUS LIKE 'Handler_read%'");
    let counts = snapshot.all(&READ, args![], |row| row.get::<String>(1))?;
    Ok(counts.iter().filter_map(|count| count.parse::<u64>().ok()).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_reads_no_more_rows_at_the_end_than_at_the_beginning() {
    let Some((test, table)) = large().await else { return };
    for (number, many) in [(5, 20), (1500, 20), (2950, 20), (2995, 14)] {
        let (table, key) = (table.clone(), table.key_of(&row("m", number, "x")));
        let read = test
            .store
            .read(move |snapshot| rows_read(snapshot, |snapshot| table.rows_after(snapshot, Some(&key), 20)));
        let (page, read) = read.await.map_err(|error: Error| error).expect("reads");
        assert_eq!(page.len(), many);
        assert!(read <= 30, "{read} rows were read for {many} after the one with number {number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_deleted_without_a_look_at_the_others() {
    let Some((test, table)) = large().await else { return };
    let gone: Vec<TableRow> = (1500..1600).map(|number| row("m", number, "x")).collect();
    let clear = test.store.write("steps.clear", move |tx| {
        let before = rows_read_so_far(tx.snapshot())?;
        let deleted = table.delete(tx, &gone)?;
        Ok::<_, Error>((deleted, rows_read_so_far(tx.snapshot())? - before))
    });
    let (deleted, read) = clear.await.expect("deletes");
    assert_eq!(deleted, 100);
    assert!(read <= 1000, "{read} rows were read for 100 to be deleted");
}

/// It does when arguments have the collation of the columns.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_gives_the_order_also_behind_a_column_that_is_given() {
    static FIRST: Sql = sql("SELECT number FROM steps WHERE area = ?1 ORDER BY area, number, name LIMIT 20");
    let Some((test, _)) = large().await else { return };
    let read = test.store.read(|snapshot| {
        rows_read(snapshot, |snapshot| snapshot.all(&FIRST, args!["m"], |row| row.get::<i64>(0)))
    });
    let (page, read) = read.await.map_err(|error: Error| error).expect("reads");
    assert_eq!(page, (0..20).collect::<Vec<i64>>());
    assert!(read <= 30, "{read} rows were read for 20");
}
