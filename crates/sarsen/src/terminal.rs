//! Questions to the person at the terminal. They are asked on stderr: stdout is for results.

use crate::error::{Error, Result};
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

/// Whether somebody is there to answer.
pub fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks; an empty answer is the default, when there is one. An answer that `check` refuses is asked again.
pub fn ask(question: &str, default: Option<&str>, check: impl Fn(&str) -> Result<()>) -> Result<String> {
    loop {
        match default {
            Some(default) => eprint!("{question} [{default}]: "),
            None => eprint!("{question}: "),
        }
        std::io::stderr().flush().map_err(Error::io("cannot write to the terminal"))?;
        let mut line = String::new();
        let read = std::io::stdin()
            .lock()
            .read_line(&mut line)
            .map_err(Error::io("cannot read from the terminal"))?;
        if read == 0 {
            return Err(Error::usage("the input ended before the question was answered"));
        }
        let answer = match (line.trim(), default) {
            ("", Some(default)) => default,
            ("", None) => continue,
            (answer, _) => answer,
        };
        match check(answer) {
            Ok(()) => return Ok(answer.to_owned()),
            Err(error) => eprintln!("  {error}"),
        }
    }
}

/// Lets time pass, because a server asked for it.
#[expect(clippy::disallowed_methods, reason = "a server's Retry-After or interval is time and nothing else")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}
