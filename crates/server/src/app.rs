//! What a handler may touch: one cheap-clone handle.

use crate::api::subscription_answers::SubscriptionAnswers;
use crate::clock::Clock;
use crate::dev::demo::Demo;
use crate::events::{Log, Streams};
use crate::jobs::backups::Schedule;
use crate::jobs::backups::schedule::{Backups, Counts};
use crate::jobs::janitor::Janitor;
use crate::jobs::key_maker::KeyMaker;
use crate::jobs::presence::Presence;
use crate::lanes::{HashLane, LOWEST_PRIORITY};
use crate::limits::failed_sign_ins::FailedSignIns;
use crate::limits::password_guesses::PasswordGuesses;
use crate::limits::quotas::Quota;
use crate::limits::rate_limited_writes::{KeyUse, LastSeen, PkceUse};
use crate::limits::redirect_problems::RedirectProblems;
use crate::limits::sign_ups::SignUps;
use crate::limits::turns::Turns;
use crate::limits::user_code_attempts::UserCodeAttempts;
use crate::oauth::long_poll::LongPolls;
use crate::operation::counters::Metrics;
use identity::audit::Actor;
use identity::ids::UserId;
use identity::pending_device_codes::PendingDeviceCodes;
use identity::secrets::{Random, SecretKey};
use identity::user_codes::UserCodes;
use identity::{Lookups, Time};
use live::background::Work;
use outgoing::Relay;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use texts::Languages;
use web::address_sources::AddressSources;
use web::host::Hosts;
use web::request_id::RequestIds;
use web::{AddressHeader, CallerCounts, Cidr, RequestLog, RequestLogFormat};

/// The mails that forms send for one network in an hour.
const MAILS_PER_NETWORK_MAX: u32 = 200;

/// How a server behaves. Made by the binary from its configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The one origin, without a slash at its end; advertised byte for byte.
    pub issuer: String,
    /// Peers whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<Cidr>,
    /// The header that is read instead, where these peers send `Forwarded`.
    pub client_address_header: AddressHeader,
    /// Names of hosts, beside the issuer's, that requests may be for.
    pub allowed_hosts: Vec<String>,
    /// Logs each request to stderr, if the log's filter lets lines of the target `request` through.
    pub request_log: Option<RequestLogFormat>,
    /// Bearer token for `/metrics`; without one only this machine may read them.
    pub metrics_token: Option<String>,
    /// Whether people may create accounts themselves at organizations from before that was a setting of theirs.
    pub sign_up: bool,
    /// The most accounts that the sign-up form makes for one network in an hour.
    pub sign_ups_per_network_max: u32,
    /// The most mails in a day that one organization sends to addresses that nobody has proved.
    pub unproven_mails_per_day_max: u32,
    /// Threads that hash passwords; none: as many as there are processors.
    pub hash_threads: Option<usize>,
    /// Their priority, as `nice` counts.
    pub hash_nice: i32,
    /// Whether this instance takes its turns at housekeeping.
    pub housekeeping: bool,
    /// When backups are made (SQLite only).
    pub backups: Option<Schedule>,
    /// How long a browser stays signed in.
    pub session_life: Duration,
    /// How long a poll at the token endpoint is held at most.
    pub hold_max: Duration,
    /// Device codes that one client may have pending.
    pub pending_codes_max: usize,
    /// Wrong user codes that all browsers without a signed-in user may enter in a minute.
    pub wrong_codes_max: u32,
    /// The most writes with an `Idempotency-Key`, in a quarter of an hour and for one caller.
    pub keyed_writes_max: usize,
    /// The most streams of `GET /api/live` at this instance.
    pub streams_max: usize,
    /// The most of them for one user or API key.
    pub streams_per_caller_max: usize,
    /// The pause after which a stream without events sends a sign of life.
    pub stream_heartbeat: Duration,
    /// What takes mails; none: this server sends none.
    pub mail: Option<Relay>,
    /// Whether printed links sign test users in at once: only on the server of `sarsen dev`.
    pub dev_sign_in: bool,
    /// The languages of pages, with their texts.
    pub languages: Arc<Languages>,
}

impl Settings {
    /// The defaults, for an issuer.
    pub fn new(issuer: impl Into<String>) -> Settings {
        Settings {
            issuer: issuer.into(),
            trusted_proxies: Vec::new(),
            client_address_header: AddressHeader::default(),
            allowed_hosts: Vec::new(),
            request_log: None,
            metrics_token: None,
            sign_up: true,
            sign_ups_per_network_max: 200,
            unproven_mails_per_day_max: 500,
            hash_threads: None,
            hash_nice: LOWEST_PRIORITY,
            housekeeping: true,
            backups: None,
            session_life: Duration::from_secs(30 * 24 * 3600),
            hold_max: Duration::from_secs(5),
            pending_codes_max: 1_000_000,
            wrong_codes_max: 10_000,
            keyed_writes_max: 10_000,
            streams_max: 10_000,
            streams_per_caller_max: 20,
            stream_heartbeat: Duration::from_secs(10),
            mail: None,
            dev_sign_in: false,
            languages: Languages::built_in(),
        }
    }
}

/// The handle.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The shared state of [`App`].
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The cached look-ups.
    pub lookups: Lookups,
    /// Encoded responses of `GET /api/subscription`.
    pub(crate) subscription_answers: SubscriptionAnswers,
    /// Whether writes are possible.
    pub(crate) presence: Arc<Presence>,
    /// The id of this instance among those on the same database.
    pub(crate) instance: String,
    /// How to behave.
    pub settings: Settings,
    /// The installation's secret.
    pub secret_key: SecretKey,
    /// Password hashing, bounded.
    pub(crate) hash_lane: HashLane,
    /// The streams of `GET /api/live`.
    pub(crate) streams: Arc<Streams>,
    /// The turns of organizations to search their lists.
    pub(crate) lists: Turns,
    /// Polls that wait for a decision.
    pub(crate) long_polls: Arc<LongPolls>,
    /// Device codes without a decision.
    pub(crate) pending_device_codes: PendingDeviceCodes,
    /// Makes and reads user codes.
    pub(crate) user_codes: UserCodes,
    /// When each user was last seen.
    pub(crate) last_seen: LastSeen,
    /// When API keys were last used.
    pub(crate) key_use: KeyUse,
    /// Rate limits on wrong passwords.
    pub(crate) failed_sign_ins: Arc<FailedSignIns>,
    /// Rate limits on wrong passwords.
    pub(crate) password_guesses: PasswordGuesses,
    /// Accounts that the sign-up form makes, by network.
    pub(crate) sign_ups: SignUps,
    /// Mails that forms ask for, by network.
    pub(crate) mail_forms: SignUps,
    /// Clients that sent a PKCE challenge lately.
    pub(crate) pkce_use: PkceUse,
    /// Redirect addresses that clients sent and that are not registered.
    pub(crate) redirect_problems: RedirectProblems,
    /// Device codes that wait, by client.
    pub(crate) pending_codes: Quota,
    /// Writes with an `Idempotency-Key`, by caller.
    pub(crate) keyed_writes: CallerCounts,
    /// Attempts at user codes.
    pub(crate) user_code_attempts: UserCodeAttempts,
    /// Counters.
    pub(crate) metrics: Metrics,
    /// The hosts that requests may be for.
    pub(crate) hosts: Hosts,
    /// Where the addresses of clients come from.
    pub(crate) address_sources: AddressSources,
    /// Backups that the schedule has made.
    pub(crate) backup_counts: Arc<Counts>,
    /// Names requests.
    pub(crate) request_ids: RequestIds,
    /// Logs requests, when that is on.
    pub(crate) request_log: Option<RequestLog>,
    /// The demo's sample products, when this is a demo.
    pub(crate) demo: Option<Demo>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// Puts the parts together. Fails when a cipher cannot be had.
    pub fn new(
        store: Store,
        settings: Settings,
        secret_key: SecretKey,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        demo: Option<Demo>,
    ) -> Result<App, identity::Error> {
        let mut seed = [0; 8];
        random.fill(&mut seed);
        let hash_lane = HashLane::start(settings.hash_threads, settings.hash_nice, random.clone());
        let user_codes = UserCodes::new(&secret_key, &*random)?;
        let instance = identity::secrets::secret(&*random);
        Ok(App(Arc::new(Parts {
            lookups: Lookups::new(store.clone(), &settings.issuer, secret_key.clone()),
            subscription_answers: SubscriptionAnswers::new(store.clone()),
            hash_lane,
            streams: Arc::default(),
            lists: Turns::default(),
            long_polls: Arc::default(),
            pending_device_codes: PendingDeviceCodes::new(store.clone()),
            user_codes,
            last_seen: LastSeen::default(),
            key_use: KeyUse::default(),
            failed_sign_ins: Arc::default(),
            password_guesses: PasswordGuesses::new(secret_key.clone()),
            mail_forms: SignUps::new(secret_key.clone(), MAILS_PER_NETWORK_MAX),
            sign_ups: SignUps::new(secret_key.clone(), settings.sign_ups_per_network_max),
            pkce_use: PkceUse::default(),
            redirect_problems: RedirectProblems::default(),
            pending_codes: Quota::default(),
            keyed_writes: CallerCounts::in_quarters_of_an_hour(),
            user_code_attempts: UserCodeAttempts::new(settings.wrong_codes_max),
            metrics: Metrics::default(),
            hosts: Hosts::new(&settings.issuer, &settings.allowed_hosts),
            address_sources: AddressSources::default(),
            backup_counts: Arc::default(),
            request_ids: RequestIds::new(seed),
            request_log: settings
                .request_log
                .filter(|_| tracing::enabled!(target: "request", tracing::Level::INFO))
                .map(|format| RequestLog::start(format, std::io::stderr())),
            demo,
            presence: Arc::new(Presence::new(store.clone(), clock.clone(), instance.clone())),
            instance,
            store,
            settings,
            secret_key,
            clock,
            random,
        })))
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Randomness.
    pub fn random(&self) -> &dyn Random {
        &*self.random
    }

    /// A user who acts, for the audit trail.
    pub fn actor(&self, user: &UserId, address: IpAddr) -> Actor {
        Actor::user(user, &address.to_string(), self.now(), self.random())
    }

    /// An unauthenticated client at an address, for the audit trail.
    pub(crate) fn unknown(&self, address: IpAddr) -> Actor {
        Actor::unknown(&address.to_string(), self.now(), self.random())
    }

    /// The program itself, for the audit trail.
    pub fn system(&self) -> Actor {
        Actor::system(self.now(), self.random())
    }

    /// Makes signing keys.
    pub(crate) fn key_maker(&self) -> KeyMaker {
        let (secret_key, clock) = (self.secret_key.clone(), self.clock.clone());
        KeyMaker::new(self.store.clone(), secret_key, clock, self.random.clone())
    }

    /// The work of this instance that is no request; made once.
    pub(crate) fn work(&self) -> Work {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let work = Work::new(store.clone(), move || clock.now()).measured_by(&self.metrics.work);
        Janitor::new(store, self.key_maker(), self.instance.clone(), self.clock.clone(), self.random.clone())
            .add_to(work)
    }

    /// Makes the backups of the schedule, if there is one.
    pub(crate) fn backups(&self) -> Option<Backups> {
        let schedule = self.settings.backups.clone()?;
        let (secret_key, counts) = (self.secret_key.clone(), self.backup_counts.clone());
        Some(Backups::new(self.store.clone(), secret_key, self.clock.clone(), counts, schedule))
    }

    /// The log of events, for those who read it.
    pub(crate) fn log(&self) -> Log {
        Log::new(self.store.clone(), self.clock.clone())
    }

    /// What takes mails, if this server sends any.
    pub fn relay(&self) -> Option<&Relay> {
        self.settings.mail.as_ref()
    }

    /// An address of this server.
    pub fn url(&self, path: &str) -> String {
        [&self.settings.issuer, path].concat()
    }
}
