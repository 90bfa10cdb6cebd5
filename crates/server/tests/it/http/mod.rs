//! What HTTP itself can do to a server: limits, headers, addresses (SECURITY, section 7; PROTOCOL 2, 3).

mod connections;
mod cursors;
mod description;
mod discovery;
mod errors;
mod field_errors;
mod headers;
mod hosts;
mod limits;
mod lists;
mod operating;
mod request_ids;
mod safe;
mod shapes;

use server::testing::Answer;

/// Status and code of a problem document (RFC 9457) that has all that it should.
fn problem(answer: &Answer) -> (u16, String) {
    assert_eq!(answer.header("content-type"), "application/problem+json", "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    let body = answer.json();
    let fields: Vec<&str> =
        body.as_object().into_iter().flat_map(|body| body.keys()).map(|name| &**name).collect();
    let fields: Vec<&str> = fields.into_iter().filter(|name| *name != "errors").collect();
    assert_eq!(fields, ["code", "detail", "status", "title", "type"], "{answer:?}");
    for error in body["errors"].as_array().into_iter().flatten() {
        let fields: Vec<&String> = error.as_object().into_iter().flat_map(|error| error.keys()).collect();
        assert_eq!(fields, ["code", "detail", "field"], "{answer:?}");
    }
    assert_eq!(body["status"], answer.status);
    (answer.status, answer.text("code"))
}

/// Whether this is a page, with the headers that every page has.
fn is_page(answer: &Answer) -> bool {
    let policy = answer.header("content-security-policy");
    let strict = ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"];
    answer.header("content-type") == "text/html; charset=utf-8"
        && strict.iter().all(|rule| policy.contains(rule))
        && !policy.contains("unsafe")
        && !policy.contains("form-action")
        && answer.header("x-frame-options") == "DENY"
        && answer.header("referrer-policy") == "no-referrer"
        && answer.header("cache-control") == "no-store"
        && answer.header("x-content-type-options") == "nosniff"
}
