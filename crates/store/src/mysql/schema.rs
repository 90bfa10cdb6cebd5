//! The start: is this server one that keeps what it acknowledges, and does it have today's schema?
//!
//! A change of the schema commits by itself on MySQL, so each statement of a migration can be run again, and
//! one that is done is noted (`migrate.rs`). Instances that start together take turns by a named lock.

use super::change_log;
use super::connection::{Connection, DURABILITY};
use super::tx_mode::Vendor;
use crate::migrate::Schema;
use crate::tx::Connection as _;
use crate::{Dialect, Error, Row, log, migrate};

/// Held by the session until it is released or ends. Its name is the server's, not the database's.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('sarsen ', MD5(DATABASE())), 30)";
const RELEASE: &str = "DO RELEASE_LOCK(CONCAT('sarsen ', MD5(DATABASE())))";
/// What asks for the rights to make and change tables …
const RIGHTS_TO_CHANGE: [&str; 4] = [
    "CREATE TABLE sarsen_rehearsal LIKE sarsen_no_table",
    "ALTER TABLE sarsen_no_table ADD COLUMN number BIGINT",
    "CREATE INDEX sarsen_no_index ON sarsen_no_table (number)",
    "DROP TABLE sarsen_no_table",
];
/// … and to use them.
const RIGHTS_TO_USE: [&str; 4] = [
    "SELECT number FROM sarsen_no_table",
    "INSERT INTO sarsen_no_table (number) VALUES (0)",
    "UPDATE sarsen_no_table SET number = 0",
    "DELETE FROM sarsen_no_table",
];
/// MariaDB has passed over locked rows since 10.6, MySQL since 8.0; its collation by bytes is of 8.0.17.
const MARIADB_MIN: (u32, u32, u32) = (10, 6, 0);
const MYSQL_MIN: (u32, u32, u32) = (8, 0, 19);

/// Checks the server and migrates the schema. Returns the number from which this process counts.
pub(super) fn prepare(connection: &mut Connection, schema: Schema) -> Result<u64, Error> {
    check_version(connection)?;
    warn_if_unknown(connection);
    warn_of_gaps(connection);
    if number(connection, LOCK)? != 1 {
        let text = "another instance has been changing the schema of this database for 30 s; wait for it";
        return Err(Error::Open(text.to_owned()));
    }
    migrate::migrate(connection, schema)?;
    log::tables(Dialect::Mysql).iter().try_for_each(|table| connection.execute(table, &[]).map(drop))?;
    let number = change_log::prepare(connection)?;
    connection.batch(RELEASE)?;
    Ok(number)
}

/// Checks the server, and the rights that a start needs. A change of the schema cannot be undone here, so each right is asked
/// for with a table that does not exist. The text says which rights are not asked for: a cluster sends each change of the schema
/// to all its nodes, also one that fails.
pub(super) fn rehearse(connection: &mut Connection) -> Result<Option<&'static str>, Error> {
    check_version(connection)?;
    let is_in_cluster = connection.is_in_cluster();
    if !is_in_cluster {
        RIGHTS_TO_CHANGE.iter().try_for_each(|statement| connection.check_right(statement))?;
    }
    RIGHTS_TO_USE.iter().try_for_each(|statement| connection.check_right(statement))?;
    Ok(is_in_cluster.then_some("rights to make tables are not asked on a cluster"))
}

fn check_version(connection: &mut Connection) -> Result<(), Error> {
    let mut text = String::new();
    connection.query("SELECT VERSION()", &[], &mut |row| {
        text = Row::new(row).get(0)?;
        Ok(false)
    })?;
    let (name, least) = match connection.vendor() {
        Vendor::MariaDb => ("MariaDB", MARIADB_MIN),
        Vendor::MySql => ("MySQL", MYSQL_MIN),
    };
    if version(&text) >= least {
        return Ok(());
    }
    let (major, minor, patch) = least;
    Err(Error::Open(format!(
        "the database server is {text}; {name} {major}.{minor}.{patch} or newer is needed"
    )))
}

/// `10.11.6-MariaDB-0+deb12u1` → (10, 11, 6).
fn version(text: &str) -> (u32, u32, u32) {
    let digits = text.split(|letter: char| !letter.is_ascii_digit());
    let mut parts = digits.map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

/// Each connection asks for these settings when it is opened, and trusts a server that does not report them.
fn warn_if_unknown(connection: &mut Connection) {
    for (name, question) in DURABILITY {
        if let Err(error) = number(connection, question) {
            tracing::warn!(name, %error, "cannot tell whether the database flushes each commit to its disk");
            connection.clear_statement_failure();
        }
    }
}

/// The log of changes asks for each number that is missing. Where every third one is used there are too many of them under load,
/// and the commit of another instance that takes long may be forgotten among them.
fn warn_of_gaps(connection: &mut Connection) {
    match number(connection, "SELECT @@global.auto_increment_increment") {
        Ok(0 | 1) => {}
        Ok(increment) => tracing::warn!(
            increment,
            "auto_increment_increment leaves gaps, under load more than the log of changes can ask for: let all instances write to \
             one server of the cluster, and set it to 1"
        ),
        Err(_) => connection.clear_statement_failure(),
    }
}

fn number(connection: &mut Connection, sql: &str) -> Result<i64, Error> {
    let mut number = None;
    connection.query(sql, &[], &mut |row| {
        number = Row::new(row).get::<Option<i64>>(0)?;
        Ok(false)
    })?;
    Ok(number.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_read_as_servers_tell_them() {
        assert_eq!(version("10.11.6-MariaDB-0+deb12u1"), (10, 11, 6));
        assert_eq!(version("8.4.3"), (8, 4, 3));
        assert_eq!(version("9.1"), (9, 1, 0));
    }
}
