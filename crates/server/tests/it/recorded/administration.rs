//! Organizations, their pages, administrators, invitations, API keys and the audit trail.

use super::{ACME, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::support::{claims, text};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn administration() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    organizations(&people, to).await;
    administrators(&people, to).await;
    keys(&people, to).await;
    audit(&people, to).await;
    insta::assert_snapshot!("administration", to.finish());
    server.stop().await;
}

async fn organizations(people: &People<'_>, to: &mut Recording) {
    to.section("Organizations");
    let all = "/api/organizations";
    let body = json!({ "slug": "globex", "name": "Globex" });
    people.admin(to, "made, and waits for a review", post(all).json(&body)).await;
    people.admin(to, "a slug that is taken", post(all).json(&body)).await;
    let wrong = json!({ "slug": "platform", "name": "x".repeat(101) });
    people.admin(to, "a slug of our own, and a long name", post(all).json(&wrong)).await;
    for number in 0..4 {
        let body = json!({ "slug": format!("waits-{number}"), "name": "Waits" });
        people.as_admin().make(all, body).await;
    }
    people.admin(to, "one too many", post(all).json(&json!({ "slug": "six", "name": "Six" }))).await;
    people
        .owner(
            to,
            "made by the owner of the server",
            post(all).json(&json!({ "slug": "initech", "name": "I" })),
        )
        .await;
    let next = people.admin(to, "a page", get(format!("{all}?limit=2"))).await.text("next");
    people.admin(to, "the next page", get(format!("{all}?limit=2&cursor={next}"))).await;
    people.admin(to, "those that wait", get(format!("{all}?status=pending&limit=1"))).await;
    people.admin(to, "a status that is none", get(format!("{all}?status=lost"))).await;
    people.admin(to, "read", get(ACME)).await;
    people
        .admin(to, "changed", call("PATCH", ACME).json(&json!({ "name": "Acme Ltd", "sign_up": false })))
        .await;
    people
        .owner(
            to,
            "not platform",
            call("PATCH", "/api/organizations/platform").json(&json!({ "device_flow": "off" })),
        )
        .await;
    people.owner(to, "not platform", call("DELETE", "/api/organizations/platform")).await;
    people.admin(to, "what its pages show", get(format!("{ACME}/branding"))).await;
    let contact = json!({ "contact": "help@acme.test" });
    people.admin(to, "changed", call("PUT", format!("{ACME}/branding")).json(&contact)).await;
    people.admin(to, "not deleted", call("DELETE", format!("{ACME}/deletion"))).await;
}

async fn administrators(people: &People<'_>, to: &mut Recording) {
    to.section("Administrators and invitations");
    let (all, invitations) = (format!("{ACME}/administrators"), format!("{ACME}/invitations"));
    let made = people
        .admin(to, "invited", post(&invitations).json(&json!({ "email": "new@acme.test", "role": "admin" })))
        .await;
    let again = json!({ "email": "admin@acme.test", "role": "member" });
    people.admin(to, "an administrator already", post(&invitations).json(&again)).await;
    people.admin(to, "a list", get(&invitations)).await;
    people.admin(to, "revoked", call("DELETE", format!("{invitations}/{}", made.text("id")))).await;
    people.admin(to, "gone", call("DELETE", format!("{invitations}/{}", made.text("id")))).await;
    people.admin(to, "administrators", get(&all)).await;
    let own = format!("{all}/{}", text(&claims(&people.admin), "sub"));
    people.admin(to, "the last owner", call("PATCH", &own).json(&json!({ "role": "member" }))).await;
    people.admin(to, "the last owner", call("DELETE", &own)).await;
    crate::tenancy::roles::hire(&people.as_admin(), "second@acme.test", "admin").await;
    let listed = people.admin(to, "two", get(&all)).await.json();
    let second =
        listed["items"].as_array().into_iter().flatten().find(|one| one["email"] == "second@acme.test");
    let second = format!("{all}/{}", text(second.unwrap_or(&Value::Null), "user"));
    people.admin(to, "another role", call("PATCH", &second).json(&json!({ "role": "owner" }))).await;
    people.admin(to, "a wrong choice", call("DELETE", format!("{second}?revoke=all"))).await;
    people.admin(to, "removed", call("DELETE", format!("{second}?revoke=made"))).await;
    let of_platform = "/api/organizations/platform/invitations";
    let body = json!({ "email": "new@sarsen.test", "role": "admin" });
    people.owner(to, "not for platform", post(of_platform).json(&body)).await;
}

async fn keys(people: &People<'_>, to: &mut Recording) {
    to.section("API keys");
    let keys = format!("{ACME}/keys");
    let made = people
        .admin(to, "of a service", post(&keys).json(&json!({ "name": "Back end", "service": "sketch" })))
        .await;
    let body = json!({ "name": "Audits", "scopes": ["audit:read"], "expires_at": "2027-02-01T00:00:00Z" });
    let audits = people.admin(to, "of the organization", post(&keys).json(&body)).await;
    people.admin(to, "of no service", post(&keys).json(&json!({ "name": "X", "service": "nothing" }))).await;
    people.admin(to, "read", get(format!("{keys}/{}", made.text("id")))).await;
    let next = people.admin(to, "a page", get(format!("{keys}?limit=2"))).await.text("next");
    people.admin(to, "the next page", get(format!("{keys}?limit=2&cursor={next}"))).await;
    let program = audits.text("key");
    to.send(people.server, "a program reads", get(format!("{ACME}/audit?limit=1")).by("program", &program))
        .await;
    to.send(people.server, "and may do no more", get(format!("{ACME}/users")).by("program", &program)).await;
    to.send(
        people.server,
        "nor what is for people",
        get(format!("{ACME}/administrators")).by("program", &program),
    )
    .await;
    people.admin(to, "revoked", call("DELETE", format!("{keys}/{}", audits.text("id")))).await;
    to.send(people.server, "a key that is revoked", get(format!("{ACME}/audit")).by("program", &program))
        .await;
    people
        .owner(
            to,
            "not for platform",
            post("/api/organizations/platform/keys").json(&json!({ "name": "X", "scopes": ["audit:read"] })),
        )
        .await;
}

async fn audit(people: &People<'_>, to: &mut Recording) {
    to.section("Audit");
    let trail = format!("{ACME}/audit");
    let next =
        people.admin(to, "a page, the newest first", get(format!("{trail}?limit=12"))).await.text("next");
    people.admin(to, "the next page", get(format!("{trail}?limit=3&cursor={next}"))).await;
    for query in [
        "action=api_key.created",
        "actor=system&limit=2",
        "target=admin@acme.test",
        "until=2027-01-01",
        "since=never",
        "actor=!",
    ] {
        people.admin(to, "filtered", get(format!("{trail}?{query}"))).await;
    }
}
