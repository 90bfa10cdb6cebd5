//! Extractors for administration. What a handler may do is the type of its argument:
//!
//! | argument | who | may |
//! |---|---|---|
//! | [`Administrator`] | any administrator of the organization in the path (`{org}`) | read |
//! | [`Admin`] | an admin or owner of it, while it is active | write |
//! | [`Owner`] | an owner of it, while it is active | write |
//! | [`OwnerOfDeleted`] | an owner of it, in any state | restore it |
//! | [`OwnerOrSelf`] | the same, or the user in the path (`{user}`) | write |
//! | [`PlatformUser`] | a user with a token for the platform | write what belongs to nobody yet |
//! | [`PlatformOwner`] | a platform owner | write |
//!
//! The database is reached through them only: `read`, `point` and `list` are for all, `write` is for those that may
//! change something. `write` looks the role up again inside the command's transaction, so that a role that was taken
//! away meanwhile changes nothing any more.

use super::auth::{Address, Bearer};
use super::error::Problem;
use crate::app::App;
use crate::web::path::parameter;
use axum::extract::FromRequestParts;
use http::request::Parts;
use identity::administrators::{self, Role};
use identity::audit::Actor;
use identity::ids::UserId;
use identity::organizations::{self, Organization};
use identity::secrets::Random;
use identity::{Error, Result, Time, scopes};
use std::net::IpAddr;
use std::ops::Deref;
use store::{Snapshot, Tx};

/// A user who administers, and the database as that user may use it.
pub struct Caller {
    /// The user.
    pub user: UserId,
    address: IpAddr,
    app: App,
}

impl Caller {
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

    /// Runs a query whose answer people look at: it may come from a replica.
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

    /// An address of this server.
    pub fn url(&self, path: &str) -> String {
        self.app.url(path)
    }

    /// Whether people may create accounts themselves at an organization.
    pub fn allows_sign_up(&self, organization: &Organization) -> bool {
        organization.allows_sign_up(self.app.settings.sign_up)
    }

    fn actor(&self) -> Actor {
        self.app.actor(&self.user, self.address)
    }
}

/// The organization that a command acts in and who acts, both as its own transaction sees them.
#[derive(Clone, Copy)]
pub struct Acting<'a> {
    /// The organization.
    pub organization: &'a Organization,
    /// Who acts, for the audit trail.
    pub actor: &'a Actor,
}

/// Any administrator of the organization in the path, which may be in any state.
pub struct Administrator {
    caller: Caller,
    /// The role there, when the request came.
    role: Role,
    /// The organization, when the request came.
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
        let Bearer(access) = Bearer::from_request_parts(parts, app).await?;
        let Ok(Address(address)) = Address::from_request_parts(parts, app).await;
        let slug = parameter(parts, "org").to_owned();
        let audience = format!("org:{slug}");
        // A token for all organizations is as good as the user's role in this one, which is looked up below.
        let good = |own: &String| *own == audience || own == scopes::ANY_ORGANIZATION;
        let (true, Some(user)) = (access.audiences.iter().any(good), access.user.clone()) else {
            let detail = format!("This needs a token for the organization {slug} (scope org:{slug}).");
            return Err(Problem::insufficient_scope(detail));
        };
        let wanted = user.clone();
        let found = app.store.point(move |snapshot| {
            let id = organizations::find(snapshot, &slug)?.id;
            administrators::role_in(snapshot, &id, &wanted)
        });
        let (organization, role) = found.await?;
        Ok(Administrator { caller: Caller { user, address, app: app.clone() }, role, organization })
    }
}

impl Administrator {
    /// Runs a command of one who is at least in the role `least`, in an organization that is active.
    async fn write_as<T: Send + 'static>(
        &self,
        least: Role,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (id, user, actor) = (self.organization.id.clone(), self.user.clone(), self.actor());
        let write = self.app.store.write(name, move |tx| {
            let (organization, role) = administrators::role_in(tx.snapshot(), &id, &user)?;
            administrators::require(&organization, role, least)?;
            command(tx, Acting { organization: &organization, actor: &actor.clone() })
        });
        write.await
    }
}

/// An admin or owner of the organization in the path, while it is active.
pub struct Admin(Administrator);

impl FromRequestParts<App> for Admin {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<Admin, Problem> {
        let administrator = Administrator::from_request_parts(parts, app).await?;
        administrators::require(&administrator.organization, administrator.role, Role::Admin)?;
        Ok(Admin(administrator))
    }
}

impl Deref for Admin {
    type Target = Administrator;
    fn deref(&self) -> &Administrator {
        &self.0
    }
}

impl Admin {
    /// Runs a command, if the user still is an admin or owner when it runs.
    pub async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.0.write_as(Role::Admin, name, command).await
    }
}

/// An owner of the organization in the path, while it is active.
pub struct Owner(Administrator);

impl FromRequestParts<App> for Owner {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<Owner, Problem> {
        let administrator = Administrator::from_request_parts(parts, app).await?;
        administrators::require(&administrator.organization, administrator.role, Role::Owner)?;
        Ok(Owner(administrator))
    }
}

impl Deref for Owner {
    type Target = Administrator;
    fn deref(&self) -> &Administrator {
        &self.0
    }
}

impl Owner {
    /// Runs a command, if the user still is an owner when it runs.
    pub async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.0.write_as(Role::Owner, name, command).await
    }
}

/// An owner of the organization in the path, while it is deleted and its data is still there.
pub struct OwnerOfDeleted(Administrator);

impl FromRequestParts<App> for OwnerOfDeleted {
    type Rejection = Problem;
    async fn from_request_parts(
        parts: &mut Parts,
        app: &App,
    ) -> std::result::Result<OwnerOfDeleted, Problem> {
        let administrator = Administrator::from_request_parts(parts, app).await?;
        administrators::require_owner(administrator.role)?;
        Ok(OwnerOfDeleted(administrator))
    }
}

impl Deref for OwnerOfDeleted {
    type Target = Administrator;
    fn deref(&self) -> &Administrator {
        &self.0
    }
}

impl OwnerOfDeleted {
    /// Runs a command, if the user still is an owner when it runs. The command checks that the organization is deleted.
    pub async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Administrator { caller, organization, .. } = &self.0;
        let (id, user, actor) = (organization.id.clone(), caller.user.clone(), caller.actor());
        let write = caller.app.store.write(name, move |tx| {
            let (organization, role) = administrators::role_in(tx.snapshot(), &id, &user)?;
            administrators::require_owner(role)?;
            command(tx, Acting { organization: &organization, actor: &actor.clone() })
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
        let administrator = Administrator::from_request_parts(parts, app).await?;
        let is_self = parameter(parts, "user") == administrator.user.as_str();
        let least = if is_self { Role::Member } else { Role::Owner };
        administrators::require(&administrator.organization, administrator.role, least)?;
        Ok(OwnerOrSelf { administrator, least })
    }
}

impl OwnerOrSelf {
    /// Runs a command, if the user still may when it runs.
    pub async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, Acting<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.administrator.write_as(self.least, name, command).await
    }
}

/// A user with a token for the platform.
pub struct PlatformUser(Caller);

impl FromRequestParts<App> for PlatformUser {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<PlatformUser, Problem> {
        let Bearer(access) = Bearer::from_request_parts(parts, app).await?;
        let Ok(Address(address)) = Address::from_request_parts(parts, app).await;
        let good = access.audiences.iter().any(|audience| audience == "platform");
        let (true, Some(user)) = (good, access.user.clone()) else {
            return Err(Problem::insufficient_scope("This needs a token for the platform (scope platform)."));
        };
        Ok(PlatformUser(Caller { user, address, app: app.clone() }))
    }
}

impl Deref for PlatformUser {
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl PlatformUser {
    /// Runs a command about what belongs to nobody yet. It gets the actor.
    pub async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, &Actor) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let actor = self.actor();
        self.app.store.write(name, move |tx| command(tx, &actor.clone())).await
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
    type Target = Caller;
    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl PlatformOwner {
    /// Runs a command, if the user still is a platform owner when it runs. It gets the actor.
    pub async fn write<T: Send + 'static>(
        &self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>, &Actor) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let user = self.user.clone();
        let write = self.0.write(name, move |tx, actor| {
            if !administrators::is_platform_owner(tx.snapshot(), &user)? {
                return Err(OWNERS_ONLY);
            }
            command(tx, actor)
        });
        write.await
    }
}
