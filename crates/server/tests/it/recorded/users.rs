//! Users of an organization, their sessions, suspensions and links.

use super::{ACME, People, Recording, call, get, is_recorded, post, recorded_server};
use crate::support::text;
use crate::tenancy::Things;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn users() {
    if !is_recorded() {
        return;
    }
    let server = recorded_server(|_| {}, true).await;
    let people = People::of(&server).await;
    let to = &mut Recording::of(&server);
    let users = format!("{ACME}/users");

    to.section("Accounts");
    let body = json!({ "email": "Bob@acme.test", "name": "Bob", "email_verified": true });
    let bob = people.admin(to, "made", post(&users).json(&body)).await.text("id");
    people.admin(to, "an address that is taken", post(&users).json(&body)).await;
    let with_link = json!({ "email": "cy@acme.test", "password_link": true });
    people.admin(to, "made with a link", post(&users).json(&with_link)).await;
    people.admin(to, "read", get(format!("{users}/{bob}"))).await;
    people
        .admin(to, "changed", call("PATCH", format!("{users}/{bob}")).json(&json!({ "name": "Robert" })))
        .await;
    people
        .admin(to, "changed to nothing else", call("PATCH", format!("{users}/{bob}")).json(&json!({})))
        .await;
    for query in
        ["", "?email=bob@acme.test", "?q=ro", "?sort=email", "?sort=-created_at&limit=2", "?q=nobody"]
    {
        people.admin(to, "a list", get(format!("{users}{query}"))).await;
    }
    let first = people.admin(to, "a page", get(format!("{users}?limit=2"))).await.text("next");
    people.admin(to, "the next page", get(format!("{users}?limit=2&cursor={first}"))).await;
    people.admin(to, "a cursor of another list", get(format!("{users}?sort=email&cursor={first}"))).await;

    to.section("Links");
    let one = format!("{users}/{bob}");
    let link = people.admin(to, "a link to sign in", post(format!("{one}/sign-in-link"))).await;
    let mut browser = server.browser().cookies;
    let path = crate::support::path_of(&link.text("url"));
    let opened = to.browse(&server, &mut browser, "it is opened", get(&path)).await;
    let page = to.browse(&server, &mut browser, "its page", get(opened.header("location"))).await;
    let fields = [("csrf", &*page.input("csrf")), ("link", &*page.input("link"))];
    to.browse(&server, &mut browser, "it is used", post("/o/acme/link").form(&fields)).await;
    to.browse(&server, &mut browser, "it is used again", get(&path)).await;
    people.admin(to, "a link to set a password", post(format!("{one}/password-link"))).await;

    to.section("Sessions");
    let things = Things::of_acme(&people.as_admin()).await;
    let sessions = things.path("acme", "/api/organizations/{org}/users/{user}/sessions");
    let listed = people.admin(to, "a list", get(&sessions)).await;
    let session = text(&listed.json()["items"][0], "id").to_owned();
    people.admin(to, "one ends", call("DELETE", format!("{sessions}/{session}"))).await;
    people.admin(to, "it has ended", call("DELETE", format!("{sessions}/{session}"))).await;
    people.admin(to, "all end", call("DELETE", &sessions)).await;
    people.admin(to, "none is left", get(&sessions)).await;

    to.section("Suspension and deletion");
    let suspension = format!("{one}/suspension");
    people.admin(to, "suspended", call("PUT", &suspension).json(&json!({ "reason": "late" }))).await;
    people.admin(to, "no link for one who is suspended", post(format!("{one}/sign-in-link"))).await;
    people.admin(to, "no password link either", post(format!("{one}/password-link"))).await;
    people.admin(to, "suspended again", call("PUT", &suspension).json(&json!({}))).await;
    people.admin(to, "active again", call("DELETE", &suspension)).await;
    people.admin(to, "deleted", call("DELETE", &one)).await;
    people.admin(to, "gone", get(&one)).await;

    to.section("Users of platform");
    let of_platform = "/api/organizations/platform/users";
    let owner = people.owner(to, "the owner", get(format!("{of_platform}?email=owner@sarsen.test"))).await;
    let owner = text(&owner.json()["items"][0], "id").to_owned();
    let own = format!("{of_platform}/{owner}");
    people.owner(to, "an own account", call("DELETE", &own)).await;
    people.owner(to, "an own account", call("PUT", format!("{own}/suspension")).json(&json!({}))).await;
    insta::assert_snapshot!("users", to.finish());
    server.stop().await;
}
