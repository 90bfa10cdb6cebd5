//! `sarsen client`: the programs that sign users in to a service, and their secrets.

use super::api::{Api, Fields, GlobalArgs, Nullable, OrgArgs, switch};
use crate::environment::Environment;
use crate::error::Result;
use crate::output::{Cell, Field, Record, Time, column, detail};
use serde::Deserialize;

/// Clients: the programs that sign users in to a service.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen client create --service sketch --kind web --name Website \\\n\
                  \x20       --redirect-uri https://sketch.example.com/callback --org acme\n\
                  \x20   sarsen client secret add client_01h… --org acme\n\
                  \x20   sarsen client scopes grant client_01h… users:read subscriptions:write --org acme\n\
                  \n\
                  Kinds: web (has a secret), spa, native, device, machine (has a secret; acts without a user).")]
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
    /// Create a client; its secret is shown only once
    Create {
        /// The slug of its service
        #[arg(long)]
        service: String,
        /// web, spa, native, device or machine
        #[arg(long)]
        kind: String,
        /// Display name; users see it on the consent page
        #[arg(long)]
        name: String,
        #[command(flatten)]
        rules: Rules,
    },
    /// List the clients
    List {
        /// Only the clients of this service
        #[arg(long, value_name = "SLUG")]
        service: Option<String>,
    },
    /// Show a client
    Show {
        /// Its id
        client: String,
    },
    /// List redirect addresses that it sent and that are not registered, with the commands that register them
    Problems {
        /// Its id
        client: String,
    },
    /// Change a client
    Change {
        /// Its id
        client: String,
        /// New display name
        #[arg(long)]
        name: Option<String>,
        /// Whether it may use the device flow; only native and device clients
        #[arg(long, value_name = "on|off", value_parser = switch)]
        device_flow: Option<bool>,
        #[command(flatten)]
        rules: Rules,
    },
    /// Delete a client and revoke its grants
    Delete {
        /// Its id
        client: String,
    },
    /// The secrets of a client
    Secret {
        #[command(subcommand)]
        verb: SecretVerb,
    },
    /// What a machine client may do in the organization
    Scopes {
        #[command(subcommand)]
        verb: ScopesVerb,
    },
}

#[derive(clap::Args)]
struct Rules {
    /// Redirect URI; may be repeated. `change` replaces all of them
    #[arg(long = "redirect-uri", value_name = "URI")]
    redirect_uris: Vec<String>,
    /// Address after a sign-out, exact; may be repeated. `change` replaces all of them, and "" removes them. Without one,
    /// the redirect URIs count
    #[arg(long = "post-logout-redirect-uri", value_name = "URI")]
    post_logout_redirect_uris: Vec<String>,
    /// Whether users are asked for consent
    #[arg(long, value_name = "BOOL")]
    consent_required: Option<bool>,
    /// Whether PKCE is required; public clients (spa, native, device) always require it
    #[arg(long, value_name = "optional|required")]
    pkce: Option<String>,
    /// The algorithm that signs its ID tokens [default: RS256]
    #[arg(long, value_name = "RS256|ES256")]
    id_token_alg: Option<String>,
}

#[derive(clap::Subcommand)]
enum SecretVerb {
    /// Create another secret; it is shown only once
    Add {
        /// The client's id
        client: String,
    },
    /// List the secrets by their last characters
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

#[derive(clap::Subcommand)]
enum ScopesVerb {
    /// Grant scopes instead of the ones it has; only an owner. They are those of an API key: see sarsen key --help
    Grant {
        /// The client's id
        client: String,
        /// The scopes
        #[arg(required = true)]
        scopes: Vec<String>,
    },
    /// Revoke all scopes; its tokens lose them at once
    Revoke {
        /// The client's id
        client: String,
    },
}

#[derive(Deserialize)]
pub(super) struct Client {
    client_id: String,
    /// Only in the answer to the request that created the client.
    client_secret: Option<String>,
    kind: String,
    service: String,
    name: String,
    grants: Vec<String>,
    redirect_uris: Vec<String>,
    post_logout_redirect_uris: Vec<String>,
    consent_required: bool,
    /// Whether an owner has to accept what a program made or changed.
    needs_review: bool,
    pkce: String,
    pkce_used_at: Nullable<Time>,
    id_token_alg: String,
    /// Only of kinds that have the device flow.
    device_flow: Option<bool>,
    /// Only of machine clients.
    scopes: Option<Vec<String>>,
    created_at: Time,
}

impl Record for Client {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("client id", Cell::id(&self.client_id)),
            detail("client secret", Cell::optional(self.client_secret.as_ref())),
            column("kind", &self.kind),
            column("service", &self.service),
            column("name", &self.name),
            detail("grants", &self.grants),
            detail("redirect uris", &self.redirect_uris),
            detail("post-logout uris", &self.post_logout_redirect_uris),
            detail("consent required", self.consent_required),
            column("review", if self.needs_review { "needed" } else { "" }),
            column("PKCE", &self.pkce),
            detail("last used PKCE", Cell::nullable(self.pkce_used_at.0.as_ref())),
            detail("ID token alg", &self.id_token_alg),
            detail("device flow", Cell::optional(self.device_flow)),
            detail("scopes", Cell::optional(self.scopes.as_ref())),
            detail("created", &self.created_at),
        ]
    }
}

#[derive(Deserialize)]
pub(super) struct Problem {
    parameter: String,
    address: String,
    problem: Nullable<String>,
    command: Nullable<String>,
    count: u64,
    seen_at: Time,
}

impl Record for Problem {
    fn fields(&self) -> Vec<Field> {
        // The one or the other.
        let what_to_do = self.command.0.as_ref().or(self.problem.0.as_ref());
        vec![
            column("parameter", &self.parameter),
            column("address", &self.address),
            column("times", self.count),
            column("last", &self.seen_at),
            column("what to do", Cell::nullable(what_to_do)),
        ]
    }
}

#[derive(Deserialize)]
pub(super) struct Secret {
    id: String,
    /// Only in the answer to the request that created the secret.
    client_secret: Option<String>,
    /// Its last characters.
    hint: String,
    created_at: Time,
}

impl Record for Secret {
    fn fields(&self) -> Vec<Field> {
        vec![
            column("id", Cell::id(&self.id)),
            detail("client secret", Cell::optional(self.client_secret.as_ref())),
            column("last characters", &self.hint),
            column("created", &self.created_at),
        ]
    }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let mut api = Api::open_in_org(&args.global, &args.org, environment)?;
    match &args.verb {
        Verb::Create { service, kind, name, rules } => {
            let fields =
                rules.fields().with("service", Some(service.clone())).with("kind", Some(kind.clone()));
            let fields = fields.with("name", Some(name.clone()));
            let created = api.post::<Client>(&api.path(&["clients"]), fields)?;
            match &**kind {
                "web" | "machine" => {
                    api.show_secret(&created, ("secret", LOST_SECRET), |client| {
                        client.client_secret.as_ref()
                    })?;
                }
                _ => api.show(&created)?,
            }
            if kind == "web" {
                api.confirm(&jwt_hint(service));
            }
            Ok(())
        }
        Verb::List { service } => {
            let query: Vec<(&str, &str)> = service.iter().map(|slug| ("service", slug.as_str())).collect();
            let found = api.list::<Client>(&api.path(&["clients"]), &query)?;
            api.show_list(&found, "No clients. Create one with sarsen client create.")
        }
        Verb::Problems { client } => {
            let found = api.list::<Problem>(&api.path(&["clients", client, "problems"]), &[])?;
            api.show_list(&found, "No problems: every redirect address that came is registered.")
        }
        Verb::Show { client } => {
            let found = api.get::<Client>(&api.path(&["clients", client]))?;
            api.show(&found)
        }
        Verb::Change { client, name, device_flow, rules } => {
            let fields = rules.fields().with("name", name.clone()).with("device_flow", *device_flow);
            let changed = api.patch::<Client>(&api.path(&["clients", client]), fields)?;
            api.show(&changed)
        }
        Verb::Delete { client } => {
            api.delete(&api.path(&["clients", client]))?;
            api.confirm(&format!("Deleted the client {client}."));
            Ok(())
        }
        Verb::Secret { verb } => secret(&mut api, verb),
        Verb::Scopes { verb: ScopesVerb::Grant { client, scopes } } => {
            let fields = Fields::new().with("scopes", Some(scopes.clone()));
            let granted = api.put::<Client>(&api.path(&["clients", client, "scopes"]), fields)?;
            api.show(&granted)
        }
        Verb::Scopes { verb: ScopesVerb::Revoke { client } } => {
            api.delete(&api.path(&["clients", client, "scopes"]))?;
            api.confirm(&format!("Revoked the scopes of the client {client}."));
            Ok(())
        }
    }
}

/// What to do for a library that knows one type of tokens only, such as the resource server of Spring. At Sarsen nothing
/// shows that it refuses them.
fn jwt_hint(service: &str) -> String {
    format!(
        "Does a library refuse access tokens because it expects the type JWT (at+jwt is not allowed)? Then run sarsen \
         service change {service} --access-token-typ JWT."
    )
}

fn secret(api: &mut Api, verb: &SecretVerb) -> Result<()> {
    match verb {
        SecretVerb::Add { client } => {
            let created = api.post_empty::<Secret>(&api.path(&["clients", client, "secrets"]))?;
            api.show_secret(&created, ("secret", LOST_SECRET), |secret| secret.client_secret.as_ref())
        }
        SecretVerb::List { client } => {
            let found = api.list::<Secret>(&api.path(&["clients", client, "secrets"]), &[])?;
            api.show_list(&found, "No secrets.")
        }
        SecretVerb::Delete { client, secret } => {
            api.delete(&api.path(&["clients", client, "secrets", secret]))?;
            api.confirm(&format!("Deleted the secret {secret}."));
            Ok(())
        }
    }
}

const LOST_SECRET: &str = "add another with sarsen client secret add, and delete this one";

impl Rules {
    fn fields(&self) -> Fields {
        let post_logout = &self.post_logout_redirect_uris;
        let uris: Vec<String> = post_logout.iter().filter(|uri| !uri.is_empty()).cloned().collect();
        Fields::new()
            .with_list("redirect_uris", &self.redirect_uris)
            .with("post_logout_redirect_uris", (!post_logout.is_empty()).then_some(uris))
            .with("consent_required", self.consent_required)
            .with("pkce", self.pkce.clone())
            .with("id_token_alg", self.id_token_alg.clone())
    }
}
