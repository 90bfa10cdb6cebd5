//! `sarsen init`, and the settings in file, environment and flags.

use crate::support::{Place, Running, mode};

#[test]
fn init_writes_a_configuration_and_a_key_and_overwrites_nothing() {
    let place = Place::new();
    insta::assert_snapshot!("init", place.run(&["init", "--yes"]).seen());
    let written = std::fs::read_to_string(place.path("sarsen.toml")).expect("written");
    insta::assert_snapshot!("init_file", written);
    assert_eq!(mode(&place.path("sarsen.key")), 0o600);
    assert_eq!(mode(&place.path("sarsen.toml")), 0o600);

    insta::assert_snapshot!(place.run(&["init", "--yes"]).seen(), @r"
    exit 1
    --- stdout
    --- stderr
    sarsen: sarsen.toml exists; nothing was changed. Edit it, or move it away
    ");
    assert_eq!(std::fs::read_to_string(place.path("sarsen.toml")).expect("there"), written);
    std::fs::remove_file(place.path("sarsen.toml")).expect("removed");
    assert!(place.run(&["init", "--yes"]).stderr.contains("sarsen.key exists"));
}

#[test]
fn init_asks_only_on_a_terminal_and_refuses_answers_that_serve_refuses() {
    let place = Place::new();
    let refused = place.run(&["init"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("use --yes"), "{}", refused.stderr);
    for (flags, expected) in [
        (["--listen", "7070"], "not an address with a port"),
        (["--listen", "127.0.0.1:0"], "chooses another port at each start"),
        (["--listen", "0.0.0.0:7070"], "other machines can reach 0.0.0.0:7070"),
        (["--issuer", "http://id.example.com"], "http is for this machine only"),
        (["--issuer", "https://id.example.com/"], "without a slash at the end"),
        (["--database", "oracle://x"], "use sqlite:PATH"),
    ] {
        let refused = place.run(&[&["init", "--yes"][..], &flags].concat());
        assert_eq!(refused.code, 2, "{flags:?}");
        assert!(refused.stderr.contains(expected), "{flags:?}: {}", refused.stderr);
        assert!(!place.path("sarsen.toml").exists() && !place.path("sarsen.key").exists());
    }
}

#[test]
fn a_secret_key_that_others_can_read_is_warned_of() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    for (mode, is_warned) in [(0o600, false), (0o640, true), (0o400, false), (0o604, true)] {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(place.path("sarsen.key"), permissions).expect("set");
        let mut server =
            Running::start(place.sarsen(&["serve", "--listen", "127.0.0.1:0"]), place.path("log"));
        server.wait_for("listening");
        let log = server.log();
        assert_eq!(log.contains("run chmod 600 on the file"), is_warned, "{mode:o}: {log}");
        assert_eq!(server.stop(), 0);
    }
}

#[test]
fn an_address_that_is_taken_is_named_with_what_to_do() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = other.local_addr().expect("an address").to_string();
    let refused = place.run(&["serve", "--listen", &address]);
    assert!(
        refused.code == 1 && refused.stderr.contains("or use --listen with another"),
        "{}",
        refused.seen()
    );
}

#[test]
fn paths_of_a_configuration_are_relative_to_its_folder() {
    let place = Place::new();
    let made = place.run(&["init", "--yes", "--config", "etc/id.toml", "--issuer", "https://id.example.com"]);
    assert!(made.stdout.contains("sarsen serve --config etc/id.toml"), "{}", made.seen());
    let printed = place.run(&["serve", "--config", "etc/id.toml", "--print-config"]);
    assert!(printed.stdout.contains("database = \"sqlite:etc/sarsen.db\""), "{}", printed.seen());
    assert!(printed.stdout.contains("secret_key_file = \"etc/sarsen.key\""), "{}", printed.seen());
}

#[test]
fn print_config_shows_each_setting_with_its_source_and_no_secret() {
    let place = Place::new();
    let text = "listen = [\"127.0.0.1:8001\"]\nsession_days = 7\ndatabase = \"postgres://ada:hunter2@db.test/sarsen\"\n";
    std::fs::write(place.path("sarsen.toml"), text).expect("written");
    let printed = place
        .sarsen(&[
            "serve",
            "--print-config",
            "--hash-threads",
            "3",
            "--listen",
            "127.0.0.1:8002",
            "--listen",
            "[::1]:8002",
        ])
        .env("SARSEN_METRICS_TOKEN", "hunter2hunter2hunter2")
        .env("SARSEN_SESSION_DAYS", "8")
        .env("SARSEN_SECRET_KEY", "hunter2")
        .output()
        .expect("it runs");
    let printed = String::from_utf8(printed.stdout).expect("text");
    assert!(!printed.contains("hunter2"), "{printed}");
    insta::assert_snapshot!(printed);
}

#[test]
fn a_wrong_setting_stops_the_start_with_one_line() {
    let place = Place::new();
    std::fs::write(place.path("sarsen.toml"), "session_days = 7\nlisten = \"everywhere\"\n")
        .expect("written");
    let here = ["--listen", "127.0.0.1:0"];
    let cases = [
        (&[][..], None),
        (&here, Some(("SARSEN_LISTN", "x"))),
        (&here, Some(("SARSEN_SIGN_UP", "perhaps"))),
        (&["--listen", "127.0.0.1:0", "--log-format", "xml"], None),
        (&["--listen", "0.0.0.0:0"], None),
        (&["--listen", "127.0.0.1:0", "--issuer", "http://id.example.com"], None),
        (&["--config", "none.toml"], None),
    ];
    let mut seen = Vec::new();
    for (flags, variable) in cases {
        let mut command = place.sarsen(&[&["serve"], flags].concat());
        command.envs(variable);
        let output = command.output().expect("it runs");
        let stderr = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        seen.push(stderr);
    }
    insta::assert_snapshot!(seen.concat());
}
