//! The request log.

use crate::client::{Answer, TestApp};
use browser::forms;
use serde_json::json;

const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

async fn start() -> TestApp {
    TestApp::start(request_log::app()).await
}

async fn log(app: &TestApp, path: &str) -> String {
    let logged = app.send("POST", path, &[], "").await;
    assert_eq!(logged.status, 201, "{logged:?}");
    logged.json()["uid"].as_str().expect("a uid").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_body_and_content_type_is_logged() {
    let app = start().await;
    let logged = app.send("POST", "/requests?from=test", &[], "").await;
    assert_eq!(logged.status, 201, "{logged:?}");
    let row = logged.json();
    assert_eq!(
        (&row["ip"], &row["method"], &row["url"], &row["parameters"]),
        (&json!("127.0.0.1"), &json!("POST"), &json!("http://example.test/requests?from=test"), &json!({}))
    );
    let address = logged.header("location");
    assert_eq!(address, format!("/requests/{}", row["uid"].as_str().expect("a uid")));
    assert_eq!(app.get(address).await.json(), row);
    // The load generator `hey` sends this type with an empty body.
    assert_eq!(app.send("POST", "/requests", &[("content-type", "text/html")], "").await.status, 201);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_the_members_of_json_and_of_forms() {
    let app = start().await;
    let logged = app.json("POST", "/requests", &json!({ "a": { "b": [1] } })).await;
    assert_eq!(logged.json()["parameters"], json!({ "a": { "b": [1] } }));
    let logged = app.send("POST", "/requests", &[FORM], "note=a%26b&note=c+d").await;
    assert_eq!(logged.json()["parameters"], json!({ "note": "c d" }));
    let logged = app.send("POST", "/requests", &[FORM], "note=a%26b").await;
    assert_eq!(logged.json()["parameters"], json!({ "note": "a&b" }));
    // A PostgreSQL server would not store it, so no database gets it, as in JSON.
    assert_eq!(app.send("POST", "/requests", &[FORM], "note=a%00").await.problem().0, 400);
    let logged = app.send("POST", "/requests", &[("content-type", "image/png")], "\u{1}").await;
    assert_eq!((logged.status, &logged.json()["parameters"]), (201, &json!({})));
    let refused = app.send("POST", "/requests", &[("content-type", "application/json")], "[1").await;
    assert_eq!(refused.problem(), (400, "invalid_arguments".to_owned()));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_join_without_gap_and_without_overlap() {
    let app = start().await;
    let mut uids = Vec::new();
    for _ in 0..103 {
        uids.push(log(&app, "/requests").await);
    }
    uids.sort();
    uids.reverse();
    let (mut found, mut sizes, mut path) = (Vec::new(), Vec::new(), "/requests".to_owned());
    loop {
        let page = app.get(&path).await.json();
        let items = page["items"].as_array().expect("items");
        sizes.push(items.len());
        found.extend(items.iter().map(|item| item["uid"].as_str().expect("a uid").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/requests?before={next}");
    }
    assert_eq!((sizes, found), (vec![50, 50, 3], uids));
    for (wrong, detail) in [
        ("befor=x", "befor: unknown; use before."),
        ("before=x", "`before` must be the uid of a request, like `next`."),
    ] {
        let refused = app.get(&format!("/requests?{wrong}")).await;
        assert_eq!((refused.status, &refused.json()["detail"]), (400, &json!(detail)));
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_changed_and_deleted() {
    let app = start().await;
    let path = format!("/requests/{}", log(&app, "/requests").await);
    let before = app.get(&path).await.json();
    let changed = app.json("PATCH", &path, &json!({ "ip": "::1", "parameters": { "a": 1 } })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let row = changed.json();
    assert_eq!((&row["ip"], &row["parameters"]), (&json!("::1"), &json!({ "a": 1 })));
    assert_eq!(
        (&row["uid"], &row["url"], &row["method"]),
        (&before["uid"], &before["url"], &before["method"])
    );
    let wrong = [
        json!({ "ip": "home" }),
        json!({ "method": "" }),
        json!({ "method": "M".repeat(33) }),
        json!({ "url": "" }),
        json!({ "url": "a".repeat(8193) }),
        json!({ "parameters": [1] }),
        json!({ "uid": "other" }),
    ];
    for body in wrong {
        assert_eq!(app.json("PATCH", &path, &body).await.problem().0, 400, "{body}");
    }
    // Nothing to change, for example because of the media type that `fetch` sends by itself.
    for (kind, body) in [("text/plain;charset=UTF-8", r#"{"ip":"::1"}"#), ("application/json", "{}")] {
        let nothing = app.send("PATCH", &path, &[("content-type", kind)], body).await;
        assert_eq!(nothing.problem(), (400, "invalid_arguments".to_owned()), "{kind}");
    }
    let as_form = app.send("PATCH", &path, &[FORM], r#"{"ip":"::1"}"#).await;
    assert!(as_form.status == 400 && as_form.body.contains("application/json"), "{as_form:?}");
    assert_eq!(app.get(&path).await.json(), row);

    assert_eq!(app.send("DELETE", &path, &[], "").await.status, 204);
    let not_found = (404, "not_found".to_owned());
    assert_eq!(app.get(&path).await.problem(), not_found);
    assert_eq!(app.send("DELETE", &path, &[], "").await.problem(), not_found);
    assert_eq!(app.json("PATCH", &path, &json!({ "ip": "::1" })).await.problem(), not_found);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_get_pages_whose_forms_work() {
    let app = start().await;
    let list = app.send("GET", "/requests", &[BROWSER], "").await;
    assert!(list.header("content-type").starts_with("text/html"), "{list:?}");
    assert_eq!(list.header("vary"), "accept");
    assert_eq!(list.header("content-security-policy"), "frame-ancestors 'none'");
    let created = submit(&app, &list, 0, &[("note", "<b>\"&'")], &[]).await;
    assert_eq!(created.status, 303, "{created:?}");
    let path = created.header("location").to_owned();

    let page = app.send("GET", &path, &[BROWSER], "").await;
    assert!(page.body.contains("&lt;b&gt;") && !page.body.contains("<b>"), "{}", page.body);
    let wrong = submit(&app, &page, 0, &[("parameters", "{"), ("url", "http://other.test/")], &[]).await;
    assert!(wrong.status == 400 && wrong.body.contains("role=\"alert\""), "{wrong:?}");
    assert!(
        wrong.body.contains("http://other.test/") && wrong.body.contains(">{<"),
        "what was typed: {wrong:?}"
    );
    let saved = submit(&app, &page, 0, &[("url", "http://other.test/<i>")], &[]).await;
    assert_eq!((saved.status, saved.header("location")), (303, &*path));
    let row = app.get(&path).await.json();
    assert_eq!(row["url"], "http://other.test/<i>");
    assert_eq!(row["parameters"], json!({ "note": "<b>\"&'" }));
    let list = app.send("GET", "/requests", &[BROWSER], "").await;
    assert!(list.body.contains("&lt;i&gt;") && !list.body.contains("<i>"), "{}", list.body);

    // For a host by name and without TLS, browsers send the origin only.
    for other_site in [("sec-fetch-site", "cross-site"), ("origin", "http://example.com"), ("origin", "null")]
    {
        for form in [0, 1] {
            let refused = submit(&app, &page, form, &[], &[other_site]).await;
            assert!(refused.status == 403 && refused.body.contains("another site"), "{refused:?}");
        }
        for kind in ["text/plain", "multipart/form-data; boundary=x"] {
            let headers = [BROWSER, other_site, ("content-type", kind)];
            let refused = app.send("POST", "/requests", &headers, "x").await;
            assert!(refused.status == 403 && refused.body.contains("another site"), "{refused:?}");
        }
    }
    let deleted = submit(&app, &page, 1, &[], &[("origin", "http://example.test")]).await;
    assert_eq!((deleted.status, deleted.header("location")), (303, "/requests"));
    assert_eq!(app.get(&path).await.status, 404);
    let gone = app.send("GET", &path, &[BROWSER], "").await;
    assert!(gone.status == 404 && gone.body.contains("Request not found."), "{gone:?}");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_accept_header_decides_between_pages_and_json() {
    let app = start().await;
    let cases = [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/html", "text/html; charset=utf-8"),
        ("text/html, */*", "text/html; charset=utf-8"),
        ("application/json, text/html;q=0.5", "application/json"),
        ("text/html; q=0.9, application/json; q=0.1", "text/html; charset=utf-8"),
        ("text/html;q=0", "application/json"),
    ];
    for (accept, expected) in cases {
        let answer = app.send("GET", "/requests", &[("accept", accept)], "").await;
        assert_eq!(answer.header("content-type"), expected, "{accept}");
    }
    app.stop().await;
}

/// Fills a form of a page and sends it as a browser does.
async fn submit(
    app: &TestApp,
    page: &Answer,
    form: usize,
    fields: &[(&str, &str)],
    headers: &[(&str, &str)],
) -> Answer {
    let form = forms(&page.body).into_iter().nth(form).expect("a form");
    let mut body = form_urlencoded::Serializer::new(String::new());
    for field in form.fields.iter().filter(|field| !field.is_button) {
        if fields.iter().all(|(name, _)| *name != field.name) {
            body.append_pair(&field.name, &field.value);
        }
    }
    body.extend_pairs(fields);
    let headers: Vec<_> = [BROWSER, FORM].into_iter().chain(headers.iter().copied()).collect();
    app.send("POST", &form.action, &headers, &body.finish()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_large_requests_is_shorter_and_none_is_left_out() {
    let app = start().await;
    let large = json!({ "text": "x".repeat(200_000) });
    for _ in 0..7 {
        assert_eq!(app.json("POST", "/requests", &large).await.status, 201);
    }
    let (mut path, mut pages, mut uids) = ("/requests".to_owned(), 0, std::collections::BTreeSet::new());
    loop {
        let answer = app.get(&path).await;
        assert!(answer.body.len() < 800_000, "{} bytes", answer.body.len());
        let page = answer.json();
        let items = page["items"].as_array().expect("a list").iter();
        uids.extend(items.map(|item| item["uid"].to_string()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => path = format!("/requests?before={next}"),
            None => break,
        }
    }
    assert_eq!((pages, uids.len()), (3, 7));
    app.stop().await;
}
