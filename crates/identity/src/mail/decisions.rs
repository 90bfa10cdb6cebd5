//! Decides which mail a request from a form causes: a reset, a proof of an address, "you have an account", or none.
//!
//! Limits protect a mailbox from who writes its address into forms. What a network or a browser asks for an address counts for that
//! network or browser alone, so nobody uses up the mails of another. Beyond [`DAILY_MAX`] in a day the next mail is that of one
//! network, drawn among those that asked in the hour before it: asking often wins nothing. A browser that is known for the account
//! has [`KNOWN_MAX`] in an hour whatever others do. The form learns nothing of all this.

use crate::ids::{self, LinkId, MailId, MailRequestId, OrganizationId};
use crate::links::{self, NewLink};
use crate::mail::requests::{self, Open, Outcome};
use crate::mail::{self, NewMail, Purpose};
use crate::organizations::{self, Status};
use crate::secrets::{Random, SecretKey};
use crate::users::{self, User};
use crate::{Error, Result, Time, audit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Tx, args, sql, statements};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The mails to one address that one network, or one browser, causes in an hour and in a day.
const HOURLY_EACH: usize = 5;
const DAILY_EACH: usize = 10;
/// The mails in an hour that a browser gets which is known for the account, whatever others do.
const KNOWN_MAX: usize = 3;
/// The mails to one address in a day before one is drawn.
pub const DAILY_MAX: usize = 20;
/// How many of those that wait are looked at.
const WAITING_MAX: i64 = 1000;
/// How long the link of a mail is good, and so how long it is tried to send it: as long as its code. OWASP ASVS 5.0 gives what is
/// sent over another channel ten minutes.
pub const LINK_LIFE: Duration = requests::CODE_LIFE;

/// What the owner of the server allows.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether people may create accounts themselves, where an organization has not set it.
    pub sign_up: bool,
    /// How many mails an organization may send in a day to addresses that nobody has proved.
    pub unproven_per_day_max: u32,
}

/// The words of a mail that only the mailbox may learn.
#[derive(Clone, Serialize, Deserialize)]
pub struct Words {
    /// The token of the link.
    pub link: String,
    /// The code.
    pub code: String,
}

/// What is drawn before a decision, whether it is used or not.
#[derive(Clone)]
pub struct Drawn {
    mail: MailId,
    link: NewLink,
    code: String,
    sealed: Vec<u8>,
}

impl Drawn {
    /// Draws a link and a code for a request.
    pub fn new(request: &Open, key: &SecretKey, now: Time, random: &dyn Random) -> Result<Drawn> {
        let mail = MailId::new(now, random);
        let (id, expires_at) = (LinkId::new(now, random), now + LINK_LIFE);
        let link = NewLink::generate(id, purpose_of_link(request.purpose), None, expires_at, random);
        let code = requests::draw_code(random);
        let words = Words { link: link.token.clone(), code };
        let text = serde_json::to_vec(&words).map_err(|error| Error::Internal(error.to_string()))?;
        let sealed = mail::seal(&mail, &text, key, random)?;
        Ok(Drawn { mail, link, code: requests::code_tag(key, &request.id, &words.code), sealed })
    }
}

fn purpose_of_link(purpose: Purpose) -> links::Purpose {
    match purpose {
        Purpose::SignUp | Purpose::HasAccount => links::Purpose::SignUp,
        Purpose::Verify => links::Purpose::Verify,
        Purpose::Reset | Purpose::PasswordChanged => links::Purpose::Reset,
    }
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This mail was queued; the caller queues the effect that sends it.
    Mail(MailId, Purpose),
    /// Nothing is sent.
    Nothing,
    /// A limit stands in the way.
    Limited,
    /// At this time one of those that wait is drawn ([`draw`]).
    Waits(Time),
    /// Another one has decided it.
    Gone,
}

statements! {
    static COUNTED = sql("SELECT network, browser, created_at FROM mail_requests
     WHERE organization_id = ?1 AND address = ?2 AND outcome = 'mail' AND id > ?3 ORDER BY id");
    static WAITING = sql("SELECT id, network FROM mail_requests
     WHERE organization_id = ?1 AND address = ?2 AND outcome = 'waits' ORDER BY id LIMIT ?3");
    static ADDRESS = sql("SELECT organization_id, address FROM mail_requests WHERE id = ?1 AND outcome = 'waits'");
    static DECIDE = sql("UPDATE mail_requests SET outcome = ?2, asker = NULL WHERE id = ?1 AND outcome IN ('open', 'drawn')");
    static WAIT = sql("UPDATE mail_requests SET outcome = ?2 WHERE id = ?1 AND outcome = 'open'");
    static SET_WAITING = sql("UPDATE mail_requests SET outcome = ?2 WHERE id = ?1 AND outcome = 'waits'");
    static SET_CODE = sql("UPDATE mail_requests SET link_id = ?2, code = ?3, expires_at = ?4 WHERE id = ?1");
}

/// Decides about a request, once. `is_known` says whether the browser that asked is known for an account.
pub fn decide(
    tx: &mut Tx<'_>,
    request: &Open,
    drawn: &Drawn,
    is_known: &dyn Fn(&User) -> bool,
    rules: &Rules,
    now: Time,
) -> Result<Decision> {
    let Some((purpose, user)) = wanted(tx, request, rules)? else {
        return end(tx, request, Outcome::Nothing, Decision::Nothing);
    };
    let is_unproven = user.as_ref().is_none_or(|user| user.email_verified_at.is_none());
    let since = now - DAY;
    let unproven = || rules.unproven_per_day_max.into();
    if is_unproven && mail::count_unproven(tx.snapshot(), &request.organization, since)? >= unproven() {
        return end(tx, request, Outcome::Limited, Decision::Limited);
    }
    if !request.was_drawn {
        let known = user.as_ref().is_some_and(is_known);
        match limit(tx, request, known, now)? {
            Limit::Free => {}
            Limit::Spent => return end(tx, request, Outcome::Limited, Decision::Limited),
            Limit::Lots(at) => {
                let waits = tx.exec(&WAIT, args![&request.id, Outcome::Waits.as_str()])? == 1;
                return Ok(if waits { Decision::Waits(at) } else { Decision::Gone });
            }
        }
    }
    if tx.exec(&DECIDE, args![&request.id, Outcome::Mail.as_str()])? != 1 {
        return Ok(Decision::Gone);
    }
    let has_code = purpose == request.purpose;
    if has_code {
        let link = NewLink { user: user.as_ref().map(|user| user.id.clone()), ..drawn.link.clone() };
        links::create(tx, &link, audit::SYSTEM, now)?;
        tx.exec(&SET_CODE, args![&request.id, &link.id, &drawn.code, now + requests::CODE_LIFE])?;
    }
    let new = NewMail {
        id: drawn.mail.clone(),
        organization: request.organization.clone(),
        user: user.map(|user| user.id),
        address: request.address.clone(),
        purpose,
        language: request.language.clone(),
        sealed: has_code.then(|| drawn.sealed.clone()),
        is_unproven,
        expires_at: drawn.link.expires_at,
    };
    mail::queue(tx, &new, now)?;
    Ok(Decision::Mail(new.id, purpose))
}

fn end(tx: &mut Tx<'_>, request: &Open, outcome: Outcome, decision: Decision) -> Result<Decision> {
    let ended = tx.exec(&DECIDE, args![&request.id, outcome.as_str()])? == 1;
    Ok(if ended { decision } else { Decision::Gone })
}

/// What is to be sent, and to whose account; `None`: nothing.
fn wanted(tx: &mut Tx<'_>, request: &Open, rules: &Rules) -> Result<Option<(Purpose, Option<User>)>> {
    let organization = organizations::get(tx.snapshot(), &request.organization)?;
    if organization.status != Status::Active {
        return Ok(None);
    }
    let user = users::find(tx.snapshot(), &organization.id, &request.address)?;
    if user.as_ref().is_some_and(|user| user.suspended_at.is_some()) {
        return Ok(None);
    }
    Ok(match (request.purpose, user) {
        (Purpose::Reset, Some(user)) => Some((Purpose::Reset, Some(user))),
        (Purpose::SignUp, _) if !organization.allows_sign_up(rules.sign_up) => None,
        (Purpose::SignUp, None) => Some((Purpose::SignUp, None)),
        (Purpose::SignUp, Some(user)) => Some((Purpose::HasAccount, Some(user))),
        (Purpose::Verify, Some(user)) if Some(&user.id) == request.user.as_ref() => {
            user.email_verified_at.is_none().then_some((Purpose::Verify, Some(user)))
        }
        _ => None,
    })
}

/// What the limits of an address say.
enum Limit {
    Free,
    Spent,
    /// From this time on one is drawn.
    Lots(Time),
}

fn limit(tx: &mut Tx<'_>, request: &Open, is_known: bool, now: Time) -> Result<Limit> {
    let floor = ids::smallest_at(MailRequestId::PREFIX, now - DAY);
    let counted: Vec<(String, Vec<u8>, Time)> =
        tx.all(&COUNTED, args![&request.organization, &request.address, &floor], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    let of_browser = |(_, browser, _): &&(String, Vec<u8>, Time)| *browser == request.browser;
    let of_network = |(network, ..): &&(String, Vec<u8>, Time)| *network == request.network;
    let is_late = |(.., at): &&(String, Vec<u8>, Time)| now.since(*at) < HOUR;
    if is_known && counted.iter().filter(of_browser).filter(is_late).count() < KNOWN_MAX {
        return Ok(Limit::Free);
    }
    let is_spent = |hour: usize, day: usize| hour >= HOURLY_EACH || day >= DAILY_EACH;
    let browser = counted.iter().filter(of_browser);
    let network = counted.iter().filter(of_network);
    if is_spent(browser.clone().filter(is_late).count(), browser.count())
        || is_spent(network.clone().filter(is_late).count(), network.count())
    {
        return Ok(Limit::Spent);
    }
    match counted.last() {
        Some((.., last)) if counted.len() >= DAILY_MAX => Ok(Limit::Lots((*last + HOUR).max(now))),
        _ => Ok(Limit::Free),
    }
}

/// Draws one network among those whose requests for the address of `waiting` wait, and one request of it: that is decided next,
/// the others get nothing. Returns it. A request that waits no more draws nothing.
pub fn draw(tx: &mut Tx<'_>, waiting: &MailRequestId, lot: u64) -> Result<Option<MailRequestId>> {
    let found =
        tx.one(&ADDRESS, args![waiting], |row| Ok((row.get::<OrganizationId>(0)?, row.get::<String>(1)?)))?;
    let Some((organization, address)) = found else { return Ok(None) };
    let all: Vec<(MailRequestId, String)> =
        tx.all(&WAITING, args![&organization, &address, WAITING_MAX], |row| Ok((row.get(0)?, row.get(1)?)))?;
    // Of a network its latest request counts: its page is the one that is open.
    let latest: BTreeMap<&str, &MailRequestId> =
        all.iter().map(|(id, network)| (network.as_str(), id)).collect();
    let place = (lot % (latest.len().max(1) as u64)) as usize;
    let winner = latest.values().nth(place).map(|id| (*id).clone());
    for (id, _) in &all {
        let outcome = if Some(id) == winner.as_ref() { Outcome::Drawn } else { Outcome::Limited };
        tx.exec(&SET_WAITING, args![id, outcome.as_str()])?;
    }
    Ok(winner)
}
