//! Reads the log from a cursor on and makes the events of services of it, in one snapshot.

use super::EVENTS;
use super::entry::Entry;
use super::revoked::{Revoked, completed};
use super::state::{
    OfService, Terms, UserAtService, exists, of_service, services_that_may_know, user_at_service, users_of,
};
use crate::administrators::Role;
use crate::ids::{ApiKeyId, CustomerId, OrganizationId, ServiceId, UserId};
use crate::{Result, Time, api_keys, users};
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeSet, HashMap, HashSet};
use store::{LogCursor, LogEntry, Snapshot};

/// States and keys that a page reads for each entry that was asked for, on average.
const READS_PER_ENTRY: usize = 5;
/// What the state of a user takes, about, in bytes.
const USER_SIZE: usize = 1000;
/// Of the bytes that end a page, the state of a service that is left to a later entry counts as one in so many.
const SERVICES_PER_PAGE: usize = 32;

/// A service whose events somebody reads.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Its organization.
    pub organization: OrganizationId,
    /// The service.
    pub service: ServiceId,
    /// Whether the organization is `platform`, whose users administer others.
    pub is_of_platform: bool,
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

impl Event {
    /// About its size in bytes.
    fn size(&self) -> usize {
        // With what a text takes beside its letters.
        const ID: usize = 64;
        match self {
            Event::Subscription(..) | Event::User(..) => USER_SIZE,
            Event::Session(revoked) => ID * (revoked.sessions.len() + revoked.grants.len()),
            Event::Member(_, roles) => ID * roles.len(),
            Event::Service(of_service) => of_service.plans.iter().map(Terms::size).sum(),
            Event::Reset => 0,
        }
    }
}

/// The events of one entry for one service.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The index of the service among those that were asked for.
    pub to: usize,
    /// The number of the entry, which no other entry has.
    pub number: i64,
    /// The numbers of earlier entries whose states are here too, and not in an event of their own.
    pub merged: Vec<i64>,
    /// The cursor behind the entry.
    pub cursor: LogCursor,
    /// The events.
    pub events: Vec<Event>,
}

impl Delivered {
    /// About the size of its events in bytes.
    pub fn size(&self) -> usize {
        self.events.iter().map(Event::size).sum()
    }
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
    /// API keys that are not valid in this state, among those of services with events: their streams get nothing of it.
    pub invalid: Vec<ApiKeyId>,
}

/// The cursor behind everything that the snapshot shows. `history` is [`store::Store::log_history`].
pub fn begin(snapshot: &mut Snapshot<'_>, history: u64) -> Result<LogCursor> {
    Ok(snapshot.log_end(&EVENTS, history)?)
}

/// Reads up to `most` entries behind a cursor and makes the events of these services. `None` if the cursor is too old or
/// belongs to another history.
///
/// All states are of one snapshot, so of several entries about a state the last one has it. A page ends early behind entries
/// whose states take long to read, or take about `bytes_max` bytes, with those that it leaves to later entries at most twice
/// as many: an organization may change much that many of its services must learn. Entries about other services cost nothing but their reading.
pub fn deliver(
    snapshot: &mut Snapshot<'_>,
    cursor: &LogCursor,
    history: u64,
    most: usize,
    services: &[Listening],
    bytes_max: usize,
    now: Time,
) -> Result<Option<Page>> {
    let Some(slice) = snapshot.log_behind(&EVENTS, cursor, history, most)? else { return Ok(None) };
    let found = slice.entries.len();
    let planned = Planned::of(snapshot, slice.entries, services, most * READS_PER_ENTRY)?;
    let mut page = Page {
        delivered: Vec::new(),
        numbers: Vec::new(),
        end: slice.end,
        is_full: found >= most,
        invalid: planned.invalid_keys(snapshot, services, now)?,
    };
    let (mut size, count) = (0, planned.entries.len());
    // States that a later entry has too, with the numbers of the entries before it.
    let mut left_out: HashMap<(usize, Due), Vec<i64>> = HashMap::new();
    // What these may take if the page ends before their entries, about.
    let mut owed = 0;
    let owed_for = |due: &Due| match due {
        Due::Service => bytes_max / SERVICES_PER_PAGE,
        _ => USER_SIZE,
    };
    // The cursor behind the entry before.
    let mut behind = None;
    for (place, entry) in planned.entries.into_iter().enumerate() {
        let owes_more = || {
            let is_left = |due: &(usize, Due)| due.1.is_state() && planned.last.get(due) != Some(&place);
            entry.due.iter().any(|due| is_left(due) && !left_out.contains_key(due))
        };
        if size + owed >= bytes_max
            && owes_more()
            && let Some(behind) = behind.take()
        {
            page.delivered.extend(still_due(snapshot, left_out, &behind, services, now)?);
            (page.end, page.is_full) = (behind, true);
            break;
        }
        page.numbers.push(entry.number);
        for of_service in entry.due.chunk_by(|one, next| one.0 == next.0) {
            let Some((to, at)) = of_service.first().and_then(|(to, _)| Some((*to, services.get(*to)?)))
            else {
                continue;
            };
            let (mut events, mut merged) = (Vec::new(), Vec::new());
            for due in of_service {
                if !due.1.is_state() || planned.last.get(due) == Some(&place) {
                    events.extend(event(snapshot, &due.1, at, now)?);
                    if let Some(numbers) = left_out.remove(due) {
                        owed -= owed_for(&due.1);
                        merged.extend(numbers);
                    }
                } else {
                    let numbers = left_out.entry(due.clone()).or_default();
                    owed += if numbers.is_empty() { owed_for(&due.1) } else { 0 };
                    numbers.push(entry.number);
                }
            }
            if !events.is_empty() {
                let cursor = entry.behind.clone();
                let delivered = Delivered { to, number: entry.number, merged, cursor, events };
                size += delivered.size();
                page.delivered.push(delivered);
            }
        }
        if page.numbers.len() < found && (size >= bytes_max || place + 1 == count) {
            // The later entry is not in the page any more.
            page.delivered.extend(still_due(snapshot, left_out, &entry.behind, services, now)?);
            (page.end, page.is_full) = (entry.behind, true);
            break;
        }
        behind = Some(entry.behind);
    }
    Ok(Some(page))
}

/// The events of states that were left out, at the end of a page.
fn still_due(
    snapshot: &mut Snapshot<'_>,
    left_out: HashMap<(usize, Due), Vec<i64>>,
    cursor: &LogCursor,
    services: &[Listening],
    now: Time,
) -> Result<Vec<Delivered>> {
    let mut left_out: Vec<_> = left_out.into_iter().collect();
    left_out.sort_by_key(|((to, _), numbers)| (*to, numbers.last().copied()));
    let mut delivered = Vec::new();
    for of_service in left_out.chunk_by(|((one, _), _), ((next, _), _)| one == next) {
        let (mut events, mut merged, mut to) = (Vec::new(), Vec::new(), None);
        for ((service, due), numbers) in of_service {
            let Some(at) = services.get(*service) else { continue };
            to = Some(*service);
            events.extend(event(snapshot, due, at, now)?);
            merged.extend(numbers);
        }
        merged.sort_unstable();
        merged.dedup();
        if let (Some(to), Some(number), false) = (to, merged.pop(), events.is_empty()) {
            delivered.push(Delivered { to, number, merged, cursor: cursor.clone(), events });
        }
    }
    Ok(delivered)
}

/// Entries, and what they mean for the services that somebody reads.
struct Planned {
    entries: Vec<PlannedEntry>,
    /// The last entry about each state.
    last: HashMap<(usize, Due), usize>,
    /// The services that have something to learn.
    concerned: BTreeSet<usize>,
}

struct PlannedEntry {
    number: i64,
    behind: LogCursor,
    /// All of a service together.
    due: Vec<(usize, Due)>,
}

impl Planned {
    /// Plans the first entries: as many as need up to so many reads, and at least one.
    fn of(
        snapshot: &mut Snapshot<'_>,
        entries: Vec<(LogEntry, LogCursor)>,
        services: &[Listening],
        reads_max: usize,
    ) -> Result<Planned> {
        let audience = Audience::of(services);
        let (mut last, mut concerned) = (HashMap::new(), BTreeSet::new());
        let (mut planned, mut reads, mut known_at) = (Vec::new(), 0, KnownAt::new());
        for (logged, behind) in entries {
            let due = due(snapshot, &logged.payload, services, &audience, &mut known_at)?;
            let new: HashSet<_> =
                due.iter().filter(|one| one.1.is_state() && !last.contains_key(*one)).collect();
            let newly: BTreeSet<_> =
                due.iter().map(|(to, _)| *to).filter(|to| !concerned.contains(to)).collect();
            let keys = newly.iter().filter_map(|to| services.get(*to)).map(|at| at.keys.len());
            let more = new.len() + keys.sum::<usize>();
            if more > 0 && reads + more > reads_max && !planned.is_empty() {
                break;
            }
            reads += more;
            concerned.extend(newly);
            for one in due.iter().filter(|one| one.1.is_state()) {
                last.insert(one.clone(), planned.len());
            }
            planned.push(PlannedEntry { number: logged.number, behind, due });
        }
        Ok(Planned { entries: planned, last, concerned })
    }

    /// The API keys of concerned services that are not valid.
    fn invalid_keys(
        &self,
        snapshot: &mut Snapshot<'_>,
        services: &[Listening],
        now: Time,
    ) -> Result<Vec<ApiKeyId>> {
        let mut invalid = Vec::new();
        for key in self.concerned.iter().filter_map(|to| services.get(*to)).flat_map(|at| &at.keys) {
            if api_keys::standing(snapshot, key, now)?.is_none() {
                invalid.push(key.clone());
            }
        }
        Ok(invalid)
    }
}

/// The services that somebody reads, by what entries name.
struct Audience<'s> {
    by_service: HashMap<&'s str, usize>,
    by_organization: HashMap<&'s str, Vec<usize>>,
}

impl<'s> Audience<'s> {
    fn of(services: &'s [Listening]) -> Audience<'s> {
        let mut audience = Audience { by_service: HashMap::new(), by_organization: HashMap::new() };
        for (to, at) in services.iter().enumerate() {
            audience.by_service.insert(at.service.as_str(), to);
            audience.by_organization.entry(at.organization.as_str()).or_default().push(to);
        }
        audience
    }

    fn named(&self, services: &[&str]) -> Vec<usize> {
        services.iter().filter_map(|service| self.by_service.get(service).copied()).collect()
    }

    fn in_organization(&self, organization: &str) -> Vec<usize> {
        self.by_organization.get(organization).cloned().unwrap_or_default()
    }
}

/// The services that may know a user, of those that a page is about; `None` for one who is deleted. All of a page is of one
/// snapshot.
type KnownAt = HashMap<UserId, Option<HashSet<ServiceId>>>;

/// What an entry means for a service.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Due {
    Subscription(UserId),
    User(UserId),
    Member(UserId),
    Service,
    Session(Revoked),
    Reset,
}

impl Due {
    /// Whether its event has a state, which is read.
    fn is_state(&self) -> bool {
        !matches!(self, Due::Session(_) | Due::Reset)
    }
}

/// What an entry means for the services that somebody reads; all of a service together.
fn due(
    snapshot: &mut Snapshot<'_>,
    payload: &str,
    services: &[Listening],
    audience: &Audience<'_>,
    known_at: &mut KnownAt,
) -> Result<Vec<(usize, Due)>> {
    let Some(entry) = Entry::read(payload) else { return Ok(Vec::new()) };
    let Some(entry) = completed(snapshot, entry)? else { return Ok(Vec::new()) };
    let to = match &entry {
        Entry::User { organization: Some(organization), user } => {
            of_user(snapshot, user, audience.in_organization(organization), services, known_at)?
        }
        Entry::Member { user } => match UserId::parse(user) {
            Ok(id) => {
                let home = users::organization_of(snapshot, &id)?;
                let to = home.map(|home| audience.in_organization(home.as_str())).unwrap_or_default();
                of_user(snapshot, user, to, services, known_at)?
            }
            Err(_) => Vec::new(),
        },
        entry => audience.named(&entry.services()),
    };
    if to.is_empty() {
        return Ok(Vec::new());
    }
    let users: Vec<UserId> = match &entry {
        Entry::Subscription { customer, .. } => match CustomerId::parse(customer) {
            Ok(customer) => users_of(snapshot, &customer)?,
            Err(_) => Vec::new(),
        },
        Entry::Seats { user, .. } | Entry::User { user, .. } | Entry::Member { user } => {
            UserId::parse(user).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let of_users = |due: fn(UserId) -> Due| users.iter().cloned().map(due).collect();
    let of_service = |at: &Listening| -> Vec<Due> {
        match &entry {
            Entry::Subscription { .. } | Entry::Seats { .. } => of_users(Due::Subscription),
            Entry::User { .. } => of_users(Due::User),
            Entry::Member { .. } => of_users(Due::Member),
            Entry::Service { .. } | Entry::Plan { selects: false, .. } => vec![Due::Service],
            Entry::Plan { selects: true, .. } => vec![Due::Reset],
            entry => Revoked::by(entry, &at.service).map(Due::Session).into_iter().collect(),
        }
    };
    let at = to.into_iter().filter_map(|to| Some((to, services.get(to)?)));
    Ok(at.flat_map(|(to, at)| of_service(at).into_iter().map(move |due| (to, due))).collect())
}

/// Of these services, those that may know a user: their states are read. A user who was deleted may have been of any of them.
fn of_user(
    snapshot: &mut Snapshot<'_>,
    user: &str,
    mut to: Vec<usize>,
    services: &[Listening],
    known_at: &mut KnownAt,
) -> Result<Vec<usize>> {
    let Ok(user) = UserId::parse(user) else { return Ok(Vec::new()) };
    if to.is_empty() {
        return Ok(to);
    }
    let known = match known_at.entry(user) {
        Occupied(known) => known.into_mut(),
        Vacant(unknown) => {
            let exists = exists(snapshot, unknown.key())?;
            let known = exists.then(|| services_that_may_know(snapshot, unknown.key())).transpose()?;
            unknown.insert(known)
        }
    };
    if let Some(known) = known {
        to.retain(|to| services.get(*to).is_some_and(|at| known.contains(&at.service)));
    }
    Ok(to)
}

/// The event with the state that the snapshot shows; `None` if the service has nothing to learn.
fn event(snapshot: &mut Snapshot<'_>, due: &Due, at: &Listening, now: Time) -> Result<Option<Event>> {
    Ok(match due {
        Due::Subscription(user) => {
            let state = user_at_service(snapshot, user, &at.service, at.is_of_platform, now)?;
            Some(Event::Subscription(user.clone(), state.map(Box::new)))
        }
        Due::User(user) => {
            let state = user_at_service(snapshot, user, &at.service, at.is_of_platform, now)?;
            // What the service knew of a user who was deleted is not known any more: they may have signed out long ago.
            let is_told = state.is_some() || !exists(snapshot, user)?;
            is_told.then(|| Event::User(user.clone(), state.map(Box::new)))
        }
        Due::Member(user) => {
            let state = user_at_service(snapshot, user, &at.service, at.is_of_platform, now)?;
            state.map(|state| Event::Member(user.clone(), state.administers))
        }
        Due::Service => of_service(snapshot, &at.service)?.map(Box::new).map(Event::Service),
        Due::Session(revoked) => Some(Event::Session(revoked.clone())),
        Due::Reset => Some(Event::Reset),
    })
}
