//! `GET /api/service/state`: the whole state of a service, in pages, and the cursor of the stream that continues it.

use crate::events::bodies::{RevokedBody, ServiceBody, UserBody};
use crate::web::error::{Problem, Result};
use crate::web::json::{Json, Page};
use crate::web::service_key::ServiceKey;
use identity::api_keys::SERVICE_SCOPES;
use identity::ids::{PlanId, SubscriptionId};
use serde::Serialize;
use std::str::FromStr;
use utoipa::ToSchema;

/// A page of the state of a service.
#[derive(Serialize, ToSchema)]
#[schema(as = StateOfService)]
pub(crate) struct StateBody {
    service: ServiceBody,
    /// Users who have a subscription, their own or a seat. A user may be listed more than once.
    users: Vec<UserBody>,
    /// What was revoked while access tokens from before may be valid. Only on the first page.
    revoked: Vec<RevokedBody>,
    /// The `Last-Event-ID` of the stream that continues this state. Use that of the first page.
    last_event_id: String,
    /// The `cursor` of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// The place of a page: a plan, and a subscription to it.
pub(crate) struct Place(PlanId, SubscriptionId);

impl FromStr for Place {
    type Err = identity::Error;
    fn from_str(text: &str) -> identity::Result<Place> {
        let (plan, subscription) = text.split_once('.').unwrap_or_default();
        Ok(Place(PlanId::parse(plan)?, SubscriptionId::parse(subscription)?))
    }
}

pub(crate) async fn get(key: ServiceKey, page: Page<Place>) -> Result<Json<StateBody>> {
    for scope in SERVICE_SCOPES {
        key.require(scope)?;
    }
    let after = page.place().map(|Place(plan, subscription)| (plan, subscription));
    let state = key.state(after, page.limit).await?.ok_or_else(|| Problem::not_found("service"))?;
    Ok(Json(StateBody {
        service: state.of_service.into(),
        users: state.users.iter().map(UserBody::from).collect(),
        revoked: state.revoked.iter().map(RevokedBody::from).collect(),
        last_event_id: state.cursor.to_string(),
        next: state.next.map(|(plan, subscription)| format!("{plan}.{subscription}")),
    }))
}
