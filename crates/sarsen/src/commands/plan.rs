//! `sarsen plan`: what an organization sells.

use super::api::{Api, Fields, GlobalArgs, Nullable, OrgArgs};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{Cell, Field, Record, Time, column, detail};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// Plans: what an organization sells. A user without a subscription has the plan `free`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n\
                  \x20   sarsen plan create pro --name Pro --service sketch --price-cents 1900 --currency EUR \\\n\
                  \x20       --feature export --feature history --limit projects=20 --org acme")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    org: OrgArgs,
    #[command(flatten)]
    global: GlobalArgs,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Create a plan
    Create {
        /// Short name that services see; it never changes
        slug: String,
        /// Display name
        #[arg(long)]
        name: String,
        /// Slug of a service that it covers; may be repeated
        #[arg(long = "service", value_name = "SLUG", required = true)]
        services: Vec<String>,
        /// Price in whole cents
        #[arg(long, value_name = "CENTS", default_value_t = 0, value_parser = cents)]
        price_cents: i64,
        /// Currency code of three capital letters
        #[arg(long, default_value = "EUR")]
        currency: String,
        #[command(flatten)]
        terms: Terms,
    },
    /// List the plans
    List,
    /// Show a plan
    Show {
        /// Its slug
        slug: String,
    },
    /// Change a plan; the change applies to its subscribers at once
    Change {
        /// Its slug
        slug: String,
        /// New display name
        #[arg(long)]
        name: Option<String>,
        /// New price in whole cents
        #[arg(long, value_name = "CENTS", value_parser = cents)]
        price_cents: Option<i64>,
        #[command(flatten)]
        terms: Terms,
    },
    /// Delete a plan without subscriptions
    Delete {
        /// Its slug
        slug: String,
    },
}

/// `change` replaces a whole list. One empty text is the empty list.
#[derive(clap::Args)]
struct Terms {
    /// Feature that the plan includes; may be repeated. In a change they replace all; "" removes all
    #[arg(long = "feature", value_name = "NAME")]
    features: Vec<String>,
    /// Limit of the plan; may be repeated. In a change they replace all; "" removes all
    #[arg(long = "limit", value_name = "NAME=NUMBER", value_parser = limit)]
    limits: Vec<Limit>,
    /// Users that one subscription covers, or none for no limit
    #[arg(long, value_name = "N|none", value_parser = seats)]
    seats: Option<Seats>,
}

/// A number of seats, or no limit.
#[derive(Clone, Copy)]
struct Seats(Option<i64>);

fn seats(text: &str) -> std::result::Result<Seats, String> {
    match text {
        "none" => Ok(Seats(None)),
        _ => {
            text.parse().map(|count| Seats(Some(count))).map_err(|_| "use a whole number or none".to_owned())
        }
    }
}

/// A name and a number. `None` stands for the empty list.
type Limit = Option<(String, Number)>;

fn limit(text: &str) -> std::result::Result<Limit, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let rule = || "use a name and a number, as in projects=20".to_owned();
    let (name, number) = text.split_once('=').ok_or_else(rule)?;
    Ok(Some((name.to_owned(), number.parse().map_err(|_| rule())?)))
}

fn cents(text: &str) -> std::result::Result<i64, String> {
    text.parse().map_err(|_| "use whole cents, as in 900 for a price of 9.00".to_owned())
}

#[derive(Deserialize)]
pub(super) struct Plan {
    pub slug: String,
    name: String,
    pub services: Vec<String>,
    price_cents: i64,
    currency: String,
    features: Vec<String>,
    limits: BTreeMap<String, Number>,
    seats: Nullable<i64>,
    created_at: Time,
}

impl Record for Plan {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("slug", &self.slug),
            column("name", &self.name),
            column("services", &self.services),
            column("price cents", self.price_cents),
            column("currency", &self.currency),
            column("features", &self.features),
            detail("limits", &self.limits),
            detail("seats", Cell::nullable(self.seats.0)),
            detail("created", &self.created_at),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { slug, name, services, price_cents, currency, terms } => {
            let fields = terms
                .fields()?
                .with("slug", Some(slug.clone()))
                .with("name", Some(name.clone()))
                .with_list("services", services)
                .with("price_cents", Some(*price_cents))
                .with("currency", Some(currency.clone()));
            let created = api.post::<Plan>(&api.path(&["plans"]), fields)?;
            api.show(&created)
        }
        Verb::List => {
            let found = api.list::<Plan>(&api.path(&["plans"]), &[])?;
            api.show_list(&found, "No plans. Create one with sarsen plan create.")
        }
        Verb::Show { slug } => {
            let found = api.get::<Plan>(&api.path(&["plans", slug]))?;
            api.show(&found)
        }
        Verb::Change { slug, name, price_cents, terms } => {
            let fields = terms.fields()?.with("name", name.clone()).with("price_cents", *price_cents);
            let changed = api.patch::<Plan>(&api.path(&["plans", slug]), fields)?;
            api.show(&changed)
        }
        Verb::Delete { slug } => {
            api.delete(&api.path(&["plans", slug]))?;
            api.confirm(&format!("Deleted the plan {slug}."));
            Ok(())
        }
    }
}

impl Terms {
    fn fields(&self) -> Result<Fields> {
        let features: Vec<String> = self.features.iter().filter(|name| !name.is_empty()).cloned().collect();
        let limits = self.limits.iter().flatten();
        let limits: Map<String, Value> =
            limits.map(|(name, limit)| (name.clone(), Value::Number(limit.clone()))).collect();
        require_alone("feature", self.features.len(), features.len())?;
        require_alone("limit", self.limits.len(), limits.len())?;
        Ok(Fields::new()
            .with("features", (!self.features.is_empty()).then_some(features))
            .with("limits", (!self.limits.is_empty()).then_some(limits))
            .with("seats", self.seats.map(|Seats(seats)| Value::from(seats))))
    }
}

/// An empty text removes all of a list, so it stands alone.
fn require_alone(flag: &str, given: usize, left: usize) -> Result<()> {
    if given > 1 && left < given {
        return Err(Error::usage(format!(
            "--{flag} has an empty or a repeated value; use --{flag} \"\" alone to remove all"
        )));
    }
    Ok(())
}
