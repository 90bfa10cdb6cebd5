//! The stream of an API key of a service: every event of the service's users behind a cursor, in the order of the log.
//!
//! First the stream reads the log by itself up to its end. Then it joins the hub. While it waits for that it goes on reading
//! by itself, as often as others have a heartbeat. Then it reads once more what came in between; what the hub gives it of
//! that again is skipped by the numbers of the entries.

use super::frame;
use super::hub::{Message, Place, texts};
use super::pages::{OWN_BYTES, PageSize, page};
use super::streams::{Caller, Ended, Stream};
use crate::app::App;
use crate::web::error::{Problem, Result};
use crate::web::service_key::ServiceKey;
use axum::response::Response;
use identity::api_keys::{self, ApiKey};
use identity::events::{self, Delivered, Event, Listening};
use std::collections::HashSet;
use std::fmt::Display;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Answer, LogCursor, Snapshot, Time};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, timeout};

/// A page of what a stream has missed that takes less, about, is sent without a turn.
const SMALL_PAGE: usize = 32 * 1024;
/// The time that a client has for a larger one, and the bytes for each of which so many it has a second more: one entry may have many.
const LARGE_PAGE_MAX: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND: usize = 8 * 1024;

/// What the stream is for.
struct Reader {
    app: App,
    key: ApiKey,
    listening: Listening,
}

/// Opens the stream, or refuses it.
pub(super) async fn open(app: App, key: ServiceKey, cursor: Option<String>) -> Result<Response> {
    let api_key = key.api_key().clone();
    let caller = Caller {
        id: api_key.id.to_string(),
        organization: api_key.organization.to_string(),
        is_program: true,
    };
    let settings = &app.settings;
    let (stream, response) =
        app.streams.open(caller, settings.streams_max, settings.streams_per_caller_max)?;
    let listening = Listening {
        organization: api_key.organization.clone(),
        service: key.service().clone(),
        is_of_platform: key.is_of_platform(),
        keys: vec![api_key.id.clone()],
    };
    let reader = Reader { app, key: api_key, listening };
    let start = match cursor {
        // A text that is no cursor is one that cannot be resumed from.
        Some(text) => LogCursor::parse(&text),
        None => Some(reader.now().await?),
    };
    let standing = reader.standing().await?;
    standing
        .value
        .as_ref()
        .ok_or_else(|| Problem::invalid_token("The API key is not valid. Use another key."))?;
    tokio::spawn(async move {
        // The client has gone, or was told.
        let _ = reader.run(stream, start, standing).await;
    });
    Ok(response)
}

impl Reader {
    /// The cursor behind everything that was committed.
    async fn now(&self) -> identity::Result<LogCursor> {
        let history = self.app.store.log_history();
        self.app.store.read(move |snapshot| events::begin(snapshot, history)).await
    }

    /// Whether the key is still valid, and on which keys of the database that depends.
    async fn standing(&self) -> identity::Result<Answer<Option<ApiKey>>> {
        let (key, now) = (self.key.id.clone(), self.app.now());
        let standing = move |snapshot: &mut Snapshot<'_>| api_keys::standing(snapshot, &key, now);
        let organization = &self.key.organization;
        self.app.streams.reads.query(&self.app.store, organization, standing).await
    }

    async fn run(
        &self,
        mut stream: Stream,
        start: Option<LogCursor>,
        standing: Answer<Option<ApiKey>>,
    ) -> std::result::Result<(), Ended> {
        let Some(start) = start else { return stream.send(frame::reset("cursor_unknown")).await };
        let (mut cursor, mut size, mut known) = (start, PageSize::default(), HashSet::new());
        // The hub gives nothing of what was read before. It may be all that the log has.
        self.catch_up(&mut stream, &mut cursor, &mut size, None).await?;
        let mut events = stream.hub().subscribe(self.app.log(), self.listening.clone(), self.key.id.clone());
        let mut heartbeat = tokio::time::interval(self.app.settings.stream_heartbeat);
        heartbeat.reset();
        loop {
            tokio::select! {
                ended = stream.ended() => return Err(ended),
                () = events.joined() => break,
                _ = heartbeat.tick() => {}
            }
            self.catch_up(&mut stream, &mut cursor, &mut size, Some(&mut known)).await?;
            stream.send(frame::heartbeat(None)).await?;
        }
        self.catch_up(&mut stream, &mut cursor, &mut size, Some(&mut known)).await?;
        let own_read = Instant::now();
        stream.send(frame::heartbeat(Some(&cursor.to_string()))).await?;
        heartbeat.reset();
        let wake = Arc::new(Notify::new());
        let (mut standing, mut is_sending) = (standing, false);
        loop {
            let woken = wake.clone();
            let watch = self.app.store.watch(&standing.keys, standing.seen, move || woken.notify_one());
            let is_over = self.key.expires_at.is_some_and(|at: Time| at <= self.app.now());
            if is_over || standing.value.is_none() {
                stream.bye("key_ended");
                return Err(Ended);
            }
            if watch.is_none() {
                standing = self.again(&mut stream).await?;
                continue;
            }
            // Until the key may have ended.
            loop {
                tokio::select! {
                    ended = stream.ended() => return Err(ended),
                    () = wake.notified() => break,
                    message = events.next() => match message {
                        Some(Message::Events { number, merged, text }) => {
                            // On PostgreSQL an earlier number may have been committed after the stream's own read: its state
                            // is in this event only.
                            let is_known = known.remove(&number) && merged.iter().all(|one| known.contains(one));
                            if !is_known {
                                stream.send(text).await?;
                            }
                            is_sending &= !events.is_empty();
                        }
                        Some(Message::Reset(reason)) => return stream.send(frame::reset(reason)).await,
                        Some(Message::KeyEnded) => {
                            stream.bye("key_ended");
                            return Err(Ended);
                        }
                        None => {
                            stream.bye("too_slow");
                            return Err(Ended);
                        }
                    },
                    _ = heartbeat.tick() => match events.place(own_read) {
                        Place::AtEnd(cursor) => {
                            // The reader has passed all that the stream has read by itself.
                            known = HashSet::new();
                            stream.send(frame::heartbeat(Some(&cursor))).await?;
                            if self.must_verify() {
                                break;
                            }
                        }
                        Place::Behind(cursor) => {
                            // The reader may be behind what the stream has read by itself. A cursor never goes back.
                            let passed = known.is_empty().then_some(&cursor as &dyn Display);
                            stream.send(frame::progress(passed)).await?;
                            if self.must_verify() {
                                break;
                            }
                        }
                        Place::NotLooked => {
                            stream.send(frame::heartbeat(None)).await?;
                            if self.must_verify() {
                                break;
                            }
                        }
                        // Messages have waited since the last tick: the client must not take them for the present.
                        Place::Sending if is_sending => stream.send(frame::progress(None)).await?,
                        Place::Sending => is_sending = true,
                        Place::Unread => {
                            stream.bye("unavailable");
                            return Err(Ended);
                        }
                    },
                }
            }
            standing = self.again(&mut stream).await?;
        }
    }

    /// Whether the key may have ended without a call of its watch: it has an end, or changes of others do not arrive.
    fn must_verify(&self) -> bool {
        !self.app.store.is_fresh() || self.key.expires_at.is_some_and(|at: Time| at <= self.app.now())
    }

    async fn again(&self, stream: &mut Stream) -> std::result::Result<Answer<Option<ApiKey>>, Ended> {
        let standing = tokio::select! {
            standing = self.standing() => standing,
            ended = stream.ended() => return Err(ended),
        };
        standing.map_err(|error| {
            tracing::debug!(%error, "a stream could not verify its key");
            stream.bye("unavailable");
            Ended
        })
    }

    /// Sends what is behind a cursor, up to the end of the log, and moves the cursor there, after each page also that of the
    /// client: it may be long until an event concerns it. Adds the numbers of the entries
    /// to `known`.
    async fn catch_up(
        &self,
        stream: &mut Stream,
        cursor: &mut LogCursor,
        size: &mut PageSize,
        mut known: Option<&mut HashSet<i64>>,
    ) -> std::result::Result<(), Ended> {
        let services = Arc::from([self.listening.clone()]);
        let mut heartbeat = tokio::time::interval(self.app.settings.stream_heartbeat);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let mut turn = None;
        loop {
            let page = {
                let mut read = pin!(size.read(|entries| {
                    let page = page(&self.app.log(), cursor, entries, OWN_BYTES, &services);
                    self.app.streams.reads.catch_up(&self.app.store, &self.listening.organization, page)
                }));
                // Others of the organization may read before it. Nothing here waits for the client: the read has a turn, which
                // would last until the client reads.
                loop {
                    tokio::select! {
                        page = &mut read => break page,
                        ended = stream.ended() => return Err(ended),
                        _ = heartbeat.tick() => stream.heartbeat_now(),
                    }
                }
            };
            let page = match page {
                Ok(Answer { value: Some(page), .. }) => page,
                Ok(Answer { value: None, .. }) => {
                    stream.send(frame::reset("cursor_too_old")).await?;
                    return Err(Ended);
                }
                Err(error) => {
                    tracing::debug!(%error, "a stream could not read the log");
                    stream.bye("unavailable");
                    return Err(Ended);
                }
            };
            if !page.invalid.is_empty() {
                stream.bye("key_ended");
                return Err(Ended);
            }
            let page_bytes = page.delivered.iter().map(Delivered::size).sum::<usize>();
            let is_large = page_bytes > SMALL_PAGE;
            let reads = &self.app.streams.reads;
            if is_large && turn.is_none() {
                turn = reads.page_turn(&self.listening.organization);
                if turn.is_none() {
                    drop(page);
                    let mut next = pin!(reads.next_page_turn(&self.listening.organization));
                    turn = loop {
                        tokio::select! {
                            turn = &mut next => break turn,
                            ended = stream.ended() => return Err(ended),
                            _ = heartbeat.tick() => stream.heartbeat_now(),
                        }
                    };
                    continue;
                }
            }
            match turn.take() {
                // A client that reads so slowly comes back at the event that it has.
                Some(_turn) => {
                    let extra = Duration::from_secs((page_bytes / BYTES_PER_SECOND) as u64);
                    let sending = send_all(stream, page.delivered);
                    timeout(LARGE_PAGE_MAX + extra, sending).await.unwrap_or(Err(Ended))?
                }
                None => send_all(stream, page.delivered).await?,
            }
            if let Some(known) = known.as_deref_mut() {
                known.extend(page.numbers);
            }
            *cursor = page.end;
            if !page.is_full {
                return Ok(());
            }
            stream.send(frame::progress(Some(cursor))).await?;
        }
    }
}

/// Sends the events of a page. Each is forgotten when it is sent.
async fn send_all(stream: &mut Stream, page: Vec<Delivered>) -> std::result::Result<(), Ended> {
    for delivered in page {
        if delivered.events.iter().any(|event| matches!(event, Event::Reset)) {
            stream.send(frame::reset("plan_changed")).await?;
            return Err(Ended);
        }
        stream.send_own(&texts(&delivered)).await?;
    }
    Ok(())
}
