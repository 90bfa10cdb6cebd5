//! An owner of the server who administers more organizations than a token names.

use crate::signing_in::sign_in;
use crate::support::{Demo, Place};
use serde_json::{Value, json};
use std::thread::scope;

const ORGANIZATIONS: usize = 1000;
const CALLERS: usize = 8;

/// Creates organizations by the API, with the token of this terminal.
fn create(place: &Place, demo: &Demo) {
    let file = std::fs::read_to_string(place.path("config/sarsen/credentials.json")).expect("a sign-in");
    let saved: Value = serde_json::from_str(&file).expect("JSON");
    let token = saved["servers"][demo.issuer()]["access_token"].as_str().expect("a token");
    scope(|threads| {
        for caller in 0..CALLERS {
            threads.spawn(move || {
                let agent = ureq::Agent::new_with_defaults();
                for number in (caller..ORGANIZATIONS).step_by(CALLERS) {
                    let body =
                        json!({ "slug": format!("customer-{number}"), "name": format!("Customer {number}") });
                    let request = agent.post(format!("{}/api/organizations", demo.issuer()));
                    let request = request.header("authorization", format!("Bearer {token}"));
                    let made = request.content_type("application/json").send(body.to_string());
                    assert_eq!(made.expect("an organization").status(), 201);
                }
            });
        }
    });
}

#[test]
fn an_owner_of_the_server_stays_one_with_a_thousand_organizations() {
    let (place, other) = (Place::new(), Place::new());
    let demo = Demo::start(&place);
    sign_in(&other, &demo, "/organization/admin");
    other.json(&["org", "create", "initech", "--name", "Initech"]);
    sign_in(&place, &demo, "/owner");
    create(&place, &demo);
    // The next token covers all of them.
    place.json(&["org", "create", "last", "--name", "Last"]);

    let me = place.json(&["whoami"]);
    assert_eq!(me["owns_server"], true, "{me}");
    let organizations = me["organizations"].as_array().expect("a list");
    assert_eq!(organizations.len(), ORGANIZATIONS + 1);
    assert!(organizations.contains(&json!("customer-999")) && !organizations.contains(&json!("platform")));
    let me = place.run(&["whoami"]).stdout;
    assert!(me.lines().any(|line| line.ends_with("  yes")), "{me}");
    assert!(me.contains("1001; sarsen org list shows them"), "{me}");

    // Organizations of others, as owners of the server see them.
    assert_eq!(place.json(&["org", "show", "initech"])["status"], "pending");
    assert_eq!(place.json(&["org", "approve", "initech"])["status"], "active");
    assert_eq!(place.json(&["org", "suspend", "initech"])["status"], "suspended");
    assert_eq!(place.json(&["org", "activate", "initech"])["status"], "active");
    let foreign = other.run(&["org", "show", "customer-1"]).stderr;
    assert!(foreign.contains("admin@acme.test does not administer an organization customer-1"), "{foreign}");

    let again = Place::new();
    sign_in(&again, &demo, "/owner");
    let saved = std::fs::read_to_string(again.path("config/sarsen/credentials.json")).expect("a sign-in");
    let saved: Value = serde_json::from_str(&saved).expect("JSON");
    let scope = saved["servers"][demo.issuer()]["scope"].as_str().expect("a scope");
    assert!(scope.contains("org:* org:platform"), "{scope}");
}
