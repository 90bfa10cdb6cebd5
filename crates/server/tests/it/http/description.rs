//! The description of the API: for programs and for people, cached, without credentials.

use server::testing::TestServer;

const BOTH: [(&str, &str); 2] =
    [("/api/openapi.json", "application/json"), ("/api/docs", "text/html; charset=utf-8")];

#[tokio::test(flavor = "multi_thread")]
async fn the_description_is_public_and_is_sent_once() {
    let server = TestServer::start_empty().await;
    for (path, media_type) in BOTH {
        let first = server.get(path).send().await;
        assert_eq!((first.status, first.header("content-type")), (200, media_type), "{path}");
        assert_eq!(first.header("cache-control"), "public, no-cache", "{path}");
        let tag = first.header("etag");
        assert!(tag.starts_with('"') && tag.len() > 10, "{path}: {tag}");
        for known in [tag.to_owned(), format!("\"other\", W/{tag}"), "*".to_owned()] {
            let again = server.get(path).header("if-none-match", &known).send().await;
            assert_eq!((again.status, &*again.body, again.header("etag")), (304, "", tag), "{path}: {known}");
        }
        let changed = server.get(path).header("if-none-match", "\"other\"").send().await;
        assert_eq!((changed.status, changed.body == first.body), (200, true), "{path}");
    }
    let document = server.get(BOTH[0].0).send().await.json();
    assert_eq!(document["openapi"], "3.1.0");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_no_script_and_nothing_from_elsewhere() {
    let server = TestServer::start_empty().await;
    let page = server.get("/api/docs").send().await;
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
    assert!(!policy.contains("script-src") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-frame-options"), "DENY");
    assert!(
        !page.body.contains("<script") && !page.body.contains("src=\"http"),
        "it loads nothing from elsewhere"
    );
    server.stop().await;
}
