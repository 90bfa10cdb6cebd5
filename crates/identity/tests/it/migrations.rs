//! Migrations of databases of earlier versions, with their data.

use crate::support::START;
use identity::authentication::{Authentication, Method};
use identity::ids::{ClientId, GrantId, OrganizationId, ServiceId, SessionId, UserId};
use identity::organizations::{self, DeviceFlow};
use identity::tokens::AccessTokenTyp;
use identity::{Result, grants, schema, services, sessions, user_search};
use std::time::Duration;
use store::testing::{Kind, TestPlace, kind};
use store::{Migration, Options, Sql, Store, args, sql};

fn open(place: &TestPlace, migrations: &'static [Migration]) -> Store {
    let mut options = Options::new(place.url(), migrations);
    options.writer.deadline = Duration::from_secs(30);
    Store::open(options).expect("opens")
}

#[tokio::test]
async fn pending_devices_survive_the_removal_of_the_user_code_index_except_on_mysql() {
    static OLD: Sql = sql("INSERT INTO device_authorizations
             (id, hash, user_code, client_id, scope, address, agent, created_at, expires_at)
         VALUES (?1, ?2, 'BCDFGHJK', 'client', 'openid', '', '', ?3, ?3)");
    static ALL: Sql = sql("SELECT id FROM device_authorizations");
    let place = TestPlace::create();
    let before = open(&place, &schema::MIGRATIONS[..2]);
    let made = before.write("test", |tx| -> Result<()> {
        tx.exec(&OLD, args!["device", &[7_u8; 32][..], START])?;
        Ok(())
    });
    made.await.expect("a row");
    before.close();
    let now = open(&place, schema::MIGRATIONS);
    let kept =
        now.read(|snapshot| -> Result<Vec<String>> { Ok(snapshot.all(&ALL, args![], |row| row.get(0))?) });
    let expected: &[&str] = if kind() == Kind::Mysql { &[] } else { &["device"] };
    assert_eq!(kept.await.expect("reads"), expected);
    now.close();
}

#[tokio::test]
async fn an_organization_without_a_device_flow_setting_allows_the_device_flow() {
    static OLD: Sql = sql("INSERT INTO organizations (id, slug, name, created_by, created_at)
         VALUES (?1, 'acme', 'Acme', 'system', ?2)");
    let place = TestPlace::create();
    let before = open(&place, &schema::MIGRATIONS[..3]);
    let id = OrganizationId::from_uuid(1);
    let acme = id.clone();
    let made = before.write("test", move |tx| -> Result<()> {
        tx.exec(&OLD, args![&acme, START])?;
        Ok(())
    });
    made.await.expect("a row");
    before.close();
    let now = open(&place, schema::MIGRATIONS);
    let found = now.read(move |snapshot| organizations::get(snapshot, &id)).await.expect("exists");
    assert_eq!((&*found.slug, found.device_flow), ("acme", DeviceFlow::Allowed));
    now.close();
}

#[tokio::test]
async fn users_from_before_the_search_are_found() {
    static ORGANIZATION: Sql = sql("INSERT INTO organizations (id, slug, name, created_by, created_at)
         VALUES (?1, 'acme', 'Acme', 'system', ?2)");
    static USER: Sql = sql("INSERT INTO users (id, organization_id, email, name, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5)");
    let place = TestPlace::create();
    let before = open(&place, &schema::MIGRATIONS[..10]);
    let (id, acme) = (OrganizationId::from_uuid(1), OrganizationId::from_uuid(1));
    let made = before.write("test", move |tx| -> Result<()> {
        tx.exec(&ORGANIZATION, args![&acme, START])?;
        let users = [
            (1, "ada@acme.test", "Ada King Lovelace"),
            (2, "grace@acme.test", "grace@acme.test"),
            (3, "madonna@acme.test", "Madonna"),
            (4, "long@acme.test", "One Two Three Four Five Six Seven"),
        ];
        for (number, email, name) in users {
            tx.exec(&USER, args![&UserId::from_uuid(number), &acme, email, name, START])?;
        }
        Ok(())
    });
    made.await.expect("rows");
    before.close();
    let now = open(&place, schema::MIGRATIONS);
    let found = now.read(move |snapshot| {
        ["ada@", "ada k", "king", "love", "grace", "madonna", "two", "six seven"]
            .iter()
            .map(|text| {
                let found = user_search::find(snapshot, &id, text, None, 9)?;
                Ok(found.into_iter().map(|(_, user)| user.email).collect())
            })
            .collect::<Result<Vec<Vec<String>>>>()
    });
    let found = found.await.expect("reads").concat();
    let ada = ["ada@acme.test"; 4];
    assert_eq!(found[..4], ada);
    assert_eq!(found[4..], ["grace@acme.test", "madonna@acme.test", "long@acme.test", "long@acme.test"]);
    now.close();
}

#[tokio::test]
async fn a_service_gets_the_type_of_access_tokens_that_one_of_its_clients_had() {
    static ORGANIZATION: Sql = sql("INSERT INTO organizations (id, slug, name, created_by, created_at)
         VALUES (?1, 'acme', 'Acme', 'system', ?2)");
    static SERVICE: Sql = sql("INSERT INTO services (id, organization_id, slug, name, created_at)
         VALUES (?1, ?2, ?3, ?3, ?4)");
    static CLIENT: Sql = sql("INSERT INTO clients (id, organization_id, service_id, kind, name, grants,
             pkce_required, consent_required, id_token_alg, access_token_typ, created_at)
         VALUES (?1, ?2, ?3, 'web', '', '', 0, 0, 'RS256', ?4, ?5)");
    const SERVICES: [(&str, &[Option<&str>], AccessTokenTyp); 4] = [
        ("mixed", &[None, Some("JWT")], AccessTokenTyp::Jwt),
        ("strict", &[Some("at+jwt"), None], AccessTokenTyp::AtJwt),
        ("plain", &[None], AccessTokenTyp::AtJwt),
        ("unused", &[], AccessTokenTyp::AtJwt),
    ];
    let place = TestPlace::create();
    let number = schema::MIGRATIONS.iter().position(|step| step.name == "type of access tokens");
    let before = open(&place, &schema::MIGRATIONS[..number.expect("a migration")]);
    let acme = OrganizationId::from_uuid(1);
    let organization = acme.clone();
    let made = before.write("test", move |tx| -> Result<()> {
        tx.exec(&ORGANIZATION, args![&organization, START])?;
        for (at, (slug, typs, _)) in SERVICES.into_iter().enumerate() {
            let service = ServiceId::from_uuid(at as u128);
            tx.exec(&SERVICE, args![&service, &organization, slug, START])?;
            for (index, typ) in typs.iter().enumerate() {
                let client = format!("{slug}{index}");
                tx.exec(&CLIENT, args![&client, &organization, &service, *typ, START])?;
            }
        }
        let none: Option<&str> = None;
        tx.exec(&CLIENT, args!["console", &organization, none, Some("JWT"), START])?;
        Ok(())
    });
    made.await.expect("rows");
    before.close();
    let now = open(&place, schema::MIGRATIONS);
    let found = now.read(move |snapshot| services::list(snapshot, &acme, None, 10)).await.expect("reads");
    for (slug, _, typ) in SERVICES {
        let service = found.iter().find(|service| service.slug == slug).expect("is there");
        assert_eq!(service.access_token_typ, typ, "{slug}");
    }
    now.close();
}

#[tokio::test]
async fn a_grant_from_before_keeps_the_time_of_authentication_that_its_session_has() {
    static ORGANIZATION: Sql = sql("INSERT INTO organizations (id, slug, name, created_by, created_at)
         VALUES (?1, 'acme', 'Acme', 'system', ?2)");
    static CLIENT: Sql = sql("INSERT INTO clients (id, organization_id, kind, name, grants,
             pkce_required, consent_required, id_token_alg, created_at)
         VALUES (?1, ?2, 'spa', '', '', 1, 0, 'RS256', ?3)");
    static SESSION: Sql = sql("INSERT INTO sessions (id, organization_id, user_id, kind, address, agent,
             created_at, authenticated_at, expires_at)
         VALUES (?1, ?2, ?3, 'browser', '', '', ?4, ?5, ?6)");
    static GRANT: Sql =
        sql("INSERT INTO grants (id, organization_id, user_id, client_id, session_id, scope, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, 'openid', ?6)");
    let place = TestPlace::create();
    let number = schema::MIGRATIONS.iter().position(|step| step.name == "authentication of grants");
    let before = open(&place, &schema::MIGRATIONS[..number.expect("a migration")]);
    let (session, grant) = (SessionId::from_uuid(1), GrantId::from_uuid(1));
    let (of_grant, id) = (session.clone(), grant.clone());
    let authenticated_at = START + Duration::from_secs(60);
    let made = before.write("test", move |tx| -> Result<()> {
        let (acme, user, client) =
            (OrganizationId::from_uuid(1), UserId::from_uuid(1), ClientId::from_uuid(1));
        let end = START + Duration::from_secs(3600);
        tx.exec(&ORGANIZATION, args![&acme, START])?;
        tx.exec(&CLIENT, args![&client, &acme, START])?;
        tx.exec(&SESSION, args![&of_grant, &acme, &user, START, authenticated_at, end])?;
        tx.exec(&GRANT, args![&id, &acme, &user, &client, &of_grant, START])?;
        // One whose session is deleted, which the cleanup will delete too.
        tx.exec(&GRANT, args![&GrantId::from_uuid(2), &acme, &user, &client, "gone", START])?;
        Ok(())
    });
    made.await.expect("rows");
    before.close();
    let now = open(&place, schema::MIGRATIONS);
    let later = START + Duration::from_secs(120);
    let again = Authentication::new(later, &[Method::Password]);
    let renewed = now.write("test", move |tx| sessions::authenticate(tx, &session, &again));
    renewed.await.expect("writes");
    let found =
        now.read(move |snapshot| grants::get(snapshot, &grant)).await.expect("reads").expect("a grant");
    assert_eq!((found.authentication.at, found.session_authenticated_at), (authenticated_at, later));
    assert_eq!((found.authentication.level(), found.authentication.amr()), (None, None), "as before");
    now.close();
}

/// A user's database may have applied part of a migration, and its completed steps are stored by number.
#[test]
fn released_migrations_do_not_change() {
    const RELEASED: [(i64, &str); 10] = [
        (1, "c980cc731c2adf5d"),
        (2, "c67b7732f89a1431"),
        (3, "7c7bda9d00eac12b"),
        (4, "b8a611278321e6a0"),
        (5, "329d8869f28f8019"),
        (6, "f32f65f43ec9ee83"),
        (7, "d505d9f7439dd42e"),
        (8, "56c5eee2e64136eb"),
        (9, "de5e59d1e3c0dfbb"),
        (10, "56b2074b29b1ed5b"),
    ];
    for (number, expected) in RELEASED {
        let migration = schema::MIGRATIONS.iter().find(|migration| migration.number == number);
        let text = migration.map(|migration| migration.text).unwrap_or_default();
        let hash = identity::secrets::hash(text.as_bytes());
        let found: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "migration {number} is released; write a new one");
    }
}
