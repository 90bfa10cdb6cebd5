//! Who may do what in an organization, and that what was done is written down.

use super::machine_clients::machine_client;
use super::{PASSWORD, Things, body, everything, is, problem, routes};
use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Rows, TestServer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Invites somebody, who accepts with a new account; the user's id.
pub(crate) async fn hire(owner: &Admin<'_>, email: &str, role: &str) -> String {
    let link = owner.invite(email, role).await;
    let accepted = accept_as_new(&mut owner.server.browser(), &link, PASSWORD).await;
    assert_eq!((accepted.status, accepted.header("location")), (303, "/console"), "{accepted:?}");
    let all = owner.read(ADMINISTRATORS).await;
    let found = all["items"].as_array().and_then(|all| all.iter().find(|one| one["email"] == email));
    text(found.expect("an administrator"), "user").to_owned()
}

pub(super) async fn hired<'s>(server: &'s TestServer, email: &str, scope: &str) -> Admin<'s> {
    let mut browser = server.browser();
    assert_eq!(browser.sign_in_with("platform", email, PASSWORD).await.status, 303);
    let answer = tokens_of(server, &mut browser, &Ask::by("console", CONSOLE).with("scope", scope)).await;
    Admin { server, token: answer.text("access_token") }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_administers_a_hundred_organizations_has_a_short_token_for_all_of_them() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    for number in 0..100 {
        let slug = format!("customer-with-a-long-name-{number}");
        platform.make("/api/organizations", json!({ "slug": slug, "name": slug })).await;
    }
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform org:*").await;
    assert!(owner.token.len() < 2000, "{} bytes", owner.token.len());
    let named = claims(&owner.token);
    assert_eq!(
        text(&named, "scope"),
        "platform org:* org:platform",
        "an owner of the server is one: {named}"
    );
    assert_eq!(named["aud"], json!(["account", "platform", "org:*", "org:platform"]));
    owner.read("/api/organizations/customer-with-a-long-name-73/users").await;
    let elsewhere = owner.call("GET", "/api/organizations/acme/users", &Value::Null).await;
    assert_eq!(problem(&elsewhere), is(404, "not_found"), "no role there: {elsewhere:?}");
}

const ADMINISTRATORS: &str = "/api/organizations/acme/administrators";

#[tokio::test(flavor = "multi_thread")]
async fn members_look_admins_change_and_owners_decide_who_does() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    owner.invite("third@acme.test", "admin").await;
    let things = Things::of_acme(&owner).await;
    for (email, role) in [("member@acme.test", "member"), ("second@acme.test", "admin")] {
        hire(&owner, email, role).await;
    }
    let member = hired(&server, "member@acme.test", "org:acme").await;
    let admin = hired(&server, "second@acme.test", "org:acme").await;
    let owners_only = |method: &str, route: &str| {
        (route.contains("/administrators") || route.contains("/invitations")) && method != "GET"
            || (method, route) == ("PATCH", "/api/organizations/{org}")
            || (method, route) == ("PUT", "/api/organizations/{org}/branding")
            || (method, route) == ("POST", "/api/organizations/{org}/keys")
            || (method, route) == ("PUT", "/api/organizations/{org}/clients/{client}/scopes")
            || super::is_connection_write(method, route)
    };
    let before = everything(&owner, "acme").await;
    let mut rows = Rows::new();
    for (method, route) in routes("/api/organizations/{org}") {
        let row = async {
            let path = things.path("acme", route);
            let body = body(method, route, &things);
            let looked = member.call(method, &path, &body).await;
            match method {
                "GET" => assert_eq!(looked.status, 200, "{path}: {looked:?}"),
                _ => assert_eq!(problem(&looked), is(403, "forbidden"), "{method} {path}: {looked:?}"),
            }
            if owners_only(method, route) {
                let answer = admin.call(method, &path, &body).await;
                assert_eq!(problem(&answer), is(403, "forbidden"), "{method} {path}: {answer:?}");
            }
        };
        rows.row(format!("{method} {route}"), row).await;
    }
    assert_eq!(everything(&owner, "acme").await, before);

    // Nobody raises himself.
    let own = |admin: &Admin<'_>| format!("{ADMINISTRATORS}/{}", text(&claims(&admin.token), "sub"));
    for caller in [&member, &admin] {
        for role in ["owner", "admin"] {
            let answer = caller.call("PATCH", &own(caller), &json!({ "role": role })).await;
            assert_eq!(problem(&answer), is(403, "forbidden"), "{answer:?}");
            let again = json!({ "email": "second@acme.test", "role": role });
            assert_eq!(problem(&caller.call("POST", INVITATIONS, &again).await), is(403, "forbidden"));
        }
    }
    let unknown = owner.call("PATCH", &own(&admin), &json!({ "role": "root" })).await;
    assert_eq!(problem(&unknown), is(422, "invalid"), "{unknown:?}");

    // The last owner stays one.
    for (method, body) in [
        ("DELETE", Value::Null),
        ("PATCH", json!({ "role": "admin" })),
        ("PATCH", json!({ "role": "member" })),
    ] {
        let answer = owner.call(method, &own(&owner), &body).await;
        assert_eq!(problem(&answer), is(409, "last_owner"), "{method}: {answer:?}");
    }
    // A role is looked up each time, also for tokens that are out already.
    owner.change("PATCH", &own(&member), json!({ "role": "admin" })).await;
    let made = member
        .call("POST", "/api/organizations/acme/services", &json!({ "slug": "atlas", "name": "Atlas" }))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    owner.change("PATCH", &own(&member), json!({ "role": "member" })).await;
    let gone = member.call("DELETE", "/api/organizations/acme/services/atlas", &Value::Null).await;
    assert_eq!(problem(&gone), is(403, "forbidden"), "{gone:?}");
    owner.change("DELETE", &own(&admin), Value::Null).await;
    let gone = admin.call("GET", "/api/organizations/acme", &Value::Null).await;
    assert_eq!(problem(&gone), is(404, "not_found"), "{gone:?}");
    member.change("DELETE", &own(&member), Value::Null).await;
    assert_eq!(
        member.call("GET", "/api/organizations/acme", &Value::Null).await.status,
        404,
        "left by himself"
    );
    // With another owner, the first may leave.
    let again = owner.invite("second@acme.test", "owner").await;
    let mut browser = server.browser();
    browser.sign_in_with("platform", "second@acme.test", PASSWORD).await;
    let page = open_invitation(&mut browser, &again).await;
    assert_eq!(send_invitation(&mut browser, &page, &[]).await.header("location"), "/console");
    owner.change("DELETE", &own(&owner), Value::Null).await;
    let last = admin.call("DELETE", &own(&admin), &Value::Null).await;
    assert_eq!(problem(&last), is(409, "last_owner"), "{last:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_decide_about_the_device_flow_and_admins_about_that_of_a_client() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    for (email, role) in [("member@acme.test", "member"), ("second@acme.test", "admin")] {
        hire(&owner, email, role).await;
    }
    let member = hired(&server, "member@acme.test", "org:acme").await;
    let admin = hired(&server, "second@acme.test", "org:acme").await;
    let acme = "/api/organizations/acme";
    let client = format!("{acme}/clients/{}", server.client("cli"));
    for (who, path, value) in [
        (&member, acme, json!("off")),
        (&admin, acme, json!("off")),
        (&member, client.as_str(), json!(false)),
    ] {
        let answer = who.call("PATCH", path, &json!({ "device_flow": value })).await;
        assert_eq!(problem(&answer), is(403, "forbidden"), "{path}: {answer:?}");
    }
    assert_eq!(member.read(acme).await["device_flow"], "allowed");
    assert_eq!(member.read(&client).await["device_flow"], true);
    admin.change("PATCH", &client, json!({ "device_flow": false })).await;
    owner.change("PATCH", acme, json!({ "device_flow": "off" })).await;
    // Who owns the platform has no power inside of an organization.
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let answer = platform.call("PATCH", acme, &json!({ "device_flow": "allowed" })).await;
    assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{answer:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_in_the_audit_trail() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let things = Things::of_acme(&owner).await;
    let hired = hire(&owner, "new@acme.test", "admin").await;
    let mut covered = BTreeSet::new();
    let mut made = BTreeMap::new();
    let mut rows = Rows::new();
    for (method, route, action) in [
        ("PATCH", "", "organization.renamed"),
        ("PUT", "/branding", "branding.changed"),
        ("POST", "/invitations", "invitation.created"),
        ("DELETE", "/invitations/{invitation}", "invitation.revoked"),
        ("PATCH", "/administrators/{user}", "administrator.changed"),
        ("DELETE", "/administrators/{user}", "administrator.removed"),
        ("POST", "/services", "service.created"),
        ("PATCH", "/services/{service}", "service.renamed"),
        ("POST", "/clients", "client.created"),
        ("PATCH", "/clients/{client}", "client.changed"),
        ("POST", "/clients/{client}/secrets", "client.secret_added"),
        ("DELETE", "/clients/{client}/secrets/{secret}", "client.secret_deleted"),
        ("PUT", "/clients/{client}/scopes", "client.scopes_granted"),
        ("DELETE", "/clients/{client}/scopes", "client.scopes_revoked"),
        ("DELETE", "/clients/{client}", "client.deleted"),
        ("POST", "/plans", "plan.created"),
        ("PATCH", "/plans/{plan}", "plan.changed"),
        ("PATCH", "/subscriptions/{subscription}", "subscription.changed"),
        ("DELETE", "/subscriptions/{subscription}", "subscription.deleted"),
        ("POST", "/subscriptions", "subscription.created"),
        ("POST", "/users", "user.created"),
        ("PATCH", "/users/{user}", "user.changed"),
        ("POST", "/users/{user}/sign-in-link", "user.sign_in_link_made"),
        ("DELETE", "/users/{user}/sessions/{session}", "session.ended"),
        ("POST", "/users/{user}/password-link", "user.password_link_made"),
        ("DELETE", "/users/{user}/sessions", "user.sessions_ended"),
        ("PUT", "/users/{user}/suspension", "user.suspended"),
        ("DELETE", "/users/{user}/suspension", "user.activated"),
        ("POST", "/keys", "api_key.created"),
        ("DELETE", "/keys/{key}", "api_key.revoked"),
        ("POST", "/billing", "billing.connection_created"),
        ("PATCH", "/billing/{connection}", "billing.connection_changed"),
        ("PUT", "/billing/{connection}/prices/{price}", "billing.price_set"),
        ("DELETE", "/billing/{connection}/prices/{price}", "billing.price_removed"),
        ("PUT", "/billing/{connection}/customers/{billing_customer}", "billing.customer_set"),
        ("DELETE", "/billing/{connection}/customers/{billing_customer}", "billing.customer_removed"),
        ("POST", "/billing/{connection}/references", "billing.reference_made"),
        ("POST", "/billing/{connection}/retry", "billing.retried"),
        ("DELETE", "/billing/{connection}", "billing.connection_deleted"),
        ("DELETE", "/users/{user}", "user.deleted"),
        ("DELETE", "/plans/{plan}", "plan.deleted"),
        ("DELETE", "/services/{service}", "service.deleted"),
        ("DELETE", "", "organization.deleted"),
        ("DELETE", "/deletion", "organization.restored"),
    ] {
        let row = async {
            let route = format!("/api/organizations/{{org}}{route}");
            let mut path = things.path("acme", &route);
            // What was made here is what is deleted here.
            if let ("DELETE", Some((list, name))) = (method, path.clone().rsplit_once('/'))
                && let Some(own) = made.get(list)
                && name != "suspension"
            {
                path = format!("{list}/{own}");
            }
            let body = body(method, &route, &things);
            if route.ends_with("/administrators/{user}") {
                path = format!("{ADMINISTRATORS}/{hired}");
            }
            // Entries of one millisecond have no order among them.
            server.clock.advance(Duration::from_millis(1));
            let answer = owner.change(method, &path, body.clone()).await;
            if answer.status == 201 {
                let name = ["user", "client_id", "slug", "id"]
                    .into_iter()
                    .find_map(|name| answer.json()[name].as_str().map(str::to_owned));
                let by_id = ["/subscriptions", "/keys"].iter().any(|list| path.ends_with(list));
                let name = if by_id { Some(answer.text("id")) } else { name };
                made.insert(path.clone(), name.unwrap_or_default());
            }
            let newest = &owner.read("/api/organizations/acme/audit?limit=1").await["items"][0];
            assert_eq!(newest["action"], action, "{method} {path}");
            assert_eq!(newest["actor"], claims(&owner.token)["sub"], "{method} {path}");
            assert_eq!(newest["address"], "127.0.0.1");
            assert_ne!(newest["target"], "");
            if matches!(method, "PATCH" | "PUT") {
                server.clock.advance(Duration::from_millis(1));
                owner.change(method, &path, body).await;
                let after = &owner.read("/api/organizations/acme/audit?limit=1").await["items"][0];
                assert_eq!(after, newest, "{method} {path}: the second time changes nothing");
            }
            covered.insert((method, route));
        };
        rows.row(format!("{method} {route} {action}"), row).await;
    }
    for (method, route) in routes("/api/organizations/{org}") {
        assert!(
            method == "GET" || covered.contains(&(method, route.to_owned())),
            "{method} {route} is not covered"
        );
    }

    // What is refused leaves no trace; what the platform does, leaves one too.
    let trail = owner.read("/api/organizations/acme/audit?limit=200").await;
    owner.call("DELETE", "/api/organizations/acme/services/nobody", &Value::Null).await;
    owner
        .call("POST", "/api/organizations/acme/services", &json!({ "slug": "sketch", "name": "Twice" }))
        .await;
    assert_eq!(owner.read("/api/organizations/acme/audit?limit=200").await, trail);
    for (method, action) in [("PUT", "organization.suspended"), ("DELETE", "organization.activated")] {
        let body = if method == "PUT" { json!({ "reason": "late with the rent" }) } else { Value::Null };
        for _ in 0..2 {
            server.clock.advance(Duration::from_millis(1));
            platform.change(method, "/api/platform/organizations/acme/suspension", body.clone()).await;
        }
        let newest = &owner.read("/api/organizations/acme/audit?limit=2").await["items"];
        assert_eq!(
            (&newest[0]["action"], &newest[0]["actor"]),
            (&json!(action), &claims(&platform.token)["sub"])
        );
        assert_ne!(newest[1]["action"], action, "the second time changed nothing");
    }
    server.stop().await;
}

/// Returns when so many commands wait for the writer.
pub(super) async fn commands_wait(server: &TestServer, count: u64) {
    let waiting = async {
        while server.app.store.stats().queue_depth < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("they come");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_a_key_or_a_scope_that_is_removed_while_a_request_waits_changes_nothing() {
    if store::testing::kind() != store::testing::Kind::Sqlite {
        // Only SQLite has a single writer, so that the order of commands can be arranged.
        return;
    }
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&owner).await;
    hire(&owner, "second@acme.test", "admin").await;
    let admin = hired(&server, "second@acme.test", "org:acme").await;
    let body = json!({ "name": "Program", "scopes": ["users:write"] });
    let key = owner.make("/api/organizations/acme/keys", body).await;
    let program = Admin { server: &server, token: text(&key, "key").to_owned() };
    program.read("/api/organizations/acme/users").await;
    let machine = machine_client(&owner, &["users:write"]).await;
    let client = machine.token(&["users:write"]).await;
    client.read("/api/organizations/acme/users").await;
    const USERS: &str = "/api/organizations/acme/users";
    let before = owner.read(USERS).await;

    let writer = HeldWriters::of(&server).await;
    let removal = format!("{ADMINISTRATORS}/{}", text(&claims(&admin.token), "sub"));
    let user = things.path("acme", "/api/organizations/{org}/users/{user}");
    let renamed = json!({ "name": "Changed" });
    let revocation = format!("/api/organizations/acme/keys/{}", text(&key, "id"));
    let scopes = format!("{}/scopes", machine.path);
    let (removed, answer, revoked, of_program, ungranted, of_client, ()) = tokio::join!(
        owner.call("DELETE", &removal, &Value::Null),
        async {
            commands_wait(&server, 1).await;
            admin.call("PATCH", &user, &renamed).await
        },
        async {
            commands_wait(&server, 2).await;
            owner.call("DELETE", &revocation, &Value::Null).await
        },
        async {
            commands_wait(&server, 3).await;
            program.call("PATCH", &user, &renamed).await
        },
        async {
            commands_wait(&server, 4).await;
            owner.call("DELETE", &scopes, &Value::Null).await
        },
        async {
            commands_wait(&server, 5).await;
            client.call("PATCH", &user, &renamed).await
        },
        async {
            commands_wait(&server, 6).await;
            writer.release().await;
        },
    );
    assert_eq!((removed.status, revoked.status, ungranted.status), (200, 204, 204), "{ungranted:?}");
    assert_eq!(problem(&answer), is(404, "not_found"), "{answer:?}");
    assert_eq!(problem(&of_program), is(401, "invalid_token"), "{of_program:?}");
    assert_eq!(problem(&of_client), is(403, "forbidden"), "{of_client:?}");
    assert_eq!(owner.read(USERS).await, before);
    server.stop().await;
}
