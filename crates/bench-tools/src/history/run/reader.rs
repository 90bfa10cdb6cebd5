//! A reader: asks one question after another by RPC, at any server, and sends back the newest version that it knows.

use super::http::{Answer, Connection};
use super::{Phase, Run, any_query, call};
use crate::history::checker::record::{Client, Event, Query, RowState, Version};
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;

const PAUSE_MS: u32 = 20;

/// An answer.
#[derive(Deserialize)]
pub struct Read {
    /// The rows.
    pub value: Vec<RowState>,
    version: Version,
    settled: Option<Version>,
}

/// Reads until the run is over.
pub fn read(run: &Run, number: usize, carries: bool) {
    let client = run.client(Client::Reader { carries });
    let mut random = run.random(1000 + number as u64);
    let mut connection = Connection::default();
    let mut newest: Option<Version> = None;
    while run.phase() != Phase::Over {
        if carries && random.chance(0.3) {
            // A user who writes in one window and reads in another.
            newest = newer(newest, run.record().newest.clone());
        }
        let carried = newest.clone().filter(|_| carries);
        let query = any_query(&mut random);
        let started = run.now();
        match ask(&mut connection, run.address(&mut random), &query, carried.as_ref()) {
            Ok(Some(Read { value: rows, version, settled })) => {
                newest = newer(newest, Some(version.clone()));
                run.see(client, Event::Answer { query, started, carried, version, settled, rows });
            }
            Ok(None) => {}
            Err(what) => run.fail(what),
        }
        run.pause(Duration::from_millis(u64::from(random.below(PAUSE_MS))));
    }
}

/// The later of two versions. Of two epochs, the one that was seen last.
fn newer(one: Option<Version>, other: Option<Version>) -> Option<Version> {
    match (&one, &other) {
        (Some(known), Some(seen)) if seen.compare(known).is_some_and(std::cmp::Ordering::is_lt) => one,
        (_, Some(_)) => other,
        (_, None) => one,
    }
}

/// Asks one question. None if the server could not answer.
pub fn ask(
    connection: &mut Connection,
    address: SocketAddr,
    query: &Query,
    carried: Option<&Version>,
) -> Result<Option<Read>, String> {
    let (name, args) = call(query);
    let version: Vec<(&str, &str)> =
        carried.iter().map(|version| ("Sarsen-Version", version.0.as_str())).collect();
    match connection.request(address, &format!("POST /rpc/{name}"), &version, &args.to_string()) {
        Ok(Answer { status: 200, body }) => {
            serde_json::from_str(&body).map(Some).map_err(|error| format!("{error}: {body}"))
        }
        Ok(Answer { status: 500.., .. }) | Err(_) => {
            *connection = Connection::default();
            Ok(None)
        }
        Ok(answer) => Err(format!("a query is answered with {answer:?}")),
    }
}

/// The log of a row.
pub fn log(connection: &mut Connection, address: SocketAddr, key: u32) -> Result<Vec<RowState>, String> {
    let mut states: Vec<RowState> = Vec::new();
    let mut failed = 0;
    loop {
        let after = states.last().map_or(0, |state| state.rev);
        let args = serde_json::json!({ "key": key, "after": after }).to_string();
        match connection.request(address, "POST /rpc/log", &[], &args) {
            Ok(Answer { status: 200, body }) => {
                let page: Read = serde_json::from_str(&body).map_err(|error| error.to_string())?;
                if page.value.is_empty() {
                    return Ok(states);
                }
                states.extend(page.value);
            }
            _ if failed < 100 => {
                failed += 1;
                std::thread::park_timeout(Duration::from_millis(100));
            }
            other => return Err(format!("the log cannot be read: {other:?}")),
        }
    }
}
