//! Tokens that are not valid any more: entries about sessions that end and grants that are revoked, and what they mean for a
//! service.
//!
//! The command that ends them reads at which services they had grants. A command that creates a grant locks its
//! session, so no grant is missed. Delivery does not need the rows, which may be gone with a client.

use super::EVENTS;
use super::entry::{Ended, Entry, note};
use crate::ids::{GrantId, ServiceId, SessionId, UserId};
use crate::tokens::ACCESS_LIFE;
use crate::{Result, Time, users};
use std::time::Duration;
use store::{Snapshot, Tx, args, sql, statements};

/// A token that was revoked longer ago has expired, so back ends that verify tokens by themselves do not need it. Clocks
/// differ, and libraries accept tokens for a minute after their end.
const LATELY: Duration = ACCESS_LIFE.saturating_add(Duration::from_secs(120));
/// Sessions that one entry names, so that an event has 40 KB at most.
const SESSIONS_MAX: usize = 1000;

/// Sessions and grants of a user whose tokens are not valid any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revoked {
    /// The user.
    pub user: UserId,
    /// The sessions that ended: `sid` of tokens.
    pub sessions: Vec<SessionId>,
    /// The grants that were revoked while their session lives: the part of `jti` before the dot.
    pub grants: Vec<GrantId>,
}

statements! {
    // These step from client to client along an index: a session may have any number of grants at one client, and a
    // command has 100 ms.
    static OF_SESSION = sql("WITH RECURSIVE used (user_id, session_id, client_id) AS (
         SELECT s.user_id, s.id, (SELECT MIN(g.client_id) FROM grants g WHERE g.session_id = s.id)
         FROM sessions s WHERE s.id = ?1
         UNION ALL
         SELECT used.user_id, used.session_id,
             (SELECT MIN(g.client_id) FROM grants g WHERE g.session_id = used.session_id AND g.client_id > used.client_id)
         FROM used WHERE used.client_id IS NOT NULL)
     SELECT DISTINCT used.user_id, c.service_id FROM used JOIN clients c ON c.id = used.client_id
     WHERE c.service_id IS NOT NULL ORDER BY c.service_id");
    static OF_SESSIONS = sql("WITH RECURSIVE used (session_id, client_id) AS (
         SELECT s.id, (SELECT MIN(g.client_id) FROM grants g WHERE g.session_id = s.id)
         FROM sessions s WHERE s.user_id = ?1 AND s.ended_at = ?2
         UNION ALL
         SELECT used.session_id,
             (SELECT MIN(g.client_id) FROM grants g WHERE g.session_id = used.session_id AND g.client_id > used.client_id)
         FROM used WHERE used.client_id IS NOT NULL)
     SELECT DISTINCT c.service_id, used.session_id FROM used JOIN clients c ON c.id = used.client_id
     WHERE c.service_id IS NOT NULL ORDER BY c.service_id, used.session_id");
    static OF_GRANT = sql("SELECT g.user_id, c.service_id FROM grants g JOIN clients c ON c.id = g.client_id
     WHERE g.id = ?1 AND c.service_id IS NOT NULL");
}

/// Notes that a session ended. Without a grant at a service there is no entry.
pub(crate) fn note_session(tx: &mut Tx<'_>, id: &SessionId, now: Time) -> Result<()> {
    match of_session(tx.snapshot(), id.as_str())? {
        Some(entry) => note(tx, now, &entry),
        None => Ok(()),
    }
}

/// Notes that the sessions of a user with this time of their end have ended.
pub(crate) fn note_sessions(tx: &mut Tx<'_>, user: &UserId, now: Time) -> Result<()> {
    for part in ended_at(tx.snapshot(), user.as_str(), now)?.chunks(SESSIONS_MAX) {
        let (user, ended_at) = (user.to_string(), now.millis());
        note(tx, now, &Entry::Sessions { user, ended_at, ended: Some(by_service(part)) })?;
    }
    Ok(())
}

/// Notes that a grant was revoked.
pub(crate) fn note_grant(tx: &mut Tx<'_>, id: &GrantId, now: Time) -> Result<()> {
    match of_grant(tx.snapshot(), id.as_str())? {
        Some(entry) => note(tx, now, &entry),
        None => Ok(()),
    }
}

fn of_session(snapshot: &mut Snapshot<'_>, session: &str) -> Result<Option<Entry>> {
    let found: Vec<(String, String)> =
        snapshot.all(&OF_SESSION, args![session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let user = found.first().map(|(user, _)| user.clone());
    let services = found.into_iter().map(|(_, service)| service).collect();
    let entry =
        |user| Entry::Session { session: session.to_owned(), user: Some(user), services: Some(services) };
    Ok(user.map(entry))
}

/// The sessions of a user that ended at this time, each with a service; by service.
fn ended_at(snapshot: &mut Snapshot<'_>, user: &str, at: Time) -> Result<Vec<(String, String)>> {
    Ok(snapshot.all(&OF_SESSIONS, args![user, at], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

fn by_service(rows: &[(String, String)]) -> Vec<Ended> {
    let of_service = |rows: &[(String, String)]| Ended {
        service: rows.first().map(|(service, _)| service.clone()).unwrap_or_default(),
        sessions: rows.iter().map(|(_, session)| session.clone()).collect(),
    };
    rows.chunk_by(|one, next| one.0 == next.0).map(of_service).collect()
}

fn of_grant(snapshot: &mut Snapshot<'_>, grant: &str) -> Result<Option<Entry>> {
    Ok(snapshot.one(&OF_GRANT, args![grant], |row| {
        let (user, service) = (row.get(0)?, row.get(1)?);
        Ok(Entry::Grant { grant: grant.to_owned(), user: Some(user), service: Some(service) })
    })?)
}

/// Fills in what an entry of an earlier version does not name, as far as the rows are still there; `None` if nothing is
/// left of it.
pub(super) fn completed(snapshot: &mut Snapshot<'_>, entry: Entry) -> Result<Option<Entry>> {
    match entry {
        Entry::Session { session, services: None, .. } => of_session(snapshot, &session),
        Entry::Sessions { user, ended_at: at, ended: None } => {
            let ended = Some(by_service(&ended_at(snapshot, &user, Time::from_millis(at))?));
            Ok(Some(Entry::Sessions { user, ended_at: at, ended }))
        }
        Entry::Grant { grant, service: None, .. } => of_grant(snapshot, &grant),
        Entry::User { user, organization: None } => {
            let Ok(id) = UserId::parse(&user) else { return Ok(None) };
            let organization = users::organization_of(snapshot, &id)?;
            Ok(organization.map(|organization| Entry::user(&id, &organization)))
        }
        entry => Ok(Some(entry)),
    }
}

impl Revoked {
    /// What an entry has revoked at a service. The entry is [`completed`].
    pub(super) fn by(entry: &Entry, service: &ServiceId) -> Option<Revoked> {
        let (user, sessions, grants): (_, Vec<&String>, Vec<&String>) = match entry {
            Entry::Session { session, user: Some(user), services: Some(services) } => {
                services.iter().find(|known| *known == service.as_str())?;
                (user, vec![session], Vec::new())
            }
            Entry::Sessions { user, ended: Some(ended), .. } => {
                let here = ended.iter().filter(|ended| ended.service == service.as_str());
                (user, here.flat_map(|ended| &ended.sessions).collect(), Vec::new())
            }
            Entry::Grant { grant, user: Some(user), service: Some(at) } if at == service.as_str() => {
                (user, Vec::new(), vec![grant])
            }
            _ => return None,
        };
        let revoked = Revoked {
            user: UserId::parse(user).ok()?,
            sessions: sessions.into_iter().filter_map(|id| SessionId::parse(id).ok()).collect(),
            grants: grants.into_iter().filter_map(|id| GrantId::parse(id).ok()).collect(),
        };
        Some(revoked).filter(|revoked| !revoked.sessions.is_empty() || !revoked.grants.is_empty())
    }

    /// What was revoked at a service lately: a back end that verifies tokens by itself must refuse these.
    pub fn lately(snapshot: &mut Snapshot<'_>, service: &ServiceId, now: Time) -> Result<Vec<Revoked>> {
        let mut entries = Vec::new();
        snapshot.log_since(&EVENTS, now - LATELY, |logged| {
            // Of other services' entries nothing is kept, and nothing is read. Most entries revoke nothing.
            if Entry::may_revoke(&logged.payload) {
                entries.extend(Entry::read(&logged.payload).filter(|entry| entry.may_revoke_at(service)));
            }
        })?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = completed(snapshot, entry)?;
            found.extend(entry.and_then(|entry| Revoked::by(&entry, service)));
        }
        Ok(found)
    }
}
