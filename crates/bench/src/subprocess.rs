//! A program that comes to an end by itself: what it says meanwhile is shown, what it says in the end is kept. It may be
//! killed on the way.

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

/// How often it is asked how much memory it has. The peak is the operating system's, so only the last moments can be
/// missed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Lines of its progress that may wait to be shown.
const LINES_WAITING: usize = 64;
/// What the program puts before the reason when it fails.
const COMPLAINS: &str = "sarsen: ";

/// How a program ended.
#[derive(Debug)]
pub struct Finished {
    pub took: Duration,
    pub peak_resident_bytes: Option<u64>,
    pub outcome: Outcome,
}

#[derive(Debug)]
pub enum Outcome {
    /// With success, and this JSON on stdout.
    Completed(Value),
    /// By SIGKILL, after it had said this.
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
    /// Runs the program with `arguments` to its end and passes on what it says on stderr, or kills it with SIGKILL as
    /// soon as it says a line that `is_last` takes for its last one. Fails when the program does.
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
        let (mut peak, mut complaint, mut killed) = (None, String::new(), None);
        loop {
            tokio::select! {
                line = lines.recv() => {
                    let Some(line) = line else { break };
                    if let Some(text) = line.strip_prefix(COMPLAINS) {
                        complaint = text.to_owned();
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
            // It may have come to its end in the moment before.
            Some(line) if status.code().is_none() => Outcome::Killed(line),
            Some(_) => {
                return Err(ended("it ended before it could be killed; give it more to do".to_owned()));
            }
            None if status.success() => {
                let said = serde_json::from_slice(&output);
                Outcome::Completed(said.map_err(|error| ended(format!("it printed no JSON: {error}")))?)
            }
            None if complaint.is_empty() => return Err(ended(status.to_string())),
            None => return Err(ended(complaint)),
        };
        Ok(Finished { took, peak_resident_bytes: peak, outcome })
    }
}

fn peak_of(child: &Child) -> Option<u64> {
    process_memory(child.id()).map(|memory| memory.peak_bytes)
}

/// Read on threads of their own, so that it never waits for anybody who reads.
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
        // What arrived before it broke off is looked at.
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    output
}
