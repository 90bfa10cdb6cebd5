//! Cursors of lists: only those that a list gave.

use super::problem;
use crate::support::Admin;
use server::testing::{Rows, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_no_list_gave_is_refused() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let mut rows = Rows::new();
    for list in
        ["services", "clients", "plans", "customers", "subscriptions", "users", "audit", "administrators"]
    {
        let row = async {
            let path = format!("/api/organizations/acme/{list}");
            for wrong in ["xyz!", "key_00000000000000000000000000", "Aa", "", "a"] {
                let answer = admin.request("GET", &format!("{path}?cursor={wrong}")).send().await;
                assert_eq!(problem(&answer), (400, "invalid_query".to_owned()), "{path} {wrong:?}");
            }
            let mut seen = 0;
            let mut next = String::new();
            loop {
                let page = admin.read(&format!("{path}?limit=1{next}")).await;
                seen += page["items"].as_array().map_or(0, Vec::len);
                match page["next"].as_str() {
                    Some(cursor) => next = format!("&cursor={cursor}"),
                    None => break,
                }
            }
            let whole = admin.read(&format!("{path}?limit=200")).await;
            assert_eq!(Some(seen), whole["items"].as_array().map(Vec::len), "{path}: every next is good");
        };
        rows.row(list, row).await;
    }
    for path in ["/api/organizations", "/api/platform/organizations"] {
        let answer = platform.request("GET", &format!("{path}?cursor=XYZ")).send().await;
        assert_eq!(problem(&answer), (400, "invalid_query".to_owned()), "{path}");
    }
    server.stop().await;
}
