//! `sarsen client`: the programs that sign people in to a service, and their secrets.

use super::api::{Api, Fields, GlobalArgs, OrgArgs};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::Column;
use serde_json::Value;

/// Clients: the programs that sign people in to a service.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen client create --service sketch --kind web --name Website \\\n\
                  \x20       --redirect-uri https://sketch.example.com/callback --org acme\n\
                  \x20   sarsen client secret add client_01h… --org acme\n\
                  \n\
                  Kinds: web (has a secret), spa, native, device, machine (has a secret; acts for itself).")]
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
    /// Make a client; its secret is shown only now
    Create {
        /// The slug of its service
        #[arg(long)]
        service: String,
        /// web, spa, native, device or machine
        #[arg(long)]
        kind: String,
        /// Its name for people, who see it when they are asked
        #[arg(long)]
        name: String,
        #[command(flatten)]
        rules: Rules,
    },
    /// List the clients
    List {
        /// Of this service only
        #[arg(long, value_name = "SLUG")]
        service: Option<String>,
    },
    /// Show a client
    Show {
        /// Its id
        client: String,
    },
    /// Change a client
    Change {
        /// Its id
        client: String,
        /// Its new name for people
        #[arg(long)]
        name: Option<String>,
        /// Whether it must use PKCE
        #[arg(long, value_name = "BOOL")]
        pkce_required: Option<bool>,
        /// Whether it may sign in devices without a browser; only native and device clients
        #[arg(long, value_name = "on|off", value_parser = switch)]
        device_flow: Option<bool>,
        #[command(flatten)]
        rules: Rules,
    },
    /// Delete a client; what it was granted ends
    Delete {
        /// Its id
        client: String,
    },
    /// The secrets of a client
    Secret {
        #[command(subcommand)]
        verb: SecretVerb,
    },
}

#[derive(clap::Args)]
struct Rules {
    /// Where its codes may go; may be repeated. With `change`, these replace what was there
    #[arg(long = "redirect-uri", value_name = "URI")]
    redirect_uris: Vec<String>,
    /// Whether people are asked before it gets anything
    #[arg(long, value_name = "BOOL")]
    consent_required: Option<bool>,
}

fn switch(text: &str) -> std::result::Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("want on or off".to_owned()),
    }
}

#[derive(clap::Subcommand)]
enum SecretVerb {
    /// Make another secret; it is shown only now
    Add {
        /// The client's id
        client: String,
    },
    /// List the secrets, by their last letters
    List {
        /// The client's id
        client: String,
    },
    /// Delete a secret
    Delete {
        /// The client's id
        client: String,
        /// The secret's id
        secret: String,
    },
}

const COLUMNS: [Column; 4] =
    [("client id", "/client_id"), ("kind", "/kind"), ("service", "/service"), ("name", "/name")];
const FIELDS: [Column; 11] = [
    ("client id", "/client_id"),
    ("client secret", "/client_secret"),
    ("kind", "/kind"),
    ("service", "/service"),
    ("name", "/name"),
    ("grants", "/grants"),
    ("redirect uris", "/redirect_uris"),
    ("asks consent", "/consent_required"),
    ("needs PKCE", "/pkce_required"),
    ("device flow", "/device_flow"),
    ("created", "/created_at"),
];
const SECRET_FIELDS: [Column; 4] =
    [("id", "/id"), ("client secret", "/client_secret"), ("ends in", "/hint"), ("created", "/created_at")];
const SECRET_COLUMNS: [Column; 3] = [("id", "/id"), ("ends in", "/hint"), ("created", "/created_at")];

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { service, kind, name, rules } => {
            let fields =
                rules.fields().with("service", Some(service.clone())).with("kind", Some(kind.clone()));
            let made = api.post(&api.path(&["clients"]), fields.with("name", Some(name.clone())))?;
            show_with_secret(&api, &FIELDS, &made)
        }
        Verb::List { service } => {
            let query: Vec<(&str, &str)> = service.iter().map(|slug| ("service", slug.as_str())).collect();
            let found = api.list(&api.path(&["clients"]), &query)?;
            api.show_list(&COLUMNS, found, "No clients yet; make one with sarsen client create.")
        }
        Verb::Show { client } => {
            let found = api.get(&api.path(&["clients", client]))?;
            api.show(&FIELDS, &found)
        }
        Verb::Change { client, name, pkce_required, device_flow, rules } => {
            let fields = rules.fields().with("name", name.clone()).with("pkce_required", *pkce_required);
            let fields = fields.with("device_flow", *device_flow);
            let changed = api.patch(&api.path(&["clients", client]), fields)?;
            api.show(&FIELDS, &changed)
        }
        Verb::Delete { client } => {
            api.delete(&api.path(&["clients", client]))?;
            api.message(&format!("The client {client} is deleted."));
            Ok(())
        }
        Verb::Secret { verb } => secret(&mut api, verb),
    }
}

fn secret(api: &mut Api, verb: &SecretVerb) -> Result<()> {
    match verb {
        SecretVerb::Add { client } => {
            let made = api.post_nothing(&api.path(&["clients", client, "secrets"]))?;
            show_with_secret(api, &SECRET_FIELDS, &made)
        }
        SecretVerb::List { client } => {
            let found = api.list(&api.path(&["clients", client, "secrets"]), &[])?;
            api.show_list(&SECRET_COLUMNS, found, "It has no secrets.")
        }
        SecretVerb::Delete { client, secret } => {
            api.delete(&api.path(&["clients", client, "secrets", secret]))?;
            api.message(&format!("The secret {secret} is deleted."));
            Ok(())
        }
    }
}

fn show_with_secret(api: &Api, fields: &[Column], made: &Value) -> Result<()> {
    api.show(fields, made)?;
    if made.get("client_secret").is_some() {
        api.message("Keep the secret now: it is shown only once.");
    }
    Ok(())
}

impl Rules {
    fn fields(&self) -> Fields {
        Fields::new()
            .with_list("redirect_uris", &self.redirect_uris)
            .with("consent_required", self.consent_required)
    }
}
