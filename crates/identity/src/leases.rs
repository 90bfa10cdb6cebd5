//! Leases: a task that only one instance may run at a time has a named lease. Its holder renews it. If the holder
//! stops, another instance can take the lease after its end. Each instance also has a lease of its own while it serves.

use crate::Result;
use store::{Snapshot, Time, Tx, args, insert_if_absent, sql, statements};

statements! {
    static TAKE = sql("UPDATE leases SET holder = ?2, ends_at = ?4
     WHERE name = ?1 AND (holder = ?2 OR ends_at <= ?3)");
    static ENDS_AT = sql("SELECT ends_at FROM leases WHERE name = ?1");
    static FIRST = insert_if_absent("leases", &["name", "holder", "ends_at"]);
    static RELEASE = sql("DELETE FROM leases WHERE name = ?1");
    // ';' is the letter after ':'.
    static SERVING = sql("SELECT name FROM leases
     WHERE name >= 'instance:' AND name < 'instance;' AND ends_at > ?1 ORDER BY name LIMIT 1");
    static LATEST = sql("SELECT MAX(ends_at) FROM leases WHERE ends_at < ?1");
    static FORGET = sql("DELETE FROM leases WHERE name >= 'instance:' AND name < 'instance;' AND ends_at <= ?1");
}

/// Takes or renews the lease `name` until `ends_at`. Returns false if another holder has it.
pub fn take(tx: &mut Tx<'_>, name: &str, holder: &str, now: Time, ends_at: Time) -> Result<bool> {
    if tx.exec(&TAKE, args![name, holder, now, ends_at])? == 1 {
        return Ok(true);
    }
    Ok(tx.exec(&FIRST, args![name, holder, ends_at])? == 1)
}

/// Whether some holder has the lease `name`.
pub fn is_held(snapshot: &mut Snapshot<'_>, name: &str, now: Time) -> Result<bool> {
    let ends_at: Option<Time> = snapshot.one(&ENDS_AT, args![name], |row| row.get(0))?;
    Ok(ends_at.is_some_and(|ends_at| ends_at > now))
}

/// Notes that `instance` serves until `ends_at`.
pub fn serve(tx: &mut Tx<'_>, instance: &str, now: Time, ends_at: Time) -> Result<()> {
    take(tx, &name_of(instance), instance, now, ends_at).map(drop)
}

/// Notes that `instance` no longer serves.
pub fn end_serving(tx: &mut Tx<'_>, instance: &str) -> Result<()> {
    tx.exec(&RELEASE, args![&name_of(instance)])?;
    Ok(())
}

/// Removes instances that stopped without [`end_serving`] before `now`.
pub fn forget_ended(tx: &mut Tx<'_>, now: Time) -> Result<()> {
    tx.exec(&FORGET, args![now])?;
    Ok(())
}

/// Whether an instance serves from this database at `now`.
pub fn is_served(snapshot: &mut Snapshot<'_>, now: Time) -> Result<bool> {
    Ok(snapshot.one(&SERVING, args![now], |row| row.get::<String>(0))?.is_some())
}

/// The latest end of a lease that ends.
pub fn latest_end(snapshot: &mut Snapshot<'_>) -> Result<Option<Time>> {
    Ok(snapshot.one(&LATEST, args![Time::NEVER], |row| row.get::<Option<Time>>(0))?.flatten())
}

fn name_of(instance: &str) -> String {
    format!("instance:{instance}")
}
