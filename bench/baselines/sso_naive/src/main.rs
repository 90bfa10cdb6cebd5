//! The naive single-sign-on server, the baseline of W1: axum and sqlx on SQLite, an INSERT in the handler for each device
//! code.
//!
//! It is written from the description of a published load test, with the settings of its author: one pool (100 connections
//! at most, 10 at least, 30 s to get one), PRAGMAs run once through that pool, RS256 tokens whose session is read for each
//! request, no caches. It shares with Sarsen the paths, the fields, and the answer `authorization_pending`.
//!
//! ```text
//! sso_naive --listen 127.0.0.1:0 --database naive.db --users 2000
//! ```
//! fills the database, prints one line of JSON (its address, a token for each user, the fields of a device) and serves until
//! it is stopped. Its writes are as durable as `synchronous` of the connection makes them; see `database.rs`.

mod database;
mod device;
mod error;
mod fill;
mod me;
mod token;

use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use tokio::net::TcpListener;

use token::Keys;

#[derive(Clone)]
struct AppState {
    pool: database::Pool,
    keys: Arc<Keys>,
}

struct Arguments {
    listen: String,
    database: String,
    users: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match arguments() {
        Some(arguments) => serve(arguments).await,
        None => {
            eprintln!("usage: sso_naive --listen 127.0.0.1:0 --database FILE --users 2000");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sso_naive: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments { listen: "127.0.0.1:0".into(), database: "sso_naive.db".into(), users: 2000 };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words.next()?;
        match flag.as_str() {
            "--listen" => parsed.listen = value,
            "--database" => parsed.database = value,
            "--users" => parsed.users = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(parsed)
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    // Each virtual user is a socket.
    rlimit::increase_nofile_limit(u64::MAX)?;
    let keys = Arc::new(Keys::generate()?);
    let pool = database::open(&arguments.database).await?;
    let filled = fill::fill(&pool, &keys, arguments.users).await?;

    let app = Router::new()
        .route("/auth/device/code", post(device::code))
        .route("/auth/token", post(device::token))
        .route("/api/subscription", get(me::subscription))
        .route("/api/user", get(me::user))
        .with_state(AppState { pool, keys });
    let listener = TcpListener::bind(&arguments.listen).await?;
    let ready = serde_json::json!({
        "listen": format!("http://{}", listener.local_addr()?),
        "tokens": filled.tokens,
        "client_id": filled.client_id,
        "org": filled.org,
        "service": filled.service,
    });
    println!("{ready}");
    axum::serve(listener, app).await?;
    Ok(())
}
