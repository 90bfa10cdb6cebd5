//! A lease has one holder at a time.

use crate::support::{START, TestIdentity};
use identity::leases;
use std::time::Duration;

#[tokio::test]
async fn a_lease_has_one_holder_until_it_ends() {
    let identity = TestIdentity::open().await;
    let take = async |holder: &'static str, after_s: u64| {
        let now = START + Duration::from_secs(after_s);
        let ends_at = now + Duration::from_secs(60);
        identity.write(move |tx, _| leases::take(tx, "tidying", holder, now, ends_at)).await.expect("runs")
    };
    assert!(take("first", 0).await);
    assert!(!take("second", 30).await);
    assert!(take("first", 30).await, "the holder renews it");
    assert!(!take("second", 89).await);
    assert!(take("second", 90).await, "the lease of the first has ended");
    assert!(!take("first", 91).await);
}
