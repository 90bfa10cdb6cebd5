//! The commands of the API: an owner sets up and runs an organization.

use crate::browser::Browser;
use crate::signing_in::{sign_in, sign_in_with};
use crate::support::{Demo, Place};
use serde_json::{Value, json};

#[test]
fn an_administrator_runs_the_organization_from_a_terminal() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");

    insta::assert_snapshot!(without_times(&place.run(&["org", "list"]).stdout), @r"
    SLUG  NAME  STATUS  CREATED
    acme  Acme  active  TIME
    ");
    let organizations = place.json(&["org", "list"]);
    assert_eq!((&organizations[0]["slug"], &organizations[0]["status"]), (&json!("acme"), &json!("active")));

    // The user administers one organization, so --org is not needed.
    let made = place.json(&["service", "create", "tables", "--name", "Acme Tables"]);
    assert_eq!(made["slug"], "tables");
    let plan = [
        "plan",
        "create",
        "team",
        "--name",
        "Team",
        "--service",
        "tables",
        "--service",
        "sketch",
        "--price-cents",
    ];
    let plan =
        [&plan[..], &["4900", "--feature", "export", "--limit", "projects=20", "--seats", "5"]].concat();
    let made = place.json(&plan);
    assert_eq!((&made["limits"], &made["seats"]), (&json!({"projects": 20}), &json!(5)));
    let changed = place.json(&["plan", "change", "team", "--seats", "none"]);
    assert_eq!(changed["seats"], json!(null));
    let emptied = place.json(&["plan", "change", "team", "--feature", "", "--limit", ""]);
    assert_eq!((&emptied["features"], &emptied["limits"]), (&json!([]), &json!({})));
    let mixed = place.run(&["plan", "change", "team", "--feature", "export", "--feature", ""]);
    assert!(mixed.code == 2 && mixed.stderr.contains("alone to remove all"), "{}", mixed.seen());
    let priced = place.run(&["plan", "change", "team", "--price-cents", "9.00"]);
    assert!(priced.code == 2 && priced.stderr.contains("use whole cents, as in 900"), "{}", priced.seen());
    let made = place.json(&["user", "create", "hedy@acme.test", "--name", "Hedy"]);
    assert_eq!(made["email"], "hedy@acme.test");
    let shown = place.json(&["user", "show", "hedy@acme.test", "--org", "acme"]);
    assert_eq!(shown["id"], made["id"]);

    let again = place.run(&["service", "create", "tables", "--name", "Acme Tables"]);
    assert_eq!(again.code, 1);
    assert!(again.stderr.starts_with("sarsen: ") && again.stderr.contains("tables"), "{}", again.stderr);
    let missing = place.run(&["user", "show", "nobody@acme.test"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""));
    assert_eq!(place.run(&["service", "change", "tables"]).code, 2, "nothing to change");
    let changed = place.json(&["service", "change", "tables", "--access-token-typ", "JWT"]);
    assert_eq!((&changed["access_token_typ"], &changed["name"]), (&json!("JWT"), &json!("Acme Tables")));
}

#[test]
fn an_owner_says_whom_users_ask_for_help() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    assert_eq!(place.json(&["branding", "show"]), json!({ "contact": "" }));
    let changed = place.json(&["branding", "change", "--contact", "help@acme.test, room 12"]);
    assert_eq!(changed, json!({ "contact": "help@acme.test, room 12" }));
    insta::assert_snapshot!(place.run(&["branding", "show"]).stdout, @"contact  help@acme.test, room 12");
    let page = ureq::get(format!("{}/o/acme/login", demo.issuer())).call().expect("a page");
    let page = page.into_body().read_to_string().expect("text");
    assert!(page.contains("help@acme.test, room 12"), "{page}");
    assert_eq!(place.json(&["branding", "change", "--contact", ""]), json!({ "contact": "" }));
    let wrong = place.run(&["branding", "change", "--contact", &"x".repeat(201)]);
    assert!(wrong.code == 1 && wrong.stderr.contains("200 characters"), "{}", wrong.seen());
    assert_eq!(place.run(&["branding", "change"]).code, 2);
}

#[test]
fn a_key_is_created_used_and_revoked() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let status = |path: &str, key: &str| {
        let request =
            ureq::get(format!("{}{path}", demo.issuer())).config().http_status_as_error(false).build();
        let answer = request.header("authorization", format!("Bearer {key}")).call().expect("an answer");
        answer.status().as_u16()
    };
    assert_eq!(status("/api/service/users?ids=x", demo.text("/api_key")), 200, "the key of the demo");

    let scopes = ["--scope", "users:read", "--scope", "subscriptions:write"];
    let made = place.json(&[&["key", "create", "Billing"][..], &scopes].concat());
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    assert_eq!(made["scopes"], json!(["users:read", "subscriptions:write"]));
    assert_eq!(status("/api/organizations/acme/users", key), 200);
    let list = place.run(&["key", "list"]).stdout;
    assert!(
        list.contains("Billing") && list.contains("Back end of Acme Sketch") && !list.contains(key),
        "{list}"
    );
    assert_eq!(place.json(&["key", "show", id])["key"], json!(null));
    let wrong = place.run(&["key", "create", "x", "--service", "sketch", "--scope", "users:write"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("use some of users:read"), "{}", wrong.stderr);
    assert_eq!(place.run(&["key", "revoke", id]).code, 0);
    assert_eq!(status("/api/organizations/acme/users", key), 401);

    // A machine client with the same scopes.
    let (machine, secret) =
        (demo.text("/clients/machine/client_id"), demo.text("/clients/machine/client_secret"));
    let granted = place.json(&["client", "scopes", "grant", machine, "users:read", "subscriptions:write"]);
    assert_eq!(granted["scopes"], json!(["users:read", "subscriptions:write"]));
    let shown = place.run(&["client", "show", machine]).stdout;
    assert!(shown.contains("scopes") && shown.contains("subscriptions:write"), "{shown}");
    let form = format!(
        "grant_type=client_credentials&client_id={machine}&client_secret={secret}&scope=users%3Aread"
    );
    let answer = ureq::post(format!("{}/auth/token", demo.issuer()))
        .header("content-type", "application/x-www-form-urlencoded")
        .send(&form);
    let answer: Value =
        serde_json::from_reader(answer.expect("a token").into_body().into_reader()).expect("JSON");
    let token = answer["access_token"].as_str().expect("a token");
    assert_eq!(status("/api/organizations/acme/users", token), 200);
    assert_eq!(place.run(&["client", "scopes", "revoke", machine]).code, 0);
    assert_eq!(status("/api/organizations/acme/users", token), 403);
    let wrong = place.run(&["client", "scopes", "grant", machine, "keys:write"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("use some of services:read"), "{}", wrong.stderr);
}

#[test]
fn a_billing_connection_is_set_up() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let none = place.run(&["billing", "show"]);
    assert!(none.code == 1 && none.stderr.contains("sarsen billing create"), "{}", none.stderr);
    let made = place.json(&["billing", "create", "Stripe", "--test"]);
    let id = made["id"].as_str().expect("an id");
    assert_eq!((&made["livemode"], &made["has_secret"]), (&json!(false), &json!(false)));
    let endpoint = format!("{}/webhooks/billing/{id}", demo.issuer());
    assert_eq!(made["endpoint"], endpoint.as_str());

    std::fs::write(place.path("secret"), "whsec_of_the_command_line\n").expect("writes");
    let changed = place.json(&["billing", "change", "--secret-file", "secret"]);
    assert_eq!(changed["has_secret"], true);
    let missing = place.run(&["billing", "change", "--secret-file", "nothing"]);
    assert!(missing.code == 1 && missing.stderr.contains("cannot read nothing"), "{}", missing.stderr);
    std::fs::write(place.path("wrong"), "sk_live_of_another_kind").expect("writes");
    let wrong = place.run(&["billing", "change", "--secret-file", "wrong"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("begins with whsec_"), "{}", wrong.stderr);

    assert_eq!(place.json(&["billing", "price", "set", "price_1", "--plan", "pro"])["plan"], "pro");
    let set = place.json(&["billing", "customer", "set", "cus_1", "--user", "grace@acme.test"]);
    assert_eq!(set["billing_customer"], "cus_1");
    let made = place.json(&["billing", "reference", "--user", "grace@acme.test"]);
    let reference = made["reference"].as_str().expect("a reference");
    assert!(reference.starts_with(made["customer"].as_str().expect("an id")), "{reference}");
    for (command, words) in [
        (&["billing", "list"][..], "Stripe"),
        (&["billing", "price", "list"], "price_1"),
        (&["billing", "customer", "list"], "cus_1"),
        (&["billing", "subscriptions"], "No subscriptions"),
        (&["billing", "subscriptions", "--waiting"], "No subscription waits"),
        (&["billing", "events"], "No events yet"),
        (&["billing", "retry"], "0 applied, 0 waiting"),
        (&["billing", "price", "remove", "price_1"], "Removed the price price_1"),
        (&["billing", "customer", "remove", "cus_1"], "Removed the customer cus_1"),
    ] {
        let ended = place.run(command);
        let printed = [&*ended.stdout, &*ended.stderr].concat();
        assert!(ended.code == 0 && printed.contains(words), "{command:?}: {printed}");
    }
    place.json(&["billing", "create", "Second"]);
    let several = place.run(&["billing", "show"]);
    assert!(several.code == 2 && several.stderr.contains(id), "{}", several.stderr);
    assert_eq!(place.run(&["billing", "delete", "--connection", id]).code, 0);
    assert_eq!(place.json(&["billing", "show"])["name"], "Second");
}

#[test]
fn the_device_flow_is_switched_on_and_off() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");

    let changed = place.json(&["org", "change", "acme", "--device-flow", "short"]);
    assert_eq!((&changed["device_flow"], &changed["name"]), (&json!("short"), &json!("Acme")));
    insta::assert_snapshot!(without_times(&place.run(&["org", "show", "acme"]).stdout), @r"
    slug         acme
    name         Acme
    status       active
    device flow  short
    sign-up      yes
    created      TIME
    ");
    let wrong = place.run(&["org", "change", "acme", "--device-flow", "on"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("use allowed, short or off"), "{}", wrong.stderr);

    let clients = place.json(&["client", "list"]);
    let of_kind = |kind: &str| {
        let found = clients.as_array().expect("a list").iter().find(|client| client["kind"] == kind);
        found.and_then(|client| client["client_id"].as_str()).expect("one of this kind").to_owned()
    };
    let device = of_kind("device");
    for (word, on) in [("off", false), ("on", true)] {
        let changed = place.json(&["client", "change", &device, "--device-flow", word]);
        assert_eq!(changed["device_flow"], on);
        let shown = place.run(&["client", "show", &device]).stdout;
        let line = shown.lines().find_map(|line| line.strip_prefix("device flow")).expect("a line").trim();
        assert_eq!(line, if on { "yes" } else { "no" });
    }
    assert!(!place.run(&["client", "show", &of_kind("web")]).stdout.contains("device flow"));
    assert_eq!(place.run(&["client", "change", &device, "--device-flow", "true"]).code, 2);
}

#[test]
fn a_subscription_is_changed_or_created() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let plan_of = |user: &str| {
        let found = place.json(&["subscription", "list", "--user", user]);
        let plans = found.as_array().expect("a list").iter();
        plans.map(|one| one["plan"].as_str().expect("a plan").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(plan_of("ada@acme.test"), ["pro"]);
    let changed = place.json(&["subscription", "change", "--user", "ada@acme.test", "--plan", "starter"]);
    assert_eq!(changed["plan"], "starter");
    assert_eq!(plan_of("ada@acme.test"), ["starter"]);

    let usage = place.run(&["subscription", "change"]);
    assert_eq!(usage.code, 2);
    assert!(usage.stderr.contains("<SUBSCRIPTION|--user <USER>>"), "{}", usage.stderr);

    assert!(plan_of("grace@acme.test").is_empty());
    place.json(&["subscription", "change", "--user", "grace@acme.test", "--plan", "pro"]);
    assert_eq!(plan_of("grace@acme.test"), ["pro"]);
    let ends = place.json(&[
        "subscription",
        "change",
        "--user",
        "grace@acme.test",
        "--period-end",
        "2020-01-01T00:00:00Z",
    ]);
    assert_eq!(ends["current_period_end"], "2020-01-01T00:00:00Z");
    let made = place.json(&["subscription", "change", "--user", "grace@acme.test", "--plan", "starter"]);
    assert_ne!(made["id"], ends["id"], "an ended subscription is not changed");
    let unknown = place.run(&["subscription", "change", "--user", "grace@acme.test", "--plan", "gold"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(unknown.stderr, @r#"sarsen: Plan "gold" not found; use pro or starter."#);
}

#[test]
fn names_are_shown_beside_ids() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let subscriptions = place.json(&["subscription", "list", "--user", "ada@acme.test"]);
    let id = |name: &str| subscriptions[0][name].as_str().expect("an id").to_owned();
    let shown = place.run(&["subscription", "show", &id("id")]).stdout;
    assert_eq!(
        shown.lines().skip(3).take(2).collect::<Vec<_>>(),
        [
            format!("user        ada@acme.test ({})", id("user")),
            format!("customer    Ada ({})", id("customer"))
        ],
        "{shown}"
    );

    let made = place.json(&["user", "create", "hedy@acme.test"]);
    let newest = place.run(&["audit", "list", "--limit", "1"]).stdout;
    let json = place.json(&["audit", "list", "--limit", "1"]);
    let (who, to) = (json[0]["actor"].as_str().expect("an id"), made["id"].as_str().expect("an id"));
    for cell in [format!("  admin@acme.test ({who})  "), format!("  hedy@acme.test ({to})  ")] {
        assert!(newest.contains(&cell), "{cell:?} is not in:\n{newest}");
    }
    assert_eq!((&json[0]["target"], &json[0]["target_name"]), (&made["id"], &"hedy@acme.test".into()));
}

#[test]
fn clients_and_their_secrets_are_created_and_deleted() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let create = ["client", "create", "--service", "sketch", "--kind", "web", "--name", "Web"];
    let made =
        place.json(&[&create[..], &["--redirect-uri", "https://sketch.example.com/callback"]].concat());
    let (id, secret) =
        (made["client_id"].as_str().expect("an id"), made["client_secret"].as_str().expect("a secret"));
    assert!(secret.len() >= 43);
    let again =
        place.run(&[&create[..], &["--redirect-uri", "https://sketch.example.com/callback"]].concat());
    let advice = "sarsen service change sketch --access-token-typ JWT";
    assert!(again.stderr.contains(advice) && !again.stdout.contains(advice), "{}", again.seen());
    let shown = place.run(&["client", "show", id]);
    assert!(shown.stdout.contains("https://sketch.example.com/callback") && !shown.stdout.contains(secret));
    let second = place.run(&["client", "secret", "add", id]);
    assert!(second.stderr.contains("not shown again"), "{}", second.seen());
    assert!(second.stdout.contains("last characters  "), "{}", second.seen());
    let secrets = place.json(&["client", "secret", "list", id]);
    assert_eq!(secrets.as_array().map(Vec::len), Some(2));
    let first = secrets[0]["id"].as_str().expect("an id");
    assert_eq!(place.run(&["client", "secret", "delete", id, first]).code, 0);
    assert_eq!(place.json(&["client", "secret", "list", id]).as_array().map(Vec::len), Some(1));
    assert_eq!(place.run(&["client", "change", id, "--consent-required", "true"]).code, 0);
    assert_eq!(place.json(&["client", "show", id])["consent_required"], true);
    assert_eq!((&made["pkce"], &made["id_token_alg"]), (&json!("optional"), &json!("RS256")));
    let bye = "https://sketch.example.com/bye";
    let options = ["--pkce", "required", "--id-token-alg", "ES256"];
    let change = ["client", "change", id, "--post-logout-redirect-uri", bye];
    assert_eq!(place.json(&[&change[..], &options].concat())["pkce"], "required");
    let shown = place.run(&["client", "show", id]).stdout;
    for part in [bye, "required", "ES256", "last used PKCE"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}");
    }
    let removed = place.json(&["client", "change", id, "--post-logout-redirect-uri", ""]);
    assert_eq!(
        (&removed["post_logout_redirect_uris"], &removed["id_token_alg"]),
        (&json!([]), &json!("ES256"))
    );
    let wrong = place.run(&["client", "change", id, "--pkce", "never"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("use optional or required"), "{}", wrong.seen());
    assert_eq!(place.run(&["client", "delete", id]).code, 0);
    assert_eq!(place.run(&["client", "show", id]).code, 1);
}

#[test]
fn accounts_are_suspended_and_activated() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let link = place.json(&["user", "link", "ada@acme.test"]);
    assert!(link["url"].as_str().expect("a link").starts_with(&format!("{}/o/acme/link?", demo.issuer())));
    let stopped = place.json(&["user", "suspend", "ada@acme.test", "--reason", "asked"]);
    assert!(stopped["suspended_at"].is_string());
    let activated = place.json(&["user", "activate", "ada@acme.test"]);
    assert_eq!((&activated["email"], &activated["suspended_at"]), (&json!("ada@acme.test"), &json!(null)));
    assert_eq!(place.json(&["user", "sessions", "ada@acme.test"]), json!([]));
    assert_eq!(place.run(&["user", "sessions", "ada@acme.test", "--end"]).code, 0);
    let mut ada = Browser::new(demo.issuer());
    let page = ada.open(link["url"].as_str().expect("a link"));
    assert_eq!(ada.submit(&page, "/o/acme/link", &[]).status, 200);
    let sessions = place.json(&["user", "sessions", "ada@acme.test"]);
    let id = sessions[0]["id"].as_str().expect("an id");
    assert!(place.run(&["user", "sessions", "ada@acme.test"]).stdout.contains(id), "the table has the id");
    assert_eq!(place.run(&["user", "sessions", "ada@acme.test", "--end-one", id]).code, 0);
    assert_eq!(place.json(&["user", "sessions", "ada@acme.test"]), json!([]));
    let unknown = place.run(&["user", "sessions", "ada@acme.test", "--end-one", "session_x"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    let trail = place.json(&["audit", "list", "--limit", "3"]);
    assert_eq!(trail.as_array().map(Vec::len), Some(3));
    let by_admin = [
        "audit",
        "list",
        "--actor",
        "admin@acme.test",
        "--action",
        "user.suspended",
        "--since",
        "2020-01-01",
    ];
    assert_eq!(place.json(&by_admin)[0]["details"], "asked");
    let about = place.json(&["audit", "list", "--target", "ada@acme.test", "--action", "user.suspended"]);
    assert_eq!((&about[0]["details"], &about[0]["target_name"]), (&json!("asked"), &json!("ada@acme.test")));
    let about_other = ["audit", "list", "--target", "grace@acme.test", "--action", "user.suspended"];
    assert_eq!(place.json(&about_other), json!([]));
    assert_eq!(place.json(&["audit", "list", "--until", "2020-01-01"]), json!([]));
    let found = place.json(&["user", "list", "--search", "ADA"]);
    assert_eq!((&found[0]["email"], found.as_array().map(Vec::len)), (&json!("ada@acme.test"), Some(1)));
    let newest = place.json(&["user", "list", "--sort", "-created_at"]);
    assert_eq!(newest[0]["email"], "grace@acme.test");
    let wrong = place.run(&["audit", "list", "--actor", "ada", "--since", "yesterday"]);
    let lines: Vec<&str> =
        wrong.stderr.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    assert_eq!((wrong.code, &lines[..]), (1, &["sarsen", "  actor", "  since"][..]), "{}", wrong.seen());
    let members = place.json(&["member", "list"]);
    assert_eq!((&members[0]["email"], &members[0]["role"]), (&json!("admin@acme.test"), &json!("owner")));
}

/// Opens the link of an invitation and creates an account with it, in a browser without scripts.
fn accept(issuer: &str, link: &Value, password: &str) -> Browser {
    let mut browser = Browser::new(issuer);
    let page = browser.open(link["url"].as_str().expect("a link"));
    let page = browser.submit(&page, "/invitation", &[("name", "Hedy"), ("password", password)]);
    assert!(page.status == 200 && page.text.contains("<h1>Console</h1>"), "{}", page.text);
    browser
}

#[test]
fn administrators_and_owners_of_the_server_are_invited() {
    let (place, admin) = (Place::new(), Place::new());
    let demo = Demo::start(&place);
    sign_in(&admin, &demo, "/organization/admin");
    let sent = admin.run(&["member", "invite", "Hedy@acme.test", "--role", "admin"]).stdout;
    let link = sent.lines().find_map(|line| line.strip_prefix("link"));
    assert!(
        link.expect("a link").trim().starts_with(&format!("{}/invitation?token=", demo.issuer())),
        "{sent}"
    );
    let open = admin.json(&["member", "invitations"]);
    assert_eq!((&open[0]["email"], &open[0]["role"]), (&json!("hedy@acme.test"), &json!("admin")));
    assert_eq!(admin.run(&["member", "revoke", "hedy@acme.test"]).code, 0);
    assert_eq!(admin.json(&["member", "invitations"]), json!([]));
    let missing = admin.run(&["member", "revoke", "hedy@acme.test"]);
    assert!(missing.code == 1 && missing.stderr.contains("no open invitation of hedy@acme.test"));
    let link = admin.json(&["member", "invite", "hedy@acme.test", "--role", "admin"]);
    accept(demo.issuer(), &link, "three unrelated words");
    let members = admin.json(&["member", "list"]);
    let hedy = members.as_array().expect("a list").iter().find(|member| member["email"] == "hedy@acme.test");
    assert_eq!(hedy.expect("a member")["role"], "admin");

    sign_in(&place, &demo, "/owner");
    assert_eq!(place.json(&["owner", "list"])[0]["email"], "owner@sarsen.test");
    let link = place.json(&["owner", "invite", "second@sarsen.test"]);
    assert_eq!(place.json(&["member", "invitations", "--org", "platform"])[0]["id"], link["id"]);
    accept(demo.issuer(), &link, "four unrelated words more");
    assert_eq!(place.json(&["owner", "list"]).as_array().map(Vec::len), Some(2));
    assert_eq!(place.run(&["owner", "remove", "second@sarsen.test"]).code, 0);
    let last = place.run(&["owner", "remove", "owner@sarsen.test"]);
    insta::assert_snapshot!(last.stderr, @"sarsen: this is the last platform owner; invite another one first.");
    let nobody = place.run(&["owner", "remove", "second@sarsen.test"]);
    assert!(nobody.stderr.contains("second@sarsen.test does not own the server"), "{}", nobody.stderr);
}

#[test]
fn an_administrator_leaves_and_what_they_made_is_revoked() {
    let (admin, second) = (Place::new(), Place::new());
    let demo = Demo::start(&admin);
    sign_in(&admin, &demo, "/organization/admin");
    let link = admin.json(&["member", "invite", "hedy@acme.test", "--role", "owner"]);
    accept(demo.issuer(), &link, "three unrelated words");
    sign_in_with(&second, &demo, "hedy@acme.test", "three unrelated words");
    let key = second.json(&["key", "create", "Hedy's", "--scope", "users:read"]);
    let web = ["client", "create", "--service", "sketch", "--kind", "web", "--name", "Website"];
    second.json(&[&web[..], &["--redirect-uri", "http://127.0.0.1:9999/callback"]].concat());
    second.json(&["member", "invite", "third@acme.test"]);

    let removed = admin.run(&["member", "remove", "hedy@acme.test"]);
    assert_eq!(removed.code, 0, "{}", removed.seen());
    insta::assert_snapshot!(without_ids(&without_times(&removed.stdout)), @r"
    MADE           NAME             DETAILS                  CREATED               ID
    API key        Hedy's           users:read               TIME  apikey_ID
    client secret  Website          the client has no other  TIME  secret_ID
    invitation     third@acme.test  member                   TIME  invitation_ID
    ");
    let said = &removed.stderr;
    assert!(said.contains("hedy@acme.test no longer administers acme."), "{said}");
    let again =
        said.lines().find_map(|line| line.split_once("To revoke all of it: sarsen ")).expect("a command").1;
    assert!(admin.run(&["key", "list"]).stdout.contains("Hedy's"), "it goes on working");

    let revoked = admin.json(&again.split(' ').collect::<Vec<_>>());
    assert_eq!((&revoked["revoked"], &revoked["api_keys"][0]["id"]), (&json!(true), &key["id"]));
    assert_eq!(revoked["client_secrets"][0]["last"], true);
    assert!(!admin.run(&["key", "list"]).stdout.contains("Hedy's"));
    assert_eq!(admin.json(&["member", "invitations"]), json!([]));

    let nothing = admin.json(&["member", "invite", "third@acme.test"]);
    accept(demo.issuer(), &nothing, "four unrelated words more");
    let removed = admin.run(&["member", "remove", "third@acme.test", "--revoke-made"]);
    assert_eq!((removed.code, removed.stdout.as_str()), (0, ""), "{}", removed.seen());
    assert!(removed.stderr.contains("They made no API key"), "{}", removed.stderr);
}

#[test]
fn sign_up_is_opened_and_closed() {
    let place = Place::new();
    let demo = Demo::start(&place);
    sign_in(&place, &demo, "/organization/admin");
    let mut nobody = Browser::new(demo.issuer());
    for (word, status) in [("off", 403), ("on", 200)] {
        assert_eq!(place.json(&["org", "change", "acme", "--sign-up", word])["sign_up"], word == "on");
        assert_eq!(nobody.open("/o/acme/signup").status, status, "{word}");
    }
    assert_eq!(place.run(&["org", "change", "acme", "--sign-up", "maybe"]).code, 2);
}

#[test]
fn an_owner_of_the_server_approves_a_new_organization() {
    let (place, other) = (Place::new(), Place::new());
    let demo = Demo::start(&place);
    sign_in(&other, &demo, "/organization/admin");
    let pending = other.json(&["org", "create", "initech", "--name", "Initech"]);
    assert_eq!(pending["status"], "pending");
    assert_eq!(other.json(&["org", "show", "initech"])["slug"], "initech");
    assert_eq!(other.run(&["org", "approve", "initech"]).code, 1, "its own owner may not");
    let which = other.run(&["service", "list"]);
    assert_eq!(which.code, 2);
    assert!(which.stderr.contains("acme, initech"), "{}", which.stderr);

    sign_in(&place, &demo, "/owner");
    assert_eq!(place.json(&["whoami"])["owns_server"], true);
    assert_eq!(other.json(&["whoami"])["owns_server"], false);
    let outside = place.run(&["user", "list", "--org", "acme"]);
    assert_eq!(outside.code, 1, "an owner of the server does not administer its organizations");
    assert!(outside.stderr.contains("owner@sarsen.test does not administer acme"), "{}", outside.stderr);
    // A product of the administrators, with a key that reads its users.
    place.json(&["service", "create", "ops", "--name", "Ops", "--org", "platform"]);
    let key = place.json(&["key", "create", "Ops", "--service", "ops", "--org", "platform"]);
    assert!(key["key"].as_str().is_some_and(|key| key.starts_with("sarsen_sk_")), "{key}");
    let administering = ["key", "create", "x", "--scope", "users:read", "--org", "platform"];
    assert_eq!(place.run(&administering).code, 1, "no program administers platform");
    let other_owner = ["key", "create", "x", "--service", "ops", "--org", "platform"];
    assert_eq!(other.run(&other_owner).code, 1);
    assert_eq!(place.json(&["org", "show", "initech"])["status"], "pending");
    assert_eq!(place.json(&["org", "list", "--all"]).as_array().map(Vec::len), Some(3));
    assert_eq!(place.json(&["org", "list", "--all", "--status", "pending"])[0]["slug"], "initech");
    assert_eq!(place.json(&["org", "list", "--status", "pending"]), json!([]));
    assert_eq!(place.run(&["org", "list", "--status", "open"]).code, 1);
    assert_eq!(place.json(&["org", "approve", "initech"])["status"], "active");
    assert_eq!(place.json(&["org", "list", "--all", "--status", "pending"]), json!([]));
    assert_eq!(place.json(&["org", "suspend", "initech", "--reason", "unpaid"])["status"], "suspended");
    assert_eq!(place.json(&["org", "activate", "initech"])["status"], "active");
    let missing = place.run(&["org", "show", "nowhere"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""));
    assert!(missing.stderr.contains("there is no organization nowhere"), "{}", missing.stderr);
    let foreign = other.run(&["org", "show", "nowhere"]).stderr;
    assert!(foreign.contains("admin@acme.test does not administer an organization nowhere"), "{foreign}");
    assert!(![missing.stderr, foreign].concat().contains("scope"));
    assert_eq!(other.json(&["org", "change", "initech", "--name", "Initech Inc."])["name"], "Initech Inc.");
    assert_eq!(other.json(&["service", "create", "fax", "--name", "Fax", "--org", "initech"])["slug"], "fax");
}

/// With `ID` for the rest of each id.
fn without_ids(text: &str) -> String {
    let prefixes = ["apikey_", "secret_", "invitation_"];
    let word = |word: &str| match prefixes.iter().find(|prefix| word.starts_with(**prefix)) {
        Some(prefix) => format!("{prefix}ID"),
        None => word.to_owned(),
    };
    let lines = text.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n");
    lines.collect()
}

/// With `TIME` for each time (`2026-11-22 18:06:54Z`): they differ from run to run.
fn without_times(text: &str) -> String {
    let is_date = |word: &str| word.len() == 10 && word.split('-').map(str::len).eq([4, 2, 2]);
    let is_time = |word: &str| word.len() == 9 && word.ends_with('Z') && word.matches(':').count() == 2;
    let lines = text.lines().map(|line| {
        let mut words: Vec<&str> = line.split(' ').collect();
        while let Some(at) = words.windows(2).position(|pair| is_date(pair[0]) && is_time(pair[1])) {
            words.splice(at..at + 2, ["TIME"]);
        }
        words.join(" ")
    });
    lines.map(|line| format!("{line}\n")).collect()
}
