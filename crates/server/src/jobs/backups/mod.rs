//! Backups: their schedule, their check, and what a new secret key seals again. `store::backup` copies the files.
//!
//! A backup holds everything but the secret key. Both together bring up a server; a check opens everything that is
//! sealed with the key, so that it refuses a backup of another installation.

pub(crate) mod schedule;

pub use schedule::{Found, Schedule};
pub use store::backup::{SchemaDifferences, restore};

use identity::audit::Actor;
use identity::database_move::check_finished;
use identity::ids::LinkId;
use identity::links::{self, NewLink, Purpose};
use identity::organizations::{self, Status};
use identity::schema::MIGRATIONS;
use identity::secrets::{Random, SecretKey};
use identity::{Error, Result, idempotent_writes, leases, sealed, settings, users};
use std::path::Path;
use std::sync::Arc;
pub use store::backup::real_path;
use store::backup::{Mark, MarkKey};
use store::{Error as StoreError, Store, Time, Tx, backup, transfer};

/// Answers that one command drops: fifty statements fit into its time also where each takes 10 ms to the server and back.
const ANSWERS_AT_ONCE: i64 = 50;
/// Accounts that are looked at for one that can sign in.
const CANDIDATES: i64 = 50;

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The number of the last migration; `None` on a database server, where this program has just run them.
    pub schema: Option<i64>,
    /// The values that were opened with the secret key.
    pub sealed: u64,
    /// The problems found; empty if there are none.
    pub problems: Vec<String>,
    /// Differences that do no harm: indexes that are not part of the schema.
    pub warnings: Vec<String>,
    /// Who made the file; `None` on a database server.
    pub origin: Option<Origin>,
    /// The position of the key, among those that were given, to which the database belongs. `None` if none of them fits.
    pub key: Option<usize>,
}

/// Who made a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `sarsen backup` or the schedule, with a key that was given.
    Marked,
    /// The same, with another key.
    OtherMark,
    /// Unknown: the file has a checksum without a key, as earlier versions wrote it.
    PlainChecksum,
    /// Unknown: the file was not made as a backup.
    Unmarked,
}

/// Copies the database at `source`, which another process may use, to a new file, marked under the key. Returns its size.
pub fn copy(source: &Path, target: &Path, key: &SecretKey) -> std::result::Result<u64, StoreError> {
    backup::copy(source, target, &key.mark_key())
}

/// Checks a SQLite file that no process uses, with the first of the keys that fits. Fails if it cannot be read at all. The
/// file is not changed.
pub fn check_file(path: &Path, keys: &[SecretKey]) -> std::result::Result<Checked, StoreError> {
    let mark_keys: Vec<MarkKey> = keys.iter().map(SecretKey::mark_key).collect();
    let mut found = backup::inspect(path, MIGRATIONS, &mark_keys)?;
    let (origin, marked) = match found.mark {
        Mark::Key(key) => (Origin::Marked, Some(key)),
        Mark::OtherKey => (Origin::OtherMark, None),
        Mark::Plain => (Origin::PlainChecksum, None),
        Mark::None => (Origin::Unmarked, None),
    };
    let (mut sealed, mut fits) = (0, None);
    // A damaged table may fail in any way; the damage says more.
    if found.problems.is_empty() {
        let opened = backup::read(path, |snapshot| {
            fits = keys.iter().position(|key| settings::check(snapshot, key).is_ok());
            let key = fits.and_then(|position| keys.get(position));
            (key.map_or(Ok(0), |key| sealed::open_all(snapshot, key)), check_finished(snapshot))
        })?;
        match opened {
            (Ok(count), Ok(())) => sealed = count,
            (sealed, finished) => found.problems.extend(errors([sealed.map(drop), finished])),
        }
        if matches!(origin, Origin::Marked | Origin::OtherMark) && marked != fits {
            let text = "its end was made with another secret key than the one that it belongs to, so somebody changed it";
            found.problems.push(text.to_owned());
        }
    }
    Ok(Checked {
        schema: Some(found.schema),
        sealed,
        problems: found.problems,
        warnings: found.warnings,
        origin: Some(origin),
        key: marked.or(fits),
    })
}

/// Compares the schema of a SQLite file, which another process may use, with that of this program. It is the part of
/// [`check_file`] that can be done beside a server.
pub fn compare_schema(path: &Path) -> std::result::Result<SchemaDifferences, StoreError> {
    backup::compare_schema(path, MIGRATIONS)
}

/// Looks at a backup that was just made: its schema, and whether it belongs to the key.
pub fn check_made(path: &Path, key: &SecretKey) -> std::result::Result<SchemaDifferences, StoreError> {
    let mut found = compare_schema(path)?;
    let belongs = backup::read(path, |snapshot| settings::check(snapshot, key))?;
    found.problems.extend(errors([belongs]));
    Ok(found)
}

/// Checks an open database: the references between its rows, and what is sealed.
pub async fn check_store(store: &Store, key: &SecretKey) -> std::result::Result<Checked, StoreError> {
    let mut problems = Vec::new();
    for table in transfer::tables(MIGRATIONS)? {
        for reference in table.references.clone() {
            let (name, parent, table) = (table.name.clone(), reference.parent.clone(), table.clone());
            let count = store.read(move |snapshot| table.dangling(snapshot, &reference)).await?;
            if count > 0 {
                problems.push(format!("{count} rows of {name} refer to rows of {parent} that are not there"));
            }
        }
    }
    let key = key.clone();
    let mut sealed = 0;
    match store.read(move |snapshot| sealed::open_all(snapshot, &key)).await {
        Ok(count) => sealed = count,
        Err(Error::Store(error)) => return Err(error),
        Err(error) => problems.push(error.to_string()),
    }
    match store.point(check_finished).await {
        Err(Error::Store(error)) => return Err(error),
        finished => problems.extend(errors([finished])),
    }
    Ok(Checked { schema: None, sealed, problems, warnings: Vec::new(), origin: None, key: Some(0) })
}

fn errors<const N: usize>(results: [Result<()>; N]) -> impl Iterator<Item = String> {
    results.into_iter().filter_map(Result::err).map(|error| error.to_string())
}

/// Seals everything with the key `to`, in one transaction, after the stored answers to writes with an `Idempotency-Key`
/// were dropped. No server may use the database. Returns the number of values.
pub async fn reseal(store: &Store, from: SecretKey, to: SecretKey, random: Arc<dyn Random>) -> Result<u64> {
    store.point(check_finished).await?;
    let key = from.clone();
    store.point(move |snapshot| settings::check(snapshot, &key)).await?;
    let mut after = Some(String::new());
    while let Some(place) = after {
        let drop = move |tx: &mut Tx<'_>| idempotent_writes::drop_answers(tx, &place, ANSWERS_AT_ONCE);
        after = store.write("secret_key.drop_answers", drop).await?;
    }
    store.write("secret_key.change", move |tx| sealed::reseal(tx, &from, &to, &*random)).await
}

/// Whether the database belongs to this key.
pub async fn is_key_of(store: &Store, key: SecretKey) -> Result<bool> {
    match store.point(move |snapshot| settings::check(snapshot, &key)).await {
        Ok(()) => Ok(true),
        Err(Error::Store(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// Whether a server uses the database: an instance has said so in the last seconds, or has worked on it in the last 90.
pub async fn is_served(store: &Store, now: Time) -> Result<bool> {
    let asked = store.point(move |snapshot| {
        let is_kept = leases::is_held(snapshot, super::janitor::LEASE_NAME, now)?;
        Ok::<_, Error>(is_kept || leases::is_served(snapshot, now)?)
    });
    asked.await
}

/// A link that signs in an account of this database, with its e-mail address. `None` if no account can sign in.
pub async fn sign_in_link(
    store: &Store,
    actor: Actor,
    random: &dyn Random,
) -> Result<Option<(String, String)>> {
    let found = store.read(|snapshot| {
        for user in users::newest(snapshot, CANDIDATES)? {
            let organization = organizations::get(snapshot, &user.organization)?;
            if user.suspended_at.is_none() && organization.status == Status::Active {
                return Ok::<_, Error>(Some((user, organization.slug)));
            }
        }
        Ok(None)
    });
    let Some((user, slug)) = found.await? else { return Ok(None) };
    let now = actor.now;
    let id = LinkId::new(now, random);
    let new = NewLink::generate(id, Purpose::SignIn, Some(user.id.clone()), now + links::LIFE, random);
    let (path, email) = (format!("/o/{slug}/link?token={}", new.token), user.email.clone());
    store.write("user.sign_in_link", move |tx| links::create_for(tx, &user, &new, &actor)).await?;
    Ok(Some((email, path)))
}
