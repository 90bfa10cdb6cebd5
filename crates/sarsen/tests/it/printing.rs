//! What becomes of a command whose result cannot be printed.

use crate::signing_in::sign_in;
use crate::support::{Demo, Place};
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

/// A file that takes nothing, as a full disk does.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("a device").into()
}

/// A pipe that nobody reads.
fn broken_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// The exit code, and what came on stderr if that is a pipe of its own.
fn end(mut command: Command) -> (Option<i32>, String) {
    let mut child = command.spawn().expect("it starts");
    let mut stderr = String::new();
    if let Some(pipe) = &mut child.stderr {
        pipe.read_to_string(&mut stderr).expect("text");
    }
    (child.wait().expect("it ends").code(), stderr)
}

#[test]
fn a_change_is_no_failure_if_its_result_cannot_be_printed() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let onto_full = |args: &[&str]| {
        let mut command = place.sarsen(args);
        command.stdout(full()).stderr(Stdio::piped());
        end(command)
    };
    let (code, stderr) = onto_full(&["service", "create", "atlas", "--name", "Atlas"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("the change was made, but it cannot be printed: cannot write to stdout"),
        "{stderr}"
    );
    assert_eq!(place.json(&["service", "show", "atlas"])["name"], "Atlas");
    let (code, _) = onto_full(&["org", "change", "acme", "--sign-up", "on", "--json"]);
    assert_eq!((code, &place.json(&["org", "show", "acme"])["sign_up"]), (Some(0), &true.into()));
    // What only reads has failed, and what is shown once is lost.
    assert_eq!(onto_full(&["service", "list"]).0, Some(1));
    let (code, stderr) = onto_full(&["key", "create", "Lost", "--service", "atlas"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.starts_with("sarsen: the key was made, but it cannot be printed")
            && stderr.contains("revoke it and create another"),
        "{stderr}"
    );
    assert!(place.run(&["key", "list"]).stdout.contains("Lost"));

    let (onto_nobody, file) = (place.path("sarsen.toml"), "sarsen.toml");
    let init = ["init", "--yes", "--listen", "127.0.0.1:7070", "--issuer", "http://localhost:7070"];
    let (code, stderr) =
        onto_full(&[&init[..], &["--database", "sqlite:sarsen.db", "--config", file]].concat());
    assert_eq!((code, onto_nobody.exists()), (Some(0), true), "{stderr}");
}

#[test]
fn nobody_has_to_read_what_a_command_confirms() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    place.json(&["service", "create", "atlas", "--name", "Atlas"]);
    place.json(&["member", "invite", "hedy@acme.test"]);
    let changes: &[&[&str]] = &[
        &["user", "create", "hedy@acme.test"],
        &["user", "suspend", "hedy@acme.test"],
        &["user", "activate", "hedy@acme.test"],
        &["service", "delete", "atlas"],
        &["member", "revoke", "hedy@acme.test"],
        &["org", "create", "initech", "--name", "Initech"],
        &["org", "delete", "acme", "--confirm", "acme"],
        &["org", "restore", "acme"],
        &["logout"],
    ];
    for args in changes {
        let mut command = place.sarsen(args);
        command.stdout(broken_pipe()).stderr(broken_pipe());
        assert_eq!(end(command).0, Some(0), "{args:?}");
    }
    let mut command = place.sarsen(&["whoami"]);
    command.stdout(broken_pipe()).stderr(broken_pipe());
    assert_eq!(end(command).0, Some(1), "signed out");
}
