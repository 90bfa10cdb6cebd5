//! A trace of the system calls: the write-ahead log is flushed between a command and its reply.

use crate::support::{Place, Running};
use serde_json::Value;
use server::testing::say_skipped;
use std::collections::HashSet;
use std::process::Command;

const REQUESTS: usize = 25;

#[test]
fn a_flush_of_the_log_ends_between_each_command_and_its_reply() {
    if Command::new("strace").arg("-V").output().is_err() {
        return say_skipped("a trace of the flushes: strace is not installed");
    }
    let place = Place::new();
    let trace = place.path("trace.txt");
    let plain = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", "127.0.0.1:0"]);
    let mut command = Command::new("strace");
    command
        .args(["-f", "-s", "600", "-e", "trace=openat,pwrite64,fsync,fdatasync,write,writev,sendto", "-o"])
        .arg(&trace)
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(place.root());
    let mut running = Running::start(command, place.path("demo.log"));
    let says: Value = serde_json::from_str(&running.line()).expect("a line of JSON");
    let text = |pointer: &str| says.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned();
    let (url, body) = (
        format!("{}/auth/device/code", text("/issuer")),
        format!("client_id={}", text("/clients/cli/client_id")),
    );
    for _ in 0..REQUESTS {
        let request = ureq::post(&url).header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(request.send(&body).expect("an answer").status(), 200);
    }
    stop_traced(running.pid());
    running.finish();

    let calls = std::fs::read_to_string(&trace).expect("a trace");
    assert_eq!(replies_behind_a_flush(&calls), REQUESTS, "one for each request");
}

/// Stops the program that strace runs. strace ends with it.
fn stop_traced(strace: u32) {
    let children =
        std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).expect("children");
    let child: i32 = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a child");
    let child = rustix::process::Pid::from_raw(child).expect("a pid");
    rustix::process::kill_process(child, rustix::process::Signal::TERM).expect("a signal");
}

/// Counts the replies. A reply that was sent before the log was flushed fails the test.
fn replies_behind_a_flush(calls: &str) -> usize {
    let mut logs: HashSet<String> = HashSet::new();
    let mut unfinished: Vec<(String, String)> = Vec::new();
    // A commit in the background may begin between a flush and its reply. The rule is: a flush of the written pages has
    // ended since the previous reply.
    let (mut written, mut flushed, mut replies) = (false, false, 0);
    for line in calls.lines() {
        let (thread, call) = line.split_once(' ').unwrap_or_default();
        let call = call.trim_start();
        let (name, arguments) = call.split_once('(').unwrap_or((call, ""));
        let file = arguments.split([',', ')', ' ']).next().unwrap_or_default().to_owned();
        let ended = !call.contains("<unfinished");
        match name {
            "openat" if arguments.contains("-wal\"") => {
                logs.extend(call.rsplit("= ").next().map(str::to_owned));
            }
            "pwrite64" if logs.contains(&file) => written = true,
            "fsync" | "fdatasync" if logs.contains(&file) => {
                if ended {
                    flushed = true
                } else {
                    unfinished.push((thread.to_owned(), file))
                }
            }
            _ if call.starts_with("<... fsync resumed") || call.starts_with("<... fdatasync resumed") => {
                let waiting = unfinished.len();
                unfinished.retain(|(other, _)| other != thread);
                if unfinished.len() < waiting && call.contains("= 0") {
                    flushed |= std::mem::take(&mut written);
                }
            }
            "sendto" | "write" | "writev"
                if arguments.contains("HTTP/1.1 200") && arguments.contains("device_code") =>
            {
                replies += 1;
                assert!(flushed, "a reply before its flush: {line}");
                flushed = false;
            }
            _ => {}
        }
    }
    replies
}
