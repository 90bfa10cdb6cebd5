//! `seeds` as a whole command, with a server inside this test and a script in place of `hey`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use bench::{Command, Launcher};
use clap::Parser;
use serde_json::{Value, json};

use crate::http_server::{Answer, serve};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// A folder with a `request_log` that says where the server of the test listens, and a `hey` that notes each start.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        let address = serve(|_| Answer::json(201, json!({ "uid": "0190" })));
        let here = Folder { folder: tempfile::tempdir().unwrap() };
        here.script("request_log", &format!("echo 'listening on http://{address}'; exec sleep 600"));
        let summary = "Summary:\\n  Total: 1.0 secs\\n  Slowest: 0.0409 secs\\n  Average: 0.0021 secs\\n  \
                       Requests/sec: 1882.4\\nStatus code distribution:\\n  [201] 1880 responses\\n  [503] 2 responses\\n";
        let noted = here.path("noted");
        here.script("hey", &format!("echo \"$*\" >> '{}'; printf '{summary}'", noted.display()));
        here
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn seeds(&self, flags: &str) -> Result<(), String> {
        let line = format!(
            "bench seeds --quick --out {} --programs {} --hey {} {flags}",
            self.path("out").display(),
            self.folder.path().display(),
            self.path("hey").display()
        );
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
        bench::run(cli.command, Launcher::new(self.path("sarsen"))).map_err(|error| error.to_string())
    }

    /// How often `hey` was started.
    fn starts(&self) -> usize {
        read(&self.path("noted")).lines().filter(|line| line.contains(" -m POST ")).count()
    }

    fn results(&self) -> Vec<Value> {
        let text = read(&self.path("out/results.jsonl"));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn an_interrupted_run_goes_on_with_the_rows_that_have_no_result() {
    let here = Folder::new();
    let rows = "--commit c1 --only 002/hey/1,002/hey/16";
    here.seeds(rows).unwrap();
    assert_eq!(here.starts(), 2);
    let results = here.results();
    assert_eq!(results[1]["row"], "002/hey/16");
    assert_eq!(results[1]["figures"]["per_second"], 1882.4);
    assert_eq!(results[1]["figures"]["not_accepted"], 2);
    assert_eq!((&results[1]["commit"], &results[1]["quick"]), (&json!("c1"), &json!(true)));
    // As if the program had been killed while it wrote the second one.
    let text = read(&here.path("out/results.jsonl"));
    std::fs::write(here.path("out/results.jsonl"), &text[..text.len() - 20]).unwrap();
    here.seeds(rows).unwrap();
    assert_eq!((here.starts(), here.results().len()), (3, 2), "only the row that was cut off");
    here.seeds(rows).unwrap();
    assert_eq!(here.starts(), 3, "every row has a result");
    here.seeds("--commit c1 --only 002/hey/1 --again").unwrap();
    assert_eq!(here.starts(), 4);
    let page = read(&here.path("out/five-loads.md"));
    let row = "| 1 | 750 | 1.33 ms | 13.1 ms | 1,882 | 2.10 ms | 2 | 40.9 ms | not run yet |";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("**no measurement**"), "a quick run says so");
}

#[test]
fn a_row_that_cannot_run_says_why_and_the_others_run() {
    let here = Folder::new();
    std::fs::remove_file(here.path("hey")).unwrap();
    let error = here.seeds("--commit c1 --only 002/hey/2,002/own/2").unwrap_err();
    assert_eq!(error, "1 rows failed: 002/hey/2");
    let results = here.results();
    let why = results[0]["error"].as_str().unwrap();
    assert!(why.contains("apt-get install hey") && results[0]["figures"].is_null(), "{why}");
    assert!(results[1]["figures"]["per_second"].as_f64().unwrap() > 0.0);
    assert!(read(&here.path("out/five-loads.md")).contains("not run yet: cannot start"));
    let error = here.seeds("--only 002/hey/3").unwrap_err();
    assert!(error.contains("there is no row 002/hey/3"), "{error}");
}
