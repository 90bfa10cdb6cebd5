//! Billing: a payment provider sends signed events, and they change subscriptions.
//!
//! - `connections`: the provider's account, with the secret that it signs its events with
//! - `prices`, `customers`: the plans and customers that the provider's ids stand for, set by administrators
//! - `references`: an id for a checkout, so that its customer is known without an administrator
//! - `subscriptions`: the newest state of each of the provider's subscriptions, and what follows from it
//! - `walks`: what follows for stored states when a mapping changes
//! - `events`: which events were received, each once
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
pub mod events;
pub mod prices;
pub mod references;
mod same_second;
pub mod subscriptions;
pub mod walks;

use crate::audit::{self, Actor};
use crate::ids::{BillingEventId, CustomerId, SubscriptionId};
use crate::{Error, Result, Time};
use connections::Connection;
use same_second::Change;
use std::fmt;
use std::str::FromStr;
use store::{FromValue, Tx, Value, ValueRef};
use subscriptions::{Problem, Settled, State};

/// The most characters of a provider's id. Behind an [`Event::place`] they fit an indexed column.
const EXTERNAL_ID_MAX: usize = 200;
/// The length of an [`Event::place`].
const PLACE_LENGTH: usize = 15;

/// An id of the provider: letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExternalId(String);

impl ExternalId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses an id that a request has in `field`.
    pub fn parse(field: &'static str, text: &str) -> Result<ExternalId> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if (1..=EXTERNAL_ID_MAX).contains(&text.len()) && text.bytes().all(is_fine) {
            return Ok(ExternalId(text.to_owned()));
        }
        let rule = format!("use 1 to {EXTERNAL_ID_MAX} letters, digits, _ and -");
        Err(Error::invalid(field, format!("this is not an id of the payment provider; {rule}")))
    }
}

impl FromStr for ExternalId {
    type Err = Error;
    fn from_str(text: &str) -> Result<ExternalId> {
        ExternalId::parse("id", text)
    }
}

impl fmt::Display for ExternalId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromValue for ExternalId {
    const KIND: &'static str = "an id of the payment provider";
    fn from_value(value: ValueRef<'_>) -> Option<ExternalId> {
        if let ValueRef::Text(text) = value { Some(ExternalId(text.to_owned())) } else { None }
    }
}

impl<'a> From<&'a ExternalId> for Value<'a> {
    fn from(id: &'a ExternalId) -> Value<'a> {
        Value::from(&*id.0)
    }
}

/// An event whose signature is valid.
#[derive(Clone, Debug)]
pub struct Event {
    /// The provider's id of it.
    pub id: ExternalId,
    /// The provider's name of its kind.
    pub kind: &'static str,
    /// The time at which it happened, in the provider's resolution of a second.
    pub occurred_at: Time,
    /// Whether real money is concerned.
    pub livemode: bool,
    /// The account that it is about, if that is not the provider's customer itself.
    pub account: Option<ExternalId>,
    /// What happened.
    pub content: Content,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Content {
    /// A subscription has this state now.
    Subscription {
        /// The part of its life.
        stage: Stage,
        /// The state.
        state: State,
        /// The state before, if the event says that.
        before: Option<Box<State>>,
    },
    /// A buyer has finished a checkout for a subscription.
    Checkout {
        /// The id of the checkout.
        id: ExternalId,
        /// The provider's customer that the buyer has become.
        external_customer: ExternalId,
        /// The customer that the reference names, if this server has made it.
        customer: Option<CustomerId>,
    },
}

/// The part of a subscription's life that an event belongs to. Of events of the same second, the later stage is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It begins.
    Created,
    /// It goes on.
    Changed,
    /// It has ended for good.
    Deleted,
}

impl Event {
    /// The place of the state among all states of its subscription, as text that sorts: a final state is after all others,
    /// then the time counts, then the stage. Events of the same place are compared in `same_second`. With the id of the
    /// event it is stored as `event_order`.
    fn place(&self, stage: Stage, state: &State) -> String {
        let is_final = u8::from(state.is_final() || stage == Stage::Deleted);
        format!("{is_final}{:013}{}", self.occurred_at.millis().max(0) / 1000, stage as u8)
    }

    /// The id of the object that it is about.
    fn subject(&self) -> &ExternalId {
        match &self.content {
            Content::Subscription { state, .. } => &state.id,
            Content::Checkout { id, .. } => id,
        }
    }
}

/// What an event has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was applied.
    Applied,
    /// It is stored, and waits for an administrator.
    Waiting(Problem),
    /// A newer event was received before.
    Outdated,
    /// The same event was received before.
    Repeated,
    /// It is from the test mode and the connection from the live mode, or the other way round.
    OtherMode,
    /// It is about another account.
    OtherAccount,
    /// The checkout has no reference, or one that this server has not made.
    NoReference,
    /// The provider's customer stands for another customer already.
    CustomerTaken,
    /// Too many customers of the provider stand for the customer.
    TooManyCustomers,
}

impl Outcome {
    /// The name in answers and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Applied => "applied",
            Outcome::Waiting(problem) => problem.as_str(),
            Outcome::Outdated => "outdated",
            Outcome::Repeated => "repeated",
            Outcome::OtherMode => "other_mode",
            Outcome::OtherAccount => "other_account",
            Outcome::NoReference => "no_reference",
            Outcome::CustomerTaken => "customer_taken",
            Outcome::TooManyCustomers => "too_many_customers",
        }
    }
}

/// Ids for what an event may create.
#[derive(Clone, Debug)]
pub struct NewIds {
    /// Of the event's row.
    pub event: BillingEventId,
    /// Of the first subscription. The others follow it.
    pub subscription: SubscriptionId,
}

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

impl Event {
    fn external_customer(&self) -> &ExternalId {
        match &self.content {
            Content::Subscription { state, .. } => &state.customer,
            Content::Checkout { external_customer, .. } => external_customer,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_provider_are_plain_words() {
        for good in ["sub_1NxQ", "cs_test_a1-b2", "x", &"a".repeat(EXTERNAL_ID_MAX)] {
            assert_eq!(good.parse::<ExternalId>().expect("an id").as_str(), good);
        }
        for wrong in ["", "a b", "a.b", "a\0", "ä", "a'", &"a".repeat(EXTERNAL_ID_MAX + 1)] {
            assert!(wrong.parse::<ExternalId>().is_err(), "{wrong}");
        }
    }
}
