//! `/webhooks/billing/{connection}`: events of a payment provider.
//!
//! Everything is refused alike before the signature is verified: an address without a connection, a connection without a
//! secret, a wrong or an old signature. Any answer but 200 makes the provider send the event again, for days; so an event
//! that is not for us gets a 200, and one that the database could not take gets none.

use super::stripe_event;
use super::stripe_signature::{HEADER, Signature};
use crate::app::App;
use crate::web::auth::Address;
use crate::web::error::{Problem, Result};
use crate::web::json::{Json, read_body_up_to};
use crate::web::path::Path;
use axum::extract::{Request, State};
use http::HeaderMap;
use identity::audit::Actor;
use identity::billing::connections::{self, Connection};
use identity::billing::{self, Event, NewIds, Outcome, references};
use identity::ids::{BillingConnectionId, BillingEventId, SubscriptionId};
use identity::secrets;
use serde::Serialize;
use utoipa::ToSchema;

/// A subscription with many items and much metadata is larger than the bodies of the API.
const EVENT_MAX: usize = 256 * 1024;

#[derive(Serialize, ToSchema)]
#[schema(as = ReceivedBillingEvent)]
pub(crate) struct Received {
    received: bool,
    /// What the event has led to; `ignored` if it is of a kind that is not understood.
    outcome: &'static str,
}

pub(crate) async fn post(
    State(app): State<App>,
    Address(address): Address,
    Path(connection): Path<String>,
    request: Request,
) -> Result<Json<Received>> {
    let header = single_header(request.headers());
    let body = read_body_up_to(request, EVENT_MAX).await?;
    let signature = header.as_deref().and_then(Signature::parse);
    let signature = signature.filter(|signature| signature.is_recent(app.now())).ok_or_else(refused)?;
    let connection = match BillingConnectionId::parse(&connection) {
        Ok(id) => app.store.point(move |snapshot| connections::find(snapshot, &id)).await?,
        Err(_) => None,
    };
    let connection = verified(&app, connection, &signature, &body)?;
    let customer_of = |reference: &str| references::read(&app.secret_key, &connection.id, reference);
    let event = stripe_event::parse(&body, customer_of).map_err(|error| {
        Problem::bad_request("invalid_event", format!("The event cannot be read: {error}."))
    })?;
    let outcome = match event {
        Some(event) => apply(&app, connection, event, &address.to_string()).await?.as_str(),
        None => "ignored",
    };
    Ok(Json(Received { received: true, outcome }))
}

/// The value of the header, if there is one.
fn single_header(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut values = headers.get_all(HEADER).iter();
    let first = values.next()?.as_bytes().to_vec();
    values.next().is_none().then_some(first)
}

/// The connection, if the signature is good. Without a connection or a secret, the same work is done with a random secret.
fn verified(
    app: &App,
    connection: Option<Connection>,
    signature: &Signature<'_>,
    body: &[u8],
) -> Result<Connection> {
    let secret = connection.as_ref().map(|connection| connection.open_secret(&app.secret_key)).transpose()?;
    let secret = secret.flatten().unwrap_or_else(|| secrets::secret(app.random()).into_bytes());
    let is_valid = signature.matches(&secret, body);
    connection.filter(|_| is_valid).ok_or_else(refused)
}

fn refused() -> Problem {
    let detail = "There is no connection at this address, or the signature is missing, wrong or more than five minutes old. \
                  Check the address, the signing secret and the clock.";
    Problem::bad_request("invalid_signature", detail)
}

async fn apply(app: &App, connection: Connection, event: Event, address: &str) -> Result<Outcome> {
    let (now, random) = (app.now(), app.random());
    let actor = Actor::billing(&connection.id, address, now, random);
    let new =
        NewIds { event: BillingEventId::new(now, random), subscription: SubscriptionId::new(now, random) };
    let applied = app
        .store
        .write("billing.event", move |tx| billing::apply(tx, &connection, &event, &new, &actor.clone()));
    applied.await?.ok_or_else(refused)
}
