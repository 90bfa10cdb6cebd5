//! `sarsen plan`: what an organization sells.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::Column;
use serde_json::{Map, Number, Value};

/// Plans: what an organization sells. Who has none has the plan `free`.
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
    /// Make a plan
    Create {
        /// Its short name, which services see; never changes
        slug: String,
        /// Its name for people
        #[arg(long)]
        name: String,
        /// The slug of a service that it covers; may be repeated
        #[arg(long = "service", value_name = "SLUG", required = true)]
        services: Vec<String>,
        /// Its price in cents
        #[arg(long, value_name = "CENTS", default_value_t = 0)]
        price_cents: i64,
        /// Of three capital letters
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
    /// Change a plan; what its subscribers may do changes at once
    Change {
        /// Its slug
        slug: String,
        /// Its new name for people
        #[arg(long)]
        name: Option<String>,
        /// Its new price in cents
        #[arg(long, value_name = "CENTS")]
        price_cents: Option<i64>,
        #[command(flatten)]
        terms: Terms,
    },
    /// Delete a plan that nobody has
    Delete {
        /// Its slug
        slug: String,
    },
}

/// With `change`, a list that is given replaces the one that was there.
#[derive(clap::Args)]
struct Terms {
    /// What it lets people do; may be repeated
    #[arg(long = "feature", value_name = "NAME")]
    features: Vec<String>,
    /// How much of something it gives; may be repeated
    #[arg(long = "limit", value_name = "NAME=NUMBER", value_parser = limit)]
    limits: Vec<(String, Number)>,
    /// How many people may use one subscription, or none for no count
    #[arg(long, value_name = "N|none", value_parser = seats)]
    seats: Option<Seats>,
}

/// A number of seats, or that they are not counted.
#[derive(Clone, Copy)]
struct Seats(Option<i64>);

fn seats(text: &str) -> std::result::Result<Seats, String> {
    match text {
        "none" => Ok(Seats(None)),
        _ => {
            text.parse().map(|count| Seats(Some(count))).map_err(|_| "want a whole number or none".to_owned())
        }
    }
}

fn limit(text: &str) -> std::result::Result<(String, Number), String> {
    let rule = || "want a name and a number, as in projects=20".to_owned();
    let (name, number) = text.split_once('=').ok_or_else(rule)?;
    Ok((name.to_owned(), number.parse().map_err(|_| rule())?))
}

const COLUMNS: [Column; 6] = [
    ("slug", "/slug"),
    ("name", "/name"),
    ("services", "/services"),
    ("cents", "/price_cents"),
    ("currency", "/currency"),
    ("features", "/features"),
];
const FIELDS: [Column; 9] = [
    ("slug", "/slug"),
    ("name", "/name"),
    ("services", "/services"),
    ("cents", "/price_cents"),
    ("currency", "/currency"),
    ("features", "/features"),
    ("limits", "/limits"),
    ("seats", "/seats"),
    ("created", "/created_at"),
];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { slug, name, services, price_cents, currency, terms } => {
            let fields = terms
                .fields()
                .with("slug", Some(slug.clone()))
                .with("name", Some(name.clone()))
                .with_list("services", services)
                .with("price_cents", Some(*price_cents))
                .with("currency", Some(currency.clone()));
            let made = api.post(&api.path(&["plans"]), fields)?;
            api.show(&FIELDS, &made)
        }
        Verb::List => {
            let found = api.list(&api.path(&["plans"]), &[])?;
            api.show_list(&COLUMNS, found, "No plans yet; make one with sarsen plan create.")
        }
        Verb::Show { slug } => {
            let found = api.get(&api.path(&["plans", slug]))?;
            api.show(&FIELDS, &found)
        }
        Verb::Change { slug, name, price_cents, terms } => {
            let fields = terms.fields().with("name", name.clone()).with("price_cents", *price_cents);
            let changed = api.patch(&api.path(&["plans", slug]), fields)?;
            api.show(&FIELDS, &changed)
        }
        Verb::Delete { slug } => {
            api.delete(&api.path(&["plans", slug]))?;
            api.message(&format!("The plan {slug} is deleted."));
            Ok(())
        }
    }
}

impl Terms {
    fn fields(&self) -> Fields {
        let limits: Map<String, Value> =
            self.limits.iter().map(|(name, limit)| (name.clone(), Value::Number(limit.clone()))).collect();
        Fields::new()
            .with_list("features", &self.features)
            .with("limits", (!limits.is_empty()).then_some(limits))
            .with("seats", self.seats.map(|Seats(seats)| Value::from(seats)))
    }
}
