//! Device codes that wait are known without a look at the database: to who holds the code, until somebody decides, and
//! only where no other instance may be told of that first.

use crate::support::{START, TestIdentity};
use identity::clients::Kind;
use identity::devices::{self, Decision, LIFE, NewDevice};
use identity::scopes::Scope;
use identity::waiting::Waiting;
use std::sync::Arc;
use store::testing::{Kind as Database, TestPlace};

#[tokio::test]
async fn a_code_waits_for_its_client_until_somebody_decides_or_its_time_is_over() {
    let test = TestIdentity::open_in(TestPlace::on(Database::Sqlite).expect("a file")).await;
    let acme = test.organization("acme").await;
    let service = test.service(&acme, "app").await;
    let [client, other] =
        [test.client(&service, Kind::Device).await, test.client(&service, Kind::Device).await];
    let ada = test.user(&acme, "ada@acme.test").await;
    let session = test.session(&ada).await;

    for decision in [Decision::Allow, Decision::Deny] {
        let waiting = Waiting::new(test.store.clone());
        let new = NewDevice::draw(&client.id, Scope::parse("openid"), LIFE, START, test.random());
        let (id, secret) = devices::id_of(&new.device_code).expect("a code");
        assert!(!waiting.has(&id, secret, &client.id, START), "it is not there yet");
        waiting.begin(&Arc::new(new.clone())).await.expect("begins");
        assert!(waiting.has(&id, secret, &client.id, START));
        assert!(waiting.has(&id, secret, &client.id, new.expires_at - std::time::Duration::from_millis(1)));
        assert!(!waiting.has(&id, secret, &client.id, new.expires_at));
        assert!(!waiting.has(&id, &secret[1..], &client.id, START));
        assert!(!waiting.has(&id, secret, &other.id, START));

        let (device, home, session) = (id.clone(), acme.id.clone(), session.clone());
        let decided = test.write(move |tx, actor| {
            let decided = devices::decide(tx, &device, &home, decision, &session, actor)?;
            assert!(decided);
            Ok(())
        });
        decided.await.expect("decides");
        assert!(!waiting.has(&id, secret, &client.id, START), "{decision:?}");
    }
}

#[tokio::test]
async fn where_other_instances_write_the_database_is_asked() {
    let place = TestPlace::create();
    if !place.is_shared() {
        return;
    }
    let test = TestIdentity::open_in(place).await;
    let acme = test.organization("acme").await;
    let client = test.client(&test.service(&acme, "app").await, Kind::Device).await;
    let waiting = Waiting::new(test.store.clone());
    let new = NewDevice::draw(&client.id, Scope::parse("openid"), LIFE, START, test.random());
    waiting.begin(&Arc::new(new.clone())).await.expect("begins");
    let (id, secret) = devices::id_of(&new.device_code).expect("a code");
    assert!(!waiting.has(&id, secret, &client.id, START));
}
