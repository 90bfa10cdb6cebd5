//! The organizations of a run: each with one service, one device client and two plans beside `free`.

use serde::Deserialize;
use serde_json::json;

use super::admin::Admin;
use super::client::Client;
use crate::error::Error;

/// The plans that every organization sells.
pub const PLANS_SOLD: [&str; 2] = ["pro", "team"];
const PRICES_CENTS: [u32; 2] = [1_900, 4_900];
/// The plans of accounts by number: half `pro`, a quarter `team`, a quarter none.
const PLANS: [Option<&str>; 4] = [Some(PLANS_SOLD[0]), Some(PLANS_SOLD[1]), Some(PLANS_SOLD[0]), None];
/// The plan of `/api/subscription` without a subscription.
const PLAN_DEFAULT: &str = "free";
const SERVICE: &str = "app";

pub(super) struct Tenant {
    pub slug: String,
    /// The id of its device client.
    pub client_id: String,
}

#[derive(Deserialize)]
struct NewClient {
    client_id: String,
}

impl Tenant {
    /// Creates the organization only: the administrator needs a new token before the rest.
    pub async fn create(admin: &Admin, client: &mut Client, slug: &str, number: usize) -> Result<(), Error> {
        let body = json!({ "slug": slug, "name": format!("Bench {number}") });
        admin.post(client, "/api/organizations", &body).await?;
        Ok(())
    }

    pub async fn add_catalog(admin: &Admin, client: &mut Client, slug: String) -> Result<Tenant, Error> {
        let path = |noun: &str| format!("/api/organizations/{slug}/{noun}");
        let service = json!({ "slug": SERVICE, "name": "App" });
        admin.post(client, &path("services"), &service).await?;
        let device = json!({ "service": SERVICE, "kind": "device", "name": "Bench terminal" });
        let device: NewClient = admin.post(client, &path("clients"), &device).await?.json()?;
        for (plan, price_cents) in PLANS_SOLD.into_iter().zip(PRICES_CENTS) {
            let plan = json!({
                "slug": plan, "name": plan, "services": [SERVICE],
                "price_cents": price_cents, "currency": "EUR", "features": ["reports", "export"],
            });
            admin.post(client, &path("plans"), &plan).await?;
        }
        Ok(Tenant { slug, client_id: device.client_id })
    }
}

/// The plan that account `number` subscribes to.
pub(super) fn plan_bought(number: usize) -> Option<&'static str> {
    PLANS[number % PLANS.len()]
}

/// The expected plan of `/api/subscription` for account `number`.
pub(super) fn plan_expected(number: usize) -> &'static str {
    plan_bought(number).unwrap_or(PLAN_DEFAULT)
}
