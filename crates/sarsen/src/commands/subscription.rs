//! `sarsen subscription`: which user or customer has which plan.

use super::api::{Answer, Api, Fields, GlobalArgs, Nullable, OrgArgs};
use super::plan::Plan;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output::{Cell, Field, Record, Time, column};
use clap::ArgGroup;
use serde::Deserialize;
use serde_json::Value;
use server::{Clock as _, SystemClock};

/// Subscriptions: which user or customer has which plan.
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
    #[command(group(ArgGroup::new("subscriber").required(true).args(["user", "customer"])))]
    Create {
        /// E-mail address or id of the user
        #[arg(long)]
        user: Option<String>,
        /// Id of the customer
        #[arg(long)]
        customer: Option<String>,
        #[command(flatten)]
        terms: Terms,
    },
    /// List the subscriptions
    List {
        /// Only those of this user: e-mail address or id
        #[arg(long)]
        user: Option<String>,
        /// Only those of this plan
        #[arg(long, value_name = "SLUG")]
        plan: Option<String>,
    },
    /// Show a subscription
    Show {
        /// Its id
        subscription: String,
    },
    /// Change a subscription. With --user, create one where the user has none
    #[command(group(ArgGroup::new("which").required(true).args(["subscription", "user"])))]
    Change {
        /// Its id
        subscription: Option<String>,
        /// E-mail address or id of the user who has it
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
    /// End of the period, like 2027-01-31T00:00:00Z, or none
    #[arg(long, value_name = "TIME|none")]
    period_end: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Subscription {
    id: String,
    plan: String,
    status: String,
    current_period_end: Nullable<Time>,
    access_until: Nullable<Time>,
    user: Nullable<String>,
    user_email: Nullable<String>,
    customer: String,
    customer_name: String,
}

impl Record for Subscription {
    fn fields(&self) -> Vec<Field> {
        let user = self.user.0.as_deref().unwrap_or_default();
        vec![
            column("plan", &self.plan),
            column("status", &self.status),
            column("period end", Cell::nullable(self.current_period_end.0.as_ref())),
            column("user", Cell::named(self.user_email.0.as_deref(), user)),
            column("customer", Cell::named(Some(&self.customer_name), &self.customer)),
            column("id", Cell::id(&self.id)),
        ]
    }
}

impl Subscription {
    /// It is neither canceled nor past the end of access.
    fn is_live(&self) -> bool {
        let now = SystemClock.now().millis();
        let end = self.access_until.0.or(self.current_period_end.0);
        self.status != "canceled" && end.is_none_or(|end| end.0.as_millisecond() > now)
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { terms: Terms { plan: None, .. }, .. } => {
            Err(Error::usage("name the plan with --plan; sarsen plan list shows the plans"))
        }
        Verb::Create { user, customer, terms } => {
            let user = user.as_deref().map(|user| api.user_id(user)).transpose()?;
            let created =
                create(&mut api, terms.fields().with("user", user).with("customer", customer.clone()))?;
            api.show(&created)
        }
        Verb::List { user, plan } => {
            let user = user.as_deref().map(|user| api.user_id(user)).transpose()?;
            let filters = [("user", &user), ("plan", plan)];
            let given: Vec<(&str, &str)> =
                filters.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let found = api.list::<Subscription>(&api.path(&["subscriptions"]), &given)?;
            api.show_list(&found, "No subscriptions.")
        }
        Verb::Show { subscription } => {
            let found = api.get::<Subscription>(&api.path(&["subscriptions", subscription]))?;
            api.show(&found)
        }
        Verb::Change { subscription, user, terms } => {
            let changed = match (subscription, user) {
                (Some(id), _) => change(&mut api, id, terms)?,
                (None, user) => change_of_user(&mut api, user.as_deref().unwrap_or_default(), terms)?,
            };
            api.show(&changed)
        }
        Verb::Delete { subscription } => {
            api.delete(&api.path(&["subscriptions", subscription]))?;
            api.confirm(&format!("Deleted the subscription {subscription}."));
            Ok(())
        }
    }
}

fn create(api: &mut Api, fields: Fields) -> Result<Answer<Subscription>> {
    api.post(&api.path(&["subscriptions"]), fields)
}

fn change(api: &mut Api, id: &str, terms: &Terms) -> Result<Answer<Subscription>> {
    api.patch(&api.path(&["subscriptions", id]), terms.fields())
}

/// Changes the live subscription of a user, or creates one.
fn change_of_user(api: &mut Api, user: &str, terms: &Terms) -> Result<Answer<Subscription>> {
    let id = api.user_id(user)?;
    let mut live = api.list::<Subscription>(&api.path(&["subscriptions"]), &[("user", &id)])?.read()?;
    live.retain(Subscription::is_live);
    if let (Some(plan), 2..) = (&terms.plan, live.len()) {
        keep_same_services(api, &mut live, plan)?;
    }
    match (live.as_slice(), &terms.plan) {
        ([one], _) => change(api, &one.id, terms),
        ([], Some(_)) => create(api, terms.fields().with("user", Some(id))),
        ([], None) => Err(Error::failed(format!("{user} has no subscription; add --plan to create one"))),
        (several, _) => {
            let ids: Vec<String> = several.iter().map(|one| format!("{} ({})", one.id, one.plan)).collect();
            Err(Error::usage(format!(
                "{user} has several subscriptions; use the id of one: {}",
                ids.join(", ")
            )))
        }
    }
}

/// Of several subscriptions, keeps those whose plans cover a service of the new plan.
fn keep_same_services(api: &mut Api, live: &mut Vec<Subscription>, plan: &str) -> Result<()> {
    let plans = api.list::<Plan>(&api.path(&["plans"]), &[])?.read()?;
    let services_of = |slug: &str| {
        plans.iter().find(|plan| plan.slug == slug).map_or(&[][..], |plan| plan.services.as_slice())
    };
    let wanted = services_of(plan);
    live.retain(|subscription| {
        services_of(&subscription.plan).iter().any(|service| wanted.contains(service))
    });
    Ok(())
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
