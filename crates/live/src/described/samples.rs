//! Queries and mutations whose descriptions the tests compare with what is expected.

use crate::{Anyone, Given, Mutation, Problem, Query, SignedIn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use store::{Snapshot, Tx};
use utoipa::ToSchema;

/// A list of orders.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct ListOrders {
    /// The order before the page.
    after: Option<i64>,
    state: State,
    #[serde(rename = "with-lines", default)]
    with_lines: bool,
}

#[derive(Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Open,
    SentAway,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Order {
    id: String,
    /// The parts,
    /// in order.
    lines: Vec<Line>,
    states: Vec<Option<State>>,
    notes: HashMap<String, Vec<i64>>,
    pair: (String, i64),
    anything: Value,
    payment: Payment,
    #[schema(no_recursion)]
    parent: Option<Box<Order>>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Line {
    price: f64,
}

#[derive(Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum Payment {
    None,
    Card { last4: String },
}

impl Query for ListOrders {
    const NAME: &'static str = "list_orders";
    type Claims = Anyone;
    type Value = Vec<Order>;
    fn run(&self, _: &mut Snapshot<'_>, _: &Anyone) -> Result<Vec<Order>, Problem> {
        Ok(Vec::new())
    }
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct Clear {}

impl Mutation for Clear {
    const NAME: &'static str = "clear";
    type Claims = Anyone;
    type Value = ();
    fn run(&self, _: &mut Tx<'_>, _: &Anyone, _: &Given) -> Result<(), Problem> {
        Ok(())
    }
}

/// Puts parts on the shelf.
///
/// What was ordered meanwhile is sent away.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Restock {
    part: String,
    count: i64,
}

impl Mutation for Restock {
    const NAME: &'static str = "restock";
    type Claims = SignedIn;
    type Value = Option<Line>;
    fn run(&self, _: &mut Tx<'_>, _: &SignedIn, _: &Given) -> Result<Option<Line>, Problem> {
        Ok(None)
    }
}
