//! Billing: a payment provider sends signed events, and they change subscriptions.
//!
//! - `connections`: the provider's account, with the secret that it signs its events with
//! - `prices`, `customers`: the plans and customers that the provider's ids stand for, set by administrators
//! - `references`: an id for a checkout, so that its customer is known without an administrator
//! - `subscriptions`: the newest state of each of the provider's subscriptions, and what follows from it
//! - `walks`: what follows for stored states when a mapping changes
//! - `event`, `external_id`: an event and the ids in it. `events`: which events were received, each once
//! - `removal`: deletes the rows of a connection in slices
//!
//! # Order
//! Events come in any order and more than once. Each has a place in an order ([`Event::place`]) that does not depend on
//! their arrival, and a state replaces only one of a smaller place; several events of one place are compared by what they
//! changed (`same_second`). So all orders of arrival end in the same state. The one
//! exception: of two live subscriptions of a customer for one service, the first that was applied stays.
//!
//! # Trust
//! The provider is trusted for its own ids, states and times. Metadata is never read: customers of some set-ups can write
//! it. A user or a plan is known only by a mapping, or by a reference that this server has sealed.

pub mod connections;
pub mod customers;
mod event;
pub mod events;
mod external_id;
pub mod prices;
pub mod references;
pub mod removal;
mod same_second;
pub mod subscriptions;
pub mod walks;

pub use event::{Content, Event, NewIds, Outcome, Stage};
pub use external_id::ExternalId;

use crate::audit::{self, Actor};
use crate::ids::CustomerId;
use crate::{Error, Result};
use connections::Connection;
use same_second::Change;
use store::Tx;
use subscriptions::Settled;

/// Applies an event, once. Returns `None` if the connection was deleted since the signature was checked.
pub fn apply(
    tx: &mut Tx<'_>,
    connection: &Connection,
    event: &Event,
    new: &NewIds,
    actor: &Actor,
) -> Result<Option<Outcome>> {
    let Some(connection) = connections::find(tx.snapshot(), &connection.id)? else { return Ok(None) };
    // Events about one customer take turns, also about one that is not known yet, and always in this order of locks.
    customers::lock(tx, &connection, event.external_customer())?;
    if !events::begin(tx, &connection, event, new)? {
        return Ok(Some(Outcome::Repeated));
    }
    let outcome = if event.livemode != connection.livemode {
        Outcome::OtherMode
    } else if event.account != connection.account {
        Outcome::OtherAccount
    } else {
        match &event.content {
            Content::Subscription { stage, state, before } => {
                let place = event.place(*stage, state);
                let change =
                    Change { id: event.id.clone(), before: before.as_deref().cloned(), after: state.clone() };
                match subscriptions::advance(tx, &connection, change, &place, &new.subscription, actor)? {
                    None => Outcome::Outdated,
                    Some(Settled::Done) => Outcome::Applied,
                    Some(Settled::Waits(problem)) => Outcome::Waiting(problem),
                }
            }
            Content::Checkout { external_customer, customer, .. } => {
                tie(tx, &connection, external_customer, customer.as_ref(), new, actor)?
            }
        }
    };
    events::finish(tx, new, outcome)?;
    Ok(Some(outcome))
}

/// Ties a customer of the provider to the one that the reference of a checkout names.
fn tie(
    tx: &mut Tx<'_>,
    connection: &Connection,
    external: &ExternalId,
    customer: Option<&CustomerId>,
    new: &NewIds,
    actor: &Actor,
) -> Result<Outcome> {
    let Some(customer) = customer else { return Ok(Outcome::NoReference) };
    match customers::put(tx, connection, external, customer, customers::Existing::Stays, actor) {
        Ok(true) => {
            subscriptions::settle_external(tx, connection, external, &new.subscription, actor)?;
            Ok(Outcome::Applied)
        }
        Ok(false) => {
            let details = format!("{external} stands for another customer; a checkout names {customer}");
            let (organization, id) = (&connection.organization, connection.id.as_str());
            audit::note(tx, organization, actor, "billing.customer_taken", id, &details)?;
            Ok(Outcome::CustomerTaken)
        }
        // The user was deleted since the reference was made.
        Err(Error::NotFound { .. }) => Ok(Outcome::NoReference),
        Err(Error::Refused { .. }) => Ok(Outcome::TooManyCustomers),
        Err(error) => Err(error),
    }
}
