//! Reads the log from a cursor on and makes the events of services of it, in one snapshot.

use super::EVENTS;
use super::entry::Entry;
use super::state::{OfService, Revoked, UserAtService, of_service, user_at_service, users_of};
use crate::administrators::{self, Role};
use crate::ids::{ApiKeyId, CustomerId, GrantId, OrganizationId, ServiceId, SessionId, UserId};
use crate::{Result, Time, api_keys, grants, sessions, users};
use store::{LogCursor, Snapshot};

/// A service whose events somebody reads.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Its organization.
    pub organization: OrganizationId,
    /// The service.
    pub service: ServiceId,
    /// The API keys that read them.
    pub keys: Vec<ApiKeyId>,
}

/// An event of a service, with the new state.
#[derive(Clone, Debug)]
pub enum Event {
    /// What the user may use changed. No state: the service has no such user any more.
    Subscription(UserId, Option<Box<UserAtService>>),
    /// The account of the user changed. No state: it is deleted.
    User(UserId, Option<Box<UserAtService>>),
    /// Tokens are not valid any more.
    Session(Revoked),
    /// The user's roles as an administrator.
    Member(UserId, Vec<(String, Role)>),
    /// The service or one of its plans changed.
    Service(Box<OfService>),
    /// More changed than events can tell: read the whole state.
    Reset,
}

/// The events of one entry for one service.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The index of the service among those that were asked for.
    pub to: usize,
    /// The number of the entry, which no other entry has.
    pub number: i64,
    /// The cursor behind the entry.
    pub cursor: LogCursor,
    /// The events.
    pub events: Vec<Event>,
}

/// The events behind a cursor.
#[derive(Clone, Debug)]
pub struct Page {
    /// The events, in the order of the log.
    pub delivered: Vec<Delivered>,
    /// The numbers of all entries that were read.
    pub numbers: Vec<i64>,
    /// The cursor behind all of them.
    pub end: LogCursor,
    /// Whether there may be more.
    pub is_full: bool,
    /// API keys that are not valid in this state: their streams get nothing of it.
    pub invalid: Vec<ApiKeyId>,
}

/// The cursor behind everything that the snapshot shows. `history` is [`store::Store::log_history`].
pub fn begin(snapshot: &mut Snapshot<'_>, history: u64) -> Result<LogCursor> {
    Ok(snapshot.log_end(&EVENTS, history)?)
}

/// Reads up to `most` entries behind a cursor and makes the events of these services. `None` if the cursor is too old or
/// belongs to another history.
pub fn deliver(
    snapshot: &mut Snapshot<'_>,
    cursor: &LogCursor,
    history: u64,
    most: usize,
    services: &[Listening],
    now: Time,
) -> Result<Option<Page>> {
    let Some(slice) = snapshot.log_behind(&EVENTS, cursor, history, most)? else { return Ok(None) };
    let mut invalid = Vec::new();
    for key in services.iter().flat_map(|listening| &listening.keys) {
        if api_keys::standing(snapshot, key, now)?.is_none() {
            invalid.push(key.clone());
        }
    }
    let is_full = slice.entries.len() >= most;
    let numbers = slice.entries.iter().map(|(entry, _)| entry.number).collect();
    let mut delivered = Vec::new();
    for (logged, cursor) in slice.entries {
        let Some(entry) = Entry::read(&logged.payload) else { continue };
        for (to, listening) in services.iter().enumerate() {
            let events = events(snapshot, &entry, listening, now)?;
            if !events.is_empty() {
                delivered.push(Delivered { to, number: logged.number, cursor: cursor.clone(), events });
            }
        }
    }
    Ok(Some(Page { delivered, numbers, end: slice.end, is_full, invalid }))
}

/// The events of an entry for one service.
fn events(snapshot: &mut Snapshot<'_>, entry: &Entry, at: &Listening, now: Time) -> Result<Vec<Event>> {
    let is_here = |services: &[String]| services.iter().any(|service| service == at.service.as_str());
    match entry {
        Entry::Subscription { customer, services } if is_here(services) => {
            let Ok(customer) = CustomerId::parse(customer) else { return Ok(Vec::new()) };
            let mut events = Vec::new();
            for user in users_of(snapshot, &customer)? {
                events.push(subscription(snapshot, user, at, now)?);
            }
            Ok(events)
        }
        Entry::Seats { user, services } if is_here(services) => match UserId::parse(user) {
            Ok(user) => Ok(vec![subscription(snapshot, user, at, now)?]),
            Err(_) => Ok(Vec::new()),
        },
        Entry::Session { .. } | Entry::Sessions { .. } | Entry::Grant { .. } => {
            Ok(revoked_by(snapshot, entry, at)?.map(Event::Session).into_iter().collect())
        }
        Entry::User { user } => {
            let Some(user) = own_user(snapshot, user, at)? else { return Ok(Vec::new()) };
            let state = user_at_service(snapshot, &user, &at.service, now)?;
            // A user of another service looks like one that does not exist. One who was deleted may have been of this one.
            let is_known = state.is_some() || grants::any_at_service(snapshot, &user, &at.service)?;
            Ok(is_known.then(|| Event::User(user, state.map(Box::new))).into_iter().collect())
        }
        Entry::Member { user } => {
            let Some(user) = own_user(snapshot, user, at)? else { return Ok(Vec::new()) };
            if user_at_service(snapshot, &user, &at.service, now)?.is_none() {
                return Ok(Vec::new());
            }
            let roles = administrators::slugs_of_user(snapshot, &user)?;
            Ok(vec![Event::Member(user, roles)])
        }
        Entry::Service { service } if *service == at.service.as_str() => {
            Ok(of_service(snapshot, &at.service)?.map(Box::new).map(Event::Service).into_iter().collect())
        }
        Entry::Plan { services, selects } if is_here(services) => match selects {
            true => Ok(vec![Event::Reset]),
            false => {
                Ok(of_service(snapshot, &at.service)?.map(Box::new).map(Event::Service).into_iter().collect())
            }
        },
        _ => Ok(Vec::new()),
    }
}

fn subscription(snapshot: &mut Snapshot<'_>, user: UserId, at: &Listening, now: Time) -> Result<Event> {
    let state = user_at_service(snapshot, &user, &at.service, now)?;
    Ok(Event::Subscription(user, state.map(Box::new)))
}

/// The user with this id, deleted or not, if they belong to the service's organization.
fn own_user(snapshot: &mut Snapshot<'_>, user: &str, at: &Listening) -> Result<Option<UserId>> {
    let Ok(user) = UserId::parse(user) else { return Ok(None) };
    let organization = users::organization_of(snapshot, &user)?;
    Ok((organization.as_ref() == Some(&at.organization)).then_some(user))
}

/// What an entry has revoked at a service. The rows of ended sessions and revoked grants are kept as long as the log.
pub(super) fn revoked_by(
    snapshot: &mut Snapshot<'_>,
    entry: &Entry,
    at: &Listening,
) -> Result<Option<Revoked>> {
    let (user, sessions) = match entry {
        Entry::Session { session } => {
            let Ok(session) = SessionId::parse(session) else { return Ok(None) };
            let Some((user, organization)) = sessions::owner(snapshot, &session)? else { return Ok(None) };
            if organization != at.organization || !grants::any_of_session(snapshot, &session, &at.service)? {
                return Ok(None);
            }
            (user, vec![session])
        }
        Entry::Sessions { user, ended_at } => {
            let Some(user) = own_user(snapshot, user, at)? else { return Ok(None) };
            let sessions =
                grants::sessions_ended_at(snapshot, &user, &at.service, Time::from_millis(*ended_at))?;
            (user, sessions)
        }
        Entry::Grant { grant } => {
            let Ok(grant) = GrantId::parse(grant) else { return Ok(None) };
            let found = grants::get(snapshot, &grant)?;
            let found = found.filter(|found| found.service.as_ref() == Some(&at.service));
            return Ok(found.map(|found| Revoked {
                user: found.user,
                sessions: Vec::new(),
                grants: vec![grant],
            }));
        }
        _ => return Ok(None),
    };
    Ok(Some(Revoked { user, sessions, grants: Vec::new() }).filter(|revoked| !revoked.sessions.is_empty()))
}
