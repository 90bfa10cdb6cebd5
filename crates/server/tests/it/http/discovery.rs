//! The discovery documents: what stock clients read before anything else.

use crate::support::{ISSUER, path_of};
use server::testing::{Answer, TestServer};

async fn document(server: &TestServer, path: &str) -> Answer {
    let answer = server.get(path).send().await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, "public, max-age=300"), "{path}");
    answer
}

fn lines(answer: &Answer) -> String {
    format!("{:#}", answer.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_describes_itself_the_same_way_to_both_kinds_of_clients() {
    let server = TestServer::start().await;
    let configuration = document(&server, "/.well-known/openid-configuration").await;
    insta::assert_snapshot!("configuration", lines(&configuration));
    let oauth = document(&server, "/.well-known/oauth-authorization-server").await;
    assert_eq!(oauth.body, configuration.body);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_of_a_resource_is_at_its_path() {
    let server = TestServer::start().await;
    let prefix = "/.well-known/oauth-protected-resource";
    for path in ["", "/api"] {
        // RFC 9728 section 3.3: the client puts the prefix before the path and compares.
        let metadata = document(&server, &format!("{prefix}{path}")).await;
        assert_eq!(metadata.text("resource"), format!("http://127.0.0.1:7070{path}"));
    }
    insta::assert_snapshot!("protected_api", lines(&document(&server, &format!("{prefix}/api")).await));
    assert_eq!(server.get(&format!("{prefix}/other")).send().await.status, 404);

    // A client that was refused finds it by the challenge, and there the server that issues tokens.
    let refused = server.get("/api/organizations").header("origin", "https://app.example").send().await;
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate");
    let metadata =
        challenge.strip_prefix("Bearer resource_metadata=\"").and_then(|rest| rest.strip_suffix('"'));
    let metadata = document(&server, &path_of(metadata.expect("an address"))).await;
    assert_eq!(metadata.json()["authorization_servers"][0], ISSUER);
    let exposed = refused.header("access-control-expose-headers");
    assert!(exposed.contains("www-authenticate"), "{exposed}");
    server.stop().await;
}
