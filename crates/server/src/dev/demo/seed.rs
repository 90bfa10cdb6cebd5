//! Creates the organization of the demo with the commands of the domain and random passwords.

use super::{Credentials, DemoClient, DemoOrganization, DemoProduct, Login, users_now};
use crate::app::App;
use identity::api_keys::{self, Generated, NewApiKey};
use identity::audit::Actor;
use identity::clients::{self, ClientPatch, Kind, NewClient, NewSecret};
use identity::ids::{ClientId, OrganizationId, PlanId, ServiceId, SubscriptionId};
use identity::organizations::{self, PLATFORM};
use identity::plans::{self, NewPlan};
use identity::secrets::{Random, letters};
use identity::services::{self, NewService};
use identity::subscriptions::{self, Buyer, NewSubscription, Status};
use identity::tokens::AccessTokenTyp;
use identity::users::{self, NewUser, Profile};
use identity::{Error, Result, administrators, administrators::Role, passwords};
use std::collections::BTreeMap;

const ORGANIZATION: &str = "acme";
/// The redirect address for test tools.
const TEST_CALLBACK: &str = "http://127.0.0.1:9999/callback";
/// Slug and name of the sample products.
const PRODUCTS: [(&str, &str); 2] = [("sketch", "Acme Sketch"), ("notes", "Acme Notes")];

fn product_path(slug: &str) -> String {
    format!("/demo/{slug}")
}

/// A password and its hash.
#[derive(Clone)]
pub struct Password {
    /// As it is typed.
    pub text: String,
    /// As it is stored.
    pub hash: String,
}

/// Creates the organization of the demo, or reads one that exists, perhaps from a run at another port.
pub async fn seed(app: &App, known: Option<Credentials>) -> Result<Credentials> {
    seed_with(app, known, |_| new_password(app)).await
}

/// The same with passwords that are made elsewhere, for e-mail addresses.
pub async fn seed_with(
    app: &App,
    known: Option<Credentials>,
    password_of: impl Fn(&str) -> Result<Password>,
) -> Result<Credentials> {
    let mut credentials = match known {
        Some(known) => {
            let moved = move_to_issuer(app, known).await?;
            Credentials { users: users_now(app, &moved).await?, ..moved }
        }
        None => make(app, People::draw(app, password_of)?).await?,
    };
    if credentials.api_key.is_empty() {
        credentials.api_key = make_key(app).await?;
    }
    if let Some(demo) = &app.demo {
        // A second call changes nothing.
        let _ = demo.credentials.set(credentials.clone());
    }
    Ok(credentials)
}

/// An API key for the back end of the service `sketch`.
async fn make_key(app: &App) -> Result<String> {
    let generated = Generated::new(app.now(), app.random());
    let key = generated.key.clone();
    let new = NewApiKey {
        generated,
        name: "Back end of Acme Sketch".to_owned(),
        service: Some("sketch".to_owned()),
        scopes: None,
        created_by: None,
        expires_at: None,
    };
    let actor = app.system();
    let made = app.store.write("demo.key", move |tx| {
        let acme = organizations::find(tx.snapshot(), ORGANIZATION)?;
        api_keys::create(tx, &acme, &new, &actor).map(drop)
    });
    made.await?;
    Ok(key)
}

/// A password that people can type: 16 letters in four groups, 72 bits.
pub fn new_password(app: &App) -> Result<Password> {
    let text = new_password_text(app.random());
    Ok(Password { hash: passwords::hash(&text, app.random(), &mut passwords::Memory::default())?, text })
}

/// The text of such a password.
pub(in crate::dev) fn new_password_text(random: &dyn Random) -> String {
    let drawn = letters(b"abcdefghjkmnpqrstuvwxyz", 16, random);
    let groups: Vec<&str> = (0..4).map(|group| &drawn[group * 4..group * 4 + 4]).collect();
    groups.join("-")
}

struct Person {
    login: Login,
    new: NewUser,
    hash: String,
}

/// Everybody in the demo.
struct People {
    /// Of the platform.
    owner: Person,
    /// Of the organization.
    admin: Person,
    users: Vec<Person>,
}

impl People {
    fn draw(app: &App, password_of: impl Fn(&str) -> Result<Password>) -> Result<People> {
        let draw = |email: &str, plan: Option<&str>, name: &str| {
            let Password { text, hash } = password_of(email)?;
            let new = NewUser {
                profile: Profile::named(name),
                email_verified: true,
                ..NewUser::new(email, app.now(), app.random())
            };
            let login = Login { email: email.to_owned(), password: text, plan: plan.map(str::to_owned) };
            Ok::<_, Error>(Person { login, new, hash })
        };
        Ok(People {
            owner: draw("owner@sarsen.test", None, "Olga Owner")?,
            admin: draw("admin@acme.test", None, "Adam Admin")?,
            users: vec![
                draw("ada@acme.test", Some("pro"), "Ada")?,
                draw("grace@acme.test", Some("free"), "Grace")?,
            ],
        })
    }
}

struct Drawn {
    id: ClientId,
    kind: Kind,
    name: &'static str,
    service: &'static str,
    redirect_uris: Vec<String>,
    post_logout_redirect_uris: Vec<String>,
    secret: Option<NewSecret>,
}

fn draw_client(
    app: &App,
    kind: Kind,
    name: &'static str,
    service: &'static str,
    redirect_uris: Vec<String>,
) -> Drawn {
    let secret = kind.is_confidential().then(|| NewSecret::generate(app.now(), app.random()));
    let id = ClientId::new(app.now(), app.random());
    let post_logout_redirect_uris = Vec::new();
    Drawn { id, kind, name, service, redirect_uris, post_logout_redirect_uris, secret }
}

/// The client of a sample product, which is a page of this server.
fn draw_product(app: &App, name: &'static str, slug: &'static str) -> Drawn {
    let callback = app.url(&format!("{}/callback", product_path(slug)));
    Drawn {
        post_logout_redirect_uris: vec![app.url(&product_path(slug))],
        ..draw_client(app, Kind::Web, name, slug, vec![callback])
    }
}

async fn make(app: &App, people: People) -> Result<Credentials> {
    let callback = vec![TEST_CALLBACK.to_owned()];
    let drawn = vec![
        ("web", draw_client(app, Kind::Web, "Acme Sketch on the web", "sketch", callback.clone())),
        ("spa", draw_client(app, Kind::Spa, "Acme Sketch in the browser", "sketch", callback)),
        ("cli", draw_client(app, Kind::Device, "Acme command line", "cli", Vec::new())),
        ("machine", draw_client(app, Kind::Machine, "Acme night job", "cli", Vec::new())),
        ("sketch", draw_product(app, "Acme Sketch", "sketch")),
        ("notes", draw_product(app, "Acme Notes", "notes")),
    ];
    let (owner, admin) = (people.owner.login.clone(), people.admin.login.clone());
    let users: Vec<Login> = people.users.iter().map(|user| user.login.clone()).collect();
    store_people(app, people).await?;
    store_tenant(app, &drawn, &users).await?;

    let shown = |(name, client): &(&str, Drawn)| {
        let secret = client.secret.as_ref().map(|secret| secret.secret.clone());
        let redirect_uris = client.redirect_uris.clone();
        let client = DemoClient { client_id: client.id.to_string(), client_secret: secret, redirect_uris };
        ((*name).to_owned(), client)
    };
    let clients: BTreeMap<String, DemoClient> = drawn.iter().map(shown).collect();
    let products = PRODUCTS.map(|(slug, name)| DemoProduct {
        name: name.to_owned(),
        url: app.url(&product_path(slug)),
        slug: slug.to_owned(),
        client_id: clients.get(slug).map(|client| client.client_id.clone()).unwrap_or_default(),
    });
    Ok(Credentials {
        owner,
        organization: DemoOrganization { slug: ORGANIZATION.to_owned(), admin },
        clients,
        services: [("web", "sketch"), ("cli", "cli")]
            .map(|(key, slug)| (key.to_owned(), slug.to_owned()))
            .into(),
        api_key: String::new(),
        users,
        products: products.into(),
    })
}

/// Creates the owner of the platform, the organization with its administrator, and its users.
async fn store_people(app: &App, people: People) -> Result<()> {
    let acme = OrganizationId::new(app.now(), app.random());
    let new = |person: Person| (person.new, person.hash);
    let (owner, admin) = (new(people.owner), new(people.admin));
    let users: Vec<_> = people.users.into_iter().map(new).collect();
    let actor = app.system();
    app.store
        .write("demo.people", move |tx| {
            let platform = organizations::find(tx.snapshot(), PLATFORM)?;
            let put = |tx: &mut store::Tx<'_>, organization: &OrganizationId, person: &(NewUser, String)| {
                let user = users::create(tx, organization, &person.0, &actor)?;
                passwords::put(tx, &user.id, &person.1, actor.now)?;
                Ok::<_, Error>(user)
            };
            let owner = put(tx, &platform.id, &owner)?;
            administrators::add_platform_owner(tx, &platform.id, &owner.id, &actor)?;
            let admin = put(tx, &platform.id, &admin)?;
            let organization = organizations::create(tx, &acme, ORGANIZATION, "Acme", true, &actor)?;
            administrators::add_creator(tx, &organization, &admin.id, &actor)?;
            organizations::set_sign_up(tx, &organization, true, &actor)?;
            for person in &users {
                put(tx, &acme, person)?;
            }
            Ok(())
        })
        .await
}

/// Creates services, plans, clients and subscriptions.
async fn store_tenant(app: &App, drawn: &[(&'static str, Drawn)], users: &[Login]) -> Result<()> {
    let (now, random) = (app.now(), app.random());
    let service = |slug: &str, name: &str| NewService {
        id: ServiceId::new(now, random),
        slug: slug.to_owned(),
        name: name.to_owned(),
        access_token_typ: AccessTokenTyp::default(),
    };
    let new_services =
        [service("sketch", "Acme Sketch"), service("notes", "Acme Notes"), service("cli", "Acme CLI")];
    let plan = |slug: &str, name: &str, price_cents, features: &[&str]| NewPlan {
        id: PlanId::new(now, random),
        slug: slug.to_owned(),
        name: name.to_owned(),
        services: new_services.iter().map(|service| service.slug.clone()).collect(),
        price_cents,
        currency: "EUR".to_owned(),
        features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        limits: Default::default(),
        seats: None,
    };
    let new_plans = [
        plan("starter", "Starter", 500, &["export"]),
        plan("pro", "Pro", 1900, &["export", "history", "priority support"]),
    ];
    let buyers: Vec<(String, String, SubscriptionId)> = users
        .iter()
        .filter_map(|login| login.plan.clone().map(|plan| (login.email.clone(), plan)))
        .filter(|(_, plan)| plan != "free")
        .map(|(email, plan)| (email, plan, SubscriptionId::new(now, random)))
        .collect();
    let new_clients: Vec<(NewClient, &'static str, Option<NewSecret>)> = drawn
        .iter()
        .map(|(_, client)| {
            let new = NewClient {
                consent_required: false,
                post_logout_redirect_uris: client.post_logout_redirect_uris.clone(),
                ..NewClient::new(client.id.clone(), client.kind, client.name, client.redirect_uris.clone())
            };
            (new, client.service, client.secret.clone())
        })
        .collect();
    let actor = app.system();
    app.store
        .write("demo.tenant", move |tx| {
            let acme = organizations::find(tx.snapshot(), ORGANIZATION)?.id;
            for new in &new_services {
                services::create(tx, &acme, new, &actor)?;
            }
            for new in &new_plans {
                plans::create(tx, &acme, new, &actor)?;
            }
            for (new, service, secret) in &new_clients {
                add_client(tx, &acme, service, new, secret.as_ref(), &actor)?;
            }
            for (email, plan, id) in &buyers {
                let user =
                    users::find(tx.snapshot(), &acme, email)?.ok_or(Error::NotFound { what: "user" })?;
                let new = NewSubscription {
                    id: id.clone(),
                    buyer: Buyer::User(user.id),
                    plan: plan.clone(),
                    status: Status::Active,
                    current_period_end: None,
                    access_until: None,
                };
                subscriptions::create(tx, &acme, &new, &actor)?;
            }
            Ok(())
        })
        .await
}

fn add_client(
    tx: &mut store::Tx<'_>,
    organization: &OrganizationId,
    service: &str,
    new: &NewClient,
    secret: Option<&NewSecret>,
    actor: &Actor,
) -> Result<()> {
    let service = services::find(tx.snapshot(), organization, service)?;
    clients::create(tx, organization, Some(&service.id), new, actor)?;
    match secret {
        Some(secret) => clients::add_secret(tx, organization, &new.id, secret, Role::Owner, actor),
        None => Ok(()),
    }
}

/// Changes the addresses of the products after a start at another port.
async fn move_to_issuer(app: &App, mut known: Credentials) -> Result<Credentials> {
    for product in &mut known.products {
        let url = app.url(&product_path(&product.slug));
        let callback = format!("{url}/callback");
        product.url = url.clone();
        if let Some(client) = known.clients.get_mut(&product.slug) {
            client.redirect_uris = vec![callback.clone()];
        }
        let (id, actor) = (ClientId::parse(&product.client_id)?, app.system());
        app.store
            .write("demo.move", move |tx| {
                let client = clients::get(tx.snapshot(), &id)?;
                let (callback, back) = (vec![callback.clone()], vec![url.clone()]);
                if client.redirect_uris == callback && client.post_logout_redirect_uris == back {
                    return Ok(());
                }
                let patch = ClientPatch {
                    redirect_uris: Some(callback),
                    post_logout_redirect_uris: Some(back),
                    ..ClientPatch::default()
                };
                clients::patch(tx, &client, &patch, Role::Owner, &actor).map(|_| ())
            })
            .await?;
    }
    Ok(known)
}
