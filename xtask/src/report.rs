//! The steps of a run: a header before each, its time after it, and the sums at the end.

use std::process::ExitCode;
use std::time::Instant;

use crate::counts::Counts;
use crate::process;

#[derive(Default)]
pub struct Report {
    total: Counts,
    lines: Vec<String>,
    /// A run of everything in CI, where a test that did not run is a gap that nobody would see.
    pub skips_fail: bool,
}

impl Report {
    /// Runs one step. An `Err` is a failed step; its text says what to do.
    pub fn step(&mut self, name: &str, run: impl FnOnce() -> Result<Counts, String>) {
        println!("\n── {name} ──");
        let (start, cpu) = (Instant::now(), process::cpu_seconds());
        let counts = run().unwrap_or_else(|why| {
            println!("{name}: {why}");
            Counts::ONE_FAILED
        });
        let word = match &counts {
            Counts { failed: 1.., .. } => "FAILED",
            Counts { skipped: 1.., .. } => "SKIPS",
            _ => "ok",
        };
        let seconds = start.elapsed().as_secs_f64();
        let used = process::cpu_seconds().zip(cpu).map(|(after, before)| after - before);
        let used = used.map(|seconds| format!(", {seconds:.1} s of CPU")).unwrap_or_default();
        let line = format!(
            "{word:6} {name}: {} ok, {} not{}, {seconds:.1} s{used}",
            counts.passed,
            counts.failed,
            skips(&counts)
        );
        println!("── {line}");
        self.total += counts;
        self.lines.push(line);
    }

    /// A step with nothing to count: it worked or it did not.
    pub fn check(&mut self, name: &str, run: impl FnOnce() -> Result<bool, String>) {
        self.step(name, || Ok(if run()? { Counts::ONE_PASSED } else { Counts::ONE_FAILED }));
    }

    pub fn close(self) -> ExitCode {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        for failure in &self.total.failures {
            println!("\nFAILED {}", failure.trim_start_matches("FAILED "));
        }
        println!();
        // The servers of the run have ended by now, and count.
        if let Some(seconds) = process::cpu_seconds() {
            println!("{:.1} minutes of CPU", seconds / 60.0);
        }
        let is_good = self.total.failed == 0 && self.total.passed > 0;
        let lacks = self.total.skipped > 0 && self.skips_fail;
        if lacks {
            println!(
                "A skipped test fails this run (CI is set): the lines that begin with SKIPPED name what is missing."
            );
        }
        println!("{} passed, {} failed{}", self.total.passed, self.total.failed, skips(&self.total));
        if is_good && !lacks { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// Nothing for a run without one.
fn skips(counts: &Counts) -> String {
    if counts.skipped == 0 { String::new() } else { format!(", {} skipped", counts.skipped) }
}
