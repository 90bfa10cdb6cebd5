//! Running a program: its output is shown as it comes and kept, and a time limit ends it together
//! with everything that it started.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The same on every architecture that Linux shows times to programs on.
const TICKS_PER_SECOND: f64 = 100.0;

pub struct Outcome {
    pub success: bool,
    /// What it wrote to its standard output; its standard error was only shown.
    pub stdout: String,
}

/// Runs a program to its end, or for `limit` at most.
pub fn run(command: &mut Command, limit: Duration) -> Result<Outcome, String> {
    watch(command, limit, true)
}

/// The same without showing its standard output.
pub fn run_unseen(command: &mut Command, limit: Duration) -> Result<Outcome, String> {
    watch(command, limit, false)
}

fn watch(command: &mut Command, limit: Duration, shown: bool) -> Result<Outcome, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{name}` cannot be started: {error}"))?;
    let pipe = child.stdout.take().ok_or("a child without its output")?;
    let (done, finished) = mpsc::channel();
    thread::spawn(move || done.send(keep(BufReader::new(pipe), shown)));

    match finished.recv_timeout(limit) {
        Ok(stdout) => {
            let status = child.wait().map_err(|error| format!("`{name}`: {error}"))?;
            Ok(Outcome { success: status.success(), stdout })
        }
        Err(_) => {
            signal("KILL", &with_descendants(child.id()));
            child.wait().ok();
            Err(format!("`{name}` had not ended after {} s and was stopped", limit.as_secs()))
        }
    }
}

/// Runs a program without its output; returns whether it succeeded.
pub fn quietly(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What a program prints, if it succeeds.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// CPU seconds that this process and all those used that it has waited for, with theirs; Linux only.
pub fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    ticks(&stat).map(|ticks| ticks as f64 / TICKS_PER_SECOND)
}

/// User and system time, our own and that of our children: fields 14 to 17.
fn ticks(stat: &str) -> Option<u64> {
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    let fields: Option<Vec<u64>> = fields.map(|field| field.parse().ok()).collect();
    fields.filter(|fields| fields.len() == 4).map(|fields| fields.iter().sum())
}

/// Sends a signal by way of the shell, whose own `kill` is on every machine.
pub fn signal(name: &str, pids: &[u32]) {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$@\"", "kill", name]).args(pids.iter().map(u32::to_string));
    quietly(&mut command);
}

fn keep(reader: impl BufRead, shown: bool) -> String {
    let mut kept = String::new();
    let mut stdout = std::io::stdout();
    for line in reader.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if shown {
            writeln!(stdout, "{line}").and_then(|()| stdout.flush()).ok();
        }
        kept.push_str(&line);
        kept.push('\n');
    }
    kept
}

/// A process and what descends from it, read from /proc; elsewhere the process alone.
fn with_descendants(pid: u32) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| pid_and_parent(&fs::read_to_string(entry.path().join("stat")).ok()?))
        .collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(pairs.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// `42 (a name) S 7 …` is process 42 with parent 7; the name may hold anything.
fn pid_and_parent(stat: &str) -> Option<(u32, u32)> {
    let pid = stat.split(' ').next()?.parse().ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_and_the_status_is_told() {
        let outcome = run(Command::new("sh").args(["-c", "echo one; exit 3"]), Duration::from_secs(10));
        let outcome = outcome.expect("sh runs");
        assert_eq!((outcome.success, outcome.stdout.as_str()), (false, "one\n"));
    }

    #[test]
    fn a_program_that_hangs_is_stopped_with_its_children() {
        let error = run(Command::new("sh").args(["-c", "sleep 60 & wait"]), Duration::from_millis(200));
        assert!(error.is_err_and(|text| text.contains("had not ended")));
    }

    #[test]
    fn times_are_added_up_over_the_children() {
        assert_eq!(ticks("42 (a b) S 7 1 1 0 -1 0 1 2 3 4 10 20 300 4000 20 0 1"), Some(4330));
        assert_eq!(ticks("42 (a b) S 7"), None);
    }

    #[test]
    fn a_process_name_may_hold_brackets_and_spaces() {
        assert_eq!(pid_and_parent("42 (a) b) c) S 7 1 1 0"), Some((42, 7)));
    }
}
