//! Stripe's events, as far as they are understood: those of subscriptions and of finished checkouts. Fields that are not
//! named here are not read, metadata above all.
//!
//! All forms of the API are read. Until 2025-03 a subscription has `current_period_end`, since then its items have. Items had a
//! `plan` before they had a `price`; the id is the same. Before that the subscription itself had the `plan`.

use identity::Time;
use identity::billing::subscriptions::{Period, State};
use identity::billing::{Content, Event, ExternalId, Stage};
use identity::ids::CustomerId;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Prices of one subscription; Stripe has a limit of 20 items.
const PRICES_MAX: usize = 50;
const STATUS_LENGTH_MAX: usize = 60;

#[derive(Deserialize)]
struct Envelope<'b> {
    #[serde(deserialize_with = "external_id")]
    id: ExternalId,
    created: Seconds,
    livemode: bool,
    #[serde(default, deserialize_with = "optional_id")]
    account: Option<ExternalId>,
    #[serde(borrow)]
    data: Data<'b>,
}

#[derive(Deserialize)]
struct Data<'b> {
    #[serde(borrow)]
    object: &'b RawValue,
    /// What the changed fields of the object were before.
    #[serde(borrow, default)]
    previous_attributes: Option<&'b RawValue>,
}

/// The kind, before the rest is read: what is not understood may have any form.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Subscription {
    #[serde(deserialize_with = "external_id")]
    id: ExternalId,
    #[serde(deserialize_with = "external_id")]
    customer: ExternalId,
    status: String,
    items: Option<Items>,
    plan: Option<Price>,
    current_period_end: Option<Seconds>,
    #[serde(default)]
    cancel_at_period_end: bool,
    cancel_at: Option<Seconds>,
}

#[derive(Deserialize)]
struct Items {
    data: Vec<Item>,
    /// An event shows the first items only.
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct Item {
    price: Option<Price>,
    plan: Option<Price>,
    current_period_end: Option<Seconds>,
}

/// A price, or its id.
struct Price(ExternalId);

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Price, D::Error> {
        external_id(deserializer).map(Price)
    }
}

#[derive(Deserialize)]
struct Checkout {
    #[serde(deserialize_with = "external_id")]
    id: ExternalId,
    mode: String,
    #[serde(default, deserialize_with = "optional_id")]
    customer: Option<ExternalId>,
    client_reference_id: Option<String>,
}

/// Unix seconds before the year 10000.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
struct Seconds(i64);

impl TryFrom<i64> for Seconds {
    type Error = &'static str;
    fn try_from(seconds: i64) -> Result<Seconds, &'static str> {
        let is_fine = (0..=253_402_300_799).contains(&seconds);
        if is_fine { Ok(Seconds(seconds)) } else { Err("a time out of range") }
    }
}

impl Seconds {
    fn time(self) -> Time {
        Time::from_millis(self.0 * 1000)
    }
}

/// An id, or the object that Stripe puts in its place where a field is expanded.
#[derive(Deserialize)]
#[serde(untagged)]
enum Reference {
    Id(String),
    Object { id: String },
}

fn parse_id<E: serde::de::Error>(reference: Reference) -> Result<ExternalId, E> {
    let (Reference::Id(id) | Reference::Object { id }) = reference;
    id.parse().map_err(|_| E::custom("an id with other characters than letters, digits, _ and -"))
}

fn external_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ExternalId, D::Error> {
    parse_id(Reference::deserialize(deserializer)?)
}

fn optional_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ExternalId>, D::Error> {
    Option::<Reference>::deserialize(deserializer)?.map(parse_id).transpose()
}

/// The kinds that are understood.
const SUBSCRIPTION_KINDS: [(&str, Stage); 5] = [
    ("customer.subscription.created", Stage::Created),
    ("customer.subscription.updated", Stage::Changed),
    ("customer.subscription.paused", Stage::Changed),
    ("customer.subscription.resumed", Stage::Changed),
    ("customer.subscription.deleted", Stage::Deleted),
];
/// The second one follows where the money comes days later.
const CHECKOUT_KINDS: [&str; 2] = ["checkout.session.completed", "checkout.session.async_payment_succeeded"];

/// Reads the body of an event. `Ok(None)` if it is of a kind that is not understood. `customer_of` verifies the reference
/// of a checkout.
pub(crate) fn parse(
    body: &[u8],
    customer_of: impl FnOnce(&str) -> Option<CustomerId>,
) -> Result<Option<Event>, serde_json::Error> {
    let Kind { kind } = serde_json::from_slice(body)?;
    let stage = SUBSCRIPTION_KINDS.into_iter().find(|(known, _)| *known == kind);
    let checkout = CHECKOUT_KINDS.into_iter().find(|known| *known == kind);
    if stage.is_none() && checkout.is_none() {
        return Ok(None);
    }
    let Envelope { id, created, livemode, account, data } = serde_json::from_slice(body)?;
    let event = |kind, content| Event { id, kind, occurred_at: created.time(), livemode, account, content };
    if let Some((kind, stage)) = stage {
        let subscription: Subscription = serde_json::from_str(data.object.get())?;
        let state = subscription.state(stage)?;
        let before = data.previous_attributes.and_then(|previous| before(data.object, previous, stage));
        // Ids never change.
        let before = before.filter(|before| (&before.id, &before.customer) == (&state.id, &state.customer));
        let before = before.map(Box::new);
        return Ok(Some(event(kind, Content::Subscription { stage, state, before })));
    }
    let session: Checkout = serde_json::from_str(data.object.get())?;
    // Payments without a subscription may have no customer.
    let (Some(kind), "subscription", Some(external_customer)) = (checkout, &*session.mode, session.customer)
    else {
        return Ok(None);
    };
    let customer = session.client_reference_id.as_deref().and_then(customer_of);
    Ok(Some(event(kind, Content::Checkout { id: session.id, external_customer, customer })))
}

/// The state before an event, if it can be told.
fn before(object: &RawValue, previous: &RawValue, stage: Stage) -> Option<State> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(object.get()).ok()?;
    let changed: BTreeMap<String, &RawValue> = serde_json::from_str(previous.get()).ok()?;
    fields.extend(changed);
    let text = serde_json::to_string(&fields).ok()?;
    serde_json::from_str::<Subscription>(&text).ok()?.state(stage).ok()
}

impl Subscription {
    fn state(self, stage: Stage) -> Result<State, serde_json::Error> {
        let (items, has_more) = match self.items {
            Some(items) => (items.data, items.has_more),
            None if self.plan.is_some() => (Vec::new(), false),
            None => return Err(serde::de::Error::custom("a subscription without items and without a plan")),
        };
        let of_items = items.iter().filter_map(|item| item.current_period_end);
        let end = self.current_period_end.or_else(|| of_items.max_by_key(|end| end.0)).map(Seconds::time);
        let ends_at = self.cancel_at.map(Seconds::time).or(end.filter(|_| self.cancel_at_period_end));
        let status: String = match stage {
            Stage::Deleted => "canceled".to_owned(),
            Stage::Created | Stage::Changed => self.status.chars().take(STATUS_LENGTH_MAX).collect(),
        };
        let mut prices: Vec<ExternalId> = Vec::new();
        let mut more_items = has_more;
        let of_items = items.into_iter().filter_map(|item| item.price.or(item.plan));
        // Where items are shown, the plan of the subscription is that of one of them.
        for Price(price) in of_items.chain(self.plan) {
            if prices.contains(&price) {
                continue;
            }
            if prices.len() == PRICES_MAX {
                more_items = true;
                break;
            }
            prices.push(price);
        }
        let period = Period::new(end, ends_at);
        Ok(State { id: self.id, customer: self.customer, prices, more_items, status, period })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(kind: &str, object: Value) -> Vec<u8> {
        let event = json!({ "id": "evt_1", "object": "event", "type": kind, "created": 1_800_000_000, "livemode": false,
                            "api_version": "2026-01-28", "data": { "object": object }, "pending_webhooks": 1 });
        event.to_string().into_bytes()
    }

    fn state(object: Value) -> State {
        let body = event("customer.subscription.updated", object);
        match parse(&body, |_| None).expect("an event").expect("is understood").content {
            Content::Subscription { state, .. } => state,
            content => panic!("{content:?}"),
        }
    }

    #[test]
    fn both_forms_of_the_period_are_read() {
        let old = state(
            json!({ "id": "sub_1", "customer": "cus_1", "status": "active", "current_period_end": 1_802_000_000,
            "cancel_at_period_end": true, "items": { "data": [{ "price": { "id": "price_1" } }] } }),
        );
        let new = state(
            json!({ "id": "sub_1", "customer": { "id": "cus_1", "object": "customer" }, "status": "active",
            "cancel_at_period_end": true, "cancel_at": null, "metadata": { "plan": "gold" },
            "items": { "data": [{ "price": { "id": "price_1" }, "current_period_end": 1_802_000_000 }] } }),
        );
        assert_eq!(old, new);
        let end = Time::from_millis(1_802_000_000_000);
        assert_eq!(old.period, Period { end: Some(end), access_until: None });
    }

    #[test]
    fn what_is_not_understood_may_have_any_form() {
        for body in [
            event("invoice.paid", json!([1, 2])),
            event("checkout.session.completed", json!({ "id": "cs_1", "mode": "payment", "customer": null })),
            br#"{"type":"v2.core.event","id":7}"#.to_vec(),
        ] {
            assert!(parse(&body, |_| None).expect("JSON").is_none());
        }
    }

    #[test]
    fn what_is_broken_is_an_error() {
        let fine = json!({ "id": "sub_1", "customer": "cus_1", "status": "active", "items": { "data": [] } });
        for (field, value) in [
            ("id", json!("sub 1")),
            ("customer", json!(null)),
            ("customer", json!("cus_1\u{0}")),
            ("status", json!(7)),
            ("items", json!({})),
            ("items", json!(null)),
            ("current_period_end", json!(-1)),
            ("current_period_end", json!(i64::MAX)),
        ] {
            let mut object = fine.clone();
            object[field] = value;
            let body = event("customer.subscription.created", object);
            assert!(parse(&body, |_| None).is_err(), "{field}");
        }
        for body in [&b""[..], b"[]", b"{", br#"{"type":"customer.subscription.created"}"#, b"\xff"] {
            assert!(parse(body, |_| None).is_err());
        }
        // Nesting does not use the stack.
        let deep = [&b"{\"type\":\"x\",\"data\":"[..], &b"[".repeat(200_000)].concat();
        assert!(parse(&deep, |_| None).is_err());
    }
}
