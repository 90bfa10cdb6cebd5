//! A stream: one client's subscriptions, and the body of its response.
//!
//! A result is state, so nothing is queued for a client: the stream knows which of its subscriptions are behind, and takes
//! their newest frames when the socket can take bytes. It has no task and no channel of its own. A slow client gets fewer
//! frames, and never an old one after a new one.
//!
//! If the right to go on depends on rows, the stream holds frames back until its standing is known for their version.

mod sending;
mod subscription;

pub(crate) use sending::StreamBody;
pub(crate) use subscription::Wanted;
use subscription::{Kept, Source, Subscription};

use crate::Problem;
use crate::account::Account;
use crate::app::Registry;
use crate::caller::{Caller, earlier};
use crate::engine::{Engine, Full};
use crate::frame::{self, Held, Weight};
use crate::group::{Group, GroupKey, Phase, Work};
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, Instant};
use store::{Time, Version};

/// The slot of a stream's standing in its group.
pub(crate) const STANDING: u32 = u32::MAX;
/// Bytes of events that are not of a group, such as refusals, that may wait for a client.
const NOTICE_BYTES_MAX: usize = 256 * 1024;
/// The same while the server has no room for answers.
const NOTICE_BYTES_OF_FULL: usize = 64 * 1024;
/// When a client whose stream has ended for a reason of its own may come back.
pub(crate) const RETURN_MS: u64 = 1_000;
/// The length of the arguments of a subscription, which are kept as long as it lasts.
const ARGS_BYTES_MAX: usize = 4096;

/// A caller, as the token says and as the database sees them.
#[derive(Clone)]
pub(crate) struct Standing {
    pub(crate) authenticated: Caller,
    pub(crate) now: Caller,
}

/// What tells the standings of callers apart.
pub(crate) fn standing_key(caller: &Caller) -> String {
    let claims = serde_json::to_string(&*caller.claims).unwrap_or_default();
    format!("{:?} {claims}", caller.subject)
}

/// An event that is not of a group. It counts like an answer until the stream has sent it.
struct Notice {
    text: String,
    _weight: Option<Weight>,
}

impl Notice {
    /// The last one of a stream.
    fn last(text: String) -> Notice {
        Notice { text, _weight: None }
    }
}

/// How a stream is found, and what its client needs to change it.
pub(crate) struct Name {
    pub(crate) id: u64,
    /// A hash of the secret that the client needs.
    pub(crate) secret: [u8; 32],
    /// The client needs its token too.
    pub(crate) needs_token: bool,
}

/// See the module. It has the fields of its [`Name`].
pub(crate) struct Stream {
    pub(crate) id: u64,
    pub(crate) secret: [u8; 32],
    pub(crate) needs_token: bool,
    engine: Arc<Engine>,
    registry: Arc<Registry>,
    /// What all streams of its caller take.
    account: Arc<Account>,
    /// Held while a subscription is added, replaced or ended.
    changing: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    /// The caller as the database sees them now.
    caller: Caller,
    /// The caller as the token says, where that is something else.
    authenticated: Option<Box<Caller>>,
    subscriptions: Vec<Option<Subscription>>,
    /// Slots whose group has a newer frame.
    behind: VecDeque<u32>,
    /// Events that are not of a group.
    notices: VecDeque<Notice>,
    standing: Option<Arc<Group>>,
    waker: Option<Waker>,
    /// Nothing is sent after the notices.
    ended: bool,
    heartbeat: bool,
    /// A timer will wake it.
    looks_again: bool,
    /// How often it has looked in vain.
    looks: u8,
    last_sent: Instant,
    /// The end of the token.
    token_expires: Option<Time>,
    /// The end that rows have, as the standing was read last.
    rows_expire: Option<Time>,
    /// The end of the token, or of what the database has of the caller.
    expires: Option<Time>,
}

impl State {
    fn has_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

impl Stream {
    pub(crate) fn new(
        Name { id, secret, needs_token }: Name,
        standing: Standing,
        engine: Arc<Engine>,
        registry: Arc<Registry>,
        account: Arc<Account>,
    ) -> Arc<Stream> {
        let Standing { authenticated, now: caller } = standing;
        let (token_expires, expires) = (authenticated.expires, caller.expires);
        let authenticated = (authenticated != caller).then(|| Box::new(authenticated));
        let state = State {
            caller,
            authenticated,
            subscriptions: Vec::new(),
            behind: VecDeque::new(),
            notices: VecDeque::new(),
            standing: None,
            waker: None,
            ended: false,
            heartbeat: false,
            looks_again: false,
            looks: 0,
            last_sent: Instant::now(),
            token_expires,
            rows_expire: None,
            expires,
        };
        Arc::new(Stream {
            id,
            secret,
            needs_token,
            engine,
            registry,
            account,
            changing: Mutex::default(),
            state: Mutex::new(state),
        })
    }

    /// What all streams of its caller take.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Watches the standing of the caller, if the authenticator has one.
    pub(crate) fn watch_standing(self: &Arc<Stream>) {
        let Some(authenticator) = self.registry.authenticator.clone().filter(|auth| auth.has_standing())
        else {
            return;
        };
        // The standing is read for the caller of the token: a role that it adds must be able to go again.
        let one_at_a_time = self.changing.lock();
        let caller = {
            let state = self.state.lock();
            if state.ended {
                return;
            }
            state.authenticated.as_deref().unwrap_or(&state.caller).clone()
        };
        let key = GroupKey { query: "", args: standing_key(&caller).into(), claims: "".into() };
        let before = self.state.lock().standing.clone();
        let group = match before {
            // Another renewal has come to the same token.
            Some(group) if group.key == key => group,
            before => {
                let make = move || {
                    let run = move |snapshot: &mut store::Snapshot<'_>| {
                        Caller::read(&*authenticator, snapshot, &caller)
                    };
                    (true, Work::Standing(Box::new(run)))
                };
                let (group, ..) = self.engine.join(key, self, STANDING, None, make);
                // Until the new one is there, frames wait for the one before.
                self.state.lock().standing = Some(group.clone());
                before.into_iter().for_each(|before| before.leave(self, STANDING));
                group
            }
        };
        drop(one_at_a_time);
        // The last run's result holds for this stream too, unless another run is due, which gives its result to all. The group
        // may find another standing while its last one is taken over.
        let known = || {
            let state = group.state.lock();
            state.standing.clone().filter(|_| state.phase != Phase::Queued)
        };
        while let Some(standing) = known() {
            self.set_standing(&group, standing.as_ref());
            if known().is_none_or(|now| now == standing) {
                break;
            }
        }
    }

    /// The caller as the database sees them now, which this group has found. Subscriptions whose claims differ move to other
    /// groups. What the group of an earlier token finds late says nothing of this one.
    pub(crate) fn set_standing(self: &Arc<Stream>, found_by: &Arc<Group>, caller: Option<&Caller>) {
        let stands_on = |state: &State| state.standing.as_ref().is_some_and(|own| Arc::ptr_eq(own, found_by));
        let Some(caller) = caller else {
            let mut state = self.state.lock();
            if state.ended || !stands_on(&state) {
                return;
            }
            state.behind.clear();
            state.notices.push_back(Notice::last(frame::bye(RETURN_MS)));
            state.ended = true;
            drop(state);
            return self.wake();
        };
        // A subscription that is being added is there before the caller changes, or is added for the new one.
        let one_at_a_time = self.changing.lock();
        let mut state = self.state.lock();
        if !stands_on(&state) {
            return;
        }
        state.rows_expire = caller.expires;
        state.expires = earlier(state.token_expires, caller.expires);
        if state.caller.claims == caller.claims && state.caller.subject == caller.subject {
            return;
        }
        state.caller = caller.clone();
        let slots: Vec<_> = (0..)
            .zip(&state.subscriptions)
            .filter_map(|(slot, subscription)| {
                let subscription = subscription.as_ref()?;
                Some((slot, subscription.group().cloned(), subscription.wanted()?))
            })
            .collect();
        drop(state);
        drop(one_at_a_time);
        for (slot, group, wanted) in slots {
            if self.is_decided_alike(group.as_deref(), &wanted) {
                continue;
            }
            let _one_at_a_time = self.changing.lock();
            // A client may have ended it meanwhile, or put another one into its place.
            let key = frame::quoted(&wanted.key);
            let is_it =
                |subscription: &Subscription| *subscription.key == *key && subscription.is_of(group.as_ref());
            if let Some(sent) = self.remove_slot(slot, is_it) {
                self.add(wanted, sent);
            }
        }
    }

    /// Whether the caller's present claims lead to the group that the subscription has, or to none if it was refused.
    fn is_decided_alike(&self, group: Option<&Group>, wanted: &Wanted) -> bool {
        let caller = self.caller();
        let entry = self.registry.query(&wanted.query);
        let bound = entry.and_then(|entry| (entry.bind)(wanted.arguments()?, &caller));
        match (group, bound) {
            (Some(group), Ok(bound)) => bound.claims == *group.key.claims,
            (None, Err(_)) => true,
            (Some(_), Err(_)) | (None, Ok(_)) => false,
        }
    }

    /// Adds the subscriptions that a stream begins with, with room for no more.
    pub(crate) fn subscribe_all(self: &Arc<Stream>, wanted: Vec<Wanted>) {
        self.state.lock().subscriptions.reserve_exact(wanted.len());
        wanted.into_iter().for_each(|wanted| self.subscribe(wanted));
    }

    /// Adds a subscription, in the place of one with the same key. What is wrong with it becomes an event.
    pub(crate) fn subscribe(self: &Arc<Stream>, wanted: Wanted) {
        let _one_at_a_time = self.changing.lock();
        self.end_subscription(&wanted.key);
        self.add(wanted, None);
    }

    /// Adds a subscription whose key is free, while `changing` is held. The client holds `sent` already, whose version must
    /// not be followed by an older one.
    fn add(self: &Arc<Stream>, wanted: Wanted, sent: Option<Version>) {
        if self.state.lock().ended {
            return;
        }
        let (key, rows) = (frame::quoted(&wanted.key), wanted.rows);
        // Two requests that change the stream at once may have found room for both.
        if self.len() >= self.engine.limits.subscriptions_max {
            let detail =
                "The stream has as many subscriptions as it may have (`subscriptions_max`). End one.";
            return self.notice(frame::error(&key, &Problem::limit(detail)));
        }
        let caller = self.state.lock().caller.clone();
        let is_long = wanted.args_bytes() > ARGS_BYTES_MAX;
        let bound = self.registry.query(&wanted.query).and_then(|entry| {
            if is_long {
                let detail = format!(
                    "The arguments of a subscription may have {ARGS_BYTES_MAX} bytes, these have {}.",
                    wanted.args_bytes()
                );
                return Err(Problem::invalid("args", detail));
            }
            let args = wanted.arguments()?;
            // Written anew, so that two spellings of the same arguments have one group.
            let text = args.to_string();
            Ok((entry, text, (entry.bind)(args, &caller)?))
        });
        let (entry, args, bound) = match bound {
            Ok(bound) => bound,
            Err(problem) => {
                let text = frame::error(&key, &problem);
                let slot = self.free_slot();
                // Kept for the day on which it is allowed: what it gets then must not be older.
                let known = wanted.have.as_deref().and_then(Held::parse).map(|held| held.version).or(sent);
                let held = known.map(|version| Box::new(Held { version, digest: String::new() }));
                let has_standing =
                    self.registry.authenticator.as_ref().is_some_and(|auth| auth.has_standing());
                let may_pass = has_standing && !is_long && self.registry.query(&wanted.query).is_ok();
                let weight = may_pass.then(|| self.engine.weight(self, wanted.args_bytes())).flatten();
                let source = Source::Refused(weight.map(|_weight| Box::new(Kept { wanted, _weight })));
                self.fill_slot(slot, Subscription { held, ..Subscription::new(source, rows, key) });
                return self.notice(text);
            }
        };
        let group_key =
            GroupKey { query: entry.name, args: args.into(), claims: bound.claims.as_str().into() };
        let held = wanted.have.as_deref().and_then(Held::parse).map(Box::new);
        let not_before = held.as_ref().map(|held| held.version).or(sent);
        let slot = self.free_slot();
        let Ok(slot) = u32::try_from(slot) else { return };
        let (is_point, refresh) = (entry.is_point, entry.refresh);
        let digest = held.as_ref().map(|held| held.digest.as_str());
        let known = not_before.map(|version| (version, digest));
        let (group, ask, full) = self
            .engine
            .join(group_key, self, slot, known, move || (is_point, Work::Query(bound.run, refresh)));
        let not_before = not_before.zip(ask).map(Box::new);
        let subscription = Subscription::new(Source::Group(group.clone()), rows, key);
        self.fill_slot(slot as usize, Subscription { held, not_before, ..subscription });
        if let Some(full) = full {
            return self.refuse(slot, &group, full);
        }
        // The group may have run before its subscription had its slot; a run that ends after this finds it there.
        let answered = {
            let mut state = group.state.lock();
            let is_current = state.phase == Phase::Idle && state.frame.is_some();
            if !is_current {
                state.waiting.add(self.clone(), slot);
            }
            is_current.then_some(state.answered)
        };
        if let Some(answered) = answered {
            self.mark(slot, &group, answered);
        }
    }

    fn free_slot(&self) -> usize {
        let mut state = self.state.lock();
        let free = state.subscriptions.iter().position(Option::is_none);
        free.unwrap_or_else(|| {
            state.subscriptions.push(None);
            state.subscriptions.len() - 1
        })
    }

    fn fill_slot(&self, slot: usize, subscription: Subscription) {
        if let Some(free) = self.state.lock().subscriptions.get_mut(slot) {
            *free = Some(subscription);
            self.account.subscriptions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the subscription with this key.
    pub(crate) fn unsubscribe(&self, key: &str) {
        let _one_at_a_time = self.changing.lock();
        self.end_subscription(key);
    }

    fn end_subscription(&self, key: &str) {
        let key = frame::quoted(key);
        let slot = self.state.lock().subscriptions.iter().position(|subscription| {
            subscription.as_ref().is_some_and(|subscription| *subscription.key == *key)
        });
        if let Some(slot) = slot.and_then(|slot| u32::try_from(slot).ok()) {
            self.remove_slot(slot, |subscription| *subscription.key == *key);
        }
    }

    /// Returns the newest version that the client holds; `None` if there was no such subscription.
    fn remove_slot(&self, slot: u32, is_it: impl FnOnce(&Subscription) -> bool) -> Option<Option<Version>> {
        let mut state = self.state.lock();
        let removed =
            state.subscriptions.get_mut(slot as usize)?.take_if(|subscription| is_it(subscription))?;
        // Before the slot can be seen as free: another subscription to the same group may take it.
        removed.group().into_iter().for_each(|group| group.leave(self, slot));
        if removed.is_behind {
            state.behind.retain(|behind| *behind != slot);
        }
        drop(state);
        self.account.subscriptions.fetch_sub(1, Ordering::Relaxed);
        let held = removed.held.map(|held| held.version);
        let known = [removed.sent.map(|(version, _)| version), held, removed.not_before.map(|wait| wait.0)];
        Some(known.into_iter().flatten().reduce(|one, other| self.engine.store.stronger(one, other)))
    }

    /// The number of its subscriptions.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().subscriptions.iter().flatten().count()
    }

    /// The number of its subscriptions whose keys are not among these.
    pub(crate) fn len_without(&self, keys: &HashSet<String>) -> usize {
        let state = self.state.lock();
        state.subscriptions.iter().flatten().filter(|subscription| !keys.contains(&*subscription.key)).count()
    }

    /// The number of subscriptions of all streams of its caller.
    pub(crate) fn owned(&self) -> usize {
        self.account.subscriptions.load(Ordering::Relaxed)
    }

    pub(crate) fn caller(&self) -> Caller {
        self.state.lock().caller.clone()
    }

    /// Whether the caller has no token, where callers may have one.
    pub(crate) fn is_strangers(&self) -> bool {
        self.registry.authenticator.is_some() && self.state.lock().caller.subject.is_none()
    }

    /// A client has sent a new token of the same user, on whose standing the stream stands from now on.
    pub(crate) fn renew(self: &Arc<Stream>, standing: Standing) {
        let mut state = self.state.lock();
        state.token_expires = standing.authenticated.expires;
        let before = state.authenticated.as_deref().unwrap_or(&state.caller);
        if before.claims == standing.authenticated.claims {
            // The standing that the stream watches is newer than what was read for the request.
            state.expires = earlier(state.token_expires, state.rows_expire);
            return;
        }
        state.expires = standing.now.expires;
        state.authenticated = Some(Box::new(standing.authenticated));
        drop(state);
        self.watch_standing();
    }

    /// The group of this slot has a newer frame, or has answered the asks up to `answered`. The slot may have been taken by
    /// a subscription of another group meanwhile.
    pub(crate) fn mark(&self, slot: u32, group: &Arc<Group>, answered: u64) {
        let mut state = self.state.lock();
        let Some(Some(subscription)) = state.subscriptions.get_mut(slot as usize) else { return };
        if !subscription.is_of(Some(group)) {
            return;
        }
        subscription.not_before = subscription.not_before.take().filter(|waits| waits.1 > answered);
        if !subscription.is_behind {
            subscription.is_behind = true;
            state.behind.push_back(slot);
        }
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ends the subscription of this slot: there is no room for the answer.
    pub(crate) fn refuse(&self, slot: u32, group: &Arc<Group>, full: Full) {
        let is_strangers = self.is_strangers();
        let mut state = self.state.lock();
        let Some(Some(subscription)) = state.subscriptions.get_mut(slot as usize) else { return };
        if !subscription.is_of(Some(group)) {
            return;
        }
        subscription.source = Source::Refused(None);
        let limits = &self.engine.limits;
        let detail = match full {
            Full::Caller => format!(
                "The answers of your live queries take more than {} bytes together (`answer_bytes_per_caller_max`). End some \
                 of them, and subscribe again.",
                limits.answer_bytes_per_caller_max
            ),
            Full::Server if is_strangers => format!(
                "The answers that this server keeps take more than {} bytes, half of its room (`answer_bytes_max`). The other \
                 half is for users: sign in, or subscribe again later.",
                limits.answer_bytes_max / 2
            ),
            Full::Server => format!(
                "The answers that this server keeps take more than {} bytes (`answer_bytes_max`). Subscribe again later.",
                limits.answer_bytes_max
            ),
        };
        let text = frame::error(&subscription.key, &Problem::limit(detail));
        group.leave(self, slot);
        drop(state);
        self.notice(text);
    }

    /// The run of this slot's group keeps failing. A client without an answer cannot tell that from a slow one.
    pub(crate) fn report_failure(&self, slot: u32, group: &Arc<Group>, problem: &Problem) {
        let mut state = self.state.lock();
        let Some(Some(subscription)) = state.subscriptions.get_mut(slot as usize) else { return };
        let shows_nothing = subscription.held.as_ref().is_none_or(|held| held.is_a_version_only());
        let is_untold = subscription.sent.is_none() && shows_nothing && !subscription.is_told;
        if !is_untold || !subscription.is_of(Some(group)) {
            return;
        }
        subscription.is_told = true;
        let text = frame::error(&subscription.key, problem);
        drop(state);
        self.notice(text);
    }

    /// Sends an event that is not of a group. A client that makes such events and does not read them loses its stream.
    pub(crate) fn notice(&self, text: String) {
        let weight = self.engine.weight(self, text.len());
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        let waiting: usize = state.notices.iter().map(|notice| notice.text.len()).sum();
        // A full server still says why it refuses something.
        let most = if weight.is_some() { NOTICE_BYTES_MAX } else { NOTICE_BYTES_OF_FULL };
        if waiting + text.len() <= most {
            state.notices.push_back(Notice { text, _weight: weight });
        } else {
            state.notices.clear();
            state.behind.clear();
            state.notices.push_back(Notice::last(frame::bye(RETURN_MS)));
            state.ended = true;
        }
        drop(state);
        self.wake();
    }

    /// Ends the stream after an event.
    pub(crate) fn end(&self, text: String) {
        let mut state = self.state.lock();
        state.notices.push_back(Notice::last(text));
        state.ended = true;
        drop(state);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        let waker = self.state.lock().waker.take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether the token has expired by now, or what the database has of the caller.
    pub(crate) fn has_expired(&self, now: Time) -> bool {
        self.state.lock().has_expired(now)
    }

    /// Sends a comment if nothing was sent for `quiet`; ends the stream if its token has expired.
    pub(crate) fn tick(&self, quiet: Duration, now: Time) {
        let mut state = self.state.lock();
        if state.has_expired(now) && !state.ended {
            let mut text = frame::error("", &Problem::unauthenticated());
            text.push_str(&frame::bye(RETURN_MS));
            state.notices.push_back(Notice::last(text));
            state.ended = true;
        } else if state.last_sent.elapsed() >= quiet {
            state.heartbeat = true;
        } else {
            return;
        }
        drop(state);
        self.wake();
    }

    /// Ends all of its subscriptions.
    pub(crate) fn leave(&self) {
        // What is being added is there before all are removed; nothing is added afterwards.
        let _one_at_a_time = self.changing.lock();
        let mut state = self.state.lock();
        let standing = state.standing.take();
        let subscriptions = std::mem::take(&mut state.subscriptions);
        state.ended = true;
        drop(state);
        standing.into_iter().for_each(|group| group.leave(self, STANDING));
        self.account.subscriptions.fetch_sub(subscriptions.iter().flatten().count(), Ordering::Relaxed);
        for (slot, subscription) in (0..).zip(subscriptions) {
            if let Some(Source::Group(group)) = subscription.map(|subscription| subscription.source) {
                group.leave(self, slot);
            }
        }
    }
}
