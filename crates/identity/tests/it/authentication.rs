//! How a user authenticated, on its way from a session to codes, devices and grants, on every database; also beside an
//! instance of the previous release, which writes the same tables and knows nothing of it.

use crate::previous_release::{KINDS, old_statement};
use crate::support::{START, TestIdentity};
use identity::authentication::{Authentication, Level, Method};
use identity::authorization_codes::{self, NewCode, Presented, Redeemed};
use identity::clients::{Client, Kind};
use identity::devices::{self, Decision, LIFE, NewDevice, Redemption};
use identity::grants::{self, Grant, NewRefresh};
use identity::ids::{GrantId, SessionId};
use identity::organizations::Organization;
use identity::scopes::Scope;
use identity::secrets::SecretKey;
use identity::sessions::{self, Session};
use identity::user_codes::UserCodes;
use identity::{Result, Time, consents};
use std::time::Duration;
use store::testing::TestPlace;
use store::{Dialect, Key, Sql, Value};

const URI: &str = "http://127.0.0.1/callback";

/// A session of ada at acme, and clients that she signs in to.
struct Ada {
    test: TestIdentity,
    acme: Organization,
    session: SessionId,
    web: Client,
    device: Client,
}

impl Ada {
    async fn at(place: TestPlace) -> Ada {
        let test = TestIdentity::open_in(place).await;
        let acme = test.organization("acme").await;
        let service = test.service(&acme, "app").await;
        let (web, device) =
            (test.client(&service, Kind::Spa).await, test.client(&service, Kind::Device).await);
        let session = test.session(&test.user(&acme, "ada@acme.test").await).await;
        Ada { test, acme, session, web, device }
    }

    async fn session(&self) -> Session {
        let id = self.session.clone();
        let found = self.test.read(move |snapshot| sessions::live(snapshot, &id, START)).await;
        found.expect("reads").expect("the session lives")
    }

    /// Authenticates again, `seconds` after the start.
    async fn authenticate(&self, seconds: u64, by: &[Method]) -> Authentication {
        let (id, how) = (self.session.clone(), Authentication::new(later(seconds), by));
        let stored = how.clone();
        self.test.write(move |tx, _| sessions::authenticate(tx, &id, &how)).await.expect("authenticates");
        stored
    }

    async fn code(&self) -> NewCode {
        let (session, scope) = (self.session().await, Scope::parse("openid"));
        let client = self.web.id.clone();
        let new = NewCode::generate(client, &session, URI.to_owned(), scope, START, self.test.random());
        let made = new.clone();
        let stored = self.test.write(move |tx, actor| {
            consents::give(tx, &session, &new.client, &new.scope, actor)?;
            authorization_codes::create(tx, &new, START)
        });
        stored.await.expect("a code");
        made
    }

    async fn redeem(&self, code: &NewCode) -> Grant {
        let presented = Presented {
            code: code.code.clone(),
            client: self.web.id.clone(),
            redirect_uri: URI.to_owned(),
            verifier: None,
        };
        let (id, refresh) =
            (GrantId::new(START, self.test.random()), NewRefresh::first(START, self.test.random()));
        let grant = id.clone();
        let redeemed = self
            .test
            .write(move |tx, actor| authorization_codes::redeem(tx, &presented, &id, &refresh, actor))
            .await;
        assert!(matches!(redeemed, Ok(Redeemed::Grant { .. })), "{redeemed:?}");
        self.grant(grant).await
    }

    async fn grant(&self, id: GrantId) -> Grant {
        let found = self.test.read(move |snapshot| grants::get(snapshot, &id)).await;
        found.expect("reads").expect("the grant is there")
    }

    /// A device that ada has allowed.
    async fn allowed_device(&self) -> NewDevice {
        let codes = UserCodes::new(&SecretKey::new(&[7; 32]), self.test.random()).expect("keys");
        let scope = Scope::parse("openid");
        let new = NewDevice::generate(&self.device.id, scope, LIFE, START, &codes, self.test.random());
        let new = new.expect("codes");
        let (made, acme, session) = (new.clone(), self.acme.id.clone(), self.session.clone());
        let decided = self.test.write(move |tx, actor| {
            devices::begin(tx, &new)?;
            devices::decide(tx, &new.id, &acme, Decision::Allow, &session, actor)
        });
        assert!(decided.await.expect("decides"));
        made
    }

    /// The grant of a device and its session.
    async fn redeem_device(&self, device: &NewDevice) -> (Grant, Session) {
        let random = self.test.random();
        let new = Redemption {
            session_life: devices::session_life(false),
            session: SessionId::new(START, random),
            grant: GrantId::new(START, random),
            refresh: NewRefresh::first(START, random),
        };
        let (code, client, made) = (device.device_code.clone(), self.device.id.clone(), new.clone());
        let redeemed = self.test.write(move |tx, _| {
            let device = devices::by_device_code(tx.snapshot(), &code, &client)?;
            devices::redeem(tx, &device, &made, "A client", START)?;
            sessions::live(tx.snapshot(), &made.session, START)
        });
        let session = redeemed.await.expect("redeems").expect("the session of the device");
        (self.grant(new.grant).await, session)
    }

    /// Runs a statement, as another program would.
    async fn run(&self, statement: Sql, values: Vec<Value<'static>>) {
        let ran = self.test.write(move |tx, _| -> Result<()> {
            assert_eq!(tx.exec(&statement, &values)?, 1);
            // What the store checks of commands: the others' caches would learn of it.
            for table in ["sessions", "grants"] {
                tx.changed(Key::row(table, "id", "any"));
            }
            Ok(())
        });
        ran.await.expect("runs");
    }
}

fn later(seconds: u64) -> Time {
    START + Duration::from_secs(seconds)
}

async fn each_database(story: impl AsyncFn(Ada, Dialect)) {
    for (kind, dialect) in KINDS {
        let Some(place) = TestPlace::on(kind) else { continue };
        story(Ada::at(place).await, dialect).await;
    }
}

#[tokio::test]
async fn a_code_and_a_device_carry_the_authentication_of_their_moment() {
    each_database(async |ada, _| {
        let strong = ada.authenticate(10, &[Method::Password, Method::Otp]).await;
        let (code, device) = (ada.code().await, ada.allowed_device().await);
        let weak = ada.authenticate(20, &[Method::Link]).await;
        assert_eq!(ada.session().await.authentication, weak, "nothing stays of a stronger one");

        let grant = ada.redeem(&code).await;
        assert_eq!((&grant.authentication, grant.session_authenticated_at), (&strong, weak.at));
        let (of_device, its_session) = ada.redeem_device(&device).await;
        assert_eq!((of_device.authentication, its_session.authentication), (strong.clone(), strong));
        let after = ada.redeem(&ada.code().await).await;
        assert_eq!(after.authentication, weak);
    })
    .await;
}

#[tokio::test]
async fn what_the_previous_release_writes_never_keeps_a_level() {
    each_database(async |ada, dialect| {
        let old = |name: &str| old_statement(dialect, name);
        let strong = [Method::Password, Method::Otp];
        for name in ["identity::sessions::RENEW", "identity::sessions::AUTHENTICATED"] {
            ada.authenticate(10, &strong).await;
            let at = later(30);
            let mut values: Vec<Value<'static>> = vec![ada.session.as_str().to_owned().into()];
            match name.ends_with("RENEW") {
                true => values.extend([Value::Blob(vec![7; 32].into()), at.into(), later(3600).into()]),
                false => values.push(at.into()),
            }
            ada.run(old(name), values).await;
            let seen = ada.session().await.authentication;
            assert_eq!((seen.at, seen.level(), seen.amr()), (at, None, None), "{name}");
            let again = ada.authenticate(40, &[Method::Password]).await;
            assert_eq!(ada.session().await.authentication, again, "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn rows_of_before_have_the_time_and_no_level() {
    let forget =
        |table: &str| Sql::dynamic(format!("UPDATE {table} SET authentication = NULL WHERE id = ?1"));
    each_database(async |ada, _| {
        let (code, device) = (ada.code().await, ada.allowed_device().await);
        let grant = ada.redeem(&ada.code().await).await;
        for (table, id) in [
            ("authorization_codes", code.id.as_str()),
            ("device_authorizations", device.id.as_str()),
            ("grants", grant.id.as_str()),
        ] {
            ada.run(forget(table), vec![id.to_owned().into()]).await;
        }
        // Made by the previous release from a session of this one: the session still has the words.
        assert_eq!(ada.grant(grant.id.clone()).await.authentication.level(), Some(Level::One));
        ada.authenticate(10, &[Method::Password, Method::Otp]).await;
        let old = ada.grant(grant.id).await.authentication;
        assert_eq!((old.at, old.level(), old.amr()), (START, None, None), "another authentication");

        // Codes of the previous release take what the session has.
        ada.run(forget("sessions"), vec![ada.session.as_str().to_owned().into()]).await;
        let of_code = ada.redeem(&code).await.authentication;
        let (of_device, its_session) = ada.redeem_device(&device).await;
        for found in [of_code, of_device.authentication, its_session.authentication] {
            assert_eq!((found.at, found.level(), found.amr()), (later(10), None, None));
        }
    })
    .await;
}
