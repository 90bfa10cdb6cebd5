//! A transaction that stays open, connections that end, and a standby that falls behind: on purpose, for a load test.

use super::address::Address;
use super::change_log;
use super::connection::Connection;
use crate::engine::Undo;
use crate::remote::{Session as _, TxMode};
use crate::threads::pause;
use crate::{Error, Row};
use std::time::Duration;

const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.5";
const REPLAY: &str = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN 'primary'
    WHEN pg_is_wal_replay_paused() THEN 'paused' ELSE 'replays' END";
/// Tries to let a standby go on, and the pause between two: it must not be left behind for ever.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

/// The row gives the transaction an id, so from now on the horizon stands still.
pub(super) fn hold_transaction(address: Address) -> Result<Undo, Error> {
    let mut connection = Connection::connect(&address.primary()?)?;
    connection.begin(TxMode::Schema)?;
    connection.batch("SET LOCAL idle_in_transaction_session_timeout = 0")?;
    change_log::write(&mut connection, &[], 0)?;
    Ok(Box::new(move || {
        connection.batch("SELECT 1")?;
        connection.batch("ROLLBACK")
    }))
}

pub(super) fn end_sessions(address: Address) -> Result<(), Error> {
    Connection::connect(&address.primary()?)?.batch_outside_tx(END)
}

pub(super) fn pause_replay(address: Address) -> Result<Undo, Error> {
    let server = address.replica()?;
    let mut connection = Connection::connect(&server)?;
    match replay(&mut connection)?.as_str() {
        "replays" => connection.batch_outside_tx("SELECT pg_wal_replay_pause()")?,
        "paused" => {
            let text =
                "replay is paused there already, and would go on in the end: SELECT pg_wal_replay_resume()";
            return Err(Error::Open(text.to_owned()));
        }
        _ => return Err(Error::Open("that server is no standby: it replays nothing".to_owned())),
    }
    Ok(Box::new(move || {
        // The pause is the server's, not this connection's, which may be gone by now.
        let mut was_paused = go_on(&mut connection);
        for _ in 1..TRIES {
            if was_paused.is_ok() {
                break;
            }
            pause(PAUSE);
            was_paused = Connection::connect(&server).and_then(|mut connection| go_on(&mut connection));
        }
        match was_paused? {
            true => Ok(()),
            false => Err(Error::Database("somebody else has let the standby's replay go on".to_owned())),
        }
    }))
}

/// Lets replay go on; whether it was paused.
fn go_on(connection: &mut Connection) -> Result<bool, Error> {
    let was_paused = replay(connection)? == "paused";
    if was_paused {
        connection.batch_outside_tx("SELECT pg_wal_replay_resume()")?;
    }
    Ok(was_paused)
}

fn replay(connection: &mut Connection) -> Result<String, Error> {
    let mut state = String::new();
    connection.query_outside_tx(REPLAY, &[], &mut |row| {
        state = Row::new(row).get(0)?;
        Ok(false)
    })?;
    Ok(state)
}
