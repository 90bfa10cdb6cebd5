//! The open streams of this process: their limits, their heartbeat and their end.

use super::calls::admit_calls;
use super::tickets::Tickets;
use crate::account::{Account, network_name};
use crate::context::Context;
use crate::frame;
use crate::given::{random, sha256};
use crate::limits::Limits;
use crate::stream::{Name, Standing, Stream, StreamBody, Wanted};
use crate::{Caller, Problem};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use web::network::{Counted, Network};

/// How often streams are looked at for heartbeats and expired tokens.
pub(super) const TICK: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Streams {
    open: Arc<Mutex<Open>>,
    numbers: AtomicU64,
    pub(super) tickets: Tickets,
}

#[derive(Default)]
struct Open {
    by_name: HashMap<String, Arc<Stream>>,
    by_caller: HashMap<String, Owned>,
    /// Those of callers without a token, by the /48 of IPv6, of which one customer may have all networks.
    by_site: HashMap<Counted, Owned>,
    /// Streams and long polls.
    all: usize,
    /// Those of callers without a token.
    anonymous: usize,
    stopping: bool,
}

/// What a user has open, or a network without a token.
#[derive(Default)]
struct Owned {
    streams: usize,
    account: Arc<Account>,
}

impl Streams {
    /// Opens a stream with its first event, and returns its body. One that a ticket has opened is changed with a token only.
    pub(crate) fn open(
        &self,
        context: &Context,
        caller: Standing,
        address: IpAddr,
        wanted: Vec<Wanted>,
        is_of_ticket: bool,
    ) -> Result<StreamBody, Problem> {
        let limits = &context.0.limits;
        check(&wanted, 0, limits)?;
        let (account, left) = self.admit(context, &caller.now, address, wanted.len())?;
        let (name, secret) = (URL_SAFE_NO_PAD.encode(&random()[..12]), URL_SAFE_NO_PAD.encode(random()));
        let needs_token = is_of_ticket && caller.authenticated != Caller::anonymous();
        let stream = self.stream(context, caller, sha256(secret.as_bytes()), needs_token, account);
        stream.notice(frame::hello(&name, &secret));
        let is_stopping = {
            let mut open = self.open.lock();
            open.by_name.insert(name.clone(), stream.clone());
            open.stopping
        };
        if is_stopping {
            // The stop did not find it yet.
            stream.end(frame::bye(pause(limits.return_time)));
        }
        let opened = self.open.clone();
        let body = StreamBody::new(stream, move || {
            opened.lock().by_name.remove(&name);
            left();
        });
        context.0.engine.metrics.streams_opened.fetch_add(1, Ordering::Relaxed);
        body.stream.watch_standing();
        body.stream.subscribe_all(wanted);
        Ok(body)
    }

    /// Takes a place for a stream or a long poll; the result gives it back. Refuses what the limits do not allow.
    fn admit(
        &self,
        context: &Context,
        caller: &Caller,
        address: IpAddr,
        subscriptions: usize,
    ) -> Result<(Arc<Account>, impl FnOnce() + Send + use<>), Problem> {
        let limits = &context.0.limits;
        let network = Network::of(address);
        let (owner, own_max, limit) = match &caller.subject {
            Some(user) => {
                (user.clone(), limits.streams_per_caller_max, "user may have (`streams_per_caller_max`)")
            }
            None => (
                network_name(network.alone()),
                limits.streams_per_network_max,
                "network may have (`streams_per_network_max`)",
            ),
        };
        let mut open = self.open.lock();
        let is_anonymous = caller.subject.is_none();
        // Half of the places are for users, if there are any: without a token anybody can fill the others from many networks.
        let has_users = context.0.registry.authenticator.is_some();
        let is_half = is_anonymous && has_users && open.anonymous >= limits.streams_max.div_ceil(2);
        let is_full = is_half || open.all >= limits.streams_max;
        let own = open.by_caller.get(&owner).map_or(0, |owned| owned.streams);
        let site = network.site().filter(|_| is_anonymous);
        let of_site = site.and_then(|site| open.by_site.get(&site));
        // All networks of a customer have one account.
        let account = of_site.or_else(|| open.by_caller.get(&owner)).map(|owned| owned.account.clone());
        let of_site = of_site.map_or(0, |owned| owned.streams);
        let account = account.unwrap_or_default();
        let subscribed = account.subscriptions.load(Ordering::Relaxed);
        let refused = if open.stopping {
            Some(Problem::unavailable("The server is stopping. Try again.", Duration::from_secs(1)))
        } else if is_full {
            let detail = match is_half {
                true => format!(
                    "This server has {} streams of callers without a token open, half of its {} (`streams_max`). Sign in.",
                    open.anonymous, limits.streams_max
                ),
                false => format!("This server has its {} streams open (`streams_max`).", limits.streams_max),
            };
            Some(Problem::unavailable(detail, Duration::from_secs(5)))
        } else if own >= own_max {
            Some(Problem::limit(format!("You have {own} streams open, as many as one {limit}. Close one.")))
        } else if of_site >= 2 * own_max {
            let detail = "Your provider's network has twice as many streams open as one network may have \
                          (`streams_per_network_max`). Sign in.";
            Some(Problem::limit(detail))
        } else {
            check_owned(subscribed, subscriptions, limits).err()
        };
        if let Some(problem) = refused {
            context.0.engine.metrics.streams_refused.fetch_add(1, Ordering::Relaxed);
            return Err(problem);
        }
        open.all += 1;
        open.anonymous += usize::from(is_anonymous);
        let new = || Owned { streams: 0, account: account.clone() };
        open.by_caller.entry(owner.clone()).or_insert_with(new).streams += 1;
        if let Some(site) = site {
            open.by_site.entry(site).or_insert_with(new).streams += 1;
        }
        let opened = self.open.clone();
        let left = move || {
            let mut open = opened.lock();
            open.all -= 1;
            open.anonymous -= usize::from(is_anonymous);
            if let Some(owned) = open.by_caller.get_mut(&owner) {
                owned.streams -= 1;
                if owned.streams == 0 {
                    open.by_caller.remove(&owner);
                }
            }
            if let Some(site) = site
                && let Some(owned) = open.by_site.get_mut(&site)
            {
                owned.streams -= 1;
                if owned.streams == 0 {
                    open.by_site.remove(&site);
                }
            }
        };
        Ok((account, left))
    }

    /// A stream that lasts for one long poll.
    pub(crate) fn once(
        &self,
        context: &Context,
        caller: Standing,
        address: IpAddr,
        wanted: Vec<Wanted>,
    ) -> Result<StreamBody, Problem> {
        check(&wanted, 0, &context.0.limits)?;
        let (account, left) = self.admit(context, &caller.now, address, wanted.len())?;
        let body = StreamBody::new(self.stream(context, caller, [0; 32], false, account), left);
        body.stream.watch_standing();
        body.stream.subscribe_all(wanted);
        Ok(body)
    }

    /// The same for a query of the server itself, which stands on no row of a caller.
    pub(crate) fn once_for_the_server(
        &self,
        context: &Context,
        caller: Caller,
        wanted: Wanted,
    ) -> StreamBody {
        let caller = Standing { authenticated: caller.clone(), now: caller };
        let body = StreamBody::new(self.stream(context, caller, [0; 32], false, Arc::default()), || ());
        body.stream.subscribe(wanted);
        body
    }

    fn stream(
        &self,
        context: &Context,
        caller: Standing,
        secret: [u8; 32],
        needs_token: bool,
        account: Arc<Account>,
    ) -> Arc<Stream> {
        let id = self.numbers.fetch_add(1, Ordering::Relaxed);
        let parts = &context.0;
        let name = Name { id, secret, needs_token };
        Stream::new(name, caller, parts.engine.clone(), parts.registry.clone(), account)
    }

    /// Changes a running stream.
    pub(crate) fn change(
        &self,
        context: &Context,
        (name, secret): (&str, &str),
        standing: Standing,
        address: IpAddr,
        add: Vec<Wanted>,
        remove: &[String],
    ) -> Result<(), Problem> {
        let limits = &context.0.limits;
        let stream = self.open.lock().by_name.get(name).cloned();
        let elsewhere = || {
            let detail = "This server has no such stream. Open a new one with all of its subscriptions.";
            Problem::conflict("stream_elsewhere", detail)
        };
        let stream = stream.ok_or_else(elsewhere)?;
        let is_secret =
            aws_lc_rs::constant_time::verify_slices_are_equal(&sha256(secret.as_bytes()), &stream.secret);
        let owner = stream.caller().subject;
        let caller = &standing.now;
        let has_token = *caller != Caller::anonymous();
        if is_secret.is_err() || (has_token && owner != caller.subject) {
            return Err(Problem::forbidden("The stream belongs to another client."));
        }
        if stream.needs_token && !has_token {
            // The ticket's URL may be in a log, and whoever opens it receives this secret.
            return Err(Problem::unauthenticated());
        }
        if remove.len() > limits.subscriptions_max {
            let detail = format!("`remove` may have {} keys.", limits.subscriptions_max);
            return Err(Problem::invalid("remove", detail));
        }
        // Another session or other rights need a stream of their own.
        if has_token && rights(caller) != rights(&stream.caller()) {
            let detail = "The token gives other rights than the stream has. Open a new one with all of its subscriptions.";
            return Err(Problem::conflict("stream_elsewhere", detail));
        }
        let gone = remove.iter().chain(add.iter().map(|wanted| &wanted.key));
        let present = stream.len_without(&gone.map(|key| frame::quoted(key)).collect::<HashSet<String>>());
        check(&add, present, limits)?;
        let others = stream.owned().saturating_sub(stream.len());
        check_owned(others + present, add.len(), limits)?;
        // For the stream's own caller: its client may leave the token out.
        admit_calls(context, &stream.caller(), address, add.len())?;
        remove.iter().for_each(|key| stream.unsubscribe(key));
        if has_token {
            stream.renew(standing);
        }
        add.into_iter().for_each(|wanted| stream.subscribe(wanted));
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().by_name.len()
    }

    fn all(&self) -> Vec<Arc<Stream>> {
        self.open.lock().by_name.values().cloned().collect()
    }

    /// Opens no more streams, and sends every client away with a pause of its own, so that they do not return at once.
    pub(crate) fn close(&self, return_time: Duration) {
        self.open.lock().stopping = true;
        for stream in self.all() {
            stream.end(frame::bye(pause(return_time)));
        }
    }
}

/// When one of many clients shall come back, in milliseconds: within this time, each at another moment.
pub(super) fn pause(return_time: Duration) -> u64 {
    let most = u64::try_from(return_time.as_millis()).unwrap_or(u64::MAX).max(1);
    u64::from_be_bytes(random().first_chunk().copied().unwrap_or_default()) % most
}

/// Refuses more subscriptions than a stream may have.
fn check(wanted: &[Wanted], present: usize, limits: &Limits) -> Result<(), Problem> {
    if wanted.len() + present > limits.subscriptions_max {
        return Err(Problem::limit(format!(
            "A stream may have {} subscriptions (`subscriptions_max`). Open a second stream.",
            limits.subscriptions_max
        )));
    }
    let mut keys = HashSet::new();
    if let Some(twice) = wanted.iter().find(|wanted| !keys.insert(&*wanted.key)) {
        let detail = format!("Two subscriptions have the key {:?}; each needs a key of its own.", twice.key);
        return Err(Problem::invalid("key", detail));
    }
    if let Some(long) = wanted.iter().find(|wanted| wanted.key.len() > 128) {
        return Err(Problem::invalid(
            "key",
            format!("A key may have 128 bytes, this one has {}.", long.key.len()),
        ));
    }
    if wanted.iter().filter_map(|wanted| wanted.have.as_ref()).any(|have| have.len() > 256) {
        return Err(Problem::invalid("have", "`have` may have 256 bytes: a version, a slash, and a digest."));
    }
    if let Some(long) = wanted.iter().find(|wanted| wanted.query.len() > 128) {
        let detail = format!("A name of a query may have 128 bytes, this one has {}.", long.query.len());
        return Err(Problem::invalid("query", detail));
    }
    Ok(())
}

/// Refuses more subscriptions than a caller may have in all streams.
fn check_owned(present: usize, new: usize, limits: &Limits) -> Result<(), Problem> {
    let most = limits.subscriptions_per_caller_max;
    match present + new > most {
        true => Err(Problem::limit(format!(
            "You have {present} subscriptions; one user, or one network without a token, may have {most} \
             (`subscriptions_per_caller_max`). End some."
        ))),
        false => Ok(()),
    }
}

/// What differs between two tokens of the same caller: times; in ID tokens what belongs to one sign-in (OpenID Connect Core);
/// and what Microsoft Entra puts into each token. The client has the same list, in `sdk/typescript/src/tokens.ts`.
const OF_ONE_TOKEN: [&str; 11] =
    ["exp", "iat", "nbf", "auth_time", "at_hash", "c_hash", "s_hash", "nonce", "uti", "aio", "rh"];

/// What a token gives beyond its time: a stream may be renewed only by one that gives the same.
fn rights(caller: &Caller) -> Map<String, Value> {
    let mut rights = (*caller.claims).clone();
    for name in OF_ONE_TOKEN {
        rights.remove(name);
    }
    // Sarsen's tokens have their grant before a dot, on which the stream stands.
    let id = rights.remove("jti");
    if let Some((grant, _)) = id.as_ref().and_then(Value::as_str).and_then(|id| id.split_once('.')) {
        rights.insert("grant".to_owned(), grant.into());
    }
    rights
}

/// Heartbeats, expired tokens, groups without subscribers.
pub(crate) async fn tick(context: Context, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let now = context.now();
        // A stream that is quiet for longer than this would be late at the next tick.
        let quiet = context.0.limits.heartbeat.saturating_sub(TICK);
        context.0.streams.all().iter().for_each(|stream| stream.tick(quiet, now));
        context.0.streams.tickets.sweep(now);
        context.0.engine.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_of_another_grant_gives_other_rights() {
        let of = |jti: &str, exp: i64| {
            let claims = json!({ "sid": "s", "jti": jti, "exp": exp });
            let claims = claims.as_object().cloned().unwrap_or_default();
            rights(&Caller { claims: Arc::new(claims), ..Caller::default() })
        };
        assert_eq!(of("g1.x", 1), of("g1.y", 2));
        assert_ne!(of("g1.x", 1), of("g2.x", 1));
        assert_eq!(of("one", 1), of("other", 1), "ids of other issuers are random");
    }
}
