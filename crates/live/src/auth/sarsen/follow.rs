//! Reads the stream of events of the server, for as long as the app is served: the state first, then what changes it.
//!
//! The cursor moves after what came before it is written, so an interruption loses nothing. After one, the state counts
//! as fresh once the server has sent all that was missed.

use super::revocations::{self, Subject};
use super::{Sarsen, Shared, WhenStale, administers};
use crate::context::Context;
use ::http::header::{ACCEPT, AUTHORIZATION};
use ::http::{HeaderName, StatusCode};
use browser::sse::{Event, Events};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::Backoff;
use tokio::time::{Instant, sleep, timeout};
use web::log_interval::LogInterval;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The limits on the state: its size in bytes, and the time in which it must arrive.
const STATE_SIZE_MAX: usize = 64 * 1024 * 1024;
const STATE_TIME_MAX: Duration = Duration::from_secs(60);
/// More than the longest event has.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Pauses between attempts.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// How often the freshness is looked at.
const WATCHING: Duration = Duration::from_millis(250);
const CLEANING: Duration = Duration::from_secs(600);

/// What is read of the state of the service.
#[derive(Deserialize)]
struct State {
    revoked: Vec<Revoked>,
    last_event_id: String,
}

/// `session.revoked`, and a part of the state.
#[derive(Deserialize)]
struct Revoked {
    sessions: Vec<String>,
    grants: Vec<String>,
}

impl Revoked {
    fn subjects(&self) -> impl Iterator<Item = Subject> {
        let sessions = self.sessions.iter().map(|id| Subject::session(id));
        sessions.chain(self.grants.iter().map(|id| Subject::grant(id)))
    }
}

/// `member.changed`: all organizations that the user administers now.
#[derive(Deserialize)]
struct Member {
    user: String,
    administers: Value,
}

/// Why the stream ended.
enum Ended {
    /// The server sends the client away, perhaps with a pause.
    Bye(Option<Duration>),
    /// It did not answer, or something else failed.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended::Failed(error.to_string())
    }
}

pub(super) async fn run(sarsen: Sarsen, context: Context) {
    tokio::join!(read(&sarsen, &context), watch(&sarsen, &context), clean(&context));
}

/// Reads the stream again and again.
async fn read(sarsen: &Sarsen, context: &Context) {
    let (mut cursor, mut history) = (None, context.store().log_history());
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    let failures = LogInterval::minute();
    loop {
        let mut opened_at = None;
        // Rows that were written in another history may be missing in this one, or be old ones.
        if std::mem::replace(&mut history, context.store().log_history()) != history {
            cursor = None;
        }
        let asked = match follow(sarsen, context, &mut cursor, &mut opened_at).await {
            Ended::Bye(asked) => asked,
            Ended::Failed(error) => {
                if let Some(times) = failures.due(Instant::now().into_std()) {
                    tracing::warn!(error, times, "the stream of events of the identity server ended");
                }
                None
            }
        };
        let lasted = opened_at.map_or(Duration::ZERO, |opened_at: Instant| opened_at.elapsed());
        sleep(pause(&mut backoff, lasted, asked)).await;
    }
}

/// The pause after a stream that lasted for this time: pauses grow while streams do not last. The server may have asked for a
/// longer one.
fn pause(backoff: &mut Backoff, lasted: Duration, asked: Option<Duration>) -> Duration {
    if lasted > PAUSE_MAX {
        backoff.reset();
    }
    backoff.take().max(asked.unwrap_or_default()).min(PAUSE_MAX)
}

async fn follow(
    sarsen: &Sarsen,
    context: &Context,
    cursor: &mut Option<String>,
    opened_at: &mut Option<Instant>,
) -> Ended {
    match follow_from(sarsen, context, cursor, opened_at).await {
        Ok(never) => match never {},
        Err(ended) => ended,
    }
}

/// Reads the state if there is no cursor, then the stream until it ends.
async fn follow_from(
    sarsen: &Sarsen,
    context: &Context,
    cursor: &mut Option<String>,
    opened_at: &mut Option<Instant>,
) -> Result<std::convert::Infallible, Ended> {
    let (shared, history) = (&sarsen.shared, context.store().log_history());
    let from = match cursor {
        Some(cursor) => cursor,
        None => {
            let state = shared.read_state().await?;
            administers::clear(context.store()).await?;
            let revoked = state.revoked.iter().flat_map(Revoked::subjects).collect();
            revocations::add(context.store(), revoked, context.now()).await?;
            cursor.insert(state.last_event_id)
        }
    };
    let headers = [
        (AUTHORIZATION, shared.authorization.as_str()),
        (ACCEPT, "text/event-stream"),
        (LAST_EVENT_ID, from.as_str()),
    ];
    let mut answer = shared.http.open(&shared.live, &headers).await?;
    if answer.response.status() != StatusCode::OK {
        return Err(refused("/api/live", answer.response.status()));
    }
    *opened_at = Some(Instant::now());
    let mut events = Events::new(EVENT_BYTES_MAX);
    let mut read_at = sarsen.uptime.now();
    let mut is_caught_up = false;
    loop {
        // Before the state is stale there is time for another connection.
        let frame = timeout(sarsen.stale_after * 2 / 3, answer.response.body_mut().frame()).await;
        // After a suspension of the machine, what waits in the socket is from before it.
        let frame = frame.ok().filter(|_| sarsen.is_recent(read_at));
        let frame = frame.ok_or_else(|| Ended::Failed("nothing came for too long".to_owned()))?;
        read_at = sarsen.uptime.now();
        let frame = frame.ok_or_else(|| Ended::Failed("it ended without a goodbye".to_owned()))??;
        let Some(bytes) = frame.data_ref() else { continue };
        events.push(bytes);
        let mut arrived = Vec::new();
        events.take(|event| arrived.push(event.into_owned()))?;
        if context.store().log_history() != history {
            *cursor = None;
            return Err(Ended::Failed(
                "the database has another history now; the state is read anew".to_owned(),
            ));
        }
        write(context, &arrived).await?;
        take_over(sarsen, cursor, &mut is_caught_up, &arrived)?;
    }
}

/// Writes what events have revoked, and who administers what.
async fn write(context: &Context, arrived: &[Event<'_>]) -> Result<(), Ended> {
    let (mut revoked, mut members) = (Vec::new(), Vec::new());
    for event in arrived {
        match &*event.name {
            "session.revoked" => revoked.extend(serde_json::from_str::<Revoked>(&event.data)?.subjects()),
            "member.changed" => {
                let Member { user, administers } = serde_json::from_str(&event.data)?;
                members.push((user, administers));
            }
            _ => {}
        }
    }
    if !revoked.is_empty() {
        revocations::add(context.store(), revoked, context.now()).await?;
    }
    administers::set(context.store(), members, context.now()).await?;
    Ok(())
}

/// Moves the cursor behind events that are written. They show that the state is fresh once the server has sent all that
/// was missed: from a heartbeat on, until the server says that it is behind.
fn take_over(
    sarsen: &Sarsen,
    cursor: &mut Option<String>,
    is_caught_up: &mut bool,
    arrived: &[Event<'_>],
) -> Result<(), Ended> {
    for event in arrived {
        match &*event.name {
            "reset" => {
                *cursor = None;
                return Err(Ended::Bye(None));
            }
            "progress" => *is_caught_up = false,
            _ => *is_caught_up |= event.is_heartbeat(),
        }
        if let Some(id) = event.cursor() {
            *cursor = Some(id.to_owned());
            if *is_caught_up {
                *sarsen.shared.heard_at.lock() = Some(sarsen.uptime.now());
            }
        }
        if event.name == "bye" {
            return Err(Ended::Bye(event.retry.map(Duration::from_millis)));
        }
    }
    Ok(())
}

impl Shared {
    async fn read_state(&self) -> Result<State, Ended> {
        let headers = [(AUTHORIZATION, self.authorization.as_str()), (ACCEPT, "application/json")];
        let document = self.http.document_with(&self.state, &headers, STATE_SIZE_MAX, STATE_TIME_MAX);
        Ok(serde_json::from_slice(&document.await?.bytes)?)
    }
}

fn refused(path: &str, status: StatusCode) -> Ended {
    Ended::Failed(match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            format!("{path} answers {status}; use an API key of the service with the scopes of its users")
        }
        _ => format!("{path} answers {status}"),
    })
}

/// Writes this process's row while the stream is stale, so that open streams end, and removes it afterwards.
async fn watch(sarsen: &Sarsen, context: &Context) {
    if sarsen.when_stale == WhenStale::Accept {
        return;
    }
    let Shared { own, heard_at, is_closed, .. } = &*sarsen.shared;
    // Until the first sign of life no token is accepted, so there are no streams.
    while heard_at.lock().is_none() {
        sleep(WATCHING).await;
    }
    let mut is_written = false;
    loop {
        // Not until it would be stale: timers stand still while the machine is suspended.
        sleep(WATCHING).await;
        let looked = match (sarsen.is_fresh(), is_closed.load(Ordering::Acquire)) {
            (false, false) => {
                tracing::warn!("the state of sessions is stale; requests get 503");
                // The row follows at the next look: requests that were let in before have read their rows by then.
                is_closed.store(true, Ordering::Release);
                Ok(())
            }
            (false, true) if !is_written => {
                let added = revocations::add(context.store(), vec![own.clone()], context.now()).await;
                added.map(|()| is_written = true)
            }
            (true, true) => revocations::remove(context.store(), own.clone()).await.map(|()| {
                is_written = false;
                is_closed.store(false, Ordering::Release);
                tracing::info!("the state of sessions is fresh again");
            }),
            (true, false) | (false, true) => Ok(()),
        };
        if let Err(error) = looked {
            tracing::warn!(%error, "the freshness of sessions could not be written");
        }
    }
}

async fn clean(context: &Context) {
    loop {
        sleep(CLEANING).await;
        let (store, now) = (context.store(), context.now());
        for cleaned in [revocations::clean(store, now).await, administers::clean(store, now).await] {
            if let Err(error) = cleaned {
                tracing::warn!(%error, "old revocations and lists of administered organizations could not be removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const STATE: &str = r#"{"revoked":[{"sessions":["s"],"grants":["g"]}],"last_event_id":"7"}"#;

    /// The state, whose second half comes after this time.
    async fn read_state(second_half_after: Duration) -> Result<State, Ended> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let sarsen = Sarsen::new(&url, "acme/sketch", "sk_test").expect("an authenticator");
        let serve = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let _ = socket.read(&mut [0; 4096]).await.expect("a request");
            let (first, second) = STATE.split_at(STATE.len() / 2);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", STATE.len());
            socket.write_all((head + first).as_bytes()).await.expect("writes");
            sleep(second_half_after).await;
            // A client that has given up is gone.
            let _ = socket.write_all(second.as_bytes()).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            state = sarsen.shared.read_state() => state,
            () = serve => unreachable!("it never ends"),
        }
    }

    #[test]
    fn pauses_grow_until_a_stream_lasts() {
        let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        let mut after = |lasted: u64, asked: Option<u64>| {
            pause(&mut backoff, Duration::from_secs(lasted), asked.map(Duration::from_secs)).as_millis()
        };
        for longest in [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000] {
            let pause = after(0, None);
            assert!((longest / 2..=longest).contains(&pause), "{pause} of {longest} ms");
        }
        assert!((125..=250).contains(&after(16, None)), "the last stream was a long one");
        assert_eq!(after(1, Some(5)), 5000, "the server has asked for it");
        assert!((500..=1000).contains(&after(1, None)));
        assert_eq!(after(1, Some(3600)), 15_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_that_takes_most_of_a_minute_is_read() {
        let state = read_state(Duration::from_secs(55)).await;
        let state = state.map_err(|_| "it failed").expect("a state");
        assert_eq!((state.revoked[0].subjects().count(), &*state.last_event_id), (2, "7"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_does_not_take_longer() {
        let state = read_state(Duration::from_secs(65)).await;
        assert!(matches!(state, Err(Ended::Failed(error)) if error.ends_with("no whole answer within 60 s")));
    }
}
