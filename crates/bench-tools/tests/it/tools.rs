//! Each tool by itself.

use crate::support::{Demo, Place, Running};
use serde_json::Value;

#[test]
fn an_instance_takes_the_key_and_the_name_of_its_demo() {
    let place = Place::new();
    let demo = Demo::start(&place);
    let issuer = demo.issuer().to_owned();
    // One process owns a file, so here they come one after the other.
    assert_eq!(demo.running.stop(), 0);
    let args = |key: &'static str| {
        ["instance", "--database", "sqlite:demo/demo.db", "--key-file", key, "--issuer", &issuer]
    };
    let mut instance = Running::start(place.sarsen(&args("demo/demo.key")), place.path("instance.log"));
    let said: Value = serde_json::from_str(&instance.line()).expect("a line of JSON");
    let listen = said["listen"].as_str().expect("an address");
    let url = format!("{listen}/.well-known/openid-configuration");
    let answer = ureq::get(url).call().expect("an answer").into_body().read_to_string().expect("text");
    let discovery: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(discovery["issuer"], issuer.as_str());
    assert_eq!(instance.stop(), 0);

    let missing = place.run(&args("demo/other.key"));
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("demo/other.key: No such file"), "{}", missing.stderr);
}

#[test]
fn a_fault_that_cannot_be_injected_is_an_error() {
    let place = Place::new();
    for (what, expected) in [("hold-transaction", "every writer"), ("pause-replay", "standby")] {
        let ended = place.run(&["inject-fault", what, "--database", "sqlite:x.db"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn the_bare_server_prints_its_address() {
    let place = Place::new();
    let command = place.sarsen(&["floor", "--listen", "127.0.0.1:0"]);
    let mut floor = Running::start(command, place.path("log"));
    let line: Value = serde_json::from_str(&floor.line()).expect("JSON");
    let url = line["listen"].as_str().expect("an address");
    assert_eq!(ureq::get(url).call().expect("an answer").into_body().read_to_string().expect("text"), "ok");
}

#[test]
fn a_demo_obeys_the_limits_of_its_environment() {
    let place = Place::new();
    let mut command = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", "127.0.0.1:0"]);
    let refused = command.env("SARSEN_TEST_COMMIT_DELAY_MS", "soon").output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("SARSEN_TEST_COMMIT_DELAY_MS=soon is not allowed"), "{refused}");

    command.env("SARSEN_TEST_COMMIT_DELAY_MS", "300");
    let mut running = Running::start(command, place.path("demo.log"));
    let ready: Value = serde_json::from_str(&running.line()).expect("a line of JSON");
    let text = |pointer: &str| ready.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned();
    let form = [("client_id", text("/clients/cli/client_id"))];
    let began = std::time::Instant::now();
    ureq::post(format!("{}/auth/device/code", text("/issuer"))).send_form(form).expect("a device code");
    assert!(began.elapsed() >= std::time::Duration::from_millis(300), "the reply waits for the slow commit");
    assert_eq!(running.stop(), 0);
}
