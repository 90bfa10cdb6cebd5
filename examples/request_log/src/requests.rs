//! The table `requests`: one row for each request that was logged.

use live::Problem;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, value::RawValue};
use std::net::IpAddr;
use store::{FromRow, Snapshot, ToRow, Tx, args, insert_row, select_row, sql, statements};

/// The requests on a page, …
const PAGE: usize = 50;
/// … and the bytes of their parameters: it ends with the request that has more than what is left of them.
const PAGE_BYTES: usize = 512 * 1024;
/// Greater than every uid: the first page begins there.
const NEWEST: &str = "request_~";

/// A row.
#[derive(Clone, FromRow, Serialize, ToRow)]
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

statements! {
    static INSERT = insert_row::<Logged>("requests");
    static FIND = select_row::<Logged>("FROM requests", "WHERE uid = ?1");
    static PAGE_BEFORE = select_row::<Logged>("FROM requests", "WHERE uid < ?1 ORDER BY uid DESC LIMIT 51");
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
    let found = snapshot.one(&FIND, args![uid], Logged::from_row)?;
    found.ok_or_else(|| Problem::not_found("Request"))
}

/// Which page of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    before: Option<String>,
}

/// The newest requests, or those before a uid; and where the next page begins.
pub fn page(snapshot: &mut Snapshot<'_>, asked: &Before) -> Result<(Vec<Logged>, Option<String>), Problem> {
    let before = asked.before.as_deref().unwrap_or(NEWEST);
    Problem::check(before.starts_with("request_"), "before", "be the uid of a request, like `next`")?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    snapshot.each(&PAGE_BEFORE, args![before], |row| {
        let row = Logged::from_row(row)?;
        bytes += row.parameters.len();
        page.push(row);
        Ok(bytes <= PAGE_BYTES)
    })?;
    let has_more = page.len() > PAGE || bytes > PAGE_BYTES;
    page.truncate(PAGE);
    let next = page.last().filter(|_| has_more).map(|row| row.uid.clone());
    Ok((page, next))
}

/// Changes the columns that are given.
pub fn change(tx: &mut Tx<'_>, uid: &str, fields: &Map<String, Value>) -> Result<(), Problem> {
    Problem::check(!fields.is_empty(), "body", "have ip, method, url or parameters, as JSON or form")?;
    fields.iter().try_for_each(|(name, value)| check(name, value))?;
    let text = |name| fields.get(name).and_then(Value::as_str);
    let parameters = fields.get("parameters").map(Value::to_string);
    found(tx.exec(&UPDATE, args![uid, text("ip"), text("method"), text("url"), parameters])?)
}

fn check(name: &str, value: &Value) -> Result<(), Problem> {
    let text = value.as_str().unwrap_or_default();
    let (is_good, rule) = match name {
        "ip" => (text.parse::<IpAddr>().is_ok(), "be an IP address, like 192.0.2.1"),
        "method" => ((1..=32).contains(&text.len()), "be a text of 1 to 32 bytes"),
        "url" => ((1..=8192).contains(&text.len()), "be a text of 1 to 8192 bytes"),
        "parameters" => (value.is_object(), "be a JSON object, like {\"a\": 1}"),
        json if json.starts_with('{') => (false, "not be JSON unless its type is `application/json`"),
        _ => (false, "be one of `ip`, `method`, `url`, `parameters`"),
    };
    Problem::check(is_good, name, rule)
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
