//! `sarsen demo`: the same data from the same folder, and no data of others.

use crate::support::{Demo, Place, Running, mode};

#[test]
fn the_same_folder_gives_the_same_demo() {
    let place = Place::new();
    let first = Demo::start(&place);
    for pointer in [
        "/owner/password",
        "/organization/slug",
        "/clients/web/client_secret",
        "/users/0/plan",
        "/services/cli",
    ] {
        assert!(!first.text(pointer).is_empty(), "{pointer}");
    }
    let port = first.issuer().strip_prefix("http://localhost:").expect("the name localhost").to_owned();
    assert_eq!(first.text("/console"), format!("http://localhost:{port}/console"));
    for host in ["localhost", "127.0.0.1"] {
        let answer = ureq::get(format!("http://{host}:{port}/readyz")).call().expect("ready");
        assert_eq!(answer.status(), 200);
    }
    assert_eq!(mode(&place.path("demo/demo.json")), 0o600);
    assert_eq!(mode(&place.path("demo/demo.key")), 0o600);
    assert_eq!(mode(&place.path("demo")), 0o700);

    let busy = place.run(&["demo", "--data", "demo", "--listen", "127.0.0.1:0"]);
    assert_eq!(busy.code, 1);
    assert!(busy.stderr.contains(&format!("in use by process {}", first.running.pid())), "{}", busy.stderr);
    let store = place.run(&["demo", "--data", "other", "--database", "sqlite:demo/demo.db"]);
    assert!(store.stderr.contains("is not a database that a demo in other made"), "{}", store.stderr);

    let said = first.says.clone();
    assert_eq!(first.running.stop(), 0);
    // The same folder by another name, from another folder.
    let mut command = place.sarsen(&["demo", "--json", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(place.path("demo")).current_dir("/");
    let mut running = Running::start(command, place.path("second.log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    let second = Demo { running, says };
    for name in ["owner", "organization", "users", "services"] {
        assert_eq!(second.says[name], said[name], "{name}");
    }
    for client in ["web", "spa", "cli", "machine"] {
        assert_eq!(second.says["clients"][client], said["clients"][client], "{client}");
    }
    assert!(second.text("/products/0/url").starts_with(second.issuer()), "the products have the new address");
}

#[test]
fn a_demo_prints_what_to_try() {
    let place = Place::new();
    let command = place.sarsen(&["demo", "--data", "demo", "--listen", "127.0.0.1:0"]);
    let mut demo = Running::start(command, place.path("log"));
    let mut page = String::new();
    while !page.contains("--data") {
        page.push_str(&demo.line());
    }
    for expected in [
        "http://localhost:",
        "ada@acme.test",
        "curl -d client_id=",
        "/auth/device/code",
        "device_code=DEVICE_CODE",
        "/api/subscription",
        "Sign this terminal in as admin@acme.test",
        "sarsen login --server",
        "sarsen subscription change --org acme --user ada@acme.test --plan starter",
    ] {
        assert!(page.contains(expected), "{expected} is not in:\n{page}");
    }
    assert_eq!(demo.stop(), 0);
}

#[test]
fn a_demo_is_for_this_machine_and_its_own_data() {
    let place = Place::new();
    let open = place.run(&["demo", "--data", "demo", "--listen", "0.0.0.0:7070"]);
    assert_eq!(open.code, 2);
    assert!(open.stderr.contains("on this machine only"), "{}", open.stderr);
    assert!(!place.path("demo").exists());

    std::fs::create_dir(place.path("demo")).expect("made");
    std::fs::write(place.path("demo/demo.db"), "other data").expect("written");
    let foreign = place.run(&["demo", "--data", "demo"]);
    assert_eq!(foreign.code, 1);
    assert!(foreign.stderr.contains("not a database that a demo"), "{}", foreign.stderr);
    assert_eq!(std::fs::read_to_string(place.path("demo/demo.db")).expect("there"), "other data");
}

#[test]
fn a_port_that_was_given_is_not_replaced() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let refused = place.run(&["demo", "--data", "demo", "--listen", &address]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("without --listen a free port is used"), "{}", refused.stderr);
}
