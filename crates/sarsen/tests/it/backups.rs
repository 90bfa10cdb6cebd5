//! `sarsen backup`, `check`, `restore` and `rekey`: under full load, across `kill -9`, and with files and keys that are
//! refused.

use crate::browser::Browser;
use crate::support::{Demo, Ended, Place, Running, is_soak, mode, rest};
use crate::survival::traffic::{DeviceClient, sign_in};
use server::testing::Kind;
use server::testing::change_file;
use server::testing::fixture::{Fixture, Scripts};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const ROUNDS: usize = 10;
const SOAK_ROUNDS: usize = 100;
/// Device codes that are acknowledged before a backup, at least.
const CODES: usize = 20;
const WRITERS: usize = 4;

/// A configuration with the database and the key of the demo, so that the other commands find them.
fn configured(place: &Place) -> PathBuf {
    let text = "database = \"sqlite:demo/demo.db\"\nsecret_key_file = \"demo/demo.key\"\n";
    std::fs::write(place.path("sarsen.toml"), text).expect("written");
    place.path("demo/demo.db")
}

fn works(ended: &Ended) {
    assert_eq!(ended.code, 0, "{}", ended.seen());
}

/// Requests device codes until it is told to stop. Each code is a write that was acknowledged.
fn write_codes(terminal: &DeviceClient, codes: &Mutex<Vec<String>>, stopped: &AtomicBool) {
    while !stopped.load(Ordering::SeqCst)
        && let Some(answer) = terminal.begin()
    {
        codes.lock().expect("a lock").push(answer.given("device_code"));
    }
}

/// Makes a backup under full write load. Returns the new codes that were acknowledged before it began.
fn backup_under_load(place: &Place, demo: &Demo, file: &str) -> Vec<String> {
    let (terminal, codes, stopped) =
        (DeviceClient::new(&demo.says), Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| write_codes(&terminal, &codes, &stopped));
        }
        while codes.lock().expect("a lock").len() < CODES {
            rest();
        }
        let before = codes.lock().expect("a lock").clone();
        let ended = place.run(&["backup", file]);
        stopped.store(true, Ordering::SeqCst);
        works(&ended);
        before
    })
}

#[test]
fn soak_a_backup_under_full_load_is_restored_elsewhere_with_every_acknowledged_write() {
    let place = Place::new();
    let demo = Demo::start(&place);
    configured(&place);
    // Those that a restored server has not been asked for. Codes expire, so that a soak asks for those of each round.
    let (mut wanted, mut count) = (Vec::new(), 0);
    let rounds = if is_soak() { SOAK_ROUNDS } else { ROUNDS };
    for round in 1..=rounds {
        let file = format!("backup-{round}.db");
        let before = backup_under_load(&place, &demo, &file);
        count += before.len();
        wanted.extend(before);
        assert_eq!(mode(&place.path(&file)), 0o600);
        works(&place.run(&["check", &file]));
        if is_soak() || round == rounds {
            let restored = restored(&place, &file);
            holds(&restored, &wanted);
            wanted.clear();
            sign_in(&mut Browser::new(restored.issuer()), &restored.says);
            assert_eq!(restored.running.stop(), 0);
            std::fs::remove_dir_all(place.path("restored")).expect("removed");
        }
        std::fs::remove_file(place.path(&file)).expect("removed");
    }
    println!("{count} writes were acknowledged before {rounds} backups, which have them");
}

/// A demo in another folder: all files of the first one, but the backup as its database.
fn restored(place: &Place, file: &str) -> Demo {
    let folder = place.path("restored");
    std::fs::create_dir(&folder).expect("a folder");
    for name in names(&place.path("demo")).iter().filter(|name| !name.starts_with("demo.db")) {
        std::fs::copy(place.path("demo").join(name), folder.join(name)).expect("copied");
    }
    let config = folder.join("sarsen.toml");
    std::fs::write(&config, "database = \"sqlite:demo.db\"\nsecret_key_file = \"demo.key\"\n")
        .expect("written");
    works(&place.run(&["restore", file, "--config", config.to_str().expect("text")]));
    std::fs::remove_file(config).expect("removed");
    let folder = folder.to_str().expect("text");
    let command = place.sarsen(&["demo", "--json", "--data", folder, "--listen", "127.0.0.1:0"]);
    let mut running = Running::start(command, place.path("restored.log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    Demo { running, says }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Each code is known there: an unknown one would be `invalid_grant`.
fn holds(demo: &Demo, codes: &[String]) {
    assert!(!codes.is_empty());
    let terminal = DeviceClient::new(&demo.says);
    for code in codes {
        let answer = terminal.redeem(code).expect("an answer");
        let error = answer.text("error");
        assert!(matches!(&*error, "authorization_pending" | "slow_down"), "{answer:?}");
    }
}

#[test]
fn a_killed_backup_leaves_nothing_under_its_name_and_a_killed_restore_one_whole_database() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let database = configured(&place);
    works(&place.run(&["backup", "good.db"]));
    for round in 0..if is_soak() { SOAK_ROUNDS } else { ROUNDS } {
        let file = format!("killed-{round}.db");
        let backup = Running::start(place.sarsen(&["backup", &file]), place.path("log"));
        kill_at_a_file(backup, &place.path(&file), round);
        if place.path(&file).exists() {
            works(&place.run(&["check", &file]));
        }
    }
    assert_eq!(demo.running.stop(), 0);
    for round in 0..if is_soak() { SOAK_ROUNDS } else { ROUNDS } {
        let restore = Running::start(place.sarsen(&["restore", "good.db"]), place.path("log"));
        kill_at_a_file(restore, &database, round);
        works(&place.run(&["check", "--accept-unmarked", database.to_str().expect("text")]));
    }
    works(&place.run(&["restore", "good.db"]));
}

/// Kills a program when an unfinished file of this one appears beside it, or a little later, or at its end.
fn kill_at_a_file(mut running: Running, file: &Path, round: usize) {
    let folder = file.parent().expect("a folder");
    let begin = file.file_name().expect("a name").to_string_lossy().into_owned();
    let unfinished = || {
        let names = names(folder).into_iter();
        names.filter(|name| name.starts_with(&begin) && name.ends_with(".sarsen-new")).collect::<Vec<_>>()
    };
    while unfinished().is_empty() && !running.has_ended() {
        std::thread::yield_now();
    }
    // Another moment in each round.
    for _ in 0..round * 20 {
        std::thread::yield_now();
    }
    drop(running);
    // What a kill leaves must not count in the next round.
    for name in unfinished() {
        std::fs::remove_file(folder.join(name)).expect("removed");
    }
}

#[test]
fn a_restore_refuses_a_served_database_a_damaged_backup_and_another_key() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let database = configured(&place);
    works(&place.run(&["backup", "good.db"]));
    let seen = |ended: &Ended| ended.seen().replace(&std::process::id().to_string(), "PID");
    let served = place.run(&["restore", "good.db"]);
    assert!(served.code == 1 && served.stderr.contains("in use by process"), "{}", seen(&served));
    let rehearsed = place.run(&["restore", "good.db", "--rehearse"]);
    works(&rehearsed);
    assert!(rehearsed.stdout.contains("signed in with a one-time link"), "{}", seen(&rehearsed));
    assert_eq!(demo.running.stop(), 0);

    let before = std::fs::read(&database).expect("reads");
    let mut damaged = std::fs::read(place.path("good.db")).expect("reads");
    let half = damaged.len() / 2;
    damaged[half..half + 8192].fill(0xA5);
    std::fs::write(place.path("damaged.db"), damaged).expect("written");
    std::fs::write(
        place.path("text.db"),
        "no database, but a text that is long enough to be looked at in full",
    )
    .expect("written");
    std::fs::write(place.path("other.key"), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n")
        .expect("written");
    let other = format!("database = \"sqlite:{}\"\nsecret_key_file = \"other.key\"\n", database.display());
    std::fs::write(place.path("other.toml"), other).expect("written");
    for (args, expected) in [
        (&["restore", "damaged.db"][..], "nothing was changed"),
        (&["restore", "damaged.db", "--rehearse"], "nothing was changed"),
        (&["restore", "text.db"], "file is not a database"),
        (&["restore", "none.db"], "none.db"),
        (&["restore", "good.db", "--config", "other.toml"], "created with another key"),
        (&["restore", "good.db", "--rehearse", "--config", "other.toml"], "created with another key"),
    ] {
        let refused = place.run(args);
        assert!(refused.code == 1 && refused.stderr.contains(expected), "{args:?}: {}", seen(&refused));
        assert_eq!(std::fs::read(&database).expect("reads"), before, "{args:?}");
    }
    let wrong = place.run(&["check", "good.db", "--config", "other.toml"]);
    assert!(wrong.code == 1 && wrong.stdout.contains("created with another key"), "{}", seen(&wrong));
    let found = place.json(&["check", "good.db"]);
    assert!(found["ok"] == true && found["sealed"].as_u64() > Some(0), "{found}");

    let restored = place.run(&["restore", "good.db"]);
    works(&restored);
    assert!(restored.stdout.contains("The old database is"), "{}", seen(&restored));
    let mut left = names(&place.path("demo"));
    left.retain(|name| name.contains("rehearsal") || name.ends_with(".sarsen-new"));
    assert!(left.is_empty(), "{left:?}");
}

/// The trailer of a backup: three lines.
const TRAILER: usize = 165;

#[test]
fn four_kinds_of_files_are_told_apart_and_only_marked_ones_are_called_whole() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let database = configured(&place);
    works(&place.run(&["backup", "good.db"]));
    assert_eq!(demo.running.stop(), 0);
    let good = std::fs::read(place.path("good.db")).expect("reads");
    let (content, trailer) = good.split_at(good.len() - TRAILER);
    let trailer = std::str::from_utf8(trailer).expect("text");
    let lines: Vec<&str> = trailer.lines().collect();
    assert!(lines[0] == "sarsen backup 2" && lines.len() == 3, "{trailer}");
    // As a person verifies it who has neither this program nor the key.
    let verify = "head -c -165 good.db | sha256sum";
    let sum = Command::new("sh").args(["-c", verify]).current_dir(place.path(".")).output();
    let sum = String::from_utf8(sum.expect("it runs").stdout).expect("text");
    assert_eq!(lines[1].split(' ').nth(1), sum.split(' ').next());

    // What somebody can do who has a backup and no key: change it, and cut off or replace what shows that.
    std::fs::write(place.path("cut.db"), content).expect("written");
    change_file(
        &place.path("cut.db"),
        "PRAGMA journal_mode = DELETE; UPDATE passwords SET hash = 'of the attacker'",
    );
    let changed = std::fs::read(place.path("cut.db")).expect("reads");
    let sum = Command::new("sha256sum").arg(place.path("cut.db")).output().expect("it runs").stdout;
    let sum = String::from_utf8(sum).expect("text");
    let sum = sum.split(' ').next().expect("a sum");
    let forged = format!("sarsen backup 2\nsha256 {sum}\n{}\n", lines[2]);
    std::fs::write(place.path("forged.db"), [&changed[..], forged.as_bytes()].concat()).expect("written");
    std::fs::write(place.path("plain.db"), [&changed[..], &plain_trailer(&changed)].concat())
        .expect("written");
    std::fs::write(place.path("short.db"), &good[..good.len() - 32]).expect("written");
    std::fs::copy(&database, place.path("copy.db")).expect("copied");

    let whole = place.run(&["check", "good.db"]);
    assert!(whole.code == 0 && whole.stdout.contains("good.db is whole."), "{}", whole.seen());
    let before = std::fs::read(&database).expect("reads");
    for (file, origin, expected) in [
        ("cut.db", "unmarked", "was not made by sarsen backup"),
        ("copy.db", "unmarked", "it may lack the newest changes"),
        ("plain.db", "plain_checksum", "who made the file, which earlier versions wrote so, is unknown"),
    ] {
        let checked = place.run(&["check", file]);
        assert!(checked.code == 1 && checked.stdout.contains(expected), "{}", checked.seen());
        let restored = place.run(&["restore", file]);
        assert!(restored.code == 1 && restored.stderr.contains(expected), "{}", restored.seen());
        let rehearsed = place.run(&["restore", file, "--rehearse"]);
        assert!(rehearsed.code == 1 && rehearsed.stderr.contains(expected), "{}", rehearsed.seen());
        let accepted = place.run(&["check", file, "--accept-unmarked"]);
        assert!(accepted.code == 0 && accepted.stdout.contains(expected), "{}", accepted.seen());
        for said in [&checked.stdout, &accepted.stdout] {
            assert!(!said.contains("whole") && said.contains("--accept-unmarked"), "{said}");
        }
        let json = place.json(&["check", file, "--accept-unmarked"]);
        assert!(json["ok"] == true && json["origin"] == origin, "{json}");
    }
    for (file, expected) in
        [("forged.db", "so somebody changed it"), ("short.db", "is damaged: its checksum is wrong")]
    {
        for args in [&["check", file, "--accept-unmarked"][..], &["restore", file, "--accept-unmarked"]] {
            let refused = place.run(args);
            assert!(refused.code == 1 && refused.seen().contains(expected), "{}", refused.seen());
        }
    }
    assert_eq!(std::fs::read(&database).expect("reads"), before);
    works(&place.run(&["restore", "plain.db", "--accept-unmarked"]));
}

/// The trailer of the versions before the mark: the length and a sum that needs no key.
fn plain_trailer(content: &[u8]) -> Vec<u8> {
    let length = content.len() as u64;
    let sum = content.as_chunks().0.iter().fold(0xcbf2_9ce4_8422_2325_u64 ^ length, |sum, word| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
    });
    [&b"sarsen backup 1\n"[..], &length.to_le_bytes(), &sum.to_le_bytes()].concat()
}

#[test]
fn an_index_of_an_operator_is_a_warning_and_a_trigger_is_a_problem_before_the_restore() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let database = configured(&place);
    let change = |sql: &str| change_file(&database, sql);
    let doctor = || place.run(&["doctor", "--connections-max", "10"]).stdout;
    change("CREATE INDEX my_own ON users (name)");
    let warning = "index my_own of table users is not part of schema";
    let made = place.run(&["backup", "indexed.db"]);
    assert!(made.code == 0 && made.stdout.contains(&format!("Warning: {warning}")), "{}", made.seen());
    let checked = place.run(&["check", "indexed.db"]);
    assert!(checked.code == 0 && checked.stdout.contains(warning), "{}", checked.seen());
    works(&place.run(&["restore", "indexed.db", "--rehearse"]));
    let seen = doctor();
    assert!(seen.contains("warn  database") && seen.contains(warning), "{seen}");

    change("CREATE TRIGGER mine AFTER INSERT ON sessions BEGIN DELETE FROM consents; END");
    let problem = "trigger mine is not part of schema";
    let made = place.run(&["backup", "trigger.db"]);
    assert!(made.code == 1 && made.stdout.contains(problem), "{}", made.seen());
    let checked = place.run(&["check", "trigger.db"]);
    assert!(checked.code == 1 && checked.stdout.contains(problem), "{}", checked.seen());
    let seen = doctor();
    assert!(seen.contains("fail  database") && seen.contains(problem), "{seen}");
    assert_eq!(demo.running.stop(), 0);
    let seen = doctor();
    assert!(seen.contains("fail  database") && seen.contains(problem), "{seen}");
}

/// A backup of version 0.1.0, which has no table for billing.
pub const OF_0_1_0: &str = include_str!("../../../server/tests/fixtures/0.1.0.jsonl");

/// Databases of commits 521e95d and b1c6a590: what users hold and the rows, and the tables as those programs made them.
const OF_COMMITS: [(&str, &str); 2] = [
    (
        include_str!("../../../server/tests/fixtures/schema-4.jsonl"),
        include_str!("../../../server/tests/fixtures/schema-4.sqlite.sql"),
    ),
    (
        include_str!("../../../server/tests/fixtures/schema-18.jsonl"),
        include_str!("../../../server/tests/fixtures/schema-18.sqlite.sql"),
    ),
];

#[test]
fn a_database_of_an_earlier_version_is_checked_rehearsed_restored_served_and_backed_up() {
    let made = OF_COMMITS.map(|(rows, tables)| (rows, Some(tables)));
    for (rows, tables) in std::iter::once((OF_0_1_0, None)).chain(made) {
        let place = Place::new();
        works(&place.run(&["init", "--yes", "--listen", "127.0.0.1:1"]));
        let (_, rows) = rows.split_once('\n').expect("two lines");
        let mut old = Fixture::parse(rows);
        // The clock of the fixture may be ahead, and a link is void if a password was set later than the link was made.
        old.tables.retain(|(table, _)| table.name != "passwords");
        old.scripts = tables.map(|sqlite| Scripts { sqlite, postgres: "", mysql: "" });
        let path = place.path("old.db");
        match old.script(Kind::Sqlite) {
            Some(script) => change_file(&path, &script),
            None => {
                let runtime = tokio::runtime::Runtime::new().expect("a runtime");
                runtime.block_on(old.create(&format!("sqlite:{}", path.display())));
            }
        }
        std::fs::write(place.path("sarsen.key"), Fixture::secret_key()).expect("written");
        let found = place.json(&["check", "old.db", "--accept-unmarked"]);
        assert!(found["ok"] == true && found["schema"] == old.schema, "{found}");
        let sealed = found["sealed"].as_u64();
        let rehearsed = place.run(&["restore", "old.db", "--rehearse", "--accept-unmarked"]);
        assert!(rehearsed.stdout.contains("signed in with a one-time link"), "{}", rehearsed.seen());
        works(&place.run(&["restore", "old.db", "--accept-unmarked"]));
        let serve = place.sarsen(&["serve", "--listen", "127.0.0.1:0"]);
        let mut server = Running::start(serve, place.path("log"));
        server.wait_for("listening");
        works(&place.run(&["backup", "new.db"]));
        assert_eq!(server.stop(), 0);
        let upgraded = place.json(&["check", "new.db"]);
        assert!(upgraded["ok"] == true && upgraded["schema"].as_u64() > Some(18), "{upgraded}");
        assert!(sealed > Some(0) && upgraded["sealed"].as_u64() >= sealed, "{upgraded}");
        works(&place.run(&["restore", "new.db"]));
    }
}

#[test]
fn a_new_key_takes_the_place_of_the_old_one_also_after_an_interruption() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let database = configured(&place);
    let key = place.path("demo/demo.key");
    let old = std::fs::read_to_string(&key).expect("a key");
    works(&place.run(&["backup", "old.db"]));
    let busy = place.run(&["rekey"]);
    assert!(busy.code == 1 && busy.stderr.contains("in use by process"), "{}", busy.seen());
    assert_eq!(demo.running.stop(), 0);
    let new_file = place.path("demo/demo.key.new");
    assert!(!new_file.exists(), "nothing has changed");
    // As after a kill before the database is changed. A server must not start now: it would seal with the old key.
    std::fs::write(&new_file, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n").expect("written");
    std::fs::set_permissions(&new_file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    let refused = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert!(refused.code == 2 && refused.stderr.contains("run sarsen rekey again"), "{}", refused.seen());

    let done = place.run(&["rekey"]);
    works(&done);
    let new = std::fs::read_to_string(&key).expect("a key");
    assert!(new != old && mode(&key) == 0o600 && !new_file.exists());
    works(&place.run(&["check", "--accept-unmarked", database.to_str().expect("text")]));
    // As after a kill between the database and the files.
    std::fs::rename(&key, &new_file).expect("moved");
    std::fs::write(&key, &old).expect("written");
    // A power loss left the name of the kept key, and nothing in it.
    let kept = names(&place.path("demo")).into_iter().find(|name| name.contains(".before-")).expect("kept");
    let kept = place.path("demo").join(kept);
    std::fs::write(&kept, "").expect("written");
    works(&place.run(&["rekey"]));
    assert_eq!(std::fs::read_to_string(&key).expect("a key"), new);
    assert_eq!(std::fs::read_to_string(&kept).expect("a key"), old);
    assert_eq!(mode(&kept), 0o600);

    // A file of that name that has another key is somebody's.
    std::fs::rename(&key, &new_file).expect("moved");
    std::fs::write(&key, &old).expect("written");
    std::fs::write(&kept, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n").expect("written");
    let refused = place.run(&["rekey"]);
    assert!(refused.code == 2 && refused.stderr.contains("has another key"), "{}", refused.seen());
    std::fs::remove_file(&kept).expect("removed");
    works(&place.run(&["rekey"]));
    assert_eq!(std::fs::read_to_string(&kept).expect("a key"), old);

    let of_old = place.run(&["check", "old.db"]);
    let fits =
        format!("{} fits: to restore it, set secret_key_file", kept.file_name().expect("a name").display());
    assert!(of_old.code == 1 && of_old.stdout.contains("old.db is whole"), "{}", of_old.seen());
    assert!(
        of_old.stdout.contains("created with another key") && of_old.stdout.contains(&fits),
        "{}",
        of_old.seen()
    );
    let refused = place.run(&["restore", "old.db"]);
    assert!(refused.code == 1 && refused.stderr.contains(&fits), "{}", refused.seen());
    let with_old = "database = \"sqlite:demo/other.db\"\nsecret_key_file = \"KEY\"\n";
    std::fs::write(place.path("old.toml"), with_old.replace("KEY", kept.to_str().expect("text")))
        .expect("written");
    works(&place.run(&["restore", "old.db", "--config", "old.toml"]));
    let demo = Demo::start(&place);
    sign_in(&mut Browser::new(demo.issuer()), &demo.says);
    assert_eq!(demo.running.stop(), 0);
}

#[test]
fn doctor_asks_for_a_copy_of_the_key_and_for_backups() {
    let place = Place::new();
    works(&place.run(&["init", "--yes", "--listen", "127.0.0.1:1"]));
    let doctor = |place: &Place| place.run(&["doctor", "--connections-max", "10"]).stdout;
    let asked = doctor(&place);
    assert!(asked.contains("warn  copy of key") && asked.contains("warn  backups"), "{asked}");
    std::fs::write(place.path("copy"), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").expect("written");
    for (copy, expected) in
        [("copy", "another key"), ("sarsen.key", "is the key itself"), ("none", "cannot read none")]
    {
        let refused = place.run(&["doctor", "--key-copy", copy]);
        assert!(refused.code > 0 && refused.stderr.contains(expected), "{}", refused.seen());
    }
    std::fs::copy(place.path("sarsen.key"), place.path("copy")).expect("copied");
    works(&place.run(&["doctor", "--key-copy", "copy"]));
    assert!(doctor(&place).contains("ok    copy of key"));

    let mut command = place.sarsen(&["serve", "--listen", "127.0.0.1:0", "--backup-directory", "saved"]);
    command.env("SARSEN_BACKUP_EVERY", "6h");
    let mut server = Running::start(command, place.path("log"));
    server.wait_for("a backup was made");
    assert_eq!(server.stop(), 0);
    assert_eq!(mode(&place.path("saved")), 0o700);
    let seen = place.run(&["doctor", "--connections-max", "10", "--backup-directory", "saved"]).stdout;
    assert!(seen.contains("ok    backups") && seen.contains("1 in saved"), "{seen}");
    std::fs::write(place.path("saved/sarsen-29991231T000000Z.db"), "a clock was wrong").expect("written");
    let seen = place.run(&["doctor", "--connections-max", "10", "--backup-directory", "saved"]).stdout;
    let expected = "1 with names ahead of the clock";
    assert!(seen.contains("warn  backups") && seen.contains(expected), "{seen}");
}

#[test]
fn other_databases_are_sent_to_their_own_tools() {
    let place = Place::new();
    works(&place.run(&["init", "--yes"]));
    for (url, tool) in
        [("postgres://ada:hunter2@db.test/x", "pg_dump"), ("mysql://ada:hunter2@db.test/x", "mariadb-dump")]
    {
        for command in ["backup", "restore"] {
            let output =
                place.sarsen(&[command, "x.db"]).env("SARSEN_DATABASE", url).output().expect("it runs");
            let text = String::from_utf8(output.stderr).expect("text");
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(text.contains(tool) && !text.contains("hunter2"), "{text}");
        }
        let output = place.sarsen(&["serve", "--backup-directory", "x"]).env("SARSEN_DATABASE", url).output();
        let text = String::from_utf8(output.expect("it runs").stderr).expect("text");
        assert!(text.contains("backup_directory") && text.contains("SQLite only"), "{text}");
    }
}

#[test]
fn mistakes_are_named_with_what_to_do() {
    let place = Place::new();
    let tried = |rows: &[(&[&str], i32, &str)]| {
        for (args, code, expected) in rows {
            let ended = place.run(args);
            assert!(ended.code == *code && ended.stderr.contains(expected), "{args:?}: {}", ended.seen());
        }
    };
    tried(&[
        (
            &["backup", "x.db"],
            2,
            "there is no database sarsen.db; run the command in the folder of sarsen.toml",
        ),
        (&["check", "x.db"], 2, "to restore a backup put its key there"),
        (&["restore", "x.db"], 2, "to restore a backup put its key there"),
        (&["rekey"], 2, "name its configuration with --config"),
    ]);
    works(&place.run(&["init", "--yes", "--listen", "127.0.0.1:1"]));
    tried(&[
        (&["rekey"], 2, "there is no database sarsen.db; run the command in the folder of sarsen.toml"),
        (&["restore", "none.db"], 1, "none.db does not exist; check the name"),
    ]);
    let mut server = Running::start(place.sarsen(&["serve", "--listen", "127.0.0.1:0"]), place.path("log"));
    server.wait_for("listening");
    works(&place.run(&["backup", "good.db"]));
    tried(&[
        (&["backup", "good.db"], 1, "good.db exists; choose another name"),
        (&["backup", "."], 1, "is a folder; name a file in it"),
        (&["backup", "none/x.db"], 1, "none is not a folder that exists; create it, or use another"),
        (&["check", "."], 1, "is not a file; name the file of a backup"),
        (&["check", "none.db"], 1, "none.db does not exist; check the name"),
        (&["check", "sarsen.key"], 1, "file is not a database"),
        (&["check", "sarsen.db"], 1, "make a backup of it and use that"),
        (&["check", ""], 2, "a value is required"),
        (&["restore", "none.db"], 1, "none.db does not exist; check the name"),
        (&["restore", "."], 1, "is not a file; name the file of a backup"),
        (&["restore", "sarsen.db"], 1, "is the database itself; name a backup"),
        (&["restore", "good.db"], 1, "in use by process"),
        (&["rekey"], 1, "in use by process"),
        (&["doctor", "--key-copy", "none"], 1, "No such file or directory (os error 2); check the name"),
        (&["doctor", "--key-copy", "."], 1, "it is a folder, name a file"),
        (&["doctor", "--key-copy", "sarsen.toml"], 1, "sarsen.toml is no copy of the key"),
        (&["key", "list"], 1, "run sarsen login"),
    ]);
    assert_eq!(server.stop(), 0);
    std::fs::rename(place.path("sarsen.key"), place.path("away")).expect("moved");
    let missing = "the secret key sarsen.key is missing";
    tried(&[
        (&["check", "good.db"], 2, missing),
        (&["restore", "good.db"], 2, missing),
        (&["rekey"], 2, missing),
    ]);
    std::fs::write(place.path("sarsen.key"), "").expect("written");
    tried(&[(&["check", "good.db"], 2, "sarsen.key: secret_key: use 32 bytes in base64url")]);
}
