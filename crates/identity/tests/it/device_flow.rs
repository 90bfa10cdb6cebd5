//! Turning off the device flow also invalidates pending and approved codes. The commands check the database, not a
//! cache.

use crate::support::{START, TestIdentity};
use identity::administrators::Role;
use identity::clients::{self, Client, ClientPatch, Kind};
use identity::devices::{self, Decision, LIFE, NewDevice, Redeemed, Redemption};
use identity::grants::NewRefresh;
use identity::ids::{GrantId, SessionId};
use identity::organizations::{self, DeviceFlow, Organization};
use identity::scopes::Scope;
use identity::secrets::SecretKey;
use identity::user_codes::UserCodes;
use identity::{Error, Result};

/// A device client of the organization acme, and the session of a user who decides.
struct Fixture {
    test: TestIdentity,
    acme: Organization,
    client: Client,
    codes: UserCodes,
    session: SessionId,
}

impl Fixture {
    async fn begin() -> Fixture {
        let test = TestIdentity::open().await;
        let acme = test.organization("acme").await;
        let client = test.client(&test.service(&acme, "app").await, Kind::Device).await;
        let session = test.session(&test.user(&acme, "ada@acme.test").await).await;
        let codes = UserCodes::new(&SecretKey::new(&[7; 32]), test.random()).expect("keys");
        Fixture { test, acme, client, codes, session }
    }

    async fn device(&self) -> NewDevice {
        let scope = Scope::parse("openid");
        let new = NewDevice::generate(&self.client.id, scope, LIFE, START, &self.codes, self.test.random());
        let (new, made) = new.map(|new| (new.clone(), new)).expect("codes");
        self.test.write(move |tx, _| devices::begin(tx, &new)).await.expect("begins");
        made
    }

    async fn decide(&self, device: &NewDevice, decision: Decision) -> bool {
        let (device, acme, session) = (device.id.clone(), self.acme.id.clone(), self.session.clone());
        let decided =
            self.test.write(move |tx, actor| devices::decide(tx, &device, &acme, decision, &session, actor));
        decided.await.expect("runs")
    }

    async fn redeem(&self, device: &NewDevice) -> Result<Redeemed> {
        let random = self.test.random();
        let new = Redemption {
            session_life: devices::session_life(false),
            session: SessionId::new(START, random),
            grant: GrantId::new(START, random),
            refresh: NewRefresh::first(START, random),
        };
        let (code, client) = (device.device_code.clone(), self.client.id.clone());
        self.test
            .write(move |tx, _| {
                let device = devices::by_device_code(tx.snapshot(), &code, &client)?;
                devices::redeem(tx, &device, &new, "A client", START)
            })
            .await
    }

    async fn set(&self, rule: DeviceFlow) {
        let acme = self.acme.clone();
        let set = self.test.write(move |tx, actor| organizations::set_device_flow(tx, &acme, rule, actor));
        assert_eq!(set.await.expect("set").device_flow, rule);
    }

    async fn switch(&self, on: bool) -> Client {
        let id = self.client.id.clone();
        let switched = self.test.write(move |tx, actor| {
            let client = clients::get(tx.snapshot(), &id)?;
            let patch = ClientPatch { device_flow: Some(on), ..ClientPatch::default() };
            clients::patch(tx, &client, &patch, Role::Owner, actor)
        });
        switched.await.expect("switches")
    }
}

#[tokio::test]
async fn an_organization_that_turns_off_the_device_flow_invalidates_its_codes() {
    let fixture = Fixture::begin().await;
    let (waiting, allowed) = (fixture.device().await, fixture.device().await);
    assert!(fixture.decide(&allowed, Decision::Allow).await);
    fixture.set(DeviceFlow::Off).await;
    for decision in [Decision::Allow, Decision::Deny] {
        assert!(!fixture.decide(&waiting, decision).await, "{decision:?}");
    }
    let redeemed = fixture.redeem(&allowed).await;
    assert!(matches!(redeemed, Err(Error::InvalidGrant)), "{redeemed:?}");
    fixture.set(DeviceFlow::Short).await;
    fixture.redeem(&allowed).await.expect("a rejected redemption does not use the code");
    assert!(fixture.decide(&waiting, Decision::Allow).await);
}

#[tokio::test]
async fn a_client_without_the_device_flow_cannot_redeem_its_codes() {
    let fixture = Fixture::begin().await;
    let allowed = fixture.device().await;
    assert!(fixture.decide(&allowed, Decision::Allow).await);
    let off = fixture.switch(false).await;
    assert_eq!((&*off.grants, off.may_use_device_flow()), (&["refresh_token".to_owned()][..], false));
    let redeemed = fixture.redeem(&allowed).await;
    assert!(matches!(redeemed, Err(Error::InvalidGrant)), "{redeemed:?}");
    let on = fixture.switch(true).await;
    assert_eq!((on.grants, on.device_flow), (fixture.client.grants.clone(), DeviceFlow::Allowed));
    fixture.redeem(&allowed).await.expect("a rejected redemption does not use the code");
}
