//! What a form that mails was asked for: one row, the same for an address that has an account and for one that has none. The
//! form looks nothing up, so neither its page nor its time says which it is; [`super::decisions`] does so later.
//!
//! The row is also where the code of the mail is checked: in the browser that asked, for ten minutes, five times. A right code
//! is as good as the link of the same mail, whose row it uses up, so that a mail is used once however it is used.

use crate::ids::{self, LinkId, MailRequestId, OrganizationId, UserId};
use crate::mail::Purpose;
use crate::sealed_column::SealedColumn;
use crate::secrets::{self, Hash, Random, SecretKey};
use crate::{Result, Time, names};
use std::fmt::Display;
use std::time::Duration;
use store::{Row, Snapshot, Tx, args, insert, sql, statements};

/// How long a code is good.
pub const CODE_LIFE: Duration = Duration::from_secs(10 * 60);
/// How long a proof by a code is good for what it was for.
pub const PROOF_LIFE: Duration = Duration::from_secs(30 * 60);
/// How long the rows are kept: limits count a day.
pub const KEPT: Duration = Duration::from_secs(25 * 3600);
/// How often a code may be tried.
const TRIES_MAX: i64 = 5;
const DIGITS: &[u8; 10] = b"0123456789";
/// The digits of a code.
pub const CODE_LENGTH: usize = 8;

/// The input for [`ask`].
#[derive(Clone)]
pub struct NewRequest {
    /// The new id.
    pub id: MailRequestId,
    /// The organization whose form it is.
    pub organization: OrganizationId,
    /// The address that was entered.
    pub address: String,
    /// What is asked for: a reset, a sign-up or a verification.
    pub purpose: Purpose,
    /// The signed-in user who proves their address.
    pub user: Option<UserId>,
    /// The hash of what only the browser has that asks.
    pub browser: Hash,
    /// Its network, as it is counted.
    pub network: String,
    /// The tag of its language.
    pub language: String,
    /// What says for whom the browser is known, from [`seal_asker`].
    pub asker: Vec<u8>,
}

/// A request about which nothing is decided yet.
#[derive(Clone, Debug)]
pub struct Open {
    /// The id.
    pub id: MailRequestId,
    /// The organization whose form it was.
    pub organization: OrganizationId,
    /// The address that was entered, normalised.
    pub address: String,
    /// What is asked for.
    pub purpose: Purpose,
    /// The signed-in user who proves their address.
    pub user: Option<UserId>,
    /// The hash of what only the browser has that asked.
    pub browser: Vec<u8>,
    /// Its network.
    pub network: String,
    /// The tag of its language.
    pub language: String,
    /// Whether it was drawn among those that waited.
    pub was_drawn: bool,
    asker: Option<Vec<u8>>,
}

/// What a code was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is right: this browser may go on.
    Right(Purpose),
    /// It is wrong.
    Wrong,
    /// It cannot be tried any more: too often, too late, or from another browser.
    Ended,
}

/// What a browser has proved with a code.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The organization whose form it was.
    pub organization: OrganizationId,
    /// The address that is proved.
    pub address: String,
    /// What for.
    pub purpose: Purpose,
    /// The link of the same mail.
    pub link: LinkId,
}

/// What is decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing yet.
    Open,
    /// It waits until one is drawn.
    Waits,
    /// It was drawn, and is decided next.
    Drawn,
    /// A mail was queued.
    Mail,
    /// There is nothing to say, or nobody to say it to.
    Nothing,
    /// A limit stands in the way.
    Limited,
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Outcome::Open => "open",
            Outcome::Waits => "waits",
            Outcome::Drawn => "drawn",
            Outcome::Mail => "mail",
            Outcome::Nothing => "nothing",
            Outcome::Limited => "limited",
        }
    }
}

statements! {
    static INSERT = insert("mail_requests", &[&[
        "id", "organization_id", "address", "purpose", "user_id", "browser", "network", "language", "asker", "outcome",
        "tries", "created_at", "expires_at",
    ]]);
    static OPEN = sql("SELECT organization_id, address, purpose, user_id, browser, network, language, asker, outcome
     FROM mail_requests WHERE id = ?1 AND outcome IN ('open', 'drawn')");
    static COUNT_TRY = sql("UPDATE mail_requests SET tries = tries + 1
     WHERE id = ?1 AND browser = ?2 AND tries < ?3 AND expires_at > ?4 AND proved_at IS NULL");
    static CODE = sql("SELECT purpose, code, proved_at FROM mail_requests WHERE id = ?1 AND browser = ?2");
    static PROVE = sql("UPDATE mail_requests SET proved_at = ?2 WHERE id = ?1 AND proved_at IS NULL");
    static ADDRESS_OF = sql("SELECT address FROM mail_requests WHERE link_id = ?1");
    static PROOF = sql("SELECT organization_id, address, purpose, link_id FROM mail_requests
     WHERE id = ?1 AND browser = ?2 AND proved_at > ?3 AND link_id IS NOT NULL");
    static SEALED = sql("SELECT id, asker FROM mail_requests WHERE id > ?1 ORDER BY id LIMIT ?2");
    static RESEAL = sql("UPDATE mail_requests SET asker = ?2 WHERE id = ?1");
    static OLD = sql("SELECT id FROM mail_requests WHERE id < ?1 ORDER BY id LIMIT ?2");
    static OF_ORGANIZATION = sql("SELECT id FROM mail_requests WHERE organization_id = ?1
     ORDER BY address, outcome, id LIMIT ?2");
    static DELETE = sql("DELETE FROM mail_requests WHERE id = ?1");
}

/// Notes what a form was asked for. The caller queues the effect that decides in the same transaction.
pub fn ask(tx: &mut Tx<'_>, new: &NewRequest, now: Time) -> Result<()> {
    let address = names::email(&new.address)?;
    tx.exec(
        &INSERT,
        args![
            &new.id,
            &new.organization,
            &address,
            new.purpose.as_str(),
            new.user.as_ref(),
            &new.browser,
            &new.network,
            &new.language,
            &new.asker[..],
            Outcome::Open.as_str(),
            0_i64,
            now,
            now + CODE_LIFE
        ],
    )?;
    Ok(())
}

/// Gets a request about which nothing is decided yet.
pub fn open(snapshot: &mut Snapshot<'_>, id: &MailRequestId) -> Result<Option<Open>> {
    let read = |row: &Row<'_>| {
        Ok(Open {
            id: id.clone(),
            organization: row.get(0)?,
            address: row.get(1)?,
            purpose: Purpose::read(row, 2)?,
            user: row.get(3)?,
            browser: row.get(4)?,
            network: row.get(5)?,
            language: row.get(6)?,
            asker: row.get(7)?,
            was_drawn: row.get::<String>(8)? == Outcome::Drawn.as_str(),
        })
    };
    Ok(snapshot.one(&OPEN, args![id], read)?)
}

impl Open {
    /// What says for whom the browser is known that asked.
    pub fn open_asker(&self, key: &SecretKey) -> Result<Option<Vec<u8>>> {
        self.asker.as_ref().map(|sealed| key.open(&binding(&self.id), sealed)).transpose()
    }
}

/// Draws a code.
pub(crate) fn draw_code(random: &dyn Random) -> String {
    secrets::letters(DIGITS, CODE_LENGTH, random)
}

/// The keyed hash of a code. Without the secret key, a hundred million codes are not tried against a copy of the database.
pub(crate) fn code_tag(key: &SecretKey, id: &MailRequestId, code: &str) -> String {
    key.derive(&["mail code", id.as_str(), code])
}

/// A code as it was typed, without what people put between the digits. Digits of full width are digits.
pub fn typed_code(typed: &str) -> String {
    let digit = |letter: char| match letter {
        '\u{ff10}'..='\u{ff19}' => char::from_digit(letter as u32 - 0xff10, 10),
        _ => Some(letter).filter(|letter| !letter.is_whitespace() && *letter != '-'),
    };
    typed.chars().take(64).filter_map(digit).collect()
}

/// Tries a code. Each try counts, whether there is a code or not.
pub fn try_code(
    tx: &mut Tx<'_>,
    id: &MailRequestId,
    browser: &Hash,
    code: &str,
    key: &SecretKey,
    now: Time,
) -> Result<Tried> {
    let counted = tx.exec(&COUNT_TRY, args![id, browser, TRIES_MAX, now])? == 1;
    let found = tx.one(&CODE, args![id, browser], |row| {
        Ok((Purpose::read(row, 0)?, row.get::<Option<String>>(1)?, row.get::<Option<Time>>(2)?))
    })?;
    let (purpose, tag, proved_at) = found.unwrap_or((Purpose::Reset, None, None));
    let is_right = key.derives(&["mail code", id.as_str(), code], tag.as_deref().unwrap_or_default());
    // A form that was sent twice: the first one has proved it.
    let was_right = proved_at.is_some_and(|at| now.since(at) < PROOF_LIFE);
    match is_right {
        true if counted => {
            tx.exec(&PROVE, args![id, now])?;
            Ok(Tried::Right(purpose))
        }
        true if was_right => Ok(Tried::Right(purpose)),
        _ if counted => Ok(Tried::Wrong),
        _ => Ok(Tried::Ended),
    }
}

/// The address to which the mail of a link went.
pub(crate) fn address_of(snapshot: &mut Snapshot<'_>, link: &LinkId) -> Result<Option<String>> {
    Ok(snapshot.one(&ADDRESS_OF, args![link], |row| row.get(0))?)
}

/// What this browser has proved lately.
pub fn proof(
    snapshot: &mut Snapshot<'_>,
    id: &MailRequestId,
    browser: &Hash,
    now: Time,
) -> Result<Option<Proof>> {
    let read = |row: &Row<'_>| {
        Ok(Proof {
            organization: row.get(0)?,
            address: row.get(1)?,
            purpose: Purpose::read(row, 2)?,
            link: row.get(3)?,
        })
    };
    Ok(snapshot.one(&PROOF, args![id, browser, now - PROOF_LIFE], read)?)
}

/// What the sealed words are bound to.
fn binding(id: &dyn Display) -> String {
    format!("mail_requests/{id}/asker")
}

/// Seals what says for whom the browser is known that asks.
pub fn seal_asker(id: &MailRequestId, asker: &[u8], key: &SecretKey, random: &dyn Random) -> Result<Vec<u8>> {
    key.seal(&binding(id), asker, random)
}

/// The sealed words.
pub(crate) static ASKERS: SealedColumn =
    SealedColumn { migration: 22, page: &SEALED, set: Some(&RESEAL), binding: |id| binding(&id) };

/// Deletes up to `most` requests of an organization. Returns how many there were.
pub(crate) fn delete_some(tx: &mut Tx<'_>, organization: &OrganizationId, most: i64) -> Result<i64> {
    let ids: Vec<MailRequestId> = tx.all(&OF_ORGANIZATION, args![organization, most], |row| row.get(0))?;
    for id in &ids {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(ids.len() as i64)
}

/// Deletes up to `most` requests from before `moment`. Returns how many there were.
pub fn delete_older(tx: &mut Tx<'_>, moment: Time, most: i64) -> Result<usize> {
    let floor = ids::smallest_at(MailRequestId::PREFIX, moment);
    let old: Vec<MailRequestId> = tx.all(&OLD, args![&floor, most], |row| row.get(0))?;
    for id in &old {
        tx.exec(&DELETE, args![id])?;
    }
    Ok(old.len())
}
