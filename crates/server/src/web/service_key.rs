//! The extractor for the API keys of services, and their reads: the users of the service and their
//! entitlements. A user belongs to a service with a subscription to it (their own or a seat), or with a grant of one of its
//! clients. Any other user looks like one that does not exist.

use super::auth::Credential;
use super::error::Problem;
use crate::app::App;
use axum::extract::FromRequestParts;
use http::request::Parts;
use identity::api_keys::ApiKey;
use identity::ids::{ServiceId, UserId};
use identity::users::User;
use identity::{Entitlement, Error, Result, Time, grants};
use std::sync::Arc;

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

    /// Refuses a key without this scope.
    pub fn require(&self, scope: &str) -> std::result::Result<(), Problem> {
        if self.key.scope.contains(scope) {
            return Ok(());
        }
        Err(Problem::insufficient_scope(format!("This needs an API key with the scope {scope}.")))
    }

    /// The users of the service among these ids, in this order.
    pub async fn users(&self, ids: &[UserId]) -> Result<Vec<UserOfService>> {
        let mut found = Vec::new();
        for id in ids {
            let user = match self.app.lookups.user(id, self.now).await {
                Err(Error::NotFound { .. }) => continue,
                user => user?,
            };
            if user.organization == self.key.organization {
                let entitlement = self.app.lookups.entitlement(id, &self.service, self.now).await?;
                found.push(UserOfService { user, entitlement });
            }
        }
        self.only_own(found).await
    }

    /// Keeps those with a subscription or a grant.
    async fn only_own(&self, found: Vec<UserOfService>) -> Result<Vec<UserOfService>> {
        let unsubscribed = found.iter().filter(|one| !one.entitlement.is_subscribed);
        let unsubscribed: Vec<UserId> = unsubscribed.map(|one| one.user.id.clone()).collect();
        if unsubscribed.is_empty() {
            return Ok(found);
        }
        let service = self.service.clone();
        let strangers = self.app.store.read(move |snapshot| {
            let mut strangers = Vec::new();
            for user in &unsubscribed {
                if !grants::any_at_service(snapshot, user, &service)? {
                    strangers.push(user.clone());
                }
            }
            Ok::<_, Error>(strangers)
        });
        let strangers = strangers.await?;
        Ok(found.into_iter().filter(|one| !strangers.contains(&one.user.id)).collect())
    }
}
