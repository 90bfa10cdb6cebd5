//! An event of the payment provider, and what it has led to.

use super::ExternalId;
use super::subscriptions::{Problem, State};
use crate::Time;
use crate::ids::{BillingEventId, CustomerId, SubscriptionId};

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
    pub(super) fn place(&self, stage: Stage, state: &State) -> String {
        let is_final = u8::from(state.is_final() || stage == Stage::Deleted);
        format!("{is_final}{:013}{}", self.occurred_at.millis().max(0) / 1000, stage as u8)
    }

    /// The id of the object that it is about.
    pub(super) fn subject(&self) -> &ExternalId {
        match &self.content {
            Content::Subscription { state, .. } => &state.id,
            Content::Checkout { id, .. } => id,
        }
    }

    /// The provider's customer that it is about.
    pub(super) fn external_customer(&self) -> &ExternalId {
        match &self.content {
            Content::Subscription { state, .. } => &state.customer,
            Content::Checkout { external_customer, .. } => external_customer,
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
