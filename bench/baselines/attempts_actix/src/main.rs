//! The baseline of W5: actix-web and sqlx on PostgreSQL, one UPDATE in the handler for each request.
//!
//! It is written from the description of a published load test, with what its author found to be fastest: a release build
//! with LTO, no request log, a pool of 100 connections, more workers than cores, and optionally an UNLOGGED table. It shares
//! with `examples/exam_attempts` the route, the body and the meaning of the answers.
//!
//! ```text
//! attempts_actix --listen 127.0.0.1:0 --database postgres://… [--attempts 100000] [--pool 100] [--workers 400] [--unlogged]
//! ```
//! drops and fills its tables, prints one line of JSON with its address, and serves until it is stopped. A logged table is
//! as durable as `synchronous_commit` of the database; an UNLOGGED table is empty after a crash.

mod attempts;
mod database;

use std::process::ExitCode;

use actix_web::{App, HttpServer, web};

struct Arguments {
    listen: String,
    database: String,
    attempts: i64,
    pool: u32,
    workers: usize,
    unlogged: bool,
}

const USAGE: &str = "usage: attempts_actix --listen 127.0.0.1:0 --database postgres://… [--attempts 100000] [--pool 100] \
                     [--workers N] [--unlogged]";
/// Connections that wait to be accepted.
const BACKLOG: u32 = 8_192;

#[actix_web::main]
async fn main() -> ExitCode {
    let outcome = match arguments() {
        Some(arguments) => serve(arguments).await,
        None => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("attempts_actix: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<Arguments> {
    // The author had twice as many workers as hardware threads.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parsed = Arguments {
        listen: "127.0.0.1:0".into(),
        database: String::new(),
        attempts: 100_000,
        pool: 100,
        workers: 2 * cores,
        unlogged: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        if flag == "--unlogged" {
            parsed.unlogged = true;
            continue;
        }
        let value = words.next()?;
        match flag.as_str() {
            "--listen" => parsed.listen = value,
            "--database" => parsed.database = value,
            "--attempts" => parsed.attempts = value.parse().ok()?,
            "--pool" => parsed.pool = value.parse().ok()?,
            "--workers" => parsed.workers = value.parse().ok()?,
            _ => return None,
        }
    }
    (!parsed.database.is_empty()).then_some(parsed)
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    // Each connection of the load is a socket.
    rlimit::increase_nofile_limit(u64::MAX)?;
    let pool = database::open(&arguments.database, arguments.pool).await?;
    database::fill(&pool, arguments.attempts, arguments.unlogged).await?;
    let state = web::Data::new(pool);
    let server = HttpServer::new(move || App::new().app_data(state.clone()).service(attempts::answer))
        .workers(arguments.workers)
        .backlog(BACKLOG)
        .bind(&arguments.listen)?;
    let address = server.addrs().first().copied().ok_or("no address")?;
    println!("{}", serde_json::json!({ "listen": format!("http://{address}") }));
    Ok(server.run().await?)
}
