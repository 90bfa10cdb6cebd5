//! What was switched off is off for codes that wait, whatever a server remembers of the client: the database decides.

use crate::support::{START, TestIdentity};
use identity::clients::{self, Client, ClientPatch, Kind};
use identity::devices::{self, Decision, LIFE, NewDevice, Redeemed, Redemption};
use identity::grants::NewRefresh;
use identity::ids::{GrantId, SessionId};
use identity::organizations::{self, DeviceFlow, Organization};
use identity::scopes::Scope;
use identity::secrets::SecretKey;
use identity::user_codes::UserCodes;
use identity::{Error, Result};

/// A device of a client of acme, and who may decide about it.
struct Story {
    test: TestIdentity,
    acme: Organization,
    client: Client,
    codes: UserCodes,
    session: SessionId,
}

impl Story {
    async fn begin() -> Story {
        let test = TestIdentity::open().await;
        let acme = test.organization("acme").await;
        let client = test.client(&test.service(&acme, "app").await, Kind::Device).await;
        let session = test.session(&test.user(&acme, "ada@acme.test").await).await;
        let codes = UserCodes::new(&SecretKey::new(&[7; 32]), test.random()).expect("keys");
        Story { test, acme, client, codes, session }
    }

    async fn device(&self) -> NewDevice {
        let scope = Scope::parse("openid");
        let new = NewDevice::draw(&self.client.id, scope, LIFE, START, &self.codes, self.test.random());
        let (new, made) = new.map(|new| (new.clone(), new)).expect("codes");
        self.test.write(move |tx, _| devices::begin(tx, &new)).await.expect("begins");
        made
    }

    async fn decide(&self, device: &NewDevice, decision: Decision) -> bool {
        let (device, acme, session) = (device.id.clone(), self.acme.id.clone(), self.session.clone());
        let decided =
            self.test.write(move |tx, actor| devices::decide(tx, &device, &acme, decision, &session, actor));
        decided.await.expect("an answer")
    }

    async fn redeem(&self, device: &NewDevice) -> Result<Redeemed> {
        let random = self.test.random();
        let new = Redemption {
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
            clients::patch(tx, &client, &patch, actor)
        });
        switched.await.expect("switches")
    }
}

#[tokio::test]
async fn codes_that_wait_are_worth_nothing_while_their_organization_has_no_device_flow() {
    let story = Story::begin().await;
    let (waiting, allowed) = (story.device().await, story.device().await);
    assert!(story.decide(&allowed, Decision::Allow).await);
    story.set(DeviceFlow::Off).await;
    for decision in [Decision::Allow, Decision::Deny] {
        assert!(!story.decide(&waiting, decision).await, "{decision:?}");
    }
    let redeemed = story.redeem(&allowed).await;
    assert!(matches!(redeemed, Err(Error::InvalidGrant)), "{redeemed:?}");
    story.set(DeviceFlow::Short).await;
    story.redeem(&allowed).await.expect("what was refused was not used");
    assert!(story.decide(&waiting, Decision::Allow).await);
}

#[tokio::test]
async fn codes_that_wait_are_worth_nothing_while_their_client_has_no_device_flow() {
    let story = Story::begin().await;
    let allowed = story.device().await;
    assert!(story.decide(&allowed, Decision::Allow).await);
    let off = story.switch(false).await;
    assert_eq!((&*off.grants, off.may_use_device_flow()), (&["refresh_token".to_owned()][..], false));
    let redeemed = story.redeem(&allowed).await;
    assert!(matches!(redeemed, Err(Error::InvalidGrant)), "{redeemed:?}");
    let on = story.switch(true).await;
    assert_eq!((on.grants, on.device_flow), (story.client.grants.clone(), DeviceFlow::Allowed));
    story.redeem(&allowed).await.expect("what was refused was not used");
}
