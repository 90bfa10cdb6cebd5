//! What the bench starts besides a demo.

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
        ["bench-instance", "--database", "sqlite:demo/demo.db", "--key-file", key, "--issuer", &issuer]
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
    assert!(missing.stderr.contains("demo/other.key: there is no such file"), "{}", missing.stderr);
}

#[test]
fn what_cannot_be_disturbed_is_said() {
    let place = Place::new();
    for (what, expected) in
        [("hold-transaction", "would stop every writer"), ("pause-replay", "only a standby")]
    {
        let ended = place.run(&["bench-disturb", what, "--database", "sqlite:x.db"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    let alone = place.run(&["bench", "sso", "--instances", "2"]);
    assert_eq!(alone.code, 2);
    assert!(alone.stderr.contains("one process owns a file"), "{}", alone.stderr);
}
