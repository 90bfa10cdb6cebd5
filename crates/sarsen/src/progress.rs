//! Progress on stderr: a line that is rewritten on a terminal, a line for each tenth elsewhere.

use crate::output;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

/// The progress of a task of one or more steps.
pub struct ProgressBar {
    on_terminal: bool,
    shown: Option<(&'static str, u64)>,
    began: Instant,
}

/// The progress of a step.
pub struct StepProgress {
    /// Done by now.
    pub done: u64,
    /// Of these, done before the step began.
    pub found: u64,
    /// To do in all.
    pub total: u64,
    /// What is counted.
    pub unit: &'static str,
}

impl ProgressBar {
    /// Starts the clock. It shows nothing yet.
    pub fn start() -> ProgressBar {
        ProgressBar { on_terminal: std::io::stderr().is_terminal(), shown: None, began: Instant::now() }
    }

    /// Shows the progress of a step, and `detail` beside it.
    pub fn show(&mut self, step: &'static str, count: StepProgress, detail: &str) {
        let StepProgress { done, found, total, unit } = count;
        let percent = done.saturating_mul(100) / total.max(1);
        let mark = (step, if self.on_terminal { done } else { percent / 10 });
        if self.shown == Some(mark) {
            return;
        }
        if self.shown.is_none_or(|(before, _)| before != step) {
            self.began = Instant::now();
        }
        self.shown = Some(mark);
        let rate = done.saturating_sub(found) as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let left = total.saturating_sub(done) as f64 / rate.max(1.0);
        let mut line = format!("{step} {percent:3} %  {done} of {total} {unit}");
        if done > found {
            let _ = write!(line, "  {rate:.0} {unit}/s  {left:.0} s left  {detail}");
        }
        let line = line.trim_end();
        if self.on_terminal {
            // Progress that cannot be shown is no error.
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\u{1b}[K{line}").and_then(|()| stderr.flush());
        } else {
            output::tell(line);
        }
    }

    /// Ends the line.
    pub fn end(&self) {
        if self.on_terminal && self.shown.is_some() {
            output::tell("");
        }
    }
}
