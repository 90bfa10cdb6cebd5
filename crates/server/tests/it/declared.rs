//! A declaration of `sarsen dev`: applied once, applied again, and changed.

use identity::audit_trail::{self, Filter};
use identity::organizations;
use serde_json::{Value, json};
use server::declared::{Applied, Credentials, Declaration, apply};
use server::testing::TestServer;
use std::sync::Arc;
use std::time::Duration;

fn declaration() -> Value {
    json!({
        "organization": {"slug": "example", "name": "Example", "sign_up": true, "device_flow": "short"},
        "services": [{"slug": "notes", "name": "Notes", "access_token_typ": "JWT"}, {"slug": "wiki", "name": "Wiki"}],
        "plans": [
            {"slug": "pro", "name": "Pro", "services": ["notes", "wiki"], "price_cents": 900, "currency": "EUR",
             "features": ["export"], "limits": {"projects": 20}, "seats": 5},
            {"slug": "max", "name": "Max", "services": ["notes"], "price_cents": 1900, "currency": "EUR"},
        ],
        "clients": {
            "app": {"service": "notes", "kind": "web", "name": "Notes", "pkce": "required", "id_token_alg": "ES256",
                    "redirect_uris": ["http://localhost:3000/b", "http://localhost:3000/a"],
                    "post_logout_redirect_uris": ["http://localhost:3000"], "consent_required": true},
            "job": {"service": "wiki", "kind": "machine", "name": "Night job"},
        },
        "users": [
            {"email": "Ada@Example.test", "name": "Ada", "plan": "pro", "password": "correct horse battery"},
            {"email": "grace@example.test", "plan": "free"},
        ],
    })
}

/// Applies it with these credentials. Returns what it made, and the credentials.
async fn applied(server: &TestServer, json: &Value, known: Credentials) -> (Applied, Credentials) {
    let read = Declaration::read(json.to_string().as_bytes());
    let declaration = Arc::new(read.unwrap_or_else(|errors| panic!("{errors:?}")));
    let credentials = known.completed(&server.app, &declaration);
    let applied = apply(&server.app, declaration, &credentials).await;
    (applied.unwrap_or_else(|refusal| panic!("{refusal:?}")), credentials)
}

/// What the audit trails say was done, the newest last.
async fn done(server: &TestServer) -> Vec<String> {
    let read = server.app.store.read(|snapshot| {
        let mut done = Vec::new();
        for slug in ["platform", "example"] {
            let organization = organizations::find(snapshot, slug)?.id;
            let entries = audit_trail::list(snapshot, &organization, &Filter::default(), None, 1000)?;
            done.extend(entries.into_iter().rev().map(|entry| format!("{} {}", entry.action, entry.details)));
        }
        Ok::<_, identity::Error>(done)
    });
    read.await.expect("audit trails")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_that_is_applied_again_changes_nothing() {
    let server = TestServer::start().await;
    let (first, credentials) = applied(&server, &declaration(), Credentials::default()).await;
    let plans: Vec<(&str, &str)> =
        first.users.iter().map(|user| (user.email.as_str(), user.plan.as_str())).collect();
    assert_eq!(plans, [("ada@example.test", "pro"), ("grace@example.test", "free")]);
    let before = done(&server).await;
    assert!(before.iter().any(|line| line.starts_with("plan.created")), "{before:?}");

    let (second, again) = applied(&server, &declaration(), credentials.clone()).await;
    assert!(again == credentials, "the same ids and secrets");
    assert_eq!(done(&server).await, before);
    assert_eq!(second.users[0].id, first.users[0].id);
    assert_eq!(second.users[0].sign_in_link, first.users[0].sign_in_link);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_declaration_changes_what_differs_and_deletes_nothing() {
    let server = TestServer::start().await;
    let (_, credentials) = applied(&server, &declaration(), Credentials::default()).await;
    let before = done(&server).await.len();
    // Entries of one millisecond have no order.
    server.clock.advance(Duration::from_secs(1));
    let mut changed = declaration();
    changed["plans"][0]["features"] = json!(["export", "history"]);
    changed["clients"]["app"]["redirect_uris"] = json!(["http://localhost:4000/a"]);
    changed["users"][0]["plan"] = json!("max");
    changed["users"][1]["name"] = json!("Grace");
    changed["clients"].as_object_mut().expect("clients").remove("job");
    let (applied_again, again) = applied(&server, &changed, credentials.clone()).await;
    assert_eq!(applied_again.users[0].plan, "max");
    assert!(again.clients == credentials.clients, "credentials of a removed client are kept");
    let mut done = done(&server).await.split_off(before);
    done.sort();
    let expected = [
        "client.changed redirect_uris",
        "plan.changed features",
        "subscription.changed max active",
        "user.changed ",
    ];
    assert_eq!(done, expected);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_that_is_refused_is_not_applied_at_all() {
    let server = TestServer::start().await;
    let (_, credentials) = applied(&server, &declaration(), Credentials::default()).await;
    let before = done(&server).await;
    let mut wrong = declaration();
    wrong["organization"]["name"] = json!("Renamed");
    wrong["clients"]["job"]["service"] = json!("notes");
    let declaration =
        Declaration::read(wrong.to_string().as_bytes()).unwrap_or_else(|errors| panic!("{errors:?}"));
    let refused = apply(&server.app, Arc::new(declaration), &credentials).await;
    let refusal = refused.err().expect("a refusal");
    assert_eq!(refusal.field, "clients.job.service");
    assert!(refusal.detail.contains("is wiki on the server"), "{}", refusal.detail);
    assert_eq!(done(&server).await, before);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declaration_has_no_sign_in_links_on_other_servers() {
    let server = TestServer::start().await;
    let (applied, _) = applied(&server, &declaration(), Credentials::default()).await;
    let link = applied.users[0].sign_in_link.clone();
    let path = link.strip_prefix(&server.app.settings.issuer).expect("an address of the server");
    assert_eq!(server.browser().get(path).await.status, 404);
    server.stop().await;
}
