//! Starts and stops the servers under test.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::error::Error;

/// A server must be ready within this time.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A server that does not stop is killed after this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
const LOG_LINES_SHOWN: usize = 12;

/// Starts the programs of a run.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// `sarsen`: the server under test.
    pub program: PathBuf,
    /// `sarsen-bench-tools`: the bare server, further instances, fixtures and faults.
    pub tools: Option<PathBuf>,
    /// A program, with arguments, that starts the servers in its place, such as one that limits their memory.
    pub wrapper: Vec<OsString>,
    /// Arguments before the subcommand.
    pub arguments: Vec<OsString>,
    /// Variables that are added to the environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Launcher {
    pub fn new(program: impl Into<PathBuf>) -> Launcher {
        Launcher {
            program: program.into(),
            tools: None,
            wrapper: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// The launcher of the `sarsen` beside this program, and of the tools where they are there too.
    pub fn beside_this_program() -> Result<Launcher, Error> {
        let this = std::env::current_exe().map_err(Error::io("cannot find this program's own file"))?;
        let tools = this.with_file_name("sarsen-bench-tools");
        let tools = tools.is_file().then_some(tools);
        Ok(Launcher { tools, ..Launcher::new(this.with_file_name("sarsen")) })
    }

    /// The launcher of `sarsen-bench-tools`; an error where that program is missing.
    pub fn for_tools(&self) -> Result<Launcher, Error> {
        let program = self.tools.clone().ok_or(Error::ToolsMissing)?;
        Ok(Launcher { program, ..self.clone() })
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Launcher {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The program with `arguments`, pinned to `core` if there is one.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, arguments: &[A], core: Option<usize>) -> Command {
        let mut words = self.wrapper.clone();
        if let Some(core) = core {
            words.extend(["taskset".into(), "-c".into(), core.to_string().into()]);
        }
        words.push(self.program.clone().into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(&self.arguments).args(arguments.iter().map(AsRef::as_ref));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the program with `arguments` and waits for the line of JSON that it prints when it is ready. With `core`, it is
    /// pinned to that core. Its log is a file in `directory`.
    pub async fn start<A: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: &[A],
        core: Option<usize>,
        directory: &Path,
    ) -> Result<ServerProcess, Error> {
        self.start_until(name, self.command(arguments, core), directory, json_object).await
    }

    /// The same for a program that prints a line with its address when it is ready. `/listen` is `http://` with that address.
    /// It runs in `directory`, where it may leave files.
    pub(crate) async fn start_back_end<A: AsRef<OsStr>>(
        &self,
        name: &str,
        arguments: &[A],
        core: Option<usize>,
        directory: &Path,
    ) -> Result<ServerProcess, Error> {
        let mut command = self.command(arguments, core);
        command.current_dir(directory);
        self.start_until(name, command, directory, address).await
    }

    async fn start_until(
        &self,
        name: &str,
        mut command: Command,
        directory: &Path,
        ready: ReadyLine,
    ) -> Result<ServerProcess, Error> {
        let log_path = directory.join(format!("{name}.log"));
        let log =
            File::create(&log_path).map_err(Error::io(format!("cannot write {}", log_path.display())))?;
        // The pipe closes when this process ends in any way: injected faults end then.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let failed = |detail: String| Error::Start { server: name.to_owned(), detail };
        let mut child = command.spawn().map_err(|error| {
            let first = command.get_program();
            let by = if first == self.program { String::new() } else { format!(" (by {})", first.display()) };
            failed(format!("{}{by}: {error}", self.program.display()))
        })?;
        let stdout = child.stdout.take();
        let (over_sender, over) = channel();
        let mut process = ServerProcess { child, name: name.to_owned(), log_path, over, ready: Value::Null };
        let Some(stdout) = stdout else { return Err(failed("it has no stdout".to_owned())) };
        match timeout(START_TIMEOUT, first_ready_line(stdout, over_sender, ready)).await {
            Ok(Ok(ready)) => process.ready = ready,
            Ok(Err(_)) => {
                return Err(failed(format!("it ended before it was ready{}", tail(&process.log_path))));
            }
            Err(_) => {
                return Err(failed(format!("not ready within {START_TIMEOUT:?}{}", tail(&process.log_path))));
            }
        }
        Ok(process)
    }
}

/// A running server; dropping it kills it.
pub struct ServerProcess {
    child: Child,
    name: String,
    log_path: PathBuf,
    /// Disconnected when it has closed its stdout, at its end.
    over: Receiver<()>,
    /// The line of JSON that it printed when it was ready.
    pub ready: Value,
}

impl ServerProcess {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The string at `pointer` (RFC 6901) of the line that it printed.
    pub fn ready_text(&self, pointer: &str) -> Result<&str, Error> {
        self.ready.pointer(pointer).and_then(Value::as_str).ok_or_else(|| Error::Start {
            server: self.name.clone(),
            detail: format!("the line that it printed has no {pointer}"),
        })
    }

    /// Stops it and waits for its end. A process that has ended before is an error.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.terminate()?;
        let pause = Duration::from_millis(20);
        let stopped = async {
            while !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                sleep(pause).await;
            }
        };
        // If it does not stop, dropping kills it.
        let _ = timeout(STOP_TIMEOUT, stopped).await;
        Ok(())
    }

    /// Stops it and waits for its end, which undoes a fault. An exit code other than 0 is an error. Blocks.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.terminate()?;
        let detail = match self.over.recv_timeout(STOP_TIMEOUT) {
            Err(RecvTimeoutError::Timeout) => format!("it did not end within {STOP_TIMEOUT:?}"),
            _ => match self.child.wait() {
                Ok(status) if status.success() => return Ok(()),
                Ok(status) => format!("{status}{}", tail(&self.log_path)),
                Err(error) => error.to_string(),
            },
        };
        Err(Error::Ended { server: self.name.clone(), detail })
    }

    fn terminate(&mut self) -> Result<(), Error> {
        if let Ok(Some(status)) = self.child.try_wait() {
            let detail = format!("it ended during the run: {status}{}", tail(&self.log_path));
            return Err(Error::Ended { server: self.name.clone(), detail });
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a line says, if it is the one that a ready server prints.
type ReadyLine = fn(&str) -> Option<Value>;

fn json_object(line: &str) -> Option<Value> {
    serde_json::from_str(line).ok().filter(Value::is_object)
}

/// The address of the line, with or without `http://`.
fn address(line: &str) -> Option<Value> {
    if let Some(object) = json_object(line) {
        return Some(object);
    }
    let of_word = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric() && !"[]:.".contains(c));
        let host = word.strip_prefix("http://").unwrap_or(word).trim_end_matches('.');
        let is_address = host.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.ends_with(':') && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        let is_named = word.starts_with("http://") || host.parse::<std::net::SocketAddr>().is_ok();
        (is_address && is_named).then(|| serde_json::json!({ "listen": format!("http://{host}") }))
    };
    line.split_whitespace().find_map(of_word)
}

/// Reads `stdout` to its end on a thread of its own, so that the server never blocks on it. Returns the first line that
/// `ready` accepts.
fn first_ready_line(stdout: ChildStdout, over: Sender<()>, ready: ReadyLine) -> oneshot::Receiver<Value> {
    let (found, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut found = Some(found);
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // After the first one the lines are only read, so that the server never blocks on them.
            if found.is_none() {
                continue;
            }
            let Some(value) = ready(&line) else { continue };
            if let Some(found) = found.take() {
                let _ = found.send(value);
            }
        }
        drop(over);
    });
    receiver
}

/// The end of a log, for a message.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
    if shown.is_empty() { String::new() } else { format!("; its log ends with:\n  {}", shown.join("\n  ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_ready_line() {
        let listens = [
            ("listening on http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://localhost:8080/", "http://localhost:8080"),
            ("counters: http://[::1]:9, stop with Ctrl-C.", "http://[::1]:9"),
            ("ready at 127.0.0.1:8080.", "http://127.0.0.1:8080"),
            (r#"{"listen":"http://127.0.0.1:1"}"#, "http://127.0.0.1:1"),
        ];
        for (line, expected) in listens {
            assert_eq!(
                address(line).and_then(|value| Some(value["listen"].as_str()?.to_owned())).as_deref(),
                Some(expected)
            );
        }
        for line in ["", "opening sqlite:counters.db", "12:30:01 starting", "at https://example.com:1/"] {
            assert_eq!(address(line), None, "{line}");
        }
    }
}
