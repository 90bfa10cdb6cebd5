//! Extractors for administration. What a handler may do is the type of its argument:
//!
//! | argument | who | may |
//! |---|---|---|
//! | [`Administrator`] | any administrator of the organization in the path (`{org}`); a program that may read | read |
//! | [`Admin`] | an admin or owner of it, while it is active; a program that may write | write |
//! | [`AdminOrProgram`] | the same, but the body decides which scopes a program needs | become [`Admin`] |
//! | [`Owner`] | an owner of it, while it is active | write |
//! | [`OwnerOfDeleted`] | an owner of it, in any state | restore it |
//! | [`OwnerOrSelf`] | the same, or the user in the path (`{user}`) | write |
//! | [`PlatformUser`] | a user with a token for the platform | write what belongs to nobody yet |
//! | [`PlatformOwner`] | a platform owner | write |
//!
//! The database is reached through them only: `read`, `point` and `list` are for all, `write` is for those that may
//! change something. `write` checks the caller again inside the command's transaction, because the caller decides how
//! long the body takes: the grant of the user's token must be alive (session, user and organization), and the user must
//! still have the role. The same holds for a program (an API key, a token of a machine client) and its scope. A request with
//! an `Idempotency-Key` makes one write.
//!
//! The path after the organization decides which scope a program needs ([`program_scopes`]). A noun that is not in
//! [`PROGRAMS_MAY`] is for users only. A handler whose body decides about more names what it needs beside that:
//! [`Admin::with_scopes`].

use super::auth::{Address, Bearer, Credential};
use super::error::Problem;
use super::idempotency::{Failure, Key};
use crate::app::App;
use crate::limits::redirect_problems::RedirectProblem;
use crate::limits::turns::LIST_WAIT;
use crate::web::path::parameter;
use axum::extract::FromRequestParts;
use endpoint::idempotency::{Outcome, Respond, once};
use http::request::Parts;
use identity::administrators::{self, Role};
use identity::audit::Actor;
use identity::grants;
use identity::ids::{ClientId, GrantId, UserId};
use identity::organizations::{self, Organization};
use identity::programs::{self, Need, Program};
use identity::secrets::{Random, SecretKey};
use identity::{Error, Result, Time, scopes};
use std::net::IpAddr;
use std::ops::Deref;
use store::{Snapshot, Tx};

/// The nouns of an organization that programs may have scopes for.
const PROGRAMS_MAY: &[&str] =
    &["services", "clients", "plans", "customers", "subscriptions", "users", "audit", "billing"];

/// What a write has come to: its answer, or the one that an earlier request with the same key got.
pub type Written<R> = std::result::Result<Outcome<R>, Problem>;

/// The caller, and the database with the caller's rights.
pub struct Caller {
    who: Who,
    address: IpAddr,
    /// The `Idempotency-Key` of the request.
    key: Option<Key>,
    app: App,
}

/// The caller.
#[derive(Clone)]
enum Who {
    /// A user, with the grant of the access token.
    User { user: UserId, grant: GrantId },
    /// A program, with the scopes that it needs to write here.
    Program(Program, Vec<String>),
}

impl Caller {
    fn new(parts: &Parts, app: &App, who: Who, address: IpAddr) -> Caller {
        Caller { who, address, key: Key::of(parts), app: app.clone() }
    }

    /// Runs a command after `authorize` has allowed it, in the same transaction, and once for each `Idempotency-Key`: its answer
    /// is stored with what it writes.
    async fn write_if<A, R: Respond>(
        &self,
        name: &'static str,
        authorize: impl Fn(&mut Snapshot<'_>, Time) -> Result<A> + Send + 'static,
        command: impl Fn(&mut Tx<'_>, A, &Actor) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        let (actor, who) = (self.actor(), self.who.clone());
        let row = self.key.as_ref().map(|key| key.row(&self.app, &actor.who, actor.now)).transpose()?;
        let write = self.app.store.write(name, move |tx| {
            // A program is checked by `authorize`, with the scope that the command needs.
            if let Who::User { grant, .. } = &who {
                require_alive(tx.snapshot(), grant, actor.now)?;
            }
            let authorized = authorize(tx.snapshot(), actor.now)?;
            once(row.as_ref(), tx, actor.now, |tx| {
                command(tx, authorized, &actor.clone()).map_err(Failure::from)
            })
        });
        let outcome = write.await?;
        if matches!(outcome, Outcome::Repeated(_)) {
            // Another instance may have written: after a read the version of the response includes that.
            self.app.store.read(|_| Ok::<_, Error>(())).await?;
        }
        Ok(outcome)
    }

    /// Runs a query that may scan.
    pub async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Snapshot<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.app.store.read(query).await
    }

    /// Runs a query that finds its rows by their keys.
    pub async fn point<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Snapshot<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.app.store.point(query).await
    }

    /// Runs a query for a person who reads the answer: a replica may answer it.
    pub async fn list<T: Send + 'static>(
        &self,
        query: impl FnMut(&mut Snapshot<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.app.store.list(query).await
    }

    /// Now.
    pub fn now(&self) -> Time {
        self.app.now()
    }

    /// Randomness.
    pub fn random(&self) -> &dyn Random {
        self.app.random()
    }

    /// The installation's secret.
    pub fn secret_key(&self) -> &SecretKey {
        &self.app.secret_key
    }

    /// An address of this server.
    pub fn url(&self, path: &str) -> String {
        self.app.url(path)
    }

    /// What makes addresses of this server, for the answer of a command.
    pub fn urls(&self) -> impl Fn(&str) -> String + Send + use<> {
        let app = self.app.clone();
        move |path| app.url(path)
    }

    /// Whether people may create their own accounts where an organization does not say.
    pub fn sign_up(&self) -> bool {
        self.app.settings.sign_up
    }

    fn actor(&self) -> Actor {
        match &self.who {
            Who::User { user, .. } => self.app.actor(user, self.address),
            Who::Program(program, _) => {
                program.actor(&self.address.to_string(), self.app.now(), self.app.random())
            }
        }
    }

    /// The calling user; a program is refused.
    fn require_user(&self) -> std::result::Result<UserId, Problem> {
        match &self.who {
            Who::User { user, .. } => Ok(user.clone()),
            Who::Program(..) => Err(Problem::forbidden("A program may not do this. Sign in as an owner.")),
        }
    }
}

/// Fails unless the tokens of a grant are still valid.
fn require_alive(snapshot: &mut Snapshot<'_>, grant: &GrantId, now: Time) -> Result<()> {
    let is_alive = grants::get(snapshot, grant)?.is_some_and(|grant| grant.is_alive(now));
    if is_alive { Ok(()) } else { Err(Error::InvalidGrant) }
}

/// The organization and the actor of a command, as its own transaction reads them.
#[derive(Clone, Copy)]
pub struct Acting<'a> {
    /// The organization.
    pub organization: &'a Organization,
    /// The role there. A program has at most the rights of an admin.
    pub role: Role,
    /// The actor, for the audit trail.
    pub actor: &'a Actor,
}

/// Any administrator of the organization in the path, which may be in any state; or a program of it.
pub struct Administrator {
    caller: Caller,
    /// The role there at the time of the request. A program has at most the rights of an admin.
    role: Role,
    /// The organization at the time of the request.
    pub organization: Organization,
}

impl Deref for Administrator {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl FromRequestParts<App> for Administrator {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<Administrator, Problem> {
        let administrator = Administrator::admit(parts, app).await?;
        administrator.require_scopes(&program_scopes(parts.uri.path(), Need::Read).unwrap_or_default())?;
        Ok(administrator)
    }
}

impl Administrator {
    /// Any administrator, or a program of the organization: its scopes are not checked yet.
    async fn admit(parts: &mut Parts, app: &App) -> std::result::Result<Administrator, Problem> {
        let Ok(Address(address)) = Address::from_request_parts(parts, app).await;
        let slug = parameter(parts, "org").to_owned();
        let access = match Credential::of(parts, app).await? {
            Credential::Token(access) => access,
            Credential::Key(key) => {
                if key.organization_slug != slug || key.service.is_some() {
                    let detail = format!("This needs an API key of the organization {slug}.");
                    return Err(Problem::insufficient_scope(detail));
                }
                return Administrator::of_program(parts, app, Program::Key(key), address).await;
            }
        };
        let audience = format!("org:{slug}");
        if access.user().is_none() && access.terms.audiences.contains(&audience) {
            return Administrator::of_program(parts, app, Program::Client(access), address).await;
        }
        // A token for all organizations has the user's role in this one, which is read below.
        let good = |own: &String| *own == audience || own == scopes::ANY_ORGANIZATION;
        let holder = access.user().zip(access.grant());
        let (true, Some((user, grant))) = (access.terms.audiences.iter().any(good), holder) else {
            let detail = format!("This needs a token for the organization {slug} (scope org:{slug}).");
            return Err(Problem::insufficient_scope(detail));
        };
        let wanted = user.clone();
        let found = app.store.point(move |snapshot| {
            let id = organizations::find(snapshot, &slug)?.id;
            administrators::role_in(snapshot, &id, &wanted)
        });
        let (organization, role) = found.await?;
        let caller = Caller::new(parts, app, Who::User { user, grant }, address);
        Ok(Administrator { caller, role, organization })
    }
}

/// The scopes that a program needs for a route of an organization; an empty list if every program of it may, none if no
/// program may.
pub(crate) fn program_scopes(route: &str, need: Need) -> Option<Vec<String>> {
    let mut segments = route.split('/').skip(4);
    let noun = segments.next().unwrap_or_default();
    if noun.is_empty() {
        return (need == Need::Read).then(Vec::new);
    }
    if !PROGRAMS_MAY.contains(&noun) {
        return None;
    }
    let own = match (noun, need, segments.nth(1), segments.next()) {
        ("clients", Need::Write, Some("secrets"), _) => programs::CLIENT_SECRETS,
        ("users", Need::Write, Some("sign-in-link" | "password-link"), None) => programs::USER_LINKS,
        _ => return Some(vec![need.scope(noun)]),
    };
    Some(vec![own.to_owned()])
}

impl Administrator {
    /// A program of the organization in the path, where programs may do something.
    async fn of_program(
        parts: &Parts,
        app: &App,
        program: Program,
        address: IpAddr,
    ) -> std::result::Result<Administrator, Problem> {
        let path = parts.uri.path();
        if program_scopes(path, Need::Read).is_none() {
            return Err(Problem::forbidden("A program may not do this. Sign in as an administrator."));
        }
        let writing = program_scopes(path, Need::Write).unwrap_or_default();
        let id = program.organization().clone();
        let organization = app.store.point(move |snapshot| organizations::get(snapshot, &id)).await?;
        let caller = Caller::new(parts, app, Who::Program(program, writing), address);
        Ok(Administrator { caller, role: Role::Admin, organization })
    }

    /// Runs a query for a person who reads the answer: a replica may answer it. A list with filters may be searched for
    /// as long as a query may run, so an organization has one at a time: the others do not wait for it.
    pub async fn list<T: Send + 'static>(
        &self,
        mut query: impl FnMut(&mut Snapshot<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.caller.app.lists.wait_for(&self.organization.id, LIST_WAIT).await?;
        let taken = move |snapshot: &mut Snapshot<'_>| {
            // Until the query ends: it goes on when the caller has gone.
            let _ = &turn;
            query(snapshot)
        };
        self.caller.list(taken).await
    }

    /// The redirect addresses that a client of the organization sent, and that are not registered.
    pub(crate) fn redirect_problems(&self, client: &ClientId) -> Vec<RedirectProblem> {
        self.caller.app.redirect_problems.of(client)
    }

    /// Refuses a program that lacks one of these scopes.
    fn require_scopes(&self, needed: &[String]) -> std::result::Result<(), Problem> {
        let Who::Program(program, _) = &self.who else { return Ok(()) };
        let Some(missing) = needed.iter().find(|needed| !program.allows(needed)) else { return Ok(()) };
        let credential = match program {
            Program::Key(_) => "an API key",
            Program::Client(_) => "a token",
        };
        Err(Problem::insufficient_scope(format!("This needs {credential} with the scope {missing}.")))
    }

    /// Runs a command of an administrator with at least the role `least`, in an active organization.
    async fn write_as<R: Respond>(
        &self,
        least: Role,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        let (id, who) = (self.organization.id.clone(), self.who.clone());
        let authorize = move |snapshot: &mut Snapshot<'_>, now| {
            let (organization, role) = match &who {
                Who::User { user, .. } => administrators::role_in(snapshot, &id, user)?,
                Who::Program(program, needed) => (program.require(snapshot, &id, needed, now)?, Role::Admin),
            };
            administrators::require(&organization, role, least)?;
            Ok((organization, role))
        };
        let write = self.write_if(name, authorize, move |tx, (organization, role), actor| {
            command(tx, Acting { organization: &organization, role, actor })
        });
        write.await
    }
}

/// An admin or owner of the organization in the path, while it is active; or a program of it that may write.
pub struct Admin(Administrator);

impl FromRequestParts<App> for Admin {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<Admin, Problem> {
        let administrator = Administrator::admit(parts, app).await?;
        let Some(needed) = program_scopes(parts.uri.path(), Need::Write) else {
            administrator.require_user()?;
            return Admin::of(administrator);
        };
        administrator.require_scopes(&needed)?;
        Admin::of(administrator)
    }
}

impl Deref for Admin {
    type Target = Administrator;
    fn deref(&self) -> &Administrator {
        &self.0
    }
}

impl Admin {
    fn of(administrator: Administrator) -> std::result::Result<Admin, Problem> {
        administrators::require(&administrator.organization, administrator.role, Role::Admin)?;
        Ok(Admin(administrator))
    }

    /// The same caller; a program must have these scopes too.
    pub fn with_scopes(mut self, more: &[&str]) -> std::result::Result<Admin, Problem> {
        if let Who::Program(_, needed) = &mut self.0.caller.who {
            needed.extend(more.iter().map(|&scope| scope.to_owned()));
            let needed = needed.clone();
            self.0.require_scopes(&needed)?;
        }
        Ok(self)
    }

    /// Runs a command if the caller still has the role in its transaction.
    pub async fn write<R: Respond>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        self.0.write_as(Role::Admin, name, command).await
    }
}

/// An admin or owner of the organization in the path, while it is active; or a program of it, where the body decides which
/// scopes it needs.
pub struct AdminOrProgram(Administrator);

impl FromRequestParts<App> for AdminOrProgram {
    type Rejection = Problem;
    async fn from_request_parts(
        parts: &mut Parts,
        app: &App,
    ) -> std::result::Result<AdminOrProgram, Problem> {
        let administrator = Administrator::admit(parts, app).await?;
        administrators::require(&administrator.organization, administrator.role, Role::Admin)?;
        Ok(AdminOrProgram(administrator))
    }
}

impl AdminOrProgram {
    /// The caller, who may write; a program must have these scopes.
    pub fn with_scopes(mut self, needed: &[&str]) -> std::result::Result<Admin, Problem> {
        let needed: Vec<String> = needed.iter().map(|&scope| scope.to_owned()).collect();
        self.0.require_scopes(&needed)?;
        if let Who::Program(_, writing) = &mut self.0.caller.who {
            *writing = needed;
        }
        Admin::of(self.0)
    }
}

/// An owner of the organization in the path, while it is active. No program is an owner.
pub struct Owner {
    administrator: Administrator,
    /// The owner.
    pub user: UserId,
}

impl FromRequestParts<App> for Owner {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<Owner, Problem> {
        let administrator = Administrator::admit(parts, app).await?;
        let user = administrator.require_user()?;
        administrators::require(&administrator.organization, administrator.role, Role::Owner)?;
        Ok(Owner { administrator, user })
    }
}

impl Deref for Owner {
    type Target = Administrator;
    fn deref(&self) -> &Administrator {
        &self.administrator
    }
}

impl Owner {
    /// Runs a command if the user is still an owner in its transaction.
    pub async fn write<R: Respond>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        self.administrator.write_as(Role::Owner, name, command).await
    }
}

/// An owner of the organization in the path, while it is deleted and its data still exists.
pub struct OwnerOfDeleted {
    administrator: Administrator,
    user: UserId,
}

impl FromRequestParts<App> for OwnerOfDeleted {
    type Rejection = Problem;
    async fn from_request_parts(
        parts: &mut Parts,
        app: &App,
    ) -> std::result::Result<OwnerOfDeleted, Problem> {
        let administrator = Administrator::admit(parts, app).await?;
        let user = administrator.require_user()?;
        administrators::require_owner(administrator.role)?;
        Ok(OwnerOfDeleted { administrator, user })
    }
}

impl Deref for OwnerOfDeleted {
    type Target = Administrator;
    fn deref(&self) -> &Administrator {
        &self.administrator
    }
}

impl OwnerOfDeleted {
    /// Runs a command if the user is still an owner. The command checks that the organization is deleted.
    pub async fn write<R: Respond>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        let (id, user) = (self.organization.id.clone(), self.user.clone());
        let authorize = move |snapshot: &mut Snapshot<'_>, _| {
            let (organization, role) = administrators::role_in(snapshot, &id, &user)?;
            administrators::require_owner(role)?;
            Ok(organization)
        };
        let write = self.write_if(name, authorize, move |tx, organization: Organization, actor| {
            command(tx, Acting { organization: &organization, role: Role::Owner, actor })
        });
        write.await
    }
}

/// The administrator in the path (`{user}`), or an owner of the organization while it is active.
pub struct OwnerOrSelf {
    administrator: Administrator,
    least: Role,
}

impl FromRequestParts<App> for OwnerOrSelf {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<OwnerOrSelf, Problem> {
        let administrator = Administrator::admit(parts, app).await?;
        let is_self = parameter(parts, "user") == administrator.require_user()?.as_str();
        let least = if is_self { Role::Member } else { Role::Owner };
        administrators::require(&administrator.organization, administrator.role, least)?;
        Ok(OwnerOrSelf { administrator, least })
    }
}

impl OwnerOrSelf {
    /// Runs a command if the user still may in its transaction.
    pub async fn write<R: Respond>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        self.administrator.write_as(self.least, name, command).await
    }
}

/// A user with a token for the platform.
pub struct PlatformUser {
    caller: Caller,
    /// The user.
    pub user: UserId,
}

impl FromRequestParts<App> for PlatformUser {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<PlatformUser, Problem> {
        let Bearer(access) = Bearer::from_request_parts(parts, app).await?;
        let Ok(Address(address)) = Address::from_request_parts(parts, app).await;
        let good = access.terms.audiences.iter().any(|audience| audience == "platform");
        let (true, Some((user, grant))) = (good, access.user().zip(access.grant())) else {
            return Err(Problem::insufficient_scope("This needs a token for the platform (scope platform)."));
        };
        let caller = Caller::new(parts, app, Who::User { user: user.clone(), grant }, address);
        Ok(PlatformUser { caller, user })
    }
}

impl Deref for PlatformUser {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl PlatformUser {
    /// Runs a command about data that no organization owns. It gets the actor.
    pub async fn write<R: Respond>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, &Actor) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        self.write_if(name, |_, _| Ok(()), move |tx, (), actor| command(tx, actor)).await
    }
}

/// A platform owner.
pub struct PlatformOwner(PlatformUser);

const OWNERS_ONLY: Error = Error::Forbidden { problem: "Only platform owners may do this." };

impl FromRequestParts<App> for PlatformOwner {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<PlatformOwner, Problem> {
        let caller = PlatformUser::from_request_parts(parts, app).await?;
        let user = caller.user.clone();
        let is_owner = caller.point(move |snapshot| administrators::is_platform_owner(snapshot, &user));
        if is_owner.await? { Ok(PlatformOwner(caller)) } else { Err(OWNERS_ONLY.into()) }
    }
}

impl Deref for PlatformOwner {
    type Target = PlatformUser;
    fn deref(&self) -> &PlatformUser {
        &self.0
    }
}

impl PlatformOwner {
    /// Runs a command if the user is still a platform owner in its transaction. It gets the actor.
    pub async fn write<R: Respond>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, &Actor) -> Result<R> + Send + 'static,
    ) -> Written<R> {
        let user = self.user.clone();
        let authorize = move |snapshot: &mut Snapshot<'_>, _| {
            if administrators::is_platform_owner(snapshot, &user)? { Ok(()) } else { Err(OWNERS_ONLY) }
        };
        self.write_if(name, authorize, move |tx, (), actor| command(tx, actor)).await
    }
}
