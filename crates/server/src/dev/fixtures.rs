//! Creates many accounts for benchmarks: each with a password, a session and an audit trail, every second one with a
//! subscription, and with grants on request. It uses the commands of the domain, so the rows are the same as those of real users. All accounts share
//! one password, because hashing a million passwords would take hours.

use crate::jobs::retry;
use identity::audit::{self, Actor};
use identity::authentication::{Authentication, Method};
use identity::grants::{self, NewGrant, NewRefresh};
use identity::ids::{ClientId, CustomerId, GrantId, OrganizationId, SessionId, SubscriptionId, UserId};
use identity::scopes::Scope;
use identity::secrets::{self, Random};
use identity::sessions::{self, NewSession};
use identity::subscriptions::{self, Buyer, NewSubscription, Status};
use identity::users::{self, NewUser, Profile};
use identity::{Error, Result, Time, organizations, passwords, plans, user_search};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Store, Tx};

/// Accounts that one command creates, so that the command is short.
const SLICE: u64 = 50;
/// The accounts are created one after the other within this period, and each is signed in since then.
const HISTORY: Duration = Duration::from_secs(28 * 24 * 3600);
const SESSION_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
const PERIOD: Duration = Duration::from_secs(365 * 24 * 3600);
/// The domain of the addresses; it is reserved and has no mail.
const DOMAIN: &str = "fill.test";
const NAMES: [&str; 6] = ["Ada", "Grace Brewster", "Zoë Ångström", "Юлия", "李小龍", "Señor \u{1f680}"];
const AGENTS: [&str; 2] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
];

/// The created accounts.
#[derive(Clone, Debug)]
pub struct Filled {
    /// The e-mail address of one account.
    pub email: String,
    /// The password of all accounts.
    pub password: String,
    /// The plan of its subscription.
    pub plan: String,
    /// New rows, by table.
    pub rows: BTreeMap<&'static str, u64>,
}

/// The grants that each account gets, for tokens.
#[derive(Clone, Debug)]
pub struct Grants {
    /// How many.
    pub each: u32,
    /// The id of the client that is authorized.
    pub client: String,
}

/// Receives a line for each grant, which `signed_tokens` reads.
pub type NoteGrant<'a> = &'a mut dyn FnMut(&str) -> std::io::Result<()>;

/// What all accounts share.
struct Common {
    organization: OrganizationId,
    /// The grants of each account, and their client.
    grants: Option<(u32, ClientId)>,
    /// The slugs of the plans.
    plans: Vec<String>,
    hash: String,
}

/// Creates `count` accounts in an organization that has plans. `tell` receives the number of accounts so far. An
/// organization can be filled once.
pub async fn fill(
    store: &Store,
    organization: &str,
    count: u64,
    grants: Option<(Grants, NoteGrant<'_>)>,
    now: Time,
    random: &dyn Random,
    mut tell: impl FnMut(u64),
) -> Result<Filled> {
    let (grants, mut note_grant) = grants.unzip();
    let grants_each = grants.as_ref().map_or(0, |grants| u64::from(grants.each));
    let grants = match grants {
        Some(Grants { each, client }) => Some((each, ClientId::parse(&client)?)),
        None => None,
    };
    let password = secrets::secret(random);
    let slug = organization.to_owned();
    let found = store.read(move |snapshot| {
        let organization = organizations::find(snapshot, &slug)?.id;
        let plans = plans::list(snapshot, &organization, None, 100)?;
        Ok::<_, Error>((organization, plans))
    });
    let (organization, plans) = found.await?;
    let plans: Vec<String> = plans.into_iter().map(|plan| plan.slug).collect();
    let hash = passwords::hash(&password, random, &mut passwords::Memory::default())?;
    let common = Arc::new(Common { organization, grants, plans, hash });
    let last_buyer = count.saturating_sub(1) / 2 * 2;
    let plan = common.plan_of(last_buyer)?.to_owned();

    let (mut done, mut terms) = (0, 0);
    while done < count {
        let end = count.min(done + SLICE);
        let moment = |number| now - HISTORY.mul_f64(1.0 - number as f64 / count as f64);
        let accounts: Result<Vec<Account>> =
            (done..end).map(|number| Account::draw(&common, number, moment(number), random)).collect();
        let (common, accounts) = (common.clone(), Arc::new(accounts?));
        let made = accounts.clone();
        let of_account =
            |account: &Account| user_search::terms(&account.user.email, &account.user.profile.name).len();
        terms += accounts.iter().map(of_account).sum::<usize>() as u64;
        retry::write(store, "fill", move |tx| {
            accounts.iter().try_for_each(|account| account.create(tx, &common))
        })
        .await?;
        if let Some(note) = &mut note_grant {
            let noted = made.iter().try_for_each(|account| account.note_grants(note));
            noted.map_err(|error| Error::Internal(format!("the file of grants: {error}")))?;
        }
        done = end;
        tell(done);
    }
    let buyers = count.div_ceil(2);
    let each = ["users", "customers", "passwords", "sessions"].map(|table| (table, count));
    let mut rows = BTreeMap::from(each);
    rows.insert("subscriptions", buyers);
    rows.insert("user_terms", terms);
    rows.insert("audit", 2 * count + buyers);
    rows.extend(["grants", "refresh_tokens"].map(|table| (table, grants_each * count)));
    Ok(Filled { email: email(last_buyer), password, plan, rows })
}

fn email(number: u64) -> String {
    format!("person-{number}@{DOMAIN}")
}

impl Common {
    /// The plan of account `number`, if it has a subscription.
    fn plan_of(&self, number: u64) -> Result<&str> {
        let problem = "this organization sells no plan; give it one";
        let place = number / 2 % (self.plans.len() as u64).max(1);
        let plan = usize::try_from(place).ok().and_then(|place| self.plans.get(place));
        plan.map(String::as_str).ok_or_else(|| Error::refused("no_plan", problem))
    }
}

/// A new account with its random values: a command may run more than once.
struct Account {
    user: NewUser,
    session: NewSession,
    subscription: Option<NewSubscription>,
    grants: Vec<(NewGrant, NewRefresh)>,
    /// The actor that creates the account, and the user of the account, who signs in.
    maker: Actor,
    owner: Actor,
}

impl Account {
    fn draw(common: &Common, number: u64, at: Time, random: &dyn Random) -> Result<Account> {
        let id = UserId::new(at, random);
        let address = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
        let pick = |from: &[&'static str]| from[(number % from.len() as u64) as usize];
        let subscription = if number.is_multiple_of(2) {
            Some(NewSubscription {
                id: SubscriptionId::new(at, random),
                buyer: Buyer::User(id.clone()),
                plan: common.plan_of(number)?.to_owned(),
                status: Status::Active,
                current_period_end: Some(at + PERIOD),
                access_until: None,
            })
        } else {
            None
        };
        let session = SessionId::new(at, random);
        let grant = |client: &ClientId| {
            let grant = NewGrant {
                id: GrantId::new(at, random),
                organization: common.organization.clone(),
                user: id.clone(),
                client: client.clone(),
                session: session.clone(),
                // Without a refresh token the janitor would delete it a week after its access token.
                scope: Scope::parse("offline_access profile email"),
                authentication: Authentication::new(at, &[Method::Password]),
            };
            (grant, NewRefresh::first(at, random))
        };
        let each = |(each, client): &(u32, ClientId)| (0..*each).map(|_| grant(client)).collect();
        let grants = common.grants.as_ref().map(each).unwrap_or_default();
        Ok(Account {
            grants,
            maker: Actor::system(at, random),
            owner: Actor::user(&id, &address, at, random),
            session: NewSession {
                id: session,
                organization: common.organization.clone(),
                user: id.clone(),
                kind: "browser",
                hash: Some(secrets::hash(secrets::secret(random).as_bytes())),
                address,
                agent: pick(&AGENTS).to_owned(),
                created_at: at,
                authentication: Authentication::new(at, &[Method::Password]),
                expires_at: at + SESSION_LIFE,
            },
            user: NewUser {
                id,
                customer: CustomerId::new(at, random),
                email: email(number),
                profile: Profile::named(format!("{} {number}", pick(&NAMES))),
                email_verified: true,
            },
            subscription,
        })
    }

    fn create(&self, tx: &mut Tx<'_>, common: &Common) -> Result<()> {
        let organization = &common.organization;
        users::create(tx, organization, &self.user, &self.maker)?;
        passwords::put(tx, &self.user.id, &common.hash, self.maker.now)?;
        if let Some(subscription) = &self.subscription {
            subscriptions::create(tx, organization, subscription, &self.maker)?;
        }
        sessions::create(tx, &self.session)?;
        for (grant, refresh) in &self.grants {
            grants::create(tx, grant, Some(refresh), self.maker.now)?;
        }
        audit::note(tx, organization, &self.owner, "session.created", self.session.id.as_str(), "")
    }

    fn note_grants(&self, note: &mut NoteGrant<'_>) -> std::io::Result<()> {
        self.grants.iter().try_for_each(|(grant, _)| {
            let NewGrant { id, user, client, session, .. } = grant;
            note(&format!("{id} {user} {session} {} {client}", self.user.customer))
        })
    }
}
