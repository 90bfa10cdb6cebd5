//! Mails: what is to be sent, what was sent, and what became of it.
//!
//! A command that wants a mail writes a row with [`queue`], and the effect that sends it. The words that only the mailbox may
//! learn, a link and a code, were drawn before that command. They are sealed in the row until the relay has taken the mail or it
//! is given up, and are gone then. A mail of a user who was suspended or deleted since is not sent ([`next`]).
//!
//! Rows are kept for [`KEPT`], without a text: an administrator sees that a mail was sent, to whom and what for.
//!
//! [`requests`] has what a form was asked for, [`decisions`] what is sent for it.

pub mod decisions;
pub mod requests;

use crate::ids::{self, MailId, OrganizationId, UserId};
use crate::organizations::{self, Organization, Status};
use crate::sealed_column::SealedColumn;
use crate::secrets::{Random, SecretKey};
use crate::users;
use crate::{Error, Result, Time};
use std::fmt::Display;
use std::time::Duration;
use store::{Row, Snapshot, Tx, args, insert, select, sql, statements};

/// How long the rows of mails are kept.
pub const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a mail is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A forgotten password: a link and a code.
    Reset,
    /// Somebody wants an account with this address: a link and a code.
    SignUp,
    /// The same, and there is one.
    HasAccount,
    /// A signed-in user proves their address: a link and a code.
    Verify,
    /// A notice: the password was set by a mailed link.
    PasswordChanged,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 5] =
        [Purpose::Reset, Purpose::SignUp, Purpose::HasAccount, Purpose::Verify, Purpose::PasswordChanged];

    /// The stored word, which also names the texts of the mail.
    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::Reset => "reset",
            Purpose::SignUp => "sign_up",
            Purpose::HasAccount => "has_account",
            Purpose::Verify => "verify",
            Purpose::PasswordChanged => "password_changed",
        }
    }

    fn read(row: &Row<'_>, column: usize) -> std::result::Result<Purpose, store::Error> {
        let word: String = row.get(column)?;
        let known = Purpose::ALL.into_iter().find(|purpose| purpose.as_str() == word);
        known.ok_or_else(|| store::Error::Database(format!("a mail with the unknown purpose {word:?}")))
    }
}

/// What became of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for the relay.
    Queued,
    /// The relay has taken it.
    Sent,
    /// The relay has refused it for good.
    Refused,
    /// It was given up: too old, or its user was suspended.
    Dropped,
}

impl State {
    /// The stored word.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Sent => "sent",
            State::Refused => "refused",
            State::Dropped => "dropped",
        }
    }
}

/// The input for [`queue`], made before the command.
#[derive(Clone)]
pub struct NewMail {
    /// The new id.
    pub id: MailId,
    /// The organization in whose name it is sent.
    pub organization: OrganizationId,
    /// The account that it is about.
    pub user: Option<UserId>,
    /// Where it goes.
    pub address: String,
    /// What it is for.
    pub purpose: Purpose,
    /// The tag of its language.
    pub language: String,
    /// Link and code, from [`seal`].
    pub sealed: Option<Vec<u8>>,
    /// Whether nobody has proved yet that the address is theirs.
    pub is_unproven: bool,
    /// It is not sent later.
    pub expires_at: Time,
}

/// A mail that waits for the relay.
#[derive(Clone)]
pub struct Mail {
    /// The id.
    pub id: MailId,
    /// The organization in whose name it is sent.
    pub organization: Organization,
    /// Where it goes.
    pub address: String,
    /// What it is for.
    pub purpose: Purpose,
    /// The tag of its language.
    pub language: String,
    /// The time at which it was queued.
    pub created_at: Time,
    /// It is not sent later.
    pub expires_at: Time,
    sealed: Option<Vec<u8>>,
}

/// What an attempt to send a mail finds.
pub enum Next {
    /// It is to be sent.
    Send(Mail),
    /// It is not to be sent any more, for this reason.
    Drop(&'static str),
    /// It was sent, given up or deleted.
    Gone,
}

const COLUMNS: &str = "SELECT id, organization_id, user_id, address, purpose, language, created_at, expires_at, sealed FROM mails";

statements! {
    static INSERT = insert("mails", &[&[
        "id", "organization_id", "user_id", "address", "purpose", "language", "state", "sealed", "unproven", "attempts",
        "created_at", "expires_at",
    ]]);
    static QUEUED = select(COLUMNS, "WHERE id = ?1 AND state = 'queued'");
    static END = sql("UPDATE mails SET state = ?2, subject = ?3, problem = ?4, ended_at = ?5, sealed = NULL
     WHERE id = ?1 AND state = 'queued'");
    static FAILED = sql("UPDATE mails SET attempts = attempts + 1, problem = ?2 WHERE id = ?1 AND state = 'queued'");
    static SEALED = sql("SELECT id, sealed FROM mails WHERE id > ?1 ORDER BY id LIMIT ?2");
    static RESEAL = sql("UPDATE mails SET sealed = ?2 WHERE id = ?1");
    static COUNT_UNPROVEN = sql("SELECT COUNT(*) FROM mails WHERE organization_id = ?1 AND unproven = 1 AND id > ?2");
    static OF_USER = sql("SELECT id FROM mails WHERE user_id = ?1 ORDER BY id");
    static OF_ORGANIZATION = sql("SELECT id FROM mails WHERE organization_id = ?1 ORDER BY unproven, id LIMIT ?2");
    static OLD = sql("SELECT id FROM mails WHERE id < ?1 ORDER BY id LIMIT ?2");
    static DELETE = sql("DELETE FROM mails WHERE id = ?1");
}

/// Queues a mail. The caller queues the effect that sends it in the same transaction.
pub fn queue(tx: &mut Tx<'_>, new: &NewMail, now: Time) -> Result<()> {
    tx.exec(
        &INSERT,
        args![
            &new.id,
            &new.organization,
            new.user.as_ref(),
            &new.address,
            new.purpose.as_str(),
            &new.language,
            State::Queued.as_str(),
            new.sealed.as_deref(),
            i64::from(new.is_unproven),
            0_i64,
            now,
            new.expires_at
        ],
    )?;
    Ok(())
}

/// What is to be done about a mail now.
pub fn next(snapshot: &mut Snapshot<'_>, id: &MailId, now: Time) -> Result<Next> {
    let found = snapshot.one(&QUEUED, args![id], |row| {
        Ok((
            row.get::<OrganizationId>(1)?,
            row.get::<Option<UserId>>(2)?,
            (row.get(3)?, Purpose::read(row, 4)?, row.get(5)?),
            (row.get(6)?, row.get(7)?, row.get(8)?),
        ))
    })?;
    let Some((organization, user, (address, purpose, language), (created_at, expires_at, sealed))) = found
    else {
        return Ok(Next::Gone);
    };
    if now >= expires_at {
        return Ok(Next::Drop("expired"));
    }
    if let Some(user) = user {
        match users::get(snapshot, &user) {
            Ok(user) if user.suspended_at.is_some() => return Ok(Next::Drop("user_suspended")),
            Ok(_) => {}
            Err(Error::NotFound { .. }) => return Ok(Next::Drop("user_deleted")),
            Err(error) => return Err(error),
        }
    }
    let organization = organizations::get(snapshot, &organization)?;
    if organization.status != Status::Active {
        return Ok(Next::Drop("organization_not_active"));
    }
    let mail =
        Mail { id: id.clone(), organization, address, purpose, language, created_at, expires_at, sealed };
    Ok(Next::Send(mail))
}

impl Mail {
    /// The words that only the mailbox may learn; `None` if it has none.
    pub fn open(&self, key: &SecretKey) -> Result<Option<Vec<u8>>> {
        self.sealed.as_ref().map(|sealed| key.open(&binding(&self.id), sealed)).transpose()
    }
}

/// Notes an attempt that has failed and is repeated.
pub fn note_failure(tx: &mut Tx<'_>, id: &MailId, problem: &str) -> Result<()> {
    tx.exec(&FAILED, args![id, problem])?;
    Ok(())
}

/// Notes what became of a mail, with the subject that the relay saw. Its link and code are gone then. Returns whether it was
/// queued.
pub fn end(
    tx: &mut Tx<'_>,
    id: &MailId,
    state: State,
    subject: Option<&str>,
    problem: Option<&str>,
    now: Time,
) -> Result<bool> {
    Ok(tx.exec(&END, args![id, state.as_str(), subject, problem, now])? == 1)
}

/// How many mails to addresses that nobody has proved an organization has queued since `moment`.
pub(crate) fn count_unproven(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    moment: Time,
) -> Result<i64> {
    let floor = ids::smallest_at(MailId::PREFIX, moment);
    let count = snapshot.one(&COUNT_UNPROVEN, args![organization, &floor], |row| row.get(0))?;
    Ok(count.unwrap_or(0))
}

/// What the sealed words are bound to.
fn binding(id: &dyn Display) -> String {
    format!("mails/{id}/sealed")
}

/// Seals the words that only the mailbox may learn.
pub fn seal(id: &MailId, words: &[u8], key: &SecretKey, random: &dyn Random) -> Result<Vec<u8>> {
    key.seal(&binding(id), words, random)
}

/// The sealed words.
pub(crate) static SECRETS: SealedColumn =
    SealedColumn { migration: 22, page: &SEALED, set: Some(&RESEAL), binding: |id| binding(&id) };

/// Deletes the mails of a user who is being deleted. An effect that was queued finds none.
pub(crate) fn delete_of_user(tx: &mut Tx<'_>, user: &UserId) -> Result<()> {
    let ids: Vec<MailId> = tx.all(&OF_USER, args![user], |row| row.get(0))?;
    delete(tx, &ids)
}

/// Deletes up to `most` mails and requests of an organization that is being erased. Returns how many there were.
pub(crate) fn delete_some(tx: &mut Tx<'_>, organization: &OrganizationId, most: i64) -> Result<i64> {
    let ids: Vec<MailId> = tx.all(&OF_ORGANIZATION, args![organization, most], |row| row.get(0))?;
    delete(tx, &ids)?;
    let mails = ids.len() as i64;
    Ok(mails + requests::delete_some(tx, organization, most - mails)?)
}

/// Deletes up to `most` mails from before `moment`. Returns how many there were.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let floor = ids::smallest_at(MailId::PREFIX, moment);
    let old: Vec<MailId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    delete(tx, &old)?;
    Ok(old.len())
}

fn delete(tx: &mut Tx<'_>, ids: &[MailId]) -> Result<()> {
    for id in ids {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(())
}
