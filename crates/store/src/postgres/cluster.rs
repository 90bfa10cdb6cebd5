//! Which cluster a server is of: a number that it was given when it was made, and that its standbys have from it.

use super::connection::Connection;
use crate::Error;

const MAY_ASK: &str = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')";
const CLUSTER: &str = "SELECT system_identifier FROM pg_control_system()";

/// None where the server's administrator has forbidden everybody to ask; that holds for its standbys too.
pub(super) fn of(connection: &mut Connection) -> Result<Option<String>, Error> {
    let may_ask = connection.first_row(MAY_ASK)?.is_some_and(|row| row.get(0) == Some("t"));
    let told = if may_ask { connection.first_row(CLUSTER)? } else { None };
    Ok(told.and_then(|row| row.get(0).map(str::to_owned)))
}
