//! The streams of this instance: how many there may be, of one caller, of one organization and of all, and their end when it
//! stops.
//!
//! An organization may have four streams for each place that is free: 80 % of the places while it is alone, 44 % beside one
//! that wants as many. So the places never run out, however many streams an organization opens, and none stay unused
//! because of a fixed share.

use super::body::{StreamBody, WAITING_MAX};
use super::frame;
use super::hub::Hub;
use super::reads::Reads;
use crate::web::error::Problem;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use endpoint::sse;
use http::StatusCode;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Clients come back over this span after a stop, the earliest after a second.
const BACK_WITHIN_MS: u64 = 4_000;
const BACK_AFTER_MS: u64 = 1_000;
/// Streams that an organization may have for each free place.
const PER_FREE_PLACE: usize = 4;
/// Streams of an API key that have a place although its organization has no other one left.
const KEPT_FOR_KEY: usize = 4;
/// So many of them an organization may have in all: it may have a hundred keys.
const KEPT_FOR_ORGANIZATION: usize = 32;
/// A text of a stream's own is sent in pieces of so many bytes.
const PIECE: usize = 32 * 1024;
/// When a caller with too many streams may try again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The streams of this instance.
pub(crate) struct Streams {
    open: Mutex<Open>,
    stopping: watch::Sender<bool>,
    /// Reads the log for the streams of services.
    pub(crate) hub: Arc<Hub>,
    /// The turns of streams to read.
    pub(super) reads: Reads,
}

#[derive(Default)]
struct Open {
    all: usize,
    by_caller: Counts,
    by_organization: Counts,
    /// Streams of API keys in places that are kept for them.
    kept_by_organization: Counts,
    /// Counts all that were opened, for the jitter.
    opened: u64,
}

/// How many streams each has, of those that have any.
#[derive(Default)]
struct Counts(HashMap<String, usize>);

impl Counts {
    fn of(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    fn remove(&mut self, name: &str) {
        if let Some(count) = self.0.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(name);
            }
        }
    }
}

/// Who opens a stream: a user or an API key, and the organization.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) id: String,
    pub(super) organization: String,
    /// An API key. Its first streams have a place even if the organization has no other one left.
    pub(super) is_program: bool,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            open: Mutex::default(),
            stopping: watch::Sender::new(false),
            hub: Arc::default(),
            reads: Reads::default(),
        }
    }
}

/// The sending end of a stream, with its place among the streams. Dropping it ends the stream.
pub(super) struct Stream {
    streams: Arc<Streams>,
    caller: Caller,
    /// Its place is one that is kept for API keys.
    is_kept: bool,
    number: u64,
    out: mpsc::Sender<Bytes>,
    stopping: watch::Receiver<bool>,
}

/// The client has gone, or the server stops: the task of the stream ends.
pub(super) struct Ended;

impl Streams {
    /// Ends every stream. The clients come back at different times.
    pub(crate) fn close(&self) {
        // Without receivers there is no stream.
        self.stopping.send_replace(true);
    }

    /// The number of open streams.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().all
    }

    /// Opens a stream for a caller, or refuses it.
    pub(super) fn open(
        self: &Arc<Streams>,
        caller: Caller,
        most: usize,
        most_of_caller: usize,
    ) -> Result<(Stream, Response), Problem> {
        if *self.stopping.borrow() {
            return Err(Problem::unavailable("The server is stopping. Try again.", Duration::from_secs(1)));
        }
        let mut open = self.open.lock();
        if open.all >= most {
            let detail = format!(
                "This instance has {most} streams, the most that it may have (`streams_max`). Try again later."
            );
            return Err(Problem::unavailable(detail, TRY_AGAIN));
        }
        if open.by_caller.of(&caller.id) >= most_of_caller {
            let detail = format!(
                "This user or API key has {most_of_caller} streams at this instance, the most that one may have (`streams_per_caller_max`). Close one."
            );
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail);
            return Err(Problem { retry_after: Some(TRY_AGAIN), ..problem });
        }
        let of_organization = open.by_organization.of(&caller.organization);
        // A back end has a stream in each of its processes. An organization has few API keys.
        let is_of_few = caller.is_program
            && open.by_caller.of(&caller.id) < KEPT_FOR_KEY
            && open.kept_by_organization.of(&caller.organization) < KEPT_FOR_ORGANIZATION;
        let is_kept = of_organization >= PER_FREE_PLACE * (most - open.all);
        if is_kept && !is_of_few {
            let detail = format!(
                "This instance has few streams left (`streams_max`), and this organization has {of_organization}. Try again later."
            );
            return Err(Problem::unavailable(detail, TRY_AGAIN));
        }
        open.all += 1;
        open.opened += 1;
        open.by_caller.add(&caller.id);
        open.by_organization.add(&caller.organization);
        if is_kept {
            open.kept_by_organization.add(&caller.organization);
        }
        let (out, frames) = mpsc::channel(WAITING_MAX);
        let stream = Stream {
            streams: self.clone(),
            caller,
            is_kept,
            number: open.opened,
            out,
            stopping: self.stopping.subscribe(),
        };
        Ok((stream, sse::response(Body::new(StreamBody(frames)), "no-store")))
    }
}

impl Stream {
    /// Sends text. Waits while the client does not read.
    pub(super) async fn send(&mut self, text: impl Into<Bytes>) -> Result<(), Ended> {
        let text = text.into();
        if text.is_empty() {
            return Ok(());
        }
        tokio::select! {
            sent = self.out.send(text) => return sent.map_err(|_| Ended),
            () = stopped(&mut self.stopping) => {}
        }
        self.bye("stopping");
        Err(Ended)
    }

    /// Sends a text that no other stream has, in pieces: beside the text itself only so much of it waits for a client that
    /// does not read.
    pub(super) async fn send_own(&mut self, text: &str) -> Result<(), Ended> {
        let mut pieces = text.as_bytes().chunks(PIECE).map(Bytes::copy_from_slice);
        self.send(pieces.next().unwrap_or_default()).await?;
        for piece in pieces {
            tokio::select! {
                sent = self.out.send(piece) => sent.map_err(|_| Ended)?,
                // Nothing may follow half of an event, which clients forget at the end of the stream.
                () = stopped(&mut self.stopping) => return Err(Ended),
            }
        }
        Ok(())
    }

    /// Sends a sign of life if there is room: a client with bytes that it has not read needs none.
    pub(super) fn heartbeat_now(&self) {
        let _ = self.out.try_send(frame::heartbeat(None));
    }

    /// Waits until the client has gone or the server stops.
    pub(super) async fn ended(&mut self) -> Ended {
        tokio::select! {
            () = self.out.closed() => return Ended,
            () = stopped(&mut self.stopping) => {}
        }
        self.bye("stopping");
        Ended
    }

    /// The last event, if there is room for it.
    pub(super) fn bye(&self, reason: &'static str) {
        // Spreads the streams that were opened one after another evenly over the span.
        let spread = self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let retry = Duration::from_millis(BACK_AFTER_MS + spread % BACK_WITHIN_MS);
        // A client that does not read misses it, and sees the end of the stream.
        let _ = self.out.try_send(frame::bye(reason, retry));
    }

    /// The registry, for the hub.
    pub(super) fn hub(&self) -> Arc<Hub> {
        self.streams.hub.clone()
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender has gone, with the server.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        open.all -= 1;
        open.by_caller.remove(&self.caller.id);
        open.by_organization.remove(&self.caller.organization);
        if self.is_kept {
            open.kept_by_organization.remove(&self.caller.organization);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(organization: &str, id: &str) -> Caller {
        Caller { id: id.to_owned(), organization: organization.to_owned(), is_program: id.starts_with("key") }
    }

    #[tokio::test]
    async fn a_caller_and_an_instance_have_as_many_streams_as_they_may() {
        let streams = Arc::new(Streams::default());
        let ada = streams.open(of("acme", "ada"), 3, 2).expect("one");
        let _second = streams.open(of("acme", "ada"), 3, 2).expect("two");
        let refused = streams.open(of("acme", "ada"), 3, 2).err().expect("a third");
        assert_eq!((refused.status.as_u16(), refused.code), (429, "too_many_streams"));
        let _grace = streams.open(of("acme", "grace"), 3, 2).expect("another user");
        let refused = streams.open(of("acme", "eve"), 3, 2).err().expect("a fourth");
        assert_eq!((refused.status.as_u16(), refused.code), (503, "unavailable"));
        drop(ada);
        assert_eq!(streams.count(), 2);
        let _again = streams.open(of("acme", "ada"), 3, 2).expect("the place is free");
    }

    /// Opens streams of an organization until one is refused.
    fn fill(streams: &Arc<Streams>, organization: &str, most: usize) -> Vec<(Stream, Response)> {
        let mut opened = Vec::new();
        loop {
            let user = format!("user {}", streams.open.lock().opened);
            match streams.open(of(organization, &user), most, 1) {
                Ok(one) => opened.push(one),
                Err(refused) => {
                    assert_eq!((refused.status.as_u16(), refused.code), (503, "unavailable"));
                    return opened;
                }
            }
        }
    }

    #[tokio::test]
    async fn no_organization_takes_the_last_places() {
        let streams = Arc::new(Streams::default());
        let mut greedy = fill(&streams, "greedy", 1000);
        assert_eq!(greedy.len(), 800, "alone it has most of them");
        let open_for_key = || streams.open(of("greedy", "key"), 1000, 9);
        let of_key: Vec<_> = std::iter::from_fn(|| open_for_key().ok()).collect();
        assert_eq!(of_key.len(), KEPT_FOR_KEY, "its back end has some");
        let refused = open_for_key().err().expect("no more");
        assert_eq!((refused.status.as_u16(), refused.code), (503, "unavailable"));
        let of_keys: Vec<_> = (0..100)
            .map_while(|key| streams.open(of("greedy", &format!("key {key}")), 1000, 9).ok())
            .collect();
        assert_eq!(of_keys.len(), KEPT_FOR_ORGANIZATION - KEPT_FOR_KEY, "not some for each of many keys");
        drop((of_key, of_keys));
        let second = fill(&streams, "second", 1000);
        assert_eq!(second.len(), 160);
        for number in 0..10 {
            let others = fill(&streams, &format!("small {number}"), 1000);
            assert!(others.len() >= 30, "there is room for others: {}", others.len());
        }
        // What the first one gives up goes to the second one, until both have the same.
        let mut second_ones = second;
        while greedy.len() > second_ones.len() {
            assert!(streams.open(of("greedy", "again"), 1000, 1).is_err());
            greedy.pop();
            second_ones.extend(fill(&streams, "second", 1000));
        }
        assert!(second_ones.len() > 440, "{}", second_ones.len());
        drop((greedy, second_ones));
        assert_eq!(fill(&streams, "greedy", 1000).len(), 800);
    }

    #[tokio::test]
    async fn a_stop_says_goodbye_at_different_times() {
        let streams = Arc::new(Streams::default());
        let mut texts = Vec::new();
        let mut open: Vec<_> =
            (0..3).map(|_| streams.open(of("acme", "ada"), 3, 3).expect("opens")).collect();
        streams.close();
        for (stream, _) in &mut open {
            stream.ended().await;
        }
        for (stream, response) in open {
            drop(stream);
            let body = axum::body::to_bytes(response.into_body(), 1000).await.expect("ends");
            texts.push(String::from_utf8_lossy(&body).into_owned());
        }
        assert!(texts.iter().all(|text| text.starts_with("event: bye\nretry: ")), "{texts:?}");
        assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
        assert_eq!(streams.open(of("acme", "ada"), 9, 9).err().expect("stopping").status.as_u16(), 503);
    }
}
