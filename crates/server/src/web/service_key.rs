//! The extractor for the API keys of services, and their reads: the users of the service and their
//! entitlements. A user belongs to a service with a subscription to it (their own or a seat), or with a grant of one of its
//! clients. Any other user looks like one that does not exist.

use super::auth::Credential;
use super::error::Problem;
use crate::app::App;
use crate::limits::turns::LIST_WAIT;
use axum::extract::FromRequestParts;
use http::request::Parts;
use identity::api_keys::ApiKey;
use identity::events::{self, OfService, Revoked, UserAtService, UsersPlace};
use identity::ids::{ServiceId, UserId};
use identity::organizations::PLATFORM;
use identity::users::User;
use identity::{Entitlement, Error, Result, Time, entitlements, grants};
use std::collections::HashSet;
use std::sync::Arc;
use store::LogCursor;

/// A program with an API key of a service.
pub struct ServiceKey {
    key: Arc<ApiKey>,
    service: ServiceId,
    now: Time,
    app: App,
}

/// A user of the service, with their entitlements.
pub struct UserOfService {
    /// The user.
    pub user: Arc<User>,
    /// Their entitlements.
    pub entitlement: Arc<Entitlement>,
}

/// A page of the state of a service.
pub(crate) struct StateOfService {
    /// The service and its plans.
    pub(crate) of_service: OfService,
    /// Users with a subscription.
    pub(crate) users: Vec<UserAtService>,
    /// The place of the next page.
    pub(crate) next: Option<UsersPlace>,
    /// What was revoked lately; on the first page.
    pub(crate) revoked: Vec<Revoked>,
    /// Events behind this cursor are newer than the page.
    pub(crate) cursor: LogCursor,
}

impl FromRequestParts<App> for ServiceKey {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> std::result::Result<ServiceKey, Problem> {
        let Credential::Key(key) = Credential::of(parts, app).await? else {
            return Err(Problem::insufficient_scope("This needs an API key of a service."));
        };
        let Some(service) = key.service.clone() else {
            return Err(Problem::insufficient_scope(
                "This needs an API key of a service, not of an organization.",
            ));
        };
        Ok(ServiceKey { key, service, now: app.now(), app: app.clone() })
    }
}

impl ServiceKey {
    /// The slugs of the organization and of the service.
    pub fn slugs(&self) -> (&str, &str) {
        (&self.key.organization_slug, self.key.service_slug.as_deref().unwrap_or_default())
    }

    /// The key.
    pub(crate) fn api_key(&self) -> &ApiKey {
        &self.key
    }

    /// The service.
    pub(crate) fn service(&self) -> &ServiceId {
        &self.service
    }

    /// Whether the service is one of `platform`.
    pub(crate) fn is_of_platform(&self) -> bool {
        self.key.organization_slug == PLATFORM
    }

    /// A page of the state of the service, with the cursor of the stream that continues it.
    pub(crate) async fn state(&self, after: Option<UsersPlace>, most: i64) -> Result<Option<StateOfService>> {
        let (history, now) = (self.app.store.log_history(), self.now);
        let (service, is_of_platform) = (self.service.clone(), self.is_of_platform());
        let turn = self.app.lists.wait_for(&self.key.organization, LIST_WAIT).await?;
        let read = self.app.store.read(move |snapshot| {
            // Until the query ends: it goes on when the caller has gone.
            let _ = &turn;
            // The cursor is of the same snapshot.
            let cursor = events::begin(snapshot, history)?;
            let Some(of_service) = events::of_service(snapshot, &service)? else { return Ok(None) };
            let revoked = match after {
                None => Revoked::lately(snapshot, &service, now)?,
                Some(_) => Vec::new(),
            };
            let (users, next) =
                events::users_of_service(snapshot, &service, is_of_platform, after.as_ref(), most, now)?;
            Ok::<_, Error>(Some(StateOfService { of_service, users, next, revoked, cursor }))
        });
        read.await
    }

    /// Refuses a key without this scope.
    pub fn require(&self, scope: &str) -> std::result::Result<(), Problem> {
        if self.key.scope.contains(scope) {
            return Ok(());
        }
        Err(Problem::insufficient_scope(format!("This needs an API key with the scope {scope}.")))
    }

    /// The users of the service among these ids, in this order. An id of no user and one of another service's user take the
    /// same steps, so that the time of a response does not distinguish them.
    pub async fn users(&self, ids: &[UserId]) -> Result<Vec<UserOfService>> {
        let mut found = Vec::new();
        for id in self.own(ids).await? {
            let user = match self.app.lookups.user(&id, self.now).await {
                Err(Error::NotFound { .. }) => continue,
                user => user?,
            };
            let entitlement = self.app.lookups.entitlement(&id, &self.service, self.now).await?;
            found.push(UserOfService { user, entitlement });
        }
        Ok(found)
    }

    /// Keeps the ids of users with a subscription or a grant. Nothing is cached for the others.
    async fn own(&self, ids: &[UserId]) -> Result<Vec<UserId>> {
        let lookups = &self.app.lookups;
        let (known, unknown): (Vec<UserId>, Vec<UserId>) =
            ids.iter().cloned().partition(|id| lookups.is_subscribed(id, &self.service, self.now));
        if unknown.is_empty() {
            return Ok(known);
        }
        let (service, now) = (self.service.clone(), self.now);
        let strangers = self.app.store.read(move |snapshot| {
            let mut strangers = HashSet::new();
            for id in unknown {
                if !grants::any_at_service(snapshot, &id, &service)?
                    && !entitlements::is_subscribed(snapshot, &id, &service, now)?
                {
                    strangers.insert(id);
                }
            }
            Ok::<_, Error>(strangers)
        });
        let strangers = strangers.await?;
        Ok(ids.iter().filter(|id| !strangers.contains(*id)).cloned().collect())
    }
}
