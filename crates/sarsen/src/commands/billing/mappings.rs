//! What the ids of a payment provider stand for.

use crate::commands::api::{Api, Fields, Nullable};
use crate::error::Result;
use crate::output::{Cell, Field, Record, Time, column, detail};
use clap::ArgGroup;
use serde::Deserialize;

#[derive(clap::Subcommand)]
pub(super) enum PriceVerb {
    /// Let a price stand for a plan, also for the subscriptions that have it already
    Set {
        /// The provider's id, like price_1Nx…
        price: String,
        /// The slug of the plan
        #[arg(long, value_name = "SLUG")]
        plan: String,
    },
    /// List the prices
    List,
    /// Remove a price; subscriptions stay as they are, unless another of their prices has a plan
    Remove {
        /// The provider's id
        price: String,
    },
}

#[derive(clap::Subcommand)]
pub(super) enum CustomerVerb {
    /// Let a customer of the provider stand for a user or a customer
    Set {
        /// The provider's id, like cus_Nx…
        billing_customer: String,
        #[command(flatten)]
        of: CustomerArgs,
    },
    /// List the customers
    List,
    /// Remove a customer; subscriptions stay as they are, and later events wait
    Remove {
        /// The provider's id
        billing_customer: String,
    },
}

/// A user or a customer.
#[derive(clap::Args)]
#[command(group(ArgGroup::new("subscriber").required(true).args(["user", "customer"])))]
pub(super) struct CustomerArgs {
    /// E-mail address or id of the user
    #[arg(long)]
    user: Option<String>,
    /// Id of the customer
    #[arg(long)]
    customer: Option<String>,
}

impl CustomerArgs {
    fn fields(&self, api: &mut Api) -> Result<Fields> {
        let user = self.user.as_deref().map(|user| api.user_id(user)).transpose()?;
        Ok(Fields::new().with("user", user).with("customer", self.customer.clone()))
    }
}

#[derive(Deserialize)]
struct Price {
    price: String,
    plan: String,
    created_at: Time,
}

impl Record for Price {
    fn fields(&self) -> Vec<Field> {
        vec![column("price", &self.price), column("plan", &self.plan), column("set", &self.created_at)]
    }
}

#[derive(Deserialize)]
struct PriceSet {
    #[serde(flatten)]
    price: Price,
    applied: u64,
    waiting: u64,
    pending: u64,
}

impl Record for PriceSet {
    fn fields(&self) -> Vec<Field> {
        let mut fields = self.price.fields();
        fields.push(column("applied", &self.applied.to_string()));
        fields.push(column("waiting", &self.waiting.to_string()));
        fields.push(column("pending", &self.pending.to_string()));
        fields
    }
}

#[derive(Deserialize)]
struct Customer {
    billing_customer: String,
    customer: String,
    customer_name: String,
    user: Nullable<String>,
    created_at: Time,
}

impl Record for Customer {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("billing customer", &self.billing_customer),
            column("customer", Cell::named(Some(&self.customer_name), &self.customer)),
            detail("user", Cell::nullable(self.user.0.as_ref())),
            column("set", &self.created_at),
        ]
    }
}

#[derive(Deserialize)]
struct Reference {
    customer: String,
    reference: String,
}

impl Record for Reference {
    fn fields(&self) -> Vec<Field> {
        vec![column("customer", &self.customer), column("reference", &self.reference)]
    }
}

/// Runs `sarsen billing price`.
pub(super) fn price(api: &mut Api, verb: &PriceVerb, path: impl Fn(&[&str]) -> String) -> Result<()> {
    match verb {
        PriceVerb::Set { price, plan } => {
            let fields = Fields::new().with("plan", Some(plan.clone()));
            let set = api.put::<PriceSet>(&path(&["prices", price]), fields)?;
            api.show(&set)
        }
        PriceVerb::List => {
            let found = api.list::<Price>(&path(&["prices"]), &[])?;
            api.show_list(&found, "No prices. Set one with sarsen billing price set.")
        }
        PriceVerb::Remove { price } => {
            api.delete(&path(&["prices", price]))?;
            api.confirm(&format!("Removed the price {price}."));
            Ok(())
        }
    }
}

/// Runs `sarsen billing customer`.
pub(super) fn customer(api: &mut Api, verb: &CustomerVerb, path: impl Fn(&[&str]) -> String) -> Result<()> {
    match verb {
        CustomerVerb::Set { billing_customer, of } => {
            let fields = of.fields(api)?;
            let set = api.put::<Customer>(&path(&["customers", billing_customer]), fields)?;
            api.show(&set)
        }
        CustomerVerb::List => {
            let found = api.list::<Customer>(&path(&["customers"]), &[])?;
            api.show_list(&found, "No customers. A checkout with a reference adds one.")
        }
        CustomerVerb::Remove { billing_customer } => {
            api.delete(&path(&["customers", billing_customer]))?;
            api.confirm(&format!("Removed the customer {billing_customer}."));
            Ok(())
        }
    }
}

/// Runs `sarsen billing reference`.
pub(super) fn reference(api: &mut Api, of: &CustomerArgs, path: &str) -> Result<()> {
    let fields = of.fields(api)?;
    let made = api.post::<Reference>(path, fields)?;
    api.show(&made)
}
