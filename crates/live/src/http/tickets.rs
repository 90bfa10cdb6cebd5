//! `POST /live/ticket`: lets the browser's own EventSource, which sends no Authorization header, open a stream.
//!
//! A ticket opens a stream within 30 seconds. The stream that it opened may be reopened with it, because EventSource
//! comes back with the same URL, as long as the token lives that the ticket was made with, or for an hour without a token. It
//! stands in a URL, so it is good for that one stream only: with the same subscriptions, and once at a time.
//!
//! Where there are as many tickets as there may be, the oldest whose stream has ended makes room for a new one.

use crate::account::Counted;
use crate::backend::ClientAddress;
use crate::context::Context;
use crate::frame;
use crate::given::{random, sha256};
use crate::stream::{RETURN_MS, Standing, Stream};
use crate::{Caller, Problem};
use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::Time;

const LIFE: Duration = Duration::from_secs(30);
/// How long the stream of a ticket without an expiring token may be reopened.
const REOPEN: Duration = Duration::from_secs(3600);
/// Callers without a token have at most half of them.
const TICKETS_MAX: usize = 100_000;
const TICKETS_PER_CALLER_MAX: usize = 1_000;

/// Tickets that are looked at for one that can be given up.
const LOOKED_AT_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct Tickets(Mutex<Open>);

type TicketId = [u8; 32];

#[derive(Default)]
struct Open {
    tickets: HashMap<TicketId, Ticket>,
    /// The oldest first. It may name some that are gone.
    by_owner: HashMap<Arc<str>, VecDeque<TicketId>>,
    /// All that have opened a stream.
    used: VecDeque<TicketId>,
    /// Those of callers without a token.
    anonymous: usize,
}

struct Ticket {
    /// The user, or the network of a caller without a token and its site.
    owners: Vec<Arc<str>>,
    caller: Caller,
    /// It counts among those of callers without a token.
    is_anonymous: bool,
    until: Time,
    opened: Option<Opened>,
}

/// What a ticket has opened.
struct Opened {
    /// A hash of the subscriptions.
    subscriptions: [u8; 32],
    stream: Weak<dyn Replaced>,
}

/// A stream, whose browser has come back for another one.
pub(super) trait Replaced: Send + Sync {
    fn end(&self);
}

impl Replaced for Stream {
    fn end(&self) {
        Stream::end(self, frame::bye(RETURN_MS));
    }
}

impl Ticket {
    /// Its stream has ended. The browser may come back, or, more probably, has gone to another page.
    fn can_be_given_up(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.stream.strong_count() == 0)
    }
}

impl Open {
    fn remove(&mut self, id: &TicketId) {
        let Some(ticket) = self.tickets.remove(id) else { return };
        self.anonymous -= usize::from(ticket.is_anonymous);
        for owner in &ticket.owners {
            if let Some(own) = self.by_owner.get_mut(owner) {
                own.retain(|other| other != id);
            }
        }
    }

    /// Gives up the oldest ticket of this owner whose stream has ended. False if there is none.
    fn give_up_one_of(&mut self, owner: &str) -> bool {
        let Some(own) = self.by_owner.get(owner) else { return false };
        let id = own.iter().find(|id| self.tickets.get(*id).is_some_and(Ticket::can_be_given_up)).copied();
        id.inspect(|id| self.remove(id)).is_some()
    }

    /// Gives up one of the oldest tickets whose stream has ended, of callers without a token if it is for one of them.
    fn give_up_any(&mut self, is_for_anonymous: bool) -> bool {
        for _ in 0..LOOKED_AT_MAX.min(self.used.len()) {
            let Some(id) = self.used.pop_front() else { return false };
            let Some(ticket) = self.tickets.get(&id) else { continue };
            if ticket.can_be_given_up() && (ticket.is_anonymous || !is_for_anonymous) {
                self.remove(&id);
                return true;
            }
            self.used.push_back(id);
        }
        false
    }
}

impl Tickets {
    /// `leaves_half`: callers without a token leave half of the tickets to users.
    fn make(&self, caller: Caller, owner: Counted, leaves_half: bool, now: Time) -> Result<String, Problem> {
        let is_anonymous = owner.is_network();
        let mut open = self.0.lock();
        for (owner, most) in owner.limits(TICKETS_PER_CALLER_MAX) {
            let own = open.by_owner.get(owner).map_or(0, VecDeque::len);
            if own >= most && !open.give_up_one_of(owner) {
                let detail = format!(
                    "You have {own} open tickets, as many as one user or one network may have. Use those that you have, or \
                     wait until they expire."
                );
                return Err(Problem { retry_after: Some(LIFE), ..Problem::limit(detail) });
            }
        }
        let is_half = is_anonymous && leaves_half && open.anonymous >= TICKETS_MAX / 2;
        let is_full = is_half || open.tickets.len() >= TICKETS_MAX;
        if is_full && !open.give_up_any(is_anonymous) {
            let detail = match is_half {
                true => "This server has all tickets open that it has for callers without a token. Sign in.",
                false => "This server has all of its tickets open. Try again.",
            };
            return Err(Problem::unavailable(detail, LIFE));
        }
        let text = URL_SAFE_NO_PAD.encode(random());
        let id = sha256(text.as_bytes());
        let owners: Vec<Arc<str>> = owner.0.into_iter().map(|one| one.name.into()).collect();
        for owner in &owners {
            open.by_owner.entry(owner.clone()).or_default().push_back(id);
        }
        open.anonymous += usize::from(is_anonymous);
        let until = until(&caller, now, LIFE);
        open.tickets.insert(id, Ticket { owners, caller, is_anonymous, until, opened: None });
        Ok(text)
    }

    /// The caller of a ticket, who wants a stream with these subscriptions.
    pub(super) fn caller(&self, text: &str, wanted: &[u8; 32], now: Time) -> Result<Caller, Problem> {
        let open = self.0.lock();
        let ticket = open.tickets.get(&sha256(text.as_bytes())).filter(|ticket| ticket.until > now);
        match ticket {
            None => Err(invalid("The ticket is not valid any more. Get a new one with POST /live/ticket.")),
            Some(Ticket { opened: Some(opened), .. }) if opened.subscriptions != *wanted => {
                Err(of_another_stream())
            }
            Some(ticket) => Ok(ticket.caller.clone()),
        }
    }

    /// Whether it has opened no stream yet.
    pub(super) fn is_new(&self, text: &str) -> bool {
        let open = self.0.lock();
        open.tickets.get(&sha256(text.as_bytes())).is_some_and(|ticket| ticket.opened.is_none())
    }

    /// A ticket has opened this stream, and may reopen it from now on. It has one stream at a time. Fails if it has opened
    /// another one meanwhile.
    pub(super) fn opened(
        &self,
        text: &str,
        subscriptions: [u8; 32],
        stream: Weak<dyn Replaced>,
        now: Time,
    ) -> Result<(), Problem> {
        let mut open = self.0.lock();
        let id = sha256(text.as_bytes());
        let Some(ticket) = open.tickets.get_mut(&id) else { return Ok(()) };
        if ticket.opened.as_ref().is_some_and(|opened| opened.subscriptions != subscriptions) {
            return Err(of_another_stream());
        }
        let before = ticket.opened.replace(Opened { subscriptions, stream });
        if before.is_none() {
            ticket.until = ticket.caller.expires.unwrap_or(now + REOPEN);
            open.used.push_back(id);
        }
        drop(open);
        if let Some(before) = before.and_then(|opened| opened.stream.upgrade()) {
            before.end();
        }
        Ok(())
    }

    pub(super) fn sweep(&self, now: Time) {
        let mut open = self.0.lock();
        let Open { tickets, by_owner, used, anonymous } = &mut *open;
        tickets.retain(|_, ticket| {
            let is_open = ticket.until > now;
            *anonymous -= usize::from(!is_open && ticket.is_anonymous);
            is_open
        });
        by_owner.retain(|_, own| {
            own.retain(|id| tickets.contains_key(id));
            !own.is_empty()
        });
        used.retain(|id| tickets.contains_key(id));
    }
}

fn invalid(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "invalid_ticket", detail)
}

fn of_another_stream() -> Problem {
    invalid("The ticket is for a stream with other subscriptions. Get a new one with POST /live/ticket.")
}

/// After `life`, and never after the caller's token.
fn until(caller: &Caller, now: Time, life: Duration) -> Time {
    let end = now + life;
    caller.expires.map_or(end, |expires| expires.min(end))
}

pub(super) async fn make(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    // Whom the database knows is no stranger, also where the token alone does not say who it is.
    let Standing { authenticated, now } = context.caller_with_token(&headers).await?;
    let owner = Counted::of(&now, address.0);
    let has_users = context.0.registry.authenticator.is_some();
    let now = context.now();
    let life = until(&authenticated, now, LIFE).since(now).as_secs();
    // What the token says: the caller is judged anew when the ticket is used.
    let ticket = context.0.streams.tickets.make(authenticated, owner, has_users, now)?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(json!({ "ticket": ticket, "expires_in": life }))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Counter;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn user(expires: i64) -> Caller {
        Caller { subject: Some("ada".to_owned()), expires: Some(at(expires)), ..Caller::default() }
    }

    const WANTED: [u8; 32] = [1; 32];

    fn owner(name: &str) -> Counted {
        Counted(vec![Counter { name: name.to_owned(), share: 1 }])
    }

    /// Opens a stream with a ticket; the stream lasts as long as the result.
    fn open(tickets: &Tickets, text: &str, now: Time) -> Result<Arc<Connected>, Problem> {
        tickets.caller(text, &WANTED, now)?;
        let stream = Arc::new(Connected(AtomicBool::new(true)));
        let weak: Weak<Connected> = Arc::downgrade(&stream);
        tickets.opened(text, WANTED, weak, now)?;
        Ok(stream)
    }

    #[derive(Debug)]
    struct Connected(AtomicBool);

    impl Replaced for Connected {
        fn end(&self) {
            self.0.store(false, Relaxed);
        }
    }

    #[test]
    fn a_ticket_ends_with_its_token() {
        let tickets = Tickets::default();
        let text = tickets.make(user(10), owner("ada"), true, at(0)).expect("a ticket");
        assert!(open(&tickets, &text, at(9)).is_ok() && open(&tickets, &text, at(10)).is_err());
    }

    #[test]
    fn a_ticket_without_a_token_reopens_a_stream_for_an_hour() {
        let tickets = Tickets::default();
        let text = tickets.make(Caller::default(), owner("\0net"), true, at(0)).expect("a ticket");
        for second in [29, 1800, 3628] {
            assert!(open(&tickets, &text, at(second)).is_ok(), "{second}");
        }
        assert!(open(&tickets, &text, at(3629)).is_err(), "its uses do not make it last");
    }

    #[test]
    fn a_ticket_is_for_one_stream_with_the_same_subscriptions() {
        let tickets = Tickets::default();
        let text = tickets.make(user(1000), owner("ada"), true, at(0)).expect("a ticket");
        tickets.caller(&text, &[2; 32], at(1)).expect("asking for it opens nothing");
        let first = open(&tickets, &text, at(2)).expect("opens");
        tickets.caller(&text, &[2; 32], at(3)).expect_err("it has opened another one");
        let second = open(&tickets, &text, at(4)).expect("the browser comes back");
        assert_eq!([&first, &second].map(|stream| stream.0.load(Relaxed)), [false, true]);
        // Both may have asked for it before either has opened one.
        let late = Arc::new(Connected(AtomicBool::new(true)));
        let weak: Weak<Connected> = Arc::downgrade(&late);
        tickets.opened(&text, [2; 32], weak, at(5)).expect_err("it is for the other one");
        assert!(second.0.load(Relaxed));
    }

    #[test]
    fn who_opens_pages_all_day_has_always_a_ticket() {
        let tickets = Tickets::default();
        let mut texts = Vec::new();
        for page in 0..3 * TICKETS_PER_CALLER_MAX {
            let text = tickets.make(user(1_000_000), owner("ada"), true, at(page as i64)).expect("a ticket");
            drop(open(&tickets, &text, at(page as i64)).expect("opens"));
            texts.push(text);
        }
        let now = at(3 * TICKETS_PER_CALLER_MAX as i64);
        open(&tickets, &texts[0], now).expect_err("the oldest made room");
        open(&tickets, texts.last().expect("some"), now).expect("the newest stays");
    }

    #[test]
    fn tickets_in_use_make_no_room() {
        let tickets = Tickets::default();
        let mut streams = Vec::new();
        for _ in 0..TICKETS_PER_CALLER_MAX {
            let text = tickets.make(user(1_000), owner("ada"), true, at(0)).expect("a ticket");
            streams.push(open(&tickets, &text, at(0)).expect("opens"));
        }
        let refused = tickets.make(user(1_000), owner("ada"), true, at(1)).expect_err("all are in use");
        assert_eq!(refused.retry_after, Some(LIFE));
        streams.pop();
        tickets.make(user(1_000), owner("ada"), true, at(1)).expect("one stream has ended");
    }

    #[test]
    fn strangers_leave_half_of_the_tickets_to_users() {
        let tickets = Tickets::default();
        let stranger =
            |network: usize| tickets.make(Caller::default(), owner(&format!("\0{network}")), true, at(0));
        let first = stranger(0).expect("a ticket");
        for number in 1..TICKETS_MAX / 2 {
            stranger(number / TICKETS_PER_CALLER_MAX).expect("a ticket");
        }
        stranger(0).expect_err("one network has its share");
        stranger(TICKETS_MAX).expect_err("all networks have theirs");
        tickets.make(user(100), owner("ada"), true, at(0)).expect("a ticket of a user");
        drop(open(&tickets, &first, at(1)).expect("opens"));
        stranger(TICKETS_MAX).expect("a stream has ended");
        tickets.sweep(at(31));
        stranger(0).expect("they have expired");
    }
}
