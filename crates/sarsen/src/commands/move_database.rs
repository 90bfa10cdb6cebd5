//! `sarsen move`: everything from one database to another, compared at the end.

use crate::error::{Error, Result};
use crate::{output, serving};
use serde_json::json;
use server::moving::{Move, MoveError, MovedTable, Progress, Step};
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

/// Move everything to another database, such as from SQLite to PostgreSQL. Stop the server first
#[derive(clap::Args)]
#[command(
    after_help = "Stop the server first. The source is only read. The target must be an empty database. A move that was \
    interrupted goes on where it ended when it is started again.\n\n\
    Example:  sarsen move --from sqlite:data/sarsen.db --to postgres://sarsen:SECRET@db.internal/sarsen\n\
    Then set `database` to the new URL in sarsen.toml; secret_key stays the same."
)]
pub struct Args {
    /// The database to read: sqlite:PATH or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(long, value_name = "URL", env = "SARSEN_MOVE_FROM", hide_env_values = true)]
    from: String,
    /// The empty database to fill
    #[arg(long, value_name = "URL", env = "SARSEN_MOVE_TO", hide_env_values = true)]
    to: String,
    /// Copy and compare, then leave the target as empty as it was
    #[arg(long)]
    rehearse: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Moves, with progress on stderr.
pub fn run(args: &Args) -> Result<()> {
    if args.from == args.to {
        return Err(Error::usage("--from and --to name the same database"));
    }
    serving::runtime()?.block_on(move_all(args))
}

async fn move_all(args: &Args) -> Result<()> {
    let began = Instant::now();
    if let Some(path) = args.from.strip_prefix("sqlite:")
        && !std::path::Path::new(path).exists()
    {
        return Err(Error::usage(format!("--from: there is no file {path}")));
    }
    let from = open("--from", &args.from).await?;
    let to = open("--to", &args.to).await?;
    let mut bar = Bar::new();
    let moved = Move::new(&from, &to, |progress| bar.show(progress)).run(args.rehearse).await;
    bar.end();
    let closed = tokio::task::spawn_blocking(move || {
        from.close();
        to.close();
    });
    closed.await.map_err(|error| Error::failed(format!("closing the databases: {error}")))?;
    report(args, &moved.map_err(explain)?, began)
}

async fn open(which: &'static str, url: &str) -> Result<server::Store> {
    let url = url.to_owned();
    let opened = tokio::task::spawn_blocking(move || server::Store::open(server::store_options(url)));
    let opened = opened.await.map_err(|error| Error::failed(format!("{which}: {error}")))?;
    opened.map_err(|error| Error::usage(format!("{which}: {error}")))
}

fn explain(error: MoveError) -> Error {
    match error {
        MoveError::NotEmpty(_) | MoveError::Taken | MoveError::Source(_) => Error::usage(error.to_string()),
        MoveError::Differs(_) => Error::failed(error.to_string()),
        MoveError::Domain(error) => {
            Error::failed(format!("{error}. Start the same command again: it goes on where it ended"))
        }
    }
}

fn report(args: &Args, tables: &[MovedTable], began: Instant) -> Result<()> {
    let seconds = began.elapsed().as_secs_f64();
    let rows: u64 = tables.iter().map(|table| table.rows).sum();
    let listed: Vec<_> = tables
        .iter()
        .map(|table| json!({ "table": table.name, "rows": table.rows, "hash": table.hash }))
        .collect();
    if args.json {
        let seconds = (seconds * 10.0).round() / 10.0;
        return output::print_json(&json!({
            "rows": rows, "seconds": seconds, "rehearsal": args.rehearse, "tables": listed
        }));
    }
    output::print_table(&[("table", "/table"), ("rows", "/rows"), ("hash", "/hash")], &listed, "no tables")?;
    let what = if args.rehearse { "Rehearsed" } else { "Moved" };
    output::print(&format!(
        "{what} {rows} rows in {:.1} minutes; every table has the same count and hash on both sides.\n",
        seconds / 60.0
    ))?;
    let next = if args.rehearse {
        "The target is empty again; without --rehearse it is filled for good.\n"
    } else {
        "Now set `database` to the new URL in sarsen.toml and start the server; secret_key stays the same.\n"
    };
    output::print(next)
}

/// Progress on stderr: one line that is written over on a terminal, a line a tenth elsewhere.
struct Bar {
    on_terminal: bool,
    step: Option<(Step, u64)>,
    began: Instant,
}

impl Bar {
    fn new() -> Bar {
        Bar { on_terminal: std::io::stderr().is_terminal(), step: None, began: Instant::now() }
    }

    fn show(&mut self, progress: &Progress) {
        let percent = progress.done.saturating_mul(100) / progress.total.max(1);
        let mark = (progress.step, if self.on_terminal { progress.done } else { percent / 10 });
        if self.step == Some(mark) {
            return;
        }
        if self.step.is_none_or(|(step, _)| step != progress.step) {
            self.began = Instant::now();
        }
        self.step = Some(mark);
        let rate = progress.done as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let left = progress.total.saturating_sub(progress.done) as f64 / rate.max(1.0);
        let what = match progress.step {
            Step::Copying => "copying",
            Step::Comparing => "comparing",
            Step::Clearing => "clearing",
        };
        let mut line = format!("{what} {percent:3} %  {} of {} rows", progress.done, progress.total);
        if progress.done > 0 {
            let _ = write!(line, "  {rate:.0} rows/s  {left:.0} s left  {}", progress.table);
        }
        if self.on_terminal {
            eprint!("\r\u{1b}[K{line}");
            // What cannot be shown is not worth an error.
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    fn end(&self) {
        if self.on_terminal && self.step.is_some() {
            eprintln!();
        }
    }
}
