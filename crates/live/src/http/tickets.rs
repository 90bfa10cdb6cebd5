//! `POST /live/ticket`: lets the browser's own EventSource, which sends no Authorization header, open a stream.
//!
//! A ticket opens a stream within 30 seconds. The stream that it opened may be reopened with it, because EventSource
//! comes back with the same URL, as long as the token lives that the ticket was made with, or for an hour without a token.

use crate::app::{Context, random, sha256};
use crate::backend::ClientAddress;
use crate::{Caller, Problem};
use axum::extract::State;
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use store::Time;

const LIFE: Duration = Duration::from_secs(30);
/// How long the stream of a ticket without an expiring token may be reopened.
const REOPEN: Duration = Duration::from_secs(3600);
/// Callers without a token have at most half of them.
const TICKETS_MAX: usize = 100_000;
const TICKETS_PER_CALLER_MAX: usize = 1_000;

#[derive(Default)]
pub(crate) struct Tickets(Mutex<Open>);

#[derive(Default)]
struct Open {
    tickets: HashMap<[u8; 32], Ticket>,
    by_owner: HashMap<Arc<str>, usize>,
    /// Those of callers without a token.
    anonymous: usize,
}

struct Ticket {
    /// The user, or the network of a caller without a token.
    owner: Arc<str>,
    caller: Caller,
    until: Time,
    is_used: bool,
}

impl Tickets {
    fn make(&self, caller: Caller, owner: String, now: Time) -> Result<String, Problem> {
        let mut open = self.0.lock();
        let is_anonymous = caller.subject.is_none();
        let is_full =
            open.tickets.len() >= TICKETS_MAX || (is_anonymous && open.anonymous >= TICKETS_MAX / 2);
        let own = open.by_owner.get(&*owner).copied().unwrap_or_default();
        if own >= TICKETS_PER_CALLER_MAX {
            return Err(Problem::limit(format!(
                "You have {own} open tickets, as many as one user or one network may have. Use those that you have."
            )));
        }
        if is_full {
            let detail = match is_anonymous {
                true => "This server has all tickets open that it has for callers without a token. Sign in.",
                false => "This server has all of its tickets open. Try again.",
            };
            return Err(Problem::unavailable(detail, LIFE));
        }
        let text = URL_SAFE_NO_PAD.encode(random());
        let owner: Arc<str> = owner.into();
        *open.by_owner.entry(owner.clone()).or_default() += 1;
        open.anonymous += usize::from(is_anonymous);
        let until = until(&caller, now, LIFE);
        open.tickets.insert(sha256(text.as_bytes()), Ticket { owner, caller, until, is_used: false });
        Ok(text)
    }

    /// The caller of a ticket. From its first use on it may reopen its stream.
    pub(super) fn redeem(&self, text: &str, now: Time) -> Result<Caller, Problem> {
        let mut open = self.0.lock();
        let ticket = open.tickets.get_mut(&sha256(text.as_bytes())).filter(|ticket| ticket.until > now);
        let Some(ticket) = ticket else {
            let detail = "The ticket is not valid any more. Get a new one with POST /live/ticket.";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "invalid_ticket", detail));
        };
        if !std::mem::replace(&mut ticket.is_used, true) {
            ticket.until = ticket.caller.expires.unwrap_or(now + REOPEN);
        }
        Ok(ticket.caller.clone())
    }

    pub(super) fn sweep(&self, now: Time) {
        let mut open = self.0.lock();
        let Open { tickets, by_owner, anonymous } = &mut *open;
        tickets.retain(|_, ticket| {
            let is_open = ticket.until > now;
            if !is_open {
                *anonymous -= usize::from(ticket.caller.subject.is_none());
                if let Some(count) = by_owner.get_mut(&ticket.owner) {
                    *count -= 1;
                    if *count == 0 {
                        by_owner.remove(&ticket.owner);
                    }
                }
            }
            is_open
        });
    }
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
) -> Result<Json<Value>, Problem> {
    // What the token says: the caller is judged anew when the ticket is used.
    let caller = context.caller_with_token(&headers).await?.authenticated;
    // No token has a subject that begins like this.
    let owner = caller.subject.clone().unwrap_or_else(|| format!("\0{}", web::network::network(address.0)));
    let ticket = context.0.streams.tickets.make(caller, owner, context.now())?;
    Ok(Json(json!({ "ticket": ticket, "expires_in": LIFE.as_secs() })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn user(expires: i64) -> Caller {
        Caller { subject: Some("ada".to_owned()), expires: Some(at(expires)), ..Caller::default() }
    }

    #[test]
    fn a_ticket_ends_with_its_token() {
        let tickets = Tickets::default();
        let text = tickets.make(user(10), "ada".to_owned(), at(0)).expect("a ticket");
        assert!(tickets.redeem(&text, at(9)).is_ok() && tickets.redeem(&text, at(10)).is_err());
    }

    #[test]
    fn a_ticket_without_a_token_reopens_a_stream_for_an_hour() {
        let tickets = Tickets::default();
        let text = tickets.make(Caller::default(), "\0net".to_owned(), at(0)).expect("a ticket");
        for second in [29, 1800, 3628] {
            assert!(tickets.redeem(&text, at(second)).is_ok(), "{second}");
        }
        assert!(tickets.redeem(&text, at(3629)).is_err(), "its uses do not make it last");
    }

    #[test]
    fn strangers_leave_half_of_the_tickets_to_users() {
        let tickets = Tickets::default();
        let stranger = |network: usize| tickets.make(Caller::default(), format!("\0{network}"), at(0));
        for number in 0..TICKETS_MAX / 2 {
            stranger(number / TICKETS_PER_CALLER_MAX).expect("a ticket");
        }
        stranger(0).expect_err("one network has its share");
        stranger(TICKETS_MAX).expect_err("all networks have theirs");
        tickets.make(user(100), "ada".to_owned(), at(0)).expect("a ticket of a user");
        tickets.sweep(at(31));
        stranger(0).expect("they have expired");
    }
}
