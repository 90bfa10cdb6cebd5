//! What checks find: a line for each, with advice, or JSON.

use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output;
use std::io::IsTerminal as _;

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            State::Ok => "32",
            State::Warn => "33",
            State::Fail => "31",
        }
    }
}

/// A check and its result.
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) state: State,
    /// What was found, and what to do.
    pub(super) message: String,
}

pub(super) fn ok(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, state: State::Ok, message: message.into() }
}

pub(super) fn warn(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, state: State::Warn, message: message.into() }
}

pub(super) fn fail(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, state: State::Fail, message: message.into() }
}

/// Prints them. It is an error if one has failed.
pub(super) fn print(findings: &[Finding], json: bool, environment: &Environment) -> Result<()> {
    if json {
        let all = findings.iter().map(|finding| {
            serde_json::json!({ "check": finding.check, "state": finding.state.word(), "says": finding.message })
        });
        output::print_json(&all.collect::<Vec<_>>().into())?;
    } else {
        let colours = std::io::stdout().is_terminal() && environment.get("NO_COLOR").is_none();
        output::print(&findings.iter().map(|finding| line(finding, colours)).collect::<String>())?;
    }
    match findings.iter().any(|finding| finding.state == State::Fail) {
        true => Err(Error::AlreadyReported),
        false => Ok(()),
    }
}

fn line(finding: &Finding, colours: bool) -> String {
    let word = format!("{:<4}", finding.state.word());
    let word = if colours { format!("\u{1b}[{}m{word}\u{1b}[0m", finding.state.colour()) } else { word };
    format!("{word}  {:<13}  {}\n", finding.check, output::sanitize(&finding.message))
}
