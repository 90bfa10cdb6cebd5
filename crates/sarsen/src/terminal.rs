//! Questions to the user of the terminal. They are printed on stderr: stdout is for results.

use crate::error::{Error, Result};
use crate::output;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

/// Whether a user can answer.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a question. An empty answer means the default, if there is one. It asks again while `check` fails.
pub fn ask(question: &str, default: Option<&str>, check: impl Fn(&str) -> Result<()>) -> Result<String> {
    loop {
        let mut stderr = std::io::stderr().lock();
        let asked = match default {
            Some(default) => write!(stderr, "{question} [{default}]: "),
            None => write!(stderr, "{question}: "),
        };
        asked.and_then(|()| stderr.flush()).map_err(Error::io("cannot write to the terminal"))?;
        drop(stderr);
        let mut line = String::new();
        let read = std::io::stdin()
            .lock()
            .read_line(&mut line)
            .map_err(Error::io("cannot read from the terminal"))?;
        if read == 0 {
            return Err(Error::usage("the input ended before the answer"));
        }
        let answer = match (line.trim(), default) {
            ("", Some(default)) => default,
            ("", None) => continue,
            (answer, _) => answer,
        };
        match check(answer) {
            Ok(()) => return Ok(answer.to_owned()),
            Err(error) => output::tell(&format!("  {error}")),
        }
    }
}

/// Waits as long as a server asked for.
#[expect(clippy::disallowed_methods, reason = "a Retry-After or an interval of a server is a time to wait")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
