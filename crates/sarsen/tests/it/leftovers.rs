//! What commands leave that are killed while they write a file, and who removes it. Each is killed by the kernel at a call
//! between the first byte of the file and its name.

use crate::support::{Demo, Place};
use server::testing::say_skipped;
use std::path::Path;
use std::process::Command;

/// Runs a command that is killed when it makes one of these calls. The copies and texts that it left.
fn kill_at(place: &Place, calls: &str, args: &[&str], folder: &str) -> Vec<String> {
    let plain = place.sarsen(args);
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")])
        // The error keeps the kernel from doing what was called before the signal arrives.
        .args(["-e", &format!("inject={calls}:error=EIO:signal=SIGKILL")])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(place.root());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let killed = command.output().expect("it runs");
    assert_eq!(killed.status.code(), None, "{args:?} was not killed at {calls}: {killed:?}");
    unfinished(&place.path(folder))
}

fn unfinished(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).expect("a folder").flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".sarsen-new")).collect()
}

#[test]
fn what_killed_commands_left_is_named_and_removed_by_the_next_one() {
    if Command::new("strace").arg("-V").output().is_err() {
        return say_skipped("the leftovers of killed commands: strace is not installed");
    }
    const RENAME: &str = "rename,renameat,renameat2";
    const LINK: &str = "link,linkat";
    let place = Place::new();
    assert_eq!(Demo::start(&place).running.stop(), 0);
    let text = "database = \"sqlite:demo/demo.db\"\nsecret_key_file = \"demo/demo.key\"\n";
    std::fs::write(place.path("sarsen.toml"), text).expect("written");

    // The command, the call at which it is killed, the folder in which it writes, and what comes next there.
    let init: &[&str] = &["init", "--yes", "--config", "fresh/sarsen.toml"];
    let cases: [(&[&str], &str, &str, &[&str]); 4] = [
        (&["backup", "one.db"], RENAME, ".", &["backup", "two.db"]),
        (&["restore", "two.db"], RENAME, "demo", &["restore", "two.db"]),
        (init, LINK, "fresh", init),
        (&["rekey"], LINK, "demo", &["rekey"]),
    ];
    for (killed, call, folder, next) in cases {
        let left = kill_at(&place, call, killed, folder);
        assert_eq!(left.len(), 1, "{killed:?}: {left:?}");
        if folder == "demo" {
            let looked = place.run(&["doctor"]);
            assert!(looked.stdout.contains(&left[0]), "{killed:?}: {}", looked.seen());
            assert_eq!(unfinished(&place.path(folder)), left, "doctor changes nothing");
        }
        let ended = place.run(next);
        assert_eq!(ended.code, 0, "{next:?}: {}", ended.seen());
        let named = ended.stderr.lines().find(|line| line.contains(&left[0]));
        assert!(named.is_some_and(|line| line.contains("removed")), "{next:?}: {}", ended.seen());
        assert_eq!(unfinished(&place.path(folder)), [""; 0], "{next:?}");
    }
}
