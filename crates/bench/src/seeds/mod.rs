//! `seeds`: the tables of five published load tests, with figures of this machine beside theirs.
//!
//! A row is a run of another workload of this program: its command line is parsed and run here, and the figures come out of
//! its JSON. The result is written when the run ends, so an interrupted `seeds` goes on with the next row. The page is made
//! from the results and from the figures of the articles, which stand in `articles/`.

mod articles;
mod page;
mod results;
mod row;
mod surroundings;
mod table;

use std::path::Path;
use std::time::Instant;

use clap::Parser;
use serde_json::Value;

use self::articles::Article;
use self::results::{Record, Results, Settings};
use self::row::{Row, Scale};
use self::surroundings::Surroundings;
use crate::cli::{Command, SeedsArgs};
use crate::error::Error;
use crate::launcher::Launcher;
use crate::report::{print_result, progress};

const RESULTS: &str = "results.jsonl";
const PAGE: &str = "five-loads.md";
/// Folder of the JSON of each run.
const RAW: &str = "runs";

/// A command of this program.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// `sarsen bench seeds`. Blocks.
pub(crate) fn run(args: &SeedsArgs, launcher: &Launcher) -> Result<(), Error> {
    let raw = args.out.join(RAW);
    std::fs::create_dir_all(&raw).map_err(Error::io(format!("cannot make {}", raw.display())))?;
    let mut results = Results::open(args.out.join(RESULTS))?;
    let mut without = Vec::new();
    if !args.render {
        let here = Surroundings::find(args, launcher);
        let rows = chosen(args)?;
        for (index, row) in rows.iter().enumerate() {
            let settings = here.settings(row, args.quick);
            let place = format!("{} ({} of {})", row.id, index + 1, rows.len());
            if !args.again && results.has(&row.id, &settings) {
                progress(&format!("{place}: has a result"));
                continue;
            }
            progress(&format!("{place}: {}", settings.command));
            let record = run_row(args, launcher, row, settings, &here)?;
            if let Some(error) = &record.error {
                progress(&format!("{place}: {error}"));
                without.push(row.id.clone());
            }
            results.add(record)?;
        }
    }
    let page = page::render(&results);
    let path = args.out.join(PAGE);
    std::fs::write(&path, &page).map_err(Error::io(format!("cannot write {}", path.display())))?;
    print_result(&page);
    match without.as_slice() {
        [] => Ok(()),
        rows => Err(Error::Broken(format!("{} rows failed: {}", rows.len(), rows.join(", ")))),
    }
}

/// The rows of `--only`, which names them or what their ids begin with.
fn chosen(args: &SeedsArgs) -> Result<Vec<Row>, Error> {
    let all = Article::ALL.into_iter().flat_map(|article| articles::rows(article, Scale { args }));
    let mut rows: Vec<Row> = all.collect();
    let begins = |id: &str, with: &str| {
        id.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(unknown) = args.only.iter().find(|only| !rows.iter().any(|row| begins(&row.id, only))) {
        let ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        return Err(Error::Usage(format!("--only: there is no row {unknown}; there are {}", ids.join(", "))));
    }
    rows.retain(|row| args.only.is_empty() || args.only.iter().any(|only| begins(&row.id, only)));
    Ok(rows)
}

/// Runs the row's command. Only an interruption is an error; a run that fails is a result too.
fn run_row(
    args: &SeedsArgs,
    launcher: &Launcher,
    row: &Row,
    settings: Settings,
    here: &Surroundings,
) -> Result<Record, Error> {
    let json = args.out.join(RAW).join(format!("{}.json", row.id.replace('/', "-")));
    // If this run writes no JSON, that of an earlier one must not be read in its place.
    match std::fs::remove_file(&json) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(format!("cannot remove {}", json.display()))(error));
        }
        _ => {}
    }
    let mut words: Vec<String> = row.words.split_whitespace().map(str::to_owned).collect();
    words.extend(row.places.iter().cloned());
    words.extend(["--json".to_owned(), json.display().to_string()]);
    if let Some(folder) = &args.data_dir {
        words.extend(["--data-dir".to_owned(), folder.display().to_string()]);
    }
    let begun = Instant::now();
    let outcome = match Line::try_parse_from(&words) {
        Ok(line) => crate::run(line.command, launcher.clone()),
        Err(error) => Err(Error::Usage(error.to_string())),
    };
    if let Err(Error::Interrupted) = outcome {
        return Err(Error::Interrupted);
    }
    let figures = read(&json).and_then(|value| (row.read)(&value));
    let error = match outcome {
        Err(error) => Some(error.to_string()),
        Ok(()) if figures.is_none() => Some("its JSON does not have the figures".to_owned()),
        Ok(()) => None,
    };
    Ok(Record {
        row: row.id.clone(),
        settings,
        machine: here.machine.clone(),
        took_s: begun.elapsed().as_secs_f64(),
        figures,
        error,
    })
}

fn read(json: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(json).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Flags {
        #[command(flatten)]
        args: SeedsArgs,
    }

    #[test]
    fn every_row_is_a_command_of_this_program() {
        for flags in [&[][..], &["--quick", "--programs", "p", "--postgres-programs", "q", "--data-dir", "d"]]
        {
            let args = Flags::try_parse_from(flags).unwrap().args;
            for article in Article::ALL {
                let rows = articles::rows(article, Scale { args: &args });
                assert!(!rows.is_empty());
                for row in rows {
                    let words = row.words.split_whitespace().chain(row.places.iter().map(String::as_str));
                    if let Err(error) = Line::try_parse_from(words) {
                        panic!("{}: {}: {error}", row.id, row.words);
                    }
                    assert!(!row.words.contains(['{', '}']), "{}", row.id);
                }
            }
        }
    }

    #[test]
    fn the_page_in_the_docs_is_made_from_the_results_in_the_tree() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let results = Results::open(root.join("bench/seeds/results.jsonl")).unwrap();
        for row in articles::all_ids().filter_map(|id| results.of(&id)) {
            assert!(row.measures(), "{}: a debug build or --quick measures nothing", row.row);
        }
        let page = page::render(&results);
        let docs = std::fs::read_to_string(root.join("docs/five-loads.md")).unwrap_or_default();
        let how = "write it with `sarsen bench seeds --render --out bench/seeds > docs/five-loads.md`";
        assert!(docs == page, "docs/five-loads.md is not what the results say; {how}");
    }
}
