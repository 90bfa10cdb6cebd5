//! A signature that this process has made is not verified again. Whether its token is valid is checked as for any other.

use super::reads;
use crate::device::{ada_on_a_device, end_sessions_of_ada};
use crate::support::metric;
use server::testing::TestServer;

const HITS: &str = "sarsen_cache_hits_total{cache=\"verified signatures\"}";
const MISSES: &str = "sarsen_cache_misses_total{cache=\"verified signatures\"}";

#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_with_a_token_verifies_no_signature_and_obeys_what_was_revoked() {
    let server = TestServer::start().await;
    let (used, unused) = (ada_on_a_device(&server).await, ada_on_a_device(&server).await);
    let before = metric(&server, HITS).await;
    assert_eq!(reads(&server, &used).await, 200);
    assert_eq!(metric(&server, HITS).await, before + 1);
    assert_eq!(reads(&server, &used).await, 200);
    assert_eq!(metric(&server, HITS).await, before + 1, "its access is cached");

    end_sessions_of_ada(&server).await;
    for tokens in [&used, &unused] {
        assert_eq!(reads(&server, tokens).await, 401);
    }
    assert_eq!(metric(&server, HITS).await, before + 3);
    assert_eq!(metric(&server, MISSES).await, 0, "nobody else has signed a token");
}
