//! Starts the program under test (`crate::PROGRAM`), waits for its output, and ends it.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use tempfile::TempDir;

/// A folder for one test. The program does not see the configuration of this machine.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The program with these arguments, in this folder.
    pub fn sarsen<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(args).current_dir(self.root()).stdin(Stdio::null());
        let ours = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SARSEN_"));
        ours.for_each(|(name, _)| {
            command.env_remove(name);
        });
        command.env("HOME", self.root()).env("XDG_CONFIG_HOME", self.path("config")).env("NO_COLOR", "1");
        command
    }

    /// Runs the program until it ends.
    pub fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Ended {
        let output = self.sarsen(args).output().expect("it runs");
        Ended::of(&output, self.root())
    }

    /// Runs it with `--json`: what it prints.
    pub fn json<A: AsRef<OsStr>>(&self, args: &[A]) -> Value {
        let mut args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        args.push(OsStr::new("--json"));
        let ended = self.run(&args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
        serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", ended.stdout))
    }
}

/// The result of a program, with `PLACE` for the name of the folder.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    fn of(output: &Output, root: &Path) -> Ended {
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&root.display().to_string(), "PLACE");
        let code = output.status.code().expect("not by a signal");
        Ended { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Exit code and output, for snapshots.
    pub fn seen(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

/// Between two looks at what comes by itself, so that looking does not take the processor from it.
pub fn rest() {
    std::thread::park_timeout(std::time::Duration::from_millis(2));
}

/// Whether the long tests have their full length (`cargo xtask soak`).
pub fn is_soak() -> bool {
    std::env::vars().any(|(name, _)| name == "SARSEN_SOAK")
}

/// A running program. Dropping it kills it.
pub struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Running {
    /// Starts it. Its stderr goes to a file.
    pub fn start(mut command: Command, log: PathBuf) -> Running {
        let stderr = std::fs::File::create(&log).expect("a file for the log");
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, stdout, log }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("a log")
    }

    /// The next line on stdout.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("text");
        assert!(!line.is_empty(), "it ended without a line:\n{}", self.log());
        line
    }

    /// Waits until the log has `text`, and returns the log.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            let ended = self.child.try_wait().expect("a state");
            assert!(ended.is_none(), "it ended ({ended:?}) before it logged {text:?}:\n{log}");
            rest();
        }
    }

    pub fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a number"), signal).expect("a signal");
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a state").is_some()
    }

    /// Sends SIGTERM and returns the exit code.
    pub fn stop(mut self) -> i32 {
        self.terminate();
        self.child.wait().expect("it ends").code().expect("not by the signal itself")
    }

    /// Waits for its end: the exit code and the rest of its stdout.
    pub fn finish(mut self) -> (i32, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        (self.child.wait().expect("it ends").code().expect("not by a signal"), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A demo on a free port, and the JSON that it printed.
pub struct Demo {
    pub running: Running,
    pub says: Value,
}

impl Demo {
    pub fn start(place: &Place) -> Demo {
        Demo::start_at(place, "127.0.0.1:0", None)
    }

    /// A demo at an address, and on another database than its file if one is given.
    pub fn start_at(place: &Place, listen: &str, database: Option<&str>) -> Demo {
        let mut command = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", listen]);
        command.args(database.iter().flat_map(|url| ["--database", url]));
        let mut running = Running::start(command, place.path("demo.log"));
        let says = serde_json::from_str(&running.line()).expect("a line of JSON");
        Demo { running, says }
    }

    pub fn text(&self, pointer: &str) -> &str {
        self.says
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no {pointer}: {}", self.says))
    }

    pub fn issuer(&self) -> &str {
        self.text("/issuer")
    }
}

/// The mode of a file.
pub fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o777
}
