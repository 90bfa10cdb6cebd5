//! The table `requests`: one row for each request that was logged.

use live::Problem;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, value::RawValue};
use std::net::IpAddr;
use store::{Snapshot, Tx, args, insert, select, sql, statements};

/// The requests on a page.
pub const PAGE: usize = 50;
/// Greater than every uid: the first page begins there.
const NEWEST: &str = "s";

store::columns! {
    /// A row.
    #[derive(Clone, Serialize)]
    pub struct Logged {
        /// It begins with the time.
        pub uid: String,
        pub ip: String,
        pub method: String,
        pub url: String,
        /// A JSON object.
        #[serde(serialize_with = "as_json")]
        pub parameters: String,
        /// Unix milliseconds.
        pub logged_at: i64,
    }
}

const ROWS: &str = "SELECT uid, ip, method, url, parameters, logged_at FROM requests";

statements! {
    static INSERT = insert("requests", &[Logged::COLUMNS]);
    static FIND = select(ROWS, "WHERE uid = ?1");
    static PAGE_BEFORE = select(ROWS, "WHERE uid < ?1 ORDER BY uid DESC LIMIT 51");
    static UPDATE = sql("UPDATE requests SET ip = COALESCE(?2, ip), method = COALESCE(?3, method),
     url = COALESCE(?4, url), parameters = COALESCE(?5, parameters) WHERE uid = ?1");
    static DELETE = sql("DELETE FROM requests WHERE uid = ?1");
}

/// Inserts a row.
pub fn create(tx: &mut Tx<'_>, new: &Logged) -> Result<(), Problem> {
    tx.exec_one(&INSERT, &new.values())?;
    Ok(())
}

/// The request with this uid.
pub fn find(snapshot: &mut Snapshot<'_>, uid: &str) -> Result<Logged, Problem> {
    let found = snapshot.one(&FIND, args![uid], |row| Logged::read(row, 0))?;
    found.ok_or_else(|| Problem::not_found("Request"))
}

/// The newest requests, or those before a uid: one more than [`PAGE`] if there are older ones.
pub fn page(snapshot: &mut Snapshot<'_>, before: Option<&str>) -> Result<Vec<Logged>, Problem> {
    Ok(snapshot.all(&PAGE_BEFORE, args![before.unwrap_or(NEWEST)], |row| Logged::read(row, 0))?)
}

/// Changes the columns that are given.
pub fn change(tx: &mut Tx<'_>, uid: &str, fields: &Map<String, Value>) -> Result<(), Problem> {
    if let Some((name, _)) = fields.iter().find(|(name, value)| !is_allowed(name, value)) {
        let detail =
            format!("`{name}` has a wrong value, or is none of `ip`, `method`, `url`, `parameters`.");
        return Err(Problem::invalid(name, detail));
    }
    let text = |name| fields.get(name).and_then(Value::as_str);
    let parameters = fields.get("parameters").map(Value::to_string);
    found(tx.exec(&UPDATE, args![uid, text("ip"), text("method"), text("url"), parameters])?)
}

fn is_allowed(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("ip", Value::String(ip)) => ip.parse::<IpAddr>().is_ok(),
        ("method", Value::String(method)) => (1..=32).contains(&method.len()),
        ("url", Value::String(url)) => (1..=8192).contains(&url.len()),
        ("parameters", value) => value.is_object(),
        _ => false,
    }
}

/// Deletes a request.
pub fn delete(tx: &mut Tx<'_>, uid: &str) -> Result<(), Problem> {
    found(tx.exec(&DELETE, args![uid])?)
}

fn found(rows: u64) -> Result<(), Problem> {
    if rows == 0 { Err(Problem::not_found("Request")) } else { Ok(()) }
}

fn as_json<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(text).map_err(serde::ser::Error::custom)?.serialize(serializer)
}
