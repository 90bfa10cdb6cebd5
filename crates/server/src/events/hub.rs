//! The one reader of the log in this process. It wakes when the log changes, makes the events of every service that has a
//! stream here, in one snapshot, and gives them to the streams.
//!
//! It runs while there is a stream of a service. The API keys of the streams are verified in the snapshot of the events, so
//! a key that was revoked gets none from after its end.
//!
//! All organizations share it. When it stays behind because of one of them, the streams of that one end: their clients
//! resume, each with turns of its organization, and the others are up to date again.

use super::bodies::{MemberBody, RevokedBody, ServiceBody, UserChangedBody, administers};
use super::frame;
use super::pages::{HUB_BYTES, Log, PageSize, page};
use bytes::Bytes;
use identity::events::{self, Delivered, EVENTS, Event, Listening, Page};
use identity::ids::{ApiKeyId, OrganizationId, ServiceId};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::{Answer, Read, Snapshot};
use tokio::sync::{Notify, mpsc, oneshot};
use web::log_interval::LogInterval;

/// Events that wait for a stream, and their size in bytes. A stream that is so far behind ends, and its client resumes from
/// its cursor. An event that is larger is given to a stream for which nothing waits.
const WAITING_MAX: usize = 1024;
const WAITING_SIZE_MAX: usize = 4 * 1024 * 1024;
/// The reader reads at least this often, so that a database that is away is noticed.
const EVERY: Duration = Duration::from_secs(5);
/// A stream whose log was not read for so long ends. The client has no heartbeat in this time.
const UNREAD_MAX: Duration = Duration::from_secs(12);
/// The reader may be behind for so long before the streams of an organization end because of what they cost.
const BEHIND_MAX: Duration = Duration::from_secs(2);
/// The pause after a read that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

/// The reader and its streams.
#[derive(Default)]
pub(crate) struct Hub {
    state: Mutex<State>,
    wake: Arc<Notify>,
}

#[derive(Default)]
struct State {
    runs: bool,
    streams: HashMap<u64, Subscription>,
    next: u64,
    /// Every event up to here is in the queues of the streams.
    cursor: Option<String>,
    /// When the last read began, when one was last done, and when the last one began and was done that reached the end.
    began_at: Option<Instant>,
    read_at: Option<Instant>,
    at_end: Option<(Instant, Instant)>,
    /// Since when reads have not reached the end.
    behind_since: Option<Instant>,
    /// The same, since the streams of an organization ended because of that, or a read failed.
    judged_since: Option<Instant>,
}

/// The services for which the log is read, with the keys of their streams, and which streams get what each is given.
struct Reading {
    services: Arc<[Listening]>,
    streams: Vec<Vec<u64>>,
    /// Streams that join at the end of the log. Nothing is read for them.
    joining: Vec<u64>,
}

/// A page whose events are written: that takes long, and is done where the page was read.
struct Written {
    page: Page,
    /// The text of each of `page.delivered`; none if there is more than events can tell.
    texts: Vec<Option<Bytes>>,
}

impl From<Page> for Written {
    fn from(page: Page) -> Written {
        let is_reset = |event: &Event| matches!(event, Event::Reset);
        let text = |delivered: &Delivered| {
            (!delivered.events.iter().any(is_reset)).then(|| Bytes::from(texts(delivered)))
        };
        Written { texts: page.delivered.iter().map(text).collect(), page }
    }
}

struct Subscription {
    listening: Listening,
    key: ApiKeyId,
    queue: mpsc::Sender<Message>,
    /// The size of what is in the queue.
    waiting_size: Arc<AtomicUsize>,
    /// Taken when the reader has read for the stream up to the end of the log: a read of the stream's own that begins later
    /// shows everything that the reader will not give to it.
    ready: Option<oneshot::Sender<()>>,
}

/// What a stream gets.
pub(super) enum Message {
    /// The events of an entry of the log.
    Events {
        /// The number of the entry.
        number: i64,
        /// The numbers of the entries whose states are in this text only.
        merged: Arc<[i64]>,
        /// The text.
        text: Bytes,
    },
    /// More has changed than events can tell.
    Reset(&'static str),
    /// The API key is not valid any more.
    KeyEnded,
}

/// Where a stream is in the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It has received everything up to this cursor, the end of the log lately.
    AtEnd(String),
    /// It has received everything up to this cursor, and the reader is behind.
    Behind(String),
    /// The reader was at the end of the log lately, and has not looked since the stream has read by itself.
    NotLooked,
    /// Messages wait for it.
    Sending,
    /// The log was not read for so long that the client must not rely on its copy.
    Unread,
}

impl Message {
    fn size(&self) -> usize {
        if let Message::Events { text, .. } = self { text.len() } else { 0 }
    }
}

impl Subscription {
    /// Adds a message to the queue, unless too much waits there.
    fn push(&self, message: Message) -> bool {
        let size = message.size();
        let before = self.waiting_size.fetch_add(size, Relaxed);
        let has_room = before == 0 || before + size <= WAITING_SIZE_MAX;
        has_room && self.queue.try_send(message).is_ok()
    }
}

/// A stream's place at the hub. Dropping it leaves.
pub(super) struct Subscribed {
    hub: Arc<Hub>,
    id: u64,
    queue: mpsc::Receiver<Message>,
    waiting_size: Arc<AtomicUsize>,
    is_ready: oneshot::Receiver<()>,
}

impl Hub {
    /// Adds a stream, which gets events once it has [`Subscribed::joined`].
    pub(super) fn subscribe(self: &Arc<Hub>, log: Log, listening: Listening, key: ApiKeyId) -> Subscribed {
        let (subscribed, runs) = self.add(listening, key);
        if !runs {
            tokio::spawn(run(log, self.clone()));
        }
        self.wake.notify_one();
        subscribed
    }

    /// Adds a stream. Returns whether the log is being read.
    fn add(self: &Arc<Hub>, listening: Listening, key: ApiKeyId) -> (Subscribed, bool) {
        let (queue, messages) = mpsc::channel(WAITING_MAX);
        let (ready, is_ready) = oneshot::channel();
        let waiting_size = Arc::<AtomicUsize>::default();
        let mut state = self.state.lock();
        state.next += 1;
        let id = state.next;
        let of_queue = waiting_size.clone();
        let subscription = Subscription { listening, key, queue, waiting_size: of_queue, ready: Some(ready) };
        state.streams.insert(id, subscription);
        let runs = std::mem::replace(&mut state.runs, true);
        (Subscribed { hub: self.clone(), id, queue: messages, waiting_size, is_ready }, runs)
    }

    /// For whom the log is to be read. None: nobody is left.
    fn begin_read(&self) -> Option<Reading> {
        let mut state = self.state.lock();
        if state.streams.is_empty() {
            (state.runs, state.cursor) = (false, None);
            (state.began_at, state.read_at, state.at_end) = (None, None, None);
            (state.behind_since, state.judged_since) = (None, None);
            return None;
        }
        state.began_at = Some(Instant::now());
        let (mut services, mut streams, mut joining) =
            (Vec::<Listening>::new(), Vec::<Vec<u64>>::new(), Vec::new());
        let mut places: HashMap<ServiceId, usize> = HashMap::new();
        for (id, one) in &state.streams {
            if one.ready.is_some() {
                joining.push(*id);
                continue;
            }
            let place = *places.entry(one.listening.service.clone()).or_insert_with(|| {
                services.push(Listening { keys: Vec::new(), ..one.listening.clone() });
                streams.push(Vec::new());
                services.len() - 1
            });
            if !services[place].keys.contains(&one.key) {
                services[place].keys.push(one.key.clone());
            }
            streams[place].push(*id);
        }
        Some(Reading { services: services.into(), streams, joining })
    }

    /// Gives the events of a page to the streams for which it was read. A stream joins at the end of the log: before that,
    /// the reader may be behind what the stream has read by itself.
    fn give(&self, written: &Written, reading: &Reading) {
        let page = &written.page;
        let mut state = self.state.lock();
        let ended = state.streams.extract_if(|_, one| page.invalid.contains(&one.key));
        for (_, one) in ended {
            // A full queue ends the stream too.
            let _ = one.queue.try_send(Message::KeyEnded);
        }
        for (delivered, text) in page.delivered.iter().zip(&written.texts) {
            let merged: Arc<[i64]> = Arc::from(&*delivered.merged);
            for id in reading.streams.get(delivered.to).into_iter().flatten() {
                let Some(one) = state.streams.get(id) else { continue };
                let message = match text {
                    Some(text) => {
                        let (number, text) = (delivered.number, text.clone());
                        Message::Events { number, merged: merged.clone(), text }
                    }
                    None => Message::Reset("plan_changed"),
                };
                if !one.push(message) {
                    state.streams.remove(id);
                }
            }
        }
        let now = Instant::now();
        state.cursor = Some(page.end.to_string());
        state.read_at = Some(now);
        if page.is_full {
            state.behind_since.get_or_insert(now);
            let since = *state.judged_since.get_or_insert(now);
            let greedy = greedy(page, &reading.services).filter(|greedy| {
                // Streams that join wait for the end of the log.
                state.streams.values().any(|one| one.listening.organization != **greedy)
            });
            if since.elapsed() > BEHIND_MAX
                && let Some(greedy) = greedy
            {
                static GREEDY: LogInterval = LogInterval::every(Duration::from_secs(10));
                if let Some(times) = GREEDY.due(now) {
                    tracing::warn!(
                        organization = greedy.as_str(),
                        times,
                        "so much changes that others would wait; the streams of this organization end and resume"
                    );
                }
                // What waits of it in the log has still to be passed, which is not the others' fault.
                state.judged_since = Some(now);
                // Their clients resume behind what they have received.
                state.streams.retain(|_, one| one.ready.is_some() || one.listening.organization != *greedy);
            }
            return;
        }
        (state.behind_since, state.judged_since) = (None, None);
        state.at_end = state.began_at.zip(state.read_at);
        for id in &reading.joining {
            if let Some(ready) = state.streams.get_mut(id).and_then(|one| one.ready.take()) {
                // The stream may have gone.
                let _ = ready.send(());
            }
        }
    }

    /// What the next page has after a failure is no organization's fault.
    fn read_failed(&self) {
        self.state.lock().judged_since = None;
    }

    /// For how long the streams of services have been behind the log.
    pub(crate) fn behind_for(&self) -> Duration {
        let state = self.state.lock();
        let at_end = state.at_end.map(|(_, done)| done).filter(|done| done.elapsed() > EVERY * 2);
        state.behind_since.into_iter().chain(at_end).min().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// As if the reader of the log were stuck. No stream is open yet.
    #[cfg(feature = "testing")]
    pub(crate) fn hold(&self) {
        self.state.lock().runs = true;
    }

    /// Ends [`Hub::hold`].
    #[cfg(feature = "testing")]
    pub(crate) fn release(self: &Arc<Hub>, log: Log) {
        tokio::spawn(run(log, self.clone()));
    }

    /// Ends all streams: the log cannot be read on from where the reader is.
    fn reset(&self) {
        let mut state = self.state.lock();
        for (_, one) in state.streams.drain() {
            let _ = one.queue.try_send(Message::Reset("other_history"));
        }
    }
}

/// The organization that most of a page is for, if it is what the page is long of. A page may also be full of entries that
/// nobody here reads.
fn greedy<'s>(page: &Page, services: &'s [Listening]) -> Option<&'s OrganizationId> {
    let mut shares: HashMap<&OrganizationId, (usize, HashSet<i64>)> = HashMap::new();
    for delivered in &page.delivered {
        if let Some(at) = services.get(delivered.to) {
            let (size, entries) = shares.entry(&at.organization).or_default();
            *size += delivered.size();
            // One entry may concern many services.
            entries.extend(delivered.merged.iter().chain([&delivered.number]));
        }
    }
    let all: usize = shares.values().map(|(size, _)| size).sum();
    let is_long = |size: usize, entries: &HashSet<i64>| {
        size * 8 >= HUB_BYTES || entries.len() * 4 >= page.numbers.len()
    };
    let mut shares = shares.into_iter();
    let greedy = shares.find(|(_, (size, entries))| size * 2 > all && is_long(*size, entries));
    greedy.map(|(organization, _)| organization)
}

/// The text of the events of an entry. The last one has the cursor, so that a client that got a part of them gets all again.
pub(super) fn texts(delivered: &Delivered) -> String {
    let mut text = String::new();
    for (number, event) in delivered.events.iter().enumerate() {
        let is_last = number + 1 == delivered.events.len();
        let id = is_last.then_some(&delivered.cursor as &dyn Display);
        match write(event, id) {
            Ok(written) => text += &written,
            Err(error) => tracing::error!(%error, "an event could not be written"),
        }
    }
    text
}

fn write(event: &Event, id: Option<&dyn Display>) -> identity::Result<String> {
    match event {
        Event::Subscription(user, state) => {
            frame::event("subscription.changed", id, &UserChangedBody::new(user, state.as_deref()))
        }
        Event::User(user, state) => {
            frame::event("user.changed", id, &UserChangedBody::new(user, state.as_deref()))
        }
        Event::Session(revoked) => frame::event("session.revoked", id, &RevokedBody::from(revoked)),
        Event::Member(user, found) => frame::event(
            "member.changed",
            id,
            &MemberBody { user: user.to_string(), administers: administers(found) },
        ),
        Event::Service(of_service) => {
            frame::event("service.changed", id, &ServiceBody::from((**of_service).clone()))
        }
        // The stream ends with it.
        Event::Reset => Ok(String::new()),
    }
}

/// Reads the log while there are streams.
async fn run(log: Log, hub: Arc<Hub>) {
    let (mut cursor, mut size) = (None, PageSize::default());
    let failures = LogInterval::second();
    while let Some(reading) = hub.begin_read() {
        let read = match &cursor {
            None => begin(&log).await,
            Some(cursor) => {
                size.read(|entries| {
                    let mut page = page(&log, cursor, entries, HUB_BYTES, &reading.services);
                    query(&log, move |snapshot| Ok(page(snapshot)?.map(Written::from)))
                })
                .await
            }
        };
        let answer = match read {
            Ok(answer) => answer,
            Err(error) => {
                hub.read_failed();
                if let Some(times) = failures.due(Instant::now()) {
                    tracing::warn!(%error, times, "the log of events could not be read; it is tried again");
                }
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let mut is_full = false;
        match answer.value {
            Some(written) => {
                hub.give(&written, &reading);
                is_full = written.page.is_full;
                cursor = Some(written.page.end);
            }
            None => {
                hub.reset();
                cursor = None;
            }
        }
        if is_full {
            continue;
        }
        let woken = hub.wake.clone();
        // Without a watch there is a new entry already.
        if let Some(_watch) = log.store.watch(&[EVENTS.key()], answer.seen, move || woken.notify_one()) {
            // The end of the time means the same as a call: read.
            let _ = tokio::time::timeout(EVERY, hub.wake.notified()).await;
        }
    }
}

/// A page without events, whose end is that of the log.
async fn begin(log: &Log) -> identity::Result<Answer<Option<Written>>> {
    let history = log.store.log_history();
    let empty = move |snapshot: &mut Snapshot<'_>| {
        let end = events::begin(snapshot, history)?;
        let (delivered, numbers, invalid) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Some(Page { delivered, numbers, end, is_full: false, invalid }.into()))
    };
    query(log, empty).await
}

async fn query<T: Send + 'static>(
    log: &Log,
    query: impl FnMut(&mut Snapshot<'_>) -> identity::Result<T> + Send + 'static,
) -> identity::Result<Answer<T>> {
    log.store.query(Read::default().in_background(), query).await
}

impl Subscribed {
    /// Waits until the reader of the log has read for the stream up to the end. From then on the stream gets each entry that
    /// a read of its own may not show. It may get entries that it has read since it was added, and no earlier ones.
    pub(super) async fn joined(&mut self) {
        // An error means that the stream was ended meanwhile, which the queue tells.
        let _ = (&mut self.is_ready).await;
    }

    /// The next message; `None` if the stream was too far behind.
    pub(super) async fn next(&mut self) -> Option<Message> {
        let message = self.queue.recv().await?;
        self.waiting_size.fetch_sub(message.size(), Relaxed);
        Some(message)
    }

    /// Whether no message waits for the stream.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Where the stream is in the log. What it has read by itself was read at `own_read` at the latest.
    pub(super) fn place(&self, own_read: Instant) -> Place {
        let state = self.hub.state.lock();
        // With the lock held: the reader fills the queues and moves the cursor under it.
        if !self.queue.is_empty() || !state.streams.contains_key(&self.id) {
            return Place::Sending;
        }
        let is_recent = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() <= UNREAD_MAX);
        match &state.cursor {
            // A read that began later has passed all that the stream has read.
            Some(cursor)
                if state.at_end.is_some_and(|(began, done)| began > own_read && is_recent(Some(done))) =>
            {
                Place::AtEnd(cursor.clone())
            }
            Some(_) if is_recent(state.read_at) && state.behind_since.is_none() => Place::NotLooked,
            Some(cursor) if is_recent(state.read_at) => Place::Behind(cursor.clone()),
            _ => Place::Unread,
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.hub.state.lock().streams.remove(&self.id);
        // The reader ends with the last stream.
        self.hub.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use identity::Time;
    use identity::events::Revoked;
    use identity::ids::{OrganizationId, SessionId, UserId};
    use identity::secrets::testing::Seeded;
    use store::LogCursor;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn cursor(number: usize) -> LogCursor {
        LogCursor::parse(&format!("0-{number}-1")).expect("a cursor")
    }

    /// A page in which each event has so many sessions.
    fn page(sessions: &[usize], random: &Seeded) -> Page {
        let delivered = |(number, count): (usize, &usize)| Delivered {
            to: 0,
            number: number as i64,
            merged: Vec::new(),
            cursor: cursor(number),
            events: vec![Event::Session(Revoked {
                user: UserId::new(NOW, random),
                sessions: (0..*count).map(|_| SessionId::new(NOW, random)).collect(),
                grants: Vec::new(),
            })],
        };
        Page {
            delivered: sessions.iter().enumerate().map(delivered).collect(),
            numbers: (0..sessions.len() as i64).collect(),
            end: cursor(sessions.len()),
            is_full: false,
            invalid: Vec::new(),
        }
    }

    /// A service of an organization of its own.
    fn listening(random: &Seeded) -> Listening {
        Listening {
            organization: OrganizationId::new(NOW, random),
            service: ServiceId::new(NOW, random),
            is_of_platform: false,
            keys: Vec::new(),
        }
    }

    fn hub_with_a_stream(random: &Seeded) -> (Arc<Hub>, Subscribed) {
        let hub = Arc::new(Hub::default());
        let (stream, _) = hub.add(listening(random), ApiKeyId::new(NOW, random));
        (hub, stream)
    }

    /// The same after the stream has joined.
    fn hub_with_a_joined_stream(random: &Seeded) -> (Arc<Hub>, Subscribed) {
        let (hub, stream) = hub_with_a_stream(random);
        give(&hub, page(&[], random));
        (hub, stream)
    }

    fn give(hub: &Hub, page: Page) {
        let reading = hub.begin_read().expect("a stream");
        hub.give(&page.into(), &reading);
    }

    async fn received(stream: &mut Subscribed, most: usize) -> (usize, usize) {
        let (mut count, mut size) = (0, 0);
        while count < most
            && let Some(message) = stream.next().await
        {
            count += 1;
            size += message.size();
        }
        (count, size)
    }

    #[tokio::test]
    async fn a_stream_for_which_too_many_bytes_wait_ends() {
        let random = Seeded::new(1);
        let (hub, mut stream) = hub_with_a_joined_stream(&random);
        // About 35 KB each: what is taken makes room.
        for _ in 0..10 {
            give(&hub, page(&[1000; 50], &random));
            let (count, size) = received(&mut stream, 50).await;
            assert!(count == 50 && size > 1_000_000, "{count} {size}");
        }
        give(&hub, page(&[1000; 500], &random));
        assert!(hub.begin_read().is_none(), "the stream has left");
        let (count, size) = received(&mut stream, 500).await;
        assert!(count > 50 && size <= WAITING_SIZE_MAX, "{count} {size}");
    }

    #[test]
    fn a_stream_is_up_to_date_when_the_log_was_read_to_its_end() {
        let random = Seeded::new(1);
        let (hub, stream) = hub_with_a_stream(&random);
        let before = Instant::now();
        assert_eq!(stream.place(before), Place::Unread);
        let later = || Instant::now() + Duration::from_secs(1);
        let empty = |end, is_full| Page { end: cursor(end), is_full, ..page(&[], &random) };
        give(&hub, empty(1, true));
        assert_eq!(stream.place(before), Place::Behind("0-1-1".to_owned()));
        give(&hub, empty(2, false));
        assert_eq!(stream.place(before), Place::AtEnd("0-2-1".to_owned()));
        assert_eq!(stream.place(later()), Place::NotLooked, "the stream read later by itself");
        give(&hub, page(&[1], &random));
        assert_eq!(stream.place(before), Place::Sending);
    }

    #[tokio::test]
    async fn a_stream_gets_nothing_from_before_it_joined() {
        let random = Seeded::new(1);
        let (hub, mut stream) = hub_with_a_stream(&random);
        // The reader is behind: the stream may have read these, and sent a reset, days ago.
        let mut behind = Page { is_full: true, ..page(&[1, 1], &random) };
        behind.delivered[0].events = vec![Event::Reset];
        give(&hub, behind);
        assert!(stream.is_ready.try_recv().is_err() && stream.queue.is_empty());
        give(&hub, page(&[1], &random));
        stream.joined().await;
        assert!(stream.queue.is_empty(), "its own read has what the last page had");
        give(&hub, page(&[1, 1, 1], &random));
        assert_eq!(received(&mut stream, 3).await.0, 3);
    }

    #[tokio::test]
    async fn an_organization_that_keeps_others_waiting_leaves_and_they_stay() {
        let random = Seeded::new(1);
        let hub = Arc::new(Hub::default());
        let [mut greedy, mut other] =
            [(), ()].map(|()| hub.add(listening(&random), ApiKeyId::new(NOW, &random)).0);
        give(&hub, page(&[], &random));
        let of = |stream: u64, full: Page| {
            let reading = hub.begin_read().expect("two streams");
            let to = reading.streams.iter().position(|ids| ids.contains(&stream)).expect("it is read for");
            let delivered = full.delivered.into_iter().map(|one| Delivered { to, ..one }).collect();
            hub.give(&Page { delivered, is_full: true, ..full }.into(), &reading);
        };
        of(greedy.id, page(&[9, 9], &random));
        assert_eq!(received(&mut greedy, 2).await.0, 2, "it has not been long");
        let be_late = || {
            let mut state = hub.state.lock();
            state.behind_since = Instant::now().checked_sub(BEHIND_MAX * 2);
            state.judged_since = state.behind_since;
        };
        be_late();
        assert!(hub.behind_for() > BEHIND_MAX);
        of(greedy.id, page(&[9], &random));
        assert_eq!(received(&mut greedy, 2).await.0, 1, "it has what was read, and no more");
        // Its client comes back, and waits for the end of the log.
        let (returned, _) = hub.add(listening(&random), ApiKeyId::new(NOW, &random));
        of(other.id, page(&[9], &random));
        assert_eq!(received(&mut other, 1).await.0, 1, "what is left of the greedy one is not its fault");
        be_late();
        let mut unread = page(&[9], &random);
        unread.numbers = (0..200).collect();
        of(other.id, unread);
        assert_eq!(received(&mut other, 1).await.0, 1, "the page is full of what nobody reads");
        drop(returned);
        of(other.id, page(&[9], &random));
        assert_eq!(received(&mut other, 1).await.0, 1, "alone it may have all");
        // One that waits to join is kept waiting too.
        let (mut joining, _) = hub.add(listening(&random), ApiKeyId::new(NOW, &random));
        of(other.id, page(&[9], &random));
        assert_eq!(received(&mut other, 2).await.0, 1);
        give(&hub, page(&[], &random));
        joining.joined().await;
        assert_eq!(hub.behind_for(), Duration::ZERO);
        assert_eq!(hub.state.lock().streams.keys().copied().collect::<Vec<_>>(), [joining.id]);
    }

    #[tokio::test]
    async fn an_event_that_is_larger_than_what_may_wait_is_given_alone() {
        let random = Seeded::new(1);
        let (hub, mut stream) = hub_with_a_joined_stream(&random);
        give(&hub, page(&[150_000], &random));
        let (count, size) = received(&mut stream, 1).await;
        assert!(count == 1 && size > WAITING_SIZE_MAX, "{size}");
        give(&hub, page(&[1, 150_000], &random));
        assert!(hub.begin_read().is_none(), "something waited");
    }
}
