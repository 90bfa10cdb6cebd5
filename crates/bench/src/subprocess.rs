//! A program that ends by itself. Its stderr is shown as progress and its stdout is the result. It may be killed on the way.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::error::Error;
use crate::launcher::Launcher;
use crate::measure::process_memory;
use crate::report::progress;

/// The interval at which its memory is read. The operating system keeps the peak, so only the last interval can be missed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines of progress in the queue.
const LINES_WAITING: usize = 64;
/// The prefix of its error message.
const ERROR_PREFIX: &str = "sarsen: ";

/// The end of a program.
#[derive(Debug)]
pub struct Finished {
    pub took: Duration,
    pub peak_resident_bytes: Option<u64>,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub enum Outcome {
    /// It succeeded, with this JSON on stdout.
    Completed(Value),
    /// It was killed after this line.
    Killed(String),
}

/// Dropping it kills it.
struct Task(Child);

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Launcher {
    /// Runs the program with `arguments` to its end and shows its stderr. SIGKILL ends it at the first line that `is_last`
    /// accepts. Fails when the program fails.
    pub async fn run<A: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: &[A],
        is_last: impl Fn(&str) -> bool,
    ) -> Result<Finished, Error> {
        let mut command = self.command(arguments, None);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |detail: String| Error::Start { server: name.to_owned(), detail };
        let began = Instant::now();
        let child =
            command.spawn().map_err(|error| failed(format!("{}: {error}", self.program.display())))?;
        let mut task = Task(child);
        let (Some(stdout), Some(stderr)) = (task.0.stdout.take(), task.0.stderr.take()) else {
            return Err(failed("it has no output".to_owned()));
        };
        let (mut lines, output) = (lines_of(stderr), all_of(stdout));
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut peak, mut error_text, mut killed) = (None, String::new(), None);
        loop {
            tokio::select! {
                line = lines.recv() => {
                    let Some(line) = line else { break };
                    if let Some(text) = line.strip_prefix(ERROR_PREFIX) {
                        error_text = text.to_owned();
                        continue;
                    }
                    progress(&format!("{name}: {line}"));
                    if killed.is_none() && is_last(&line) {
                        task.0.kill().map_err(Error::io(format!("cannot kill {name}")))?;
                        killed = Some(line);
                    }
                }
                _ = looks.tick() => peak = peak_of(&task.0).or(peak),
            }
        }
        let output = output.await.unwrap_or_default();
        let status = task.0.wait().map_err(Error::io(format!("cannot wait for {name}")))?;
        let took = began.elapsed();
        let ended = |detail: String| Error::Ended { server: name.to_owned(), detail };
        let outcome = match killed {
            // Unless it had ended just before.
            Some(line) if status.code().is_none() => Outcome::Killed(line),
            Some(_) => {
                return Err(ended("it ended before it was killed; use more rows".to_owned()));
            }
            None if status.success() => {
                let said = serde_json::from_slice(&output);
                Outcome::Completed(said.map_err(|error| ended(format!("it printed no JSON: {error}")))?)
            }
            None if error_text.is_empty() => return Err(ended(status.to_string())),
            None => return Err(ended(error_text)),
        };
        Ok(Finished { took, peak_resident_bytes: peak, outcome })
    }
}

fn peak_of(child: &Child) -> Option<u64> {
    process_memory(child.id()).map(|memory| memory.peak_bytes)
}

/// Reads on a thread of its own, so that the program never blocks on its output.
fn lines_of(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(LINES_WAITING);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn all_of(mut stream: impl Read + Send + 'static) -> oneshot::Receiver<Vec<u8>> {
    let (sender, output) = oneshot::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes before an error count.
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    output
}
