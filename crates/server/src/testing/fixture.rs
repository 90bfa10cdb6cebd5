//! The rows of a whole database as text, one table or row a line, so that databases of earlier versions can be kept and
//! upgraded on every kind of database. Beside it may be what such a version made of the rest, a script for each kind of
//! database: the tables as they stand there, and the rows of the store itself. Without a script, the migrations of today
//! make the tables.
//!
//! Line 1 is `{"schema": N, "demo": …}`: the last migration, and the passwords of the demo's users. Then for each table
//! `{"table": NAME, "columns": […]}`, followed by its rows as arrays. Integers and texts are themselves; bytes are
//! `{"base64": …}`.

use crate::dev::demo::Credentials;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use identity::schema::MIGRATIONS;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use store::testing::{Kind, TestPlace, kind};
use store::transfer::{self, Table, TableRow};
use store::{Error, Migration, Options as StoreOptions, Snapshot, Store, Tx, Value};

/// More rows than a table of a fixture has.
const ROWS_MAX: usize = 10_000;

/// The rows of a database.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The number of migrations that its database had.
    pub schema: usize,
    /// The users of the demo in it.
    pub demo: Credentials,
    /// Tables that have rows, parents first.
    pub tables: Vec<(Table, Vec<TableRow>)>,
    /// What makes the tables.
    pub scripts: Option<Scripts>,
}

/// The tables of a version and the rows of its store, as SQL.
#[derive(Clone, Copy, Debug)]
pub struct Scripts {
    /// The text of `sqlite_schema`.
    pub sqlite: &'static str,
    /// A dump by `pg_dump`.
    pub postgres: &'static str,
    /// A dump by `mariadb-dump`.
    pub mysql: &'static str,
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: usize,
    demo: Credentials,
}

#[derive(Serialize, Deserialize)]
struct TableHead {
    table: String,
    columns: Vec<String>,
}

impl Fixture {
    /// Reads all rows of a database with the current schema.
    #[expect(clippy::expect_used, reason = "a test without its fixture has failed")]
    pub async fn of(store: &Store, demo: &Credentials) -> Fixture {
        let read = |snapshot: &mut Snapshot<'_>| -> Result<Vec<(Table, Vec<TableRow>)>, Error> {
            let tables = transfer::tables(MIGRATIONS)?;
            let rows = tables.into_iter().map(|table| {
                let rows = table.rows_after(snapshot, None, ROWS_MAX)?;
                Ok((table, rows))
            });
            rows.collect()
        };
        let tables = store.read(read).await.expect("reads all tables");
        Fixture { schema: MIGRATIONS.len(), demo: demo.clone(), tables, scripts: None }
    }

    /// The fixture as text.
    #[expect(clippy::expect_used, reason = "a test without its fixture has failed")]
    pub fn to_text(&self) -> String {
        let head = Head { schema: self.schema, demo: self.demo.clone() };
        let mut lines = vec![serde_json::to_string(&head).expect("is JSON")];
        for (table, rows) in self.tables.iter().filter(|(_, rows)| !rows.is_empty()) {
            let head = TableHead { table: table.name.clone(), columns: table.columns.clone() };
            lines.push(serde_json::to_string(&head).expect("is JSON"));
            lines.extend(rows.iter().map(|row| Json::Array(row.iter().map(to_json).collect()).to_string()));
        }
        lines.join("\n") + "\n"
    }

    /// Reads the text of a fixture.
    #[expect(clippy::expect_used, reason = "a test without its fixture has failed")]
    pub fn parse(text: &str) -> Fixture {
        let mut lines = text.lines();
        let head: Head = serde_json::from_str(lines.next().expect("a first line")).expect("a head");
        let known = transfer::tables(&MIGRATIONS[..head.schema]).expect("tables");
        let mut tables: Vec<(Table, Vec<TableRow>)> = Vec::new();
        for line in lines {
            match serde_json::from_str(line).expect("is JSON") {
                Json::Array(row) => {
                    let (_, rows) = tables.last_mut().expect("a table before its rows");
                    rows.push(row.iter().map(of_json).collect());
                }
                other => {
                    let head: TableHead = serde_json::from_value(other).expect("a table");
                    let table =
                        known.iter().find(|table| table.name == head.table).expect("is in the schema");
                    assert_eq!(table.columns, head.columns, "columns of {}", table.name);
                    tables.push((table.clone(), Vec::new()));
                }
            }
        }
        Fixture { schema: head.schema, demo: head.demo, tables, scripts: None }
    }

    /// The migrations of its database.
    pub fn migrations(&self) -> &'static [Migration] {
        &MIGRATIONS[..self.schema]
    }

    /// The text of the secret key of all fixtures.
    pub fn secret_key() -> String {
        URL_SAFE_NO_PAD.encode(super::SECRET_KEY)
    }

    /// Makes this database in an empty one, as its version made it if there are scripts.
    pub async fn create_in(&self, place: &TestPlace) {
        match self.script(kind()) {
            Some(script) => place.run(&script),
            None => self.create(&place.url()).await,
        }
    }

    /// All statements that make this database, if it has scripts.
    pub fn script(&self, kind: Kind) -> Option<String> {
        let scripts = self.scripts?;
        let mut script = match kind {
            Kind::Sqlite => scripts.sqlite,
            Kind::Postgres => scripts.postgres,
            Kind::Mysql => scripts.mysql,
        }
        .to_owned();
        for (table, rows) in &self.tables {
            for row in rows {
                let values: Vec<String> = row.iter().map(|value| literal(value, kind)).collect();
                let (name, columns) = (&table.name, table.columns.join(", "));
                script += &format!("INSERT INTO {name} ({columns}) VALUES ({});\n", values.join(", "));
            }
        }
        Some(script)
    }

    /// Makes this database in an empty one with the migrations of today.
    #[expect(clippy::expect_used, reason = "a test without its fixture has failed")]
    pub async fn create(&self, url: &str) {
        let mut options = StoreOptions::new(url, self.migrations());
        options.writer = super::patient();
        let store = Store::open(options).expect("opens");
        let rows = self.clone();
        store.write("test.fixture", move |tx| rows.insert(tx)).await.expect("inserts the rows");
        store.close();
    }

    /// Inserts all rows into an empty database that has [`Fixture::migrations`].
    pub fn insert(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        self.tables.iter().try_for_each(|(table, rows)| table.insert(tx, rows))
    }
}

fn literal(value: &Value<'_>, kind: Kind) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        // A backslash is a letter like others, except here.
        Value::Text(text) if kind == Kind::Mysql => {
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
        }
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Blob(bytes) if kind == Kind::Postgres => format!("'\\x{}'", hex(bytes)),
        Value::Blob(bytes) => format!("X'{}'", hex(bytes)),
    }
}

fn to_json(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Int(number) => json!(number),
        Value::Real(number) => json!({ "real": number }),
        Value::Text(text) => json!(text),
        Value::Blob(bytes) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

#[expect(clippy::expect_used, reason = "a test without its fixture has failed")]
fn of_json(value: &Json) -> Value<'static> {
    match value {
        Json::Null => Value::Null,
        Json::Number(number) => Value::Int(number.as_i64().expect("an integer")),
        Json::String(text) => Value::Text(text.clone().into()),
        other => match (other["real"].as_f64(), other["base64"].as_str()) {
            (Some(number), _) => Value::Real(number),
            (None, text) => Value::Blob(STANDARD.decode(text.expect("bytes")).expect("base64").into()),
        },
    }
}
