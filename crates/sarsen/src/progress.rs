//! How far something is, on stderr: one line that is written over on a terminal, a line a tenth elsewhere.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

/// Of something that takes minutes, in one step or several.
pub struct ProgressBar {
    on_terminal: bool,
    shown: Option<(&'static str, u64)>,
    began: Instant,
}

/// How much of a step is done.
pub struct StepProgress {
    pub done: u64,
    /// Of what is done, what was there already when the step began.
    pub found: u64,
    pub total: u64,
    /// What is counted.
    pub unit: &'static str,
}

impl ProgressBar {
    /// Starts the clock. It shows nothing yet.
    pub fn start() -> ProgressBar {
        ProgressBar { on_terminal: std::io::stderr().is_terminal(), shown: None, began: Instant::now() }
    }

    /// So much of this step is done; `detail`: with what it is busy.
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
            eprint!("\r\u{1b}[K{line}");
            // What cannot be shown is not worth an error.
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    /// Leaves the line as it is.
    pub fn end(&self) {
        if self.on_terminal && self.shown.is_some() {
            eprintln!();
        }
    }
}
