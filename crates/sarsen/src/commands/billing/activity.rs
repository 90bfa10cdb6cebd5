//! What a payment provider has sent.

use crate::commands::api::{Api, Nullable};
use crate::error::Result;
use crate::output::{Cell, Field, Record, Time, column, detail};
use serde::Deserialize;

#[derive(Deserialize)]
struct Subscription {
    billing_subscription: String,
    billing_customer: String,
    prices: Vec<String>,
    status: String,
    current_period_end: Nullable<Time>,
    problem: Nullable<String>,
    subscription: Nullable<String>,
    updated_at: Time,
}

impl Record for Subscription {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("billing subscription", &self.billing_subscription),
            column("billing customer", &self.billing_customer),
            column("prices", &self.prices),
            column("status", &self.status),
            column("waits for", Cell::nullable(self.problem.0.as_ref())),
            column("subscription", Cell::id(self.subscription.0.as_deref().unwrap_or_default())),
            detail("period end", Cell::nullable(self.current_period_end.0.as_ref())),
            detail("updated", &self.updated_at),
        ]
    }
}

#[derive(Deserialize)]
struct Event {
    billing_event: String,
    #[serde(rename = "type")]
    kind: String,
    subject: String,
    outcome: String,
    occurred_at: Time,
}

impl Record for Event {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("time", &self.occurred_at),
            column("type", &self.kind),
            column("subject", &self.subject),
            column("outcome", &self.outcome),
            column("event", Cell::id(&self.billing_event)),
        ]
    }
}

#[derive(Deserialize)]
struct Retried {
    applied: u64,
    waiting: u64,
    next: Nullable<String>,
}

/// Runs `sarsen billing subscriptions`.
pub(super) fn subscriptions(api: &mut Api, path: &str, waiting: bool) -> Result<()> {
    let (query, nothing): (&[_], _) = if waiting {
        (&[("waiting", "true")], "No subscription waits.")
    } else {
        (&[], "No subscriptions. They come with the provider's events.")
    };
    let found = api.list::<Subscription>(path, query)?;
    api.show_list(&found, nothing)
}

/// Runs `sarsen billing events`.
pub(super) fn events(api: &mut Api, path: &str, limit: usize) -> Result<()> {
    let found = api.list_up_to::<Event>(path, &[], limit)?;
    api.show_list(&found, "No events yet.")
}

/// Runs `sarsen billing retry`, page by page.
pub(super) fn retry(api: &mut Api, path: &str) -> Result<()> {
    let (mut applied, mut waiting) = (0, 0);
    let mut cursor: Option<String> = None;
    loop {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(cursor.as_ref().map(|cursor| ("cursor", cursor)));
        let page = api.post_empty::<Retried>(&format!("{path}?{}", query.finish()))?.read()?;
        applied += page.applied;
        waiting += page.waiting;
        if page.next.0.is_none() || page.next.0 == cursor {
            api.confirm(&format!("{applied} applied, {waiting} waiting."));
            return Ok(());
        }
        cursor = page.next.0;
    }
}
