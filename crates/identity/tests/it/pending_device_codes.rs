//! The cache of pending device codes. An entry matches only its code and client, and ends when a user decides. The
//! cache is used only on a database that no other instance writes to.

use crate::support::{START, TestIdentity};
use identity::Error;
use identity::clients::Kind;
use identity::devices::{self, Decision, LIFE, NewDevice};
use identity::ids::DeviceId;
use identity::pending_device_codes::PendingDeviceCodes;
use identity::scopes::Scope;
use identity::secrets::{Random, SecretKey};
use identity::user_codes::UserCodes;
use std::sync::Arc;
use store::testing::{Kind as Database, TestPlace};

#[tokio::test]
async fn a_code_is_pending_for_its_client_until_it_is_decided_or_expires() {
    let test = TestIdentity::open_in(TestPlace::on(Database::Sqlite).expect("a file")).await;
    let acme = test.organization("acme").await;
    let service = test.service(&acme, "app").await;
    let [client, other] =
        [test.client(&service, Kind::Device).await, test.client(&service, Kind::Device).await];
    let ada = test.user(&acme, "ada@acme.test").await;
    let session = test.session(&ada).await;
    let codes = codes(&test);

    for decision in [Decision::Allow, Decision::Deny] {
        let waiting = PendingDeviceCodes::new(test.store.clone());
        let new = NewDevice::generate(&client.id, Scope::parse("openid"), LIFE, START, &codes, test.random())
            .expect("codes");
        let (id, secret) = devices::id_of(&new.device_code).expect("a code");
        assert!(!waiting.has(&id, secret, &client.id, START), "not stored yet");
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
async fn a_shared_database_bypasses_the_cache() {
    let place = TestPlace::create();
    if !place.is_shared() {
        return;
    }
    let test = TestIdentity::open_in(place).await;
    let acme = test.organization("acme").await;
    let client = test.client(&test.service(&acme, "app").await, Kind::Device).await;
    let (waiting, codes) = (PendingDeviceCodes::new(test.store.clone()), codes(&test));
    let new = NewDevice::generate(&client.id, Scope::parse("openid"), LIFE, START, &codes, test.random())
        .expect("codes");
    waiting.begin(&Arc::new(new.clone())).await.expect("begins");
    let (id, secret) = devices::id_of(&new.device_code).expect("a code");
    assert!(!waiting.has(&id, secret, &client.id, START));
}

#[tokio::test]
async fn an_instance_generates_new_codes_after_a_collision() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let client = test.client(&test.service(&acme, "app").await, Kind::Device).await;
    let waiting = PendingDeviceCodes::new(test.store.clone());
    // Both begin at the same slot.
    let [one, other] = [1, 2].map(|_| UserCodes::new(&SecretKey::new(&[7; 32]), &Zeros).expect("keys"));
    let generate = |codes| {
        let generated =
            NewDevice::generate(&client.id, Scope::parse("openid"), LIFE, START, codes, test.random());
        generated.expect("codes")
    };
    let (first, mut second) = (generate(&one), generate(&other));
    assert_eq!((&first.id, &first.user_code), (&second.id, &second.user_code));
    second.agent = "a terminal".to_owned();
    waiting.begin(&Arc::new(first.clone())).await.expect("begins");
    let taken = waiting.begin(&Arc::new(second.clone())).await.expect_err("taken");
    assert!(matches!(taken, Error::Taken { field: "user_code", .. }), "{taken:?}");
    second.regenerate(&other, test.random()).expect("codes");
    waiting.begin(&Arc::new(second.clone())).await.expect("begins");
    for (new, agent) in [(first, ""), (second, "a terminal")] {
        let ids = one.ids_of(&new.user_code, START).expect("ids");
        let found =
            test.read(move |snapshot| devices::find_pending(snapshot, &ids, START)).await.expect("exists");
        assert_eq!((&found.id, &*found.agent), (&new.id, agent));
        assert_eq!(found.expires_at, new.expires_at);
    }
}

#[tokio::test]
async fn a_code_shared_by_two_pending_devices_is_not_found() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let client = test.client(&test.service(&acme, "app").await, Kind::Device).await;
    let (waiting, codes) = (PendingDeviceCodes::new(test.store.clone()), codes(&test));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let new = NewDevice::generate(&client.id, Scope::parse("openid"), LIFE, START, &codes, test.random());
        let new = new.expect("codes");
        ids.push(new.id.clone());
        waiting.begin(&Arc::new(new)).await.expect("begins");
    }
    // Simulates a code that decrypts to the first id in this round and to the second in the next.
    let [first, second] = [ids[0].clone(), ids[1].clone()];
    let unused = DeviceId::from_uuid(0);
    for (ids, is_found) in
        [([unused.clone(), first.clone(), unused.clone()], true), ([unused, first, second], false)]
    {
        let found = test.read(move |snapshot| devices::find_pending(snapshot, &ids, START)).await;
        assert_eq!(found.is_ok(), is_found);
    }
}

/// Returns the same bytes each time.
struct Zeros;

impl Random for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

fn codes(test: &TestIdentity) -> UserCodes {
    UserCodes::new(&SecretKey::new(&[7; 32]), test.random()).expect("keys")
}
