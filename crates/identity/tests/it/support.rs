//! A temporary database with the organization `platform`, and helpers that create test data.

use identity::administrators::{self, Role};
use identity::audit::Actor;
use identity::authentication::{Authentication, Method};
use identity::clients::{self, Client, Kind, NewClient};
use identity::ids::{ClientId, OrganizationId, PlanId, ServiceId, SessionId, SubscriptionId, UserId};
use identity::organizations::{self, Organization};
use identity::plans::{self, Limits, NewPlan, Plan};
use identity::secrets::Random;
use identity::services::{self, NewService, Service};
use identity::sessions::{self, NewSession};
use identity::subscriptions::{Buyer, NewSubscription, Status};
use identity::tokens::AccessTokenTyp;
use identity::users::{self, NewUser, User};
use identity::{Error, Result, Time, schema};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::testing::TestPlace;
use store::{Options, Snapshot, Store, Tx};

/// The start time of all tests.
pub const START: Time = Time::from_millis(1_800_000_000_000);

/// Returns different bytes each time, which is enough for the ids and secrets of tests.
struct Counter(AtomicU64);

impl Random for Counter {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            chunk.copy_from_slice(&(word ^ (word >> 32)).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The domain on its own database.
pub struct TestIdentity {
    pub store: Store,
    pub platform: Organization,
    random: Counter,
    _place: TestPlace,
}

impl TestIdentity {
    pub async fn open() -> TestIdentity {
        TestIdentity::open_in(TestPlace::create()).await
    }

    /// Opens the domain on the given database.
    pub async fn open_in(place: TestPlace) -> TestIdentity {
        // A busy machine is no reason to fail.
        TestIdentity::open_limited(place, Duration::from_secs(30)).await
    }

    /// Opens the domain on the given database. On SQLite a command may run for `command_time`.
    pub async fn open_limited(place: TestPlace, command_time: Duration) -> TestIdentity {
        let mut options = Options::new(place.url(), schema::MIGRATIONS);
        options.watched = schema::WATCHED;
        options.check = true;
        options.writer.deadline = Duration::from_secs(30);
        options.writer.command_time = command_time;
        let store = Store::open(options).expect("opens");
        let random = Counter(AtomicU64::new(1));
        let (id, actor) = (OrganizationId::new(START, &random), Actor::system(START, &random));
        let made = store.write("test", move |tx| {
            organizations::create_platform(tx, &id, &actor)?;
            organizations::get(tx.snapshot(), &id)
        });
        let platform = made.await.map_err(|error: Error| error).expect("platform");
        TestIdentity { store, platform, random, _place: place }
    }

    pub fn random(&self) -> &dyn Random {
        &self.random
    }

    /// Runs a command as the system actor.
    pub async fn write<T, F>(&self, command: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>, &Actor) -> Result<T> + Send + 'static,
    {
        self.write_at(START, command).await
    }

    /// Runs a command as the system actor at `now`.
    pub async fn write_at<T, F>(&self, now: Time, command: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&mut Tx<'_>, &Actor) -> Result<T> + Send + 'static,
    {
        let actor = Actor::system(now, &self.random);
        self.store.write("test", move |tx| command(tx, &actor)).await
    }

    pub async fn read<T, F>(&self, query: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Snapshot<'_>) -> Result<T> + Send + 'static,
    {
        self.store.read(query).await
    }

    pub async fn organization(&self, slug: &'static str) -> Organization {
        self.organization_of_status(slug, true).await
    }

    pub async fn pending_organization(&self, slug: &'static str) -> Organization {
        self.organization_of_status(slug, false).await
    }

    async fn organization_of_status(&self, slug: &'static str, approved: bool) -> Organization {
        let id = OrganizationId::new(START, &self.random);
        let made = self.write(move |tx, actor| organizations::create(tx, &id, slug, slug, approved, actor));
        made.await.expect("an organization")
    }

    pub async fn user(&self, organization: &Organization, email: &str) -> User {
        let new = NewUser { email_verified: true, ..NewUser::new(email, START, &self.random) };
        let organization = organization.id.clone();
        self.write(move |tx, actor| users::create(tx, &organization, &new, actor)).await.expect("a user")
    }

    /// Creates a user of `platform` with a role in an organization.
    pub async fn administrator(&self, organization: &Organization, email: &'static str, role: Role) -> User {
        let user = self.user(&self.platform, email).await;
        let (organization, id) = (organization.clone(), user.id.clone());
        let added = self.write(move |tx, actor| administrators::add(tx, &organization, &id, role, actor));
        assert_eq!(added.await.expect("an administrator").role, role);
        user
    }

    pub async fn service(&self, organization: &Organization, slug: &str) -> Service {
        let new = NewService {
            id: ServiceId::new(START, &self.random),
            slug: slug.to_owned(),
            name: slug.to_owned(),
            access_token_typ: AccessTokenTyp::default(),
        };
        let organization = organization.id.clone();
        self.write(move |tx, actor| services::create(tx, &organization, &new, actor))
            .await
            .expect("a service")
    }

    pub async fn client(&self, service: &Service, kind: Kind) -> Client {
        let uses_codes = kind.default_grants().contains(&"authorization_code");
        let id = ClientId::new(START, &self.random);
        let redirect_uris = uses_codes.then(|| "http://127.0.0.1/callback".to_owned()).into_iter().collect();
        let new = NewClient { consent_required: true, ..NewClient::new(id, kind, "A client", redirect_uris) };
        let service = service.clone();
        let made = self.write(move |tx, actor| {
            clients::create(tx, &service.organization, Some(&service.id), &new, actor)?;
            clients::get(tx.snapshot(), &new.id)
        });
        made.await.expect("a client")
    }

    pub fn new_plan(&self, slug: &str, services: &[&str]) -> NewPlan {
        NewPlan {
            id: PlanId::new(START, &self.random),
            slug: slug.to_owned(),
            name: slug.to_owned(),
            services: services.iter().map(|slug| (*slug).to_owned()).collect(),
            price_cents: 1_900,
            currency: "EUR".to_owned(),
            features: vec!["export".to_owned()],
            limits: Limits::new(),
            seats: None,
        }
    }

    pub async fn plan(&self, organization: &Organization, slug: &str, services: &[&str]) -> Plan {
        let (organization, new) = (organization.id.clone(), self.new_plan(slug, services));
        self.write(move |tx, actor| plans::create(tx, &organization, &new, actor)).await.expect("a plan")
    }

    pub fn new_subscription(&self, user: &User, plan: &str) -> NewSubscription {
        NewSubscription {
            id: SubscriptionId::new(START, &self.random),
            buyer: Buyer::User(user.id.clone()),
            plan: plan.to_owned(),
            status: Status::Active,
            current_period_end: None,
            access_until: None,
        }
    }

    pub fn new_session(&self, user: &User) -> NewSession {
        NewSession {
            id: SessionId::new(START, &self.random),
            organization: user.organization.clone(),
            user: user.id.clone(),
            kind: "browser",
            hash: None,
            address: "127.0.0.1".to_owned(),
            agent: "a test".to_owned(),
            created_at: START,
            authentication: Authentication::new(START, &[Method::Password]),
            expires_at: START + Duration::from_secs(3600),
        }
    }

    pub async fn session(&self, user: &User) -> SessionId {
        let new = self.new_session(user);
        let id = new.id.clone();
        self.write(move |tx, _| sessions::create(tx, &new)).await.expect("a session");
        id
    }

    /// An id that no row has.
    pub fn unknown_user(&self) -> UserId {
        UserId::new(START, &self.random)
    }

    /// The user as actor.
    pub fn actor(&self, user: &User) -> Actor {
        Actor::user(&user.id, "", START, &self.random)
    }
}

/// Returns the code of [`Error::Refused`].
pub fn refused<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
    match result {
        Err(Error::Refused { code, problem }) => {
            assert!(problem.len() > 20, "the message is too short: {problem}");
            code
        }
        other => panic!("expected Refused, got {other:?}"),
    }
}

/// Returns the noun of [`Error::NotFound`] or [`Error::Unknown`].
pub fn not_found<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
    match result {
        Err(Error::NotFound { what } | Error::Unknown { what, .. }) => what,
        other => panic!("expected NotFound, got {other:?}"),
    }
}

/// Returns the noun and the name of [`Error::Unknown`].
pub fn not_found_name<T: std::fmt::Debug>(result: Result<T>) -> (&'static str, String) {
    match result {
        Err(Error::Unknown { what, name, .. }) => (what, name),
        other => panic!("expected an unknown name: {other:?}"),
    }
}

/// Returns the message of [`Error::Invalid`].
pub fn invalid<T: std::fmt::Debug>(result: Result<T>) -> String {
    match result {
        Err(error @ Error::Invalid { .. }) => error.to_string(),
        other => panic!("expected Invalid, got {other:?}"),
    }
}
