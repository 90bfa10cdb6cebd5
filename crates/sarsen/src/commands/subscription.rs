//! `sarsen subscription`: who has which plan.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::Column;
use serde_json::Value;
use server::{Clock as _, SystemClock};

/// Subscriptions: who has which plan.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen subscription change --user ada@example.com --plan pro --org acme\n\
                  \x20   sarsen subscription change --user ada@example.com --status canceled --org acme\n\
                  \n\
                  Statuses: active, trialing, past_due, canceled.")]
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
    /// Give a plan to a user or a customer
    Create {
        /// E-mail address or id of the user
        #[arg(long, required_unless_present = "customer", conflicts_with = "customer")]
        user: Option<String>,
        /// Id of the customer
        #[arg(long)]
        customer: Option<String>,
        #[command(flatten)]
        terms: Terms,
    },
    /// List the subscriptions
    List {
        /// Of this user only: e-mail address or id
        #[arg(long)]
        user: Option<String>,
        /// Of this plan only
        #[arg(long, value_name = "SLUG")]
        plan: Option<String>,
    },
    /// Show a subscription
    Show {
        /// Its id
        subscription: String,
    },
    /// Change a subscription; or give a user one who has none
    Change {
        /// Its id; or say --user
        #[arg(required_unless_present = "user", conflicts_with = "user")]
        subscription: Option<String>,
        /// E-mail address or id of the user whose subscription it is
        #[arg(long)]
        user: Option<String>,
        #[command(flatten)]
        terms: Terms,
    },
    /// Delete a subscription
    Delete {
        /// Its id
        subscription: String,
    },
}

#[derive(clap::Args)]
struct Terms {
    /// The plan
    #[arg(long, value_name = "SLUG")]
    plan: Option<String>,
    /// active, trialing, past_due or canceled
    #[arg(long)]
    status: Option<String>,
    /// When it ends, like 2027-01-31T00:00:00Z, or none for never
    #[arg(long, value_name = "TIME|none")]
    period_end: Option<String>,
}

const FIELDS: [Column; 6] = [
    ("id", "/id"),
    ("plan", "/plan"),
    ("status", "/status"),
    ("ends", "/current_period_end"),
    ("user", "/user_email /user"),
    ("customer", "/customer_name /customer"),
];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { terms: Terms { plan: None, .. }, .. } => Err(Error::usage("which plan? Say --plan")),
        Verb::Create { user, customer, terms } => {
            let user = user.as_deref().map(|user| api.user_id(user)).transpose()?;
            let made =
                create(&mut api, terms.fields().with("user", user).with("customer", customer.clone()))?;
            api.show(&FIELDS, &made)
        }
        Verb::List { user, plan } => {
            let user = user.as_deref().map(|user| api.user_id(user)).transpose()?;
            let filters = [("user", &user), ("plan", plan)];
            let given = filters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
            let found = api.list(&api.path(&["subscriptions"]), &given.collect::<Vec<_>>())?;
            api.show_list(&FIELDS, found, "No subscriptions.")
        }
        Verb::Show { subscription } => {
            let found = api.get(&api.path(&["subscriptions", subscription]))?;
            api.show(&FIELDS, &found)
        }
        Verb::Change { subscription, user, terms } => {
            let changed = match (subscription, user) {
                (Some(id), _) => api.patch(&api.path(&["subscriptions", id]), terms.fields())?,
                (None, user) => change_of_user(&mut api, user.as_deref().unwrap_or_default(), terms)?,
            };
            api.show(&FIELDS, &changed)
        }
        Verb::Delete { subscription } => {
            api.delete(&api.path(&["subscriptions", subscription]))?;
            api.message(&format!("The subscription {subscription} is deleted."));
            Ok(())
        }
    }
}

fn create(api: &mut Api, fields: Fields) -> Result<Value> {
    api.post(&api.path(&["subscriptions"]), fields)
}

/// Changes the one live subscription that is meant, or makes one.
fn change_of_user(api: &mut Api, user: &str, terms: &Terms) -> Result<Value> {
    let id = api.user_id(user)?;
    let mut live = api.list(&api.path(&["subscriptions"]), &[("user", &id)])?;
    live.retain(is_live);
    if let (Some(plan), 2..) = (&terms.plan, live.len()) {
        keep_same_services(api, &mut live, plan)?;
    }
    match (live.as_slice(), &terms.plan) {
        ([one], _) => api.patch(&api.path(&["subscriptions", text(one, "id")]), terms.fields()),
        ([], Some(_)) => create(api, terms.fields().with("user", Some(id))),
        ([], None) => Err(Error::failed(format!("{user} has no subscription; give one with --plan"))),
        (several, _) => {
            let named: Vec<String> =
                several.iter().map(|one| format!("{} ({})", text(one, "id"), text(one, "plan"))).collect();
            Err(Error::usage(format!("{user} has several; name one by its id: {}", named.join(", "))))
        }
    }
}

/// Of several subscriptions, the one that is for the same services as the new plan is meant.
fn keep_same_services(api: &mut Api, live: &mut Vec<Value>, plan: &str) -> Result<()> {
    let plans = api.list(&api.path(&["plans"]), &[])?;
    let services_of = |slug: &str| {
        let plan = plans.iter().find(|plan| text(plan, "slug") == slug);
        plan.and_then(|plan| plan.get("services")).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let wanted = services_of(plan);
    live.retain(|subscription| {
        services_of(text(subscription, "plan")).iter().any(|slug| wanted.contains(slug))
    });
    Ok(())
}

/// Neither canceled nor over.
fn is_live(subscription: &Value) -> bool {
    let end = subscription.get("current_period_end").and_then(Value::as_str);
    let end: Option<jiff::Timestamp> = end.and_then(|end| end.parse().ok());
    text(subscription, "status") != "canceled"
        && end.is_none_or(|end| end.as_millisecond() > SystemClock.now().millis())
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl Terms {
    fn fields(&self) -> Fields {
        let end = self.period_end.as_deref().map(|end| if end == "none" { Value::Null } else { end.into() });
        Fields::new()
            .with("plan", self.plan.clone())
            .with("status", self.status.clone())
            .with("current_period_end", end)
    }
}
