//! `sarsen move`: copies everything to another database and compares both.

use crate::config::Database;
use crate::error::{Error, Result};
use crate::output::{self, Field, Record, column};
use crate::progress::{ProgressBar, StepProgress};
use crate::{files, server_process};
use serde_json::json;
use server::SystemClock;
use server::database_move::{Move, MoveError, Moved, MovedTable, Progress, Step};
use std::time::{Duration, Instant};

/// Move everything to another database, such as from SQLite to PostgreSQL. Stop the server first
#[derive(clap::Args)]
#[command(
    after_help = "Stop the server first. The source is brought to the schema of this version and then only read. The \
    target must be an empty database. Run an interrupted move again to continue it; a finished one \
    is only compared.\n\n\
    Example:  sarsen move --from sqlite:data/sarsen.db --to \"postgres://sarsen:SECRET@db.internal/sarsen?sslmode=verify-full\"\n\
    Then set `database` to the new URL in sarsen.toml. Keep the secret key."
)]
pub struct Args {
    /// The database to read: sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, value_name = "URL", env = "SARSEN_MOVE_FROM", hide_env_values = true)]
    from: String,
    /// The empty database to fill
    #[arg(long, value_name = "URL", env = "SARSEN_MOVE_TO", hide_env_values = true)]
    to: String,
    /// Copy and compare, then empty the target again
    #[arg(long)]
    rehearse: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What the user does after a move.
const NEXT: &str =
    "Next: set `database` to the new URL in sarsen.toml and start the server. Keep the secret key.\n";

/// Moves, with progress on stderr.
pub fn run(args: &Args) -> Result<()> {
    if args.from == args.to {
        return Err(Error::usage("--from and --to name the same database"));
    }
    server_process::runtime()?.block_on(move_all(args))
}

async fn move_all(args: &Args) -> Result<()> {
    let began = Instant::now();
    if let Some(path) = args.from.strip_prefix("sqlite:")
        && !std::path::Path::new(path).exists()
    {
        return Err(Error::usage(format!("--from: there is no file {path}")));
    }
    for path in [&args.from, &args.to].into_iter().filter_map(|url| url.strip_prefix("sqlite:")) {
        files::remove_unfinished_copies(std::path::Path::new(path));
    }
    let from = open("--from", &args.from).await?;
    let to = open("--to", &args.to).await?;
    let mut bar = ProgressBar::start();
    // To empty the target again is no part of a real move.
    let mut compared = None;
    let report_progress = |progress: &Progress| {
        if matches!(progress.step, Step::Clearing) {
            compared.get_or_insert_with(Instant::now);
        }
        show(&mut bar, progress);
    };
    let moved = Move::new(&from, &to, &SystemClock, report_progress).run(args.rehearse).await;
    bar.end();
    let took = compared.unwrap_or_else(Instant::now).duration_since(began);
    let closed = tokio::task::spawn_blocking(move || {
        from.close();
        to.close();
    });
    closed.await.map_err(|error| Error::failed(format!("cannot close the databases: {error}")))?;
    output::after_change(report(args, &moved.map_err(explain)?, took))
}

async fn open(which: &'static str, url: &str) -> Result<server::Store> {
    let Some(database) = Database::parse(url) else {
        return Err(Error::usage(format!("{which} is not a database; use {}", Database::FORMS)));
    };
    let opened = tokio::task::spawn_blocking(move || {
        let waits = || output::tell(&format!("{which}: waiting for the database {database}"));
        server_process::open_store_or_else(&database, server::store_options(database.url()), waits)
    });
    let opened = opened.await.map_err(|error| Error::failed(format!("{which}: {error}")))?;
    opened.map_err(|error| error.about(which))
}

fn show(bar: &mut ProgressBar, progress: &Progress) {
    let step = match progress.step {
        Step::Copying => "copying",
        Step::Comparing => "comparing",
        Step::Clearing => "clearing",
    };
    let Progress { done, found, total, .. } = *progress;
    bar.show(step, StepProgress { done, found, total, unit: "rows" }, &progress.table);
}

fn explain(error: MoveError) -> Error {
    match error {
        MoveError::NotEmpty(_) | MoveError::Taken | MoveError::Served | MoveError::Source(_) => {
            Error::usage(error.to_string())
        }
        MoveError::Differs(_) | MoveError::FinishedAndUsed(_) => Error::failed(error.to_string()),
        MoveError::Domain(error) => Error::failed(format!("{error}. Run the same command again to continue")),
    }
}

impl Record for MovedTable {
    fn fields(&self) -> Vec<Field> {
        vec![column("table", &*self.name), column("rows", self.rows), column("hash", &*self.hash)]
    }
}

fn report(args: &Args, moved: &Moved, took: Duration) -> Result<()> {
    let Moved { tables, before } = moved;
    let seconds = took.as_secs_f64();
    let rows: u64 = tables.iter().map(|table| table.rows).sum();
    if args.json {
        let listed: Vec<_> = tables
            .iter()
            .map(|table| json!({ "table": table.name, "rows": table.rows, "hash": table.hash }))
            .collect();
        let seconds = (seconds * 10.0).round() / 10.0;
        return output::print_json(&json!({
            "rows": rows, "seconds": seconds, "rehearsal": args.rehearse, "finished_before": before, "tables": listed
        }));
    }
    output::print_table(tables, "No tables.")?;
    if *before {
        return output::print(&format!(
            "This move was finished before; nothing was changed. All {rows} rows have the same count and hash on both \
             sides.\n{NEXT}"
        ));
    }
    let what = if args.rehearse { "Rehearsed" } else { "Moved" };
    output::print(&format!(
        "{what} {rows} rows in {:.1} minutes. Every table has the same count and hash on both sides.\n",
        seconds / 60.0
    ))?;
    let next = if args.rehearse {
        "The target is empty again. Run the command without --rehearse to move.\n"
    } else {
        NEXT
    };
    output::print(next)
}
