//! Checks the target of a move: a server starts there, one of the accounts signs in with its password and has its plan, and
//! the administrator finds it in the list.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::source::Source;
use crate::error::Error;
use crate::http::{RequestDraft, Target};
use crate::setup::{CLIENT_ID, Client, SCOPE, Tokens, sign_in_with_password};
use crate::workloads::servers::TestBed;

/// What the server on the target served.
#[derive(Debug, Clone, Serialize)]
pub struct Served {
    /// Seconds until it was ready.
    pub start_s: f64,
    /// The account that signed in, and its plan.
    pub email: String,
    pub plan: String,
    /// Its name in the list of users.
    pub listed: String,
}

#[derive(Deserialize)]
struct Subscribed {
    plan: String,
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<User>,
}

#[derive(Deserialize)]
struct User {
    email: String,
    name: String,
}

pub(super) async fn check(test_bed: &TestBed<'_>, source: &Source, database: &str) -> Result<Served, Error> {
    let began = Instant::now();
    let (target, process) = test_bed.instance("moved", database, None, &source.issuer).await?;
    let start_s = began.elapsed().as_secs_f64();
    let served = look_around(target, source, start_s).await?;
    process.stop().await?;
    Ok(served)
}

async fn look_around(target: Target, source: &Source, start_s: f64) -> Result<Served, Error> {
    let Source { organization, person, .. } = source;
    let mut client = Client::new(target, 0);
    client.send(&RequestDraft::get("/readyz")).await?.expect(&[200])?;

    let tokens = sign_in_with_password(&mut client, &source.client_id, SCOPE, person).await?;
    let Subscribed { plan } = read(&mut client, "/api/subscription", &tokens).await?;
    if plan != source.plan {
        return Err(Error::Broken(format!("{} has the plan {plan}, not {}", person.email, source.plan)));
    }

    let scope = format!("openid org:{organization}");
    let tokens = sign_in_with_password(&mut client, CLIENT_ID, &scope, &source.admin).await?;
    let path = format!("/api/organizations/{organization}/users?email={}", person.email);
    let list: Listed = read(&mut client, &path, &tokens).await?;
    match list.items.into_iter().next() {
        Some(user) if user.email == person.email => {
            Ok(Served { start_s, email: user.email, plan, listed: user.name })
        }
        _ => Err(Error::Broken(format!("{} is not in the list of users", person.email))),
    }
}

async fn read<T: DeserializeOwned>(client: &mut Client, path: &str, tokens: &Tokens) -> Result<T, Error> {
    let bearer = format!("Bearer {}", tokens.access_token);
    client.send(&RequestDraft::get(path).header("Authorization", bearer)).await?.expect(&[200])?.json()
}
