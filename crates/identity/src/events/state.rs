//! The states that events carry: of a user at a service, of a service with its plans, and of the user of a token.

use crate::administrators::{self, Role};
use crate::entitlements::{self, Entitlement};
use crate::ids::{CustomerId, GrantId, PlanId, ServiceId, SessionId, SubscriptionId, UserId};
use crate::plans::Limits;
use crate::services::{self, Service};
use crate::users::{self, User};
use crate::{Error, Result, Time, customers, grants, plans, subscriptions};
use std::collections::HashSet;
use store::{Snapshot, args, sql, statements};

/// A user of a service with what they may use there.
#[derive(Clone, Debug)]
pub struct UserAtService {
    /// The user.
    pub user: User,
    /// What they may use.
    pub entitlement: Entitlement,
    /// The organizations that they administer, if the service is one of `platform`.
    pub administers: Vec<(String, Role)>,
}

/// A place in the list of a service's users: a plan, and a subscription to it.
pub type UsersPlace = (PlanId, SubscriptionId);

/// What a plan gives its subscribers.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The slug.
    pub slug: String,
    /// The display name.
    pub name: String,
    /// The features.
    pub features: Vec<String>,
    /// The usage limits.
    pub limits: Limits,
}

impl Terms {
    /// About its size in bytes.
    pub(super) fn size(&self) -> usize {
        const NUMBER: usize = 20;
        let features: usize = self.features.iter().map(String::len).sum();
        let limits: usize = self.limits.keys().map(|name| name.len() + NUMBER).sum();
        self.slug.len() + self.name.len() + features + limits
    }
}

/// A service with the plans that cover it.
#[derive(Clone, Debug)]
pub struct OfService {
    /// The service.
    pub service: Service,
    /// The plans, by slug.
    pub plans: Vec<Terms>,
}

/// What the stream of a user's token shows.
#[derive(Clone, Debug)]
pub struct OfToken {
    /// The user.
    pub user: User,
    /// What they may use of the token's service.
    pub entitlement: Entitlement,
    /// The token's service.
    pub service: Service,
    /// The token's session.
    pub session: SessionId,
    /// The end of the session.
    pub session_expires_at: Time,
    /// The time of the user's last authentication.
    pub authenticated_at: Time,
    /// The organizations that the user administers.
    pub administers: Vec<(String, Role)>,
}

statements! {
    // Revoked grants count: by the index alone, a client is found without a look at each of its grants.
    static SERVICES_OF_USER = sql("WITH RECURSIVE used (session_id, client_id) AS (
         SELECT s.id, (SELECT MIN(g.client_id) FROM grants g WHERE g.session_id = s.id)
         FROM sessions s WHERE s.user_id = ?1
         UNION ALL
         SELECT used.session_id,
             (SELECT MIN(g.client_id) FROM grants g WHERE g.session_id = used.session_id AND g.client_id > used.client_id)
         FROM used WHERE used.client_id IS NOT NULL)
     SELECT c.service_id FROM used JOIN clients c ON c.id = used.client_id WHERE c.service_id IS NOT NULL
     UNION
     SELECT ps.service_id FROM customers c
     JOIN subscriptions s ON s.customer_id = c.id
     JOIN plan_services ps ON ps.plan_id = s.plan_id
     WHERE c.user_id = ?1 AND s.status <> 'canceled'
     UNION
     SELECT ps.service_id FROM customer_members m
     JOIN subscriptions s ON s.customer_id = m.customer_id
     JOIN plan_services ps ON ps.plan_id = s.plan_id
     WHERE m.user_id = ?1 AND s.status <> 'canceled'");
}

/// Whether a user has an account, which is not deleted.
pub(super) fn exists(snapshot: &mut Snapshot<'_>, user: &UserId) -> Result<bool> {
    match users::get(snapshot, user) {
        Err(Error::NotFound { .. }) => Ok(false),
        user => user.map(|_| true),
    }
}

/// The services at which a user has or had a grant, or has a subscription: [`user_at_service`] finds a state at no other one.
pub(super) fn services_that_may_know(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
) -> Result<HashSet<ServiceId>> {
    let found: Vec<ServiceId> = snapshot.all(&SERVICES_OF_USER, args![user], |row| row.get(0))?;
    Ok(found.into_iter().collect())
}

/// Reads a user of a service; `None` if the account is deleted or the service has no such user.
pub(super) fn user_at_service(
    snapshot: &mut Snapshot<'_>,
    user: &UserId,
    service: &ServiceId,
    is_of_platform: bool,
    now: Time,
) -> Result<Option<UserAtService>> {
    let user = match users::get(snapshot, user) {
        Err(Error::NotFound { .. }) => return Ok(None),
        user => user?,
    };
    let entitlement = entitlements::of_user(snapshot, &user.id, service, now)?;
    let is_known = entitlement.is_subscribed || grants::any_at_service(snapshot, &user.id, service)?;
    if !is_known {
        return Ok(None);
    }
    let administers =
        if is_of_platform { administrators::slugs_of_user(snapshot, &user.id)? } else { Vec::new() };
    Ok(Some(UserAtService { user, entitlement: entitlement.without_terms()?, administers }))
}

/// Reads a service with the terms of its plans; `None` if it is deleted.
pub fn of_service(snapshot: &mut Snapshot<'_>, service: &ServiceId) -> Result<Option<OfService>> {
    let Some(service) = services::get(snapshot, service)? else { return Ok(None) };
    let plans = plans::of_service(snapshot, &service.id)?.into_iter().map(|plan| Terms {
        slug: plan.slug,
        name: plan.name,
        features: plan.features,
        limits: plan.limits,
    });
    Ok(Some(OfService { plans: plans.collect(), service }))
}

/// Reads what the stream of a token shows; `None` if its grant, its session or its user is not good any more.
pub fn of_token(
    snapshot: &mut Snapshot<'_>,
    grant: &GrantId,
    service: &ServiceId,
    now: Time,
) -> Result<Option<OfToken>> {
    let Some(grant) = grants::get(snapshot, grant)?.filter(|grant| grant.is_alive(now)) else {
        return Ok(None);
    };
    let Some(service) =
        services::get(snapshot, service)?.filter(|found| grant.service.as_ref() == Some(&found.id))
    else {
        return Ok(None);
    };
    let user = match users::get(snapshot, &grant.user) {
        Err(Error::NotFound { .. }) => return Ok(None),
        user => user?,
    };
    Ok(Some(OfToken {
        entitlement: entitlements::of_user(snapshot, &user.id, &service.id, now)?,
        administers: administrators::slugs_of_user(snapshot, &user.id)?,
        session: grant.session,
        session_expires_at: grant.session_expires_at,
        authenticated_at: grant.session_authenticated_at,
        service,
        user,
    }))
}

/// Users who have a subscription to a service, their own or a seat, from a place in the list on: `most` subscriptions and
/// the place behind them. A user with several subscriptions may be in the list more than once.
pub fn users_of_service(
    snapshot: &mut Snapshot<'_>,
    service: &ServiceId,
    is_of_platform: bool,
    after: Option<&UsersPlace>,
    most: i64,
    now: Time,
) -> Result<(Vec<UserAtService>, Option<UsersPlace>)> {
    let (mut found, mut left, mut last) = (Vec::new(), most, None);
    for plan in plans::of_service_by_id(snapshot, service)? {
        let after = match after {
            Some((done, _)) if plan < *done => continue,
            Some((done, subscription)) if plan == *done => subscription.as_str(),
            _ => "",
        };
        let rows = subscriptions::customers_of_plan(snapshot, &plan, after, left)?;
        left -= rows.len() as i64;
        for (subscription, customer) in rows {
            for user in users_of(snapshot, &customer)? {
                let found_user = user_at_service(snapshot, &user, service, is_of_platform, now)?;
                found.extend(found_user.filter(|one| one.entitlement.is_subscribed));
            }
            last = Some((plan.clone(), subscription));
        }
        if left == 0 {
            return Ok((found, last));
        }
    }
    Ok((found, None))
}

/// The user of a personal customer, the members of a team.
pub(super) fn users_of(snapshot: &mut Snapshot<'_>, customer: &CustomerId) -> Result<Vec<UserId>> {
    customers::users(snapshot, customer)
}
