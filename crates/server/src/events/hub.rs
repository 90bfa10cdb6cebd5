//! The one reader of the log in this process. It wakes when the log changes, makes the events of every service that has a
//! stream here, in one snapshot, and gives them to the streams.
//!
//! It runs while there is a stream of a service. The API keys of the streams are verified in the snapshot of the events, so
//! a key that was revoked gets none from after its end.

use super::bodies::{MemberBody, RevokedBody, ServiceBody, UserChangedBody, roles};
use super::frame;
use super::pages::{HUB_BYTES, PageSize, page};
use crate::app::App;
use bytes::Bytes;
use identity::events::{self, Delivered, EVENTS, Event, Listening, Page};
use identity::ids::{ApiKeyId, ServiceId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use store::{Answer, Read, Snapshot};
use tokio::sync::{Notify, mpsc, oneshot};

/// Events that wait for a stream, and their size in bytes. A stream that is so far behind ends, and its client resumes from
/// its cursor. An event that is larger is given to a stream for which nothing waits.
const WAITING_MAX: usize = 1024;
const WAITING_SIZE_MAX: usize = 4 * 1024 * 1024;
/// The reader reads at least this often, so that a database that is away is noticed.
const EVERY: Duration = Duration::from_secs(5);
/// A stream whose log was not read for so long ends. The client has no heartbeat in this time.
const UNREAD_MAX: Duration = Duration::from_secs(12);
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
    pub(super) fn subscribe(self: &Arc<Hub>, app: &App, listening: Listening, key: ApiKeyId) -> Subscribed {
        let (subscribed, runs) = self.add(listening, key);
        if !runs {
            tokio::spawn(run(app.clone(), self.clone()));
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

    /// The services that have streams, with the keys of these, and which streams they are. None: nobody is left.
    fn begin_read(&self) -> Option<(Vec<Listening>, Vec<Vec<u64>>)> {
        let mut state = self.state.lock();
        if state.streams.is_empty() {
            (state.runs, state.cursor) = (false, None);
            (state.began_at, state.read_at, state.at_end) = (None, None, None);
            return None;
        }
        state.began_at = Some(Instant::now());
        let mut services: Vec<Listening> = Vec::new();
        let mut streams: Vec<Vec<u64>> = Vec::new();
        let mut places: HashMap<ServiceId, usize> = HashMap::new();
        for (id, one) in &state.streams {
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
        Some((services, streams))
    }

    /// Gives the events of a page to the streams for which it was read. A stream joins at the end of the log: before that,
    /// the reader may be behind what the stream has read by itself.
    fn give(&self, page: &Page, streams: &[Vec<u64>]) {
        let mut state = self.state.lock();
        let ended = state.streams.extract_if(|_, one| page.invalid.contains(&one.key));
        for (_, one) in ended {
            // A full queue ends the stream too.
            let _ = one.queue.try_send(Message::KeyEnded);
        }
        for delivered in &page.delivered {
            let message = message(delivered);
            for id in streams.get(delivered.to).into_iter().flatten() {
                let Some(one) = state.streams.get(id).filter(|one| one.ready.is_none()) else { continue };
                if !one.push(message()) {
                    state.streams.remove(id);
                }
            }
        }
        state.cursor = Some(page.end.to_string());
        state.read_at = Some(Instant::now());
        if page.is_full {
            return;
        }
        state.at_end = state.began_at.zip(state.read_at);
        for id in streams.iter().flatten() {
            if let Some(ready) = state.streams.get_mut(id).and_then(|one| one.ready.take()) {
                // The stream may have gone.
                let _ = ready.send(());
            }
        }
    }

    /// As if the reader of the log were stuck. No stream is open yet.
    #[cfg(feature = "testing")]
    pub(crate) fn hold(&self) {
        self.state.lock().runs = true;
    }

    /// Ends [`Hub::hold`].
    #[cfg(feature = "testing")]
    pub(crate) fn release(self: &Arc<Hub>, app: &App) {
        tokio::spawn(run(app.clone(), self.clone()));
    }

    /// Ends all streams: the log cannot be read on from where the reader is.
    fn reset(&self) {
        let mut state = self.state.lock();
        for (_, one) in state.streams.drain() {
            let _ = one.queue.try_send(Message::Reset("other_history"));
        }
    }
}

/// Makes a message for each stream.
fn message(delivered: &Delivered) -> impl Fn() -> Message + use<> {
    let (number, merged) = (delivered.number, Arc::from(&*delivered.merged));
    let text = if delivered.events.iter().any(|event| matches!(event, Event::Reset)) {
        None
    } else {
        Some(Bytes::from(texts(delivered)))
    };
    move || match &text {
        Some(text) => Message::Events { number, merged: Arc::clone(&merged), text: text.clone() },
        None => Message::Reset("plan_changed"),
    }
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
        Event::Member(user, found) => {
            frame::event("member.changed", id, &MemberBody { user: user.to_string(), roles: roles(found) })
        }
        Event::Service(of_service) => {
            frame::event("service.changed", id, &ServiceBody::from((**of_service).clone()))
        }
        // The stream ends with it.
        Event::Reset => Ok(String::new()),
    }
}

/// Reads the log while there are streams.
async fn run(app: App, hub: Arc<Hub>) {
    let (mut cursor, mut size) = (None, PageSize::default());
    while let Some((services, streams)) = hub.begin_read() {
        let read = match &cursor {
            None => begin(&app).await,
            Some(cursor) => {
                let services = services.into();
                size.read(|entries| query(&app, page(&app, cursor, entries, HUB_BYTES, &services))).await
            }
        };
        let answer = match read {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(%error, "the log of events could not be read; it is tried again");
                tokio::time::sleep(AFTER_FAILURE).await;
                continue;
            }
        };
        let mut is_full = false;
        match answer.value {
            Some(page) => {
                hub.give(&page, &streams);
                is_full = page.is_full;
                cursor = Some(page.end);
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
        if let Some(_watch) = app.store.watch(&[EVENTS.key()], answer.seen, move || woken.notify_one()) {
            // The end of the time means the same as a call: read.
            let _ = tokio::time::timeout(EVERY, hub.wake.notified()).await;
        }
    }
}

/// A page without events, whose end is that of the log.
async fn begin(app: &App) -> identity::Result<Answer<Option<Page>>> {
    let history = app.store.log_history();
    let empty = move |snapshot: &mut Snapshot<'_>| {
        let end = events::begin(snapshot, history)?;
        Ok(Some(Page {
            delivered: Vec::new(),
            numbers: Vec::new(),
            end,
            is_full: false,
            invalid: Vec::new(),
        }))
    };
    query(app, empty).await
}

async fn query<T: Send + 'static>(
    app: &App,
    query: impl FnMut(&mut Snapshot<'_>) -> identity::Result<T> + Send + 'static,
) -> identity::Result<Answer<T>> {
    app.store.query(Read::default().in_background(), query).await
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

    fn hub_with_a_stream(random: &Seeded) -> (Arc<Hub>, Subscribed) {
        let hub = Arc::new(Hub::default());
        let listening = Listening {
            organization: OrganizationId::new(NOW, random),
            service: ServiceId::new(NOW, random),
            is_of_platform: false,
            keys: Vec::new(),
        };
        let (stream, _) = hub.add(listening, ApiKeyId::new(NOW, random));
        (hub, stream)
    }

    /// The same after the stream has joined.
    fn hub_with_a_joined_stream(random: &Seeded) -> (Arc<Hub>, Subscribed, Vec<Vec<u64>>) {
        let (hub, stream) = hub_with_a_stream(random);
        let (_, streams) = hub.begin_read().expect("a stream");
        hub.give(&page(&[], random), &streams);
        (hub, stream, streams)
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
        let (hub, mut stream, streams) = hub_with_a_joined_stream(&random);
        // About 35 KB each: what is taken makes room.
        for _ in 0..10 {
            hub.give(&page(&[1000; 50], &random), &streams);
            let (count, size) = received(&mut stream, 50).await;
            assert!(count == 50 && size > 1_000_000, "{count} {size}");
        }
        hub.give(&page(&[1000; 500], &random), &streams);
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
        let (_, streams) = hub.begin_read().expect("a stream");
        let later = Instant::now();
        let empty = |end, is_full| Page { end: cursor(end), is_full, ..page(&[], &random) };
        hub.give(&empty(1, true), &streams);
        assert_eq!(stream.place(before), Place::Behind("0-1-1".to_owned()));
        hub.give(&empty(2, false), &streams);
        assert_eq!(stream.place(before), Place::AtEnd("0-2-1".to_owned()));
        assert_eq!(stream.place(later), Place::Behind("0-2-1".to_owned()), "the stream read later by itself");
        hub.give(&page(&[1], &random), &streams);
        assert_eq!(stream.place(before), Place::Sending);
    }

    #[tokio::test]
    async fn a_stream_gets_nothing_from_before_it_joined() {
        let random = Seeded::new(1);
        let (hub, mut stream) = hub_with_a_stream(&random);
        let (_, streams) = hub.begin_read().expect("a stream");
        // The reader is behind: the stream may have read these, and sent a reset, days ago.
        let mut behind = Page { is_full: true, ..page(&[1, 1], &random) };
        behind.delivered[0].events = vec![Event::Reset];
        hub.give(&behind, &streams);
        assert!(stream.is_ready.try_recv().is_err() && stream.queue.is_empty());
        hub.give(&page(&[1], &random), &streams);
        stream.joined().await;
        assert!(stream.queue.is_empty(), "its own read has what the last page had");
        hub.give(&page(&[1, 1, 1], &random), &streams);
        assert_eq!(received(&mut stream, 3).await.0, 3);
    }

    #[tokio::test]
    async fn an_event_that_is_larger_than_what_may_wait_is_given_alone() {
        let random = Seeded::new(1);
        let (hub, mut stream, streams) = hub_with_a_joined_stream(&random);
        hub.give(&page(&[150_000], &random), &streams);
        let (count, size) = received(&mut stream, 1).await;
        assert!(count == 1 && size > WAITING_SIZE_MAX, "{size}");
        hub.give(&page(&[1, 150_000], &random), &streams);
        assert!(hub.begin_read().is_none(), "something waited");
    }
}
