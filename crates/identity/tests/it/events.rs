//! The log of events: what an entry says by itself, and what its delivery reads.

use crate::support::{START, TestIdentity};
use identity::clients::{Client, Kind};
use identity::events::{self, EVENTS, Event, Listening, Page, Revoked};
use identity::grants::{self, NewGrant};
use identity::ids::{GrantId, OrganizationId, ServiceId, SessionId};
use identity::organizations::Organization;
use identity::scopes::Scope;
use identity::services::Service;
use identity::sessions;
use identity::users::{self, Profile, User};
use store::{LogCursor, Sql, sql};

/// Puts the tables away that say whose a session is and where it has grants.
static PUT_AWAY: [Sql; 3] = [
    sql("ALTER TABLE sessions RENAME TO sessions_away"),
    sql("ALTER TABLE grants RENAME TO grants_away"),
    sql("ALTER TABLE clients RENAME TO clients_away"),
];

struct Tenant {
    organization: Organization,
    service: Service,
    client: Client,
    user: User,
}

impl Tenant {
    async fn new(test: &TestIdentity, slug: &'static str) -> Tenant {
        let organization = test.organization(slug).await;
        let service = test.service(&organization, "sketch").await;
        let client = test.client(&service, Kind::Spa).await;
        let user = test.user(&organization, "ada@example.test").await;
        Tenant { organization, service, client, user }
    }

    fn listening(&self) -> Listening {
        Listening {
            organization: self.organization.id.clone(),
            service: self.service.id.clone(),
            keys: Vec::new(),
        }
    }

    /// Signs the user in to the service.
    async fn sign_in(&self, test: &TestIdentity) -> (SessionId, GrantId) {
        let session = test.session(&self.user).await;
        let new = NewGrant {
            id: GrantId::new(START, test.random()),
            organization: self.organization.id.clone(),
            user: self.user.id.clone(),
            client: self.client.id.clone(),
            session: session.clone(),
            scope: Scope::parse("openid"),
        };
        let grant = new.id.clone();
        test.write(move |tx, _| grants::create(tx, &new, None, START)).await.expect("a grant");
        (session, grant)
    }
}

async fn begin(test: &TestIdentity) -> LogCursor {
    let history = test.store.log_history();
    test.read(move |snapshot| events::begin(snapshot, history)).await.expect("a cursor")
}

async fn deliver(test: &TestIdentity, from: &LogCursor, most: usize, services: Vec<Listening>) -> Page {
    let (history, from) = (test.store.log_history(), from.clone());
    let page = test.read(move |snapshot| events::deliver(snapshot, &from, history, most, &services, START));
    page.await.expect("delivers").expect("the cursor is known")
}

async fn rename(test: &TestIdentity, user: &User, name: String) {
    let (organization, id) = (user.organization.clone(), user.id.clone());
    let to = move |_| Profile::named(&name);
    test.write(move |tx, actor| users::change(tx, &organization, &id, &to, actor)).await.expect("renames");
}

async fn end(test: &TestIdentity, session: &SessionId) {
    let session = session.clone();
    test.write(move |tx, _| sessions::end(tx, &session, "a test", START)).await.expect("ends");
}

/// What the events of the first service say, without their states.
fn told(page: &Page) -> Vec<Event> {
    page.delivered.iter().filter(|one| one.to == 0).flat_map(|one| one.events.clone()).collect()
}

fn revoked(page: &Page) -> Vec<Revoked> {
    let revoked = |event| if let Event::Session(revoked) = event { Some(revoked) } else { None };
    told(page).into_iter().filter_map(revoked).collect()
}

#[tokio::test]
async fn the_end_of_a_session_is_delivered_without_a_look_at_its_rows() {
    let test = TestIdentity::open().await;
    let acme = Tenant::new(&test, "acme").await;
    let from = begin(&test).await;
    let mut ended = Vec::new();
    for _ in 0..200 {
        let (session, _) = acme.sign_in(&test).await;
        end(&test, &session).await;
        ended.push(session);
    }
    let (_, grant) = acme.sign_in(&test).await;
    let of_grant = grant.clone();
    test.write(move |tx, _| grants::revoke(tx, &of_grant, "a test", START)).await.expect("revokes");
    let (left, _) = acme.sign_in(&test).await;
    let all = acme.user.id.clone();
    test.write(move |tx, _| sessions::end_all_of_user(tx, &all, "a test", START)).await.expect("ends all");
    // Whoever looked there would fail, for the service of the sessions and for 300 others.
    test.write(|tx, _| PUT_AWAY.iter().try_for_each(|away| tx.exec(away, &[]).map(drop).map_err(Into::into)))
        .await
        .expect("puts the tables away");
    let stranger = |_| Listening {
        organization: OrganizationId::new(START, test.random()),
        service: ServiceId::new(START, test.random()),
        keys: Vec::new(),
    };
    let services: Vec<_> = [acme.listening()].into_iter().chain((0..300).map(stranger)).collect();
    let page = deliver(&test, &from, 1000, services.clone()).await;
    assert_eq!((page.numbers.len(), page.is_full), (202, false));
    assert!(page.delivered.iter().all(|one| one.to == 0), "{:?}", page.delivered);
    let found = revoked(&page);
    let one_by_one: Vec<_> = found[..200].iter().map(|one| one.sessions[0].clone()).collect();
    assert_eq!(one_by_one, ended);
    assert_eq!((&found[200].user, &found[200].grants), (&acme.user.id, &vec![grant]));
    let last = &found[201].sessions;
    assert!(last.contains(&left) && last.len() == 202, "all that ended at this time: {}", last.len());
    let page = deliver(&test, &from, 1000, services[1..].to_vec()).await;
    assert_eq!((page.delivered.len(), page.numbers.len()), (0, 202));
}

#[tokio::test]
async fn a_session_without_a_grant_at_a_service_has_no_entry() {
    let test = TestIdentity::open().await;
    let acme = Tenant::new(&test, "acme").await;
    let from = begin(&test).await;
    let session = test.session(&acme.user).await;
    end(&test, &session).await;
    let page = deliver(&test, &from, 10, vec![acme.listening()]).await;
    assert_eq!(page.numbers.len(), 0);
}

#[tokio::test]
async fn entries_of_an_earlier_version_are_delivered_as_before() {
    let test = TestIdentity::open().await;
    let (acme, globex) = (Tenant::new(&test, "acme").await, Tenant::new(&test, "globex").await);
    let (session, grant) = acme.sign_in(&test).await;
    end(&test, &session).await;
    let from = begin(&test).await;
    let user = acme.user.id.clone();
    let payloads = [
        format!(r#"{{"kind":"session","session":"{session}"}}"#),
        format!(r#"{{"kind":"sessions","user":"{user}","ended_at":{}}}"#, START.millis()),
        format!(r#"{{"kind":"grant","grant":"{grant}"}}"#),
        format!(r#"{{"kind":"user","user":"{user}"}}"#),
        r#"{"kind":"of a later version"}"#.to_owned(),
    ];
    let append = move |tx: &mut store::Tx<'_>| {
        payloads.iter().try_for_each(|payload| tx.append(&EVENTS, START, payload.clone()))
    };
    test.store.write("test", append).await.map_err(|error: store::Error| error).expect("appends");
    let page = deliver(&test, &from, 10, vec![acme.listening(), globex.listening()]).await;
    assert_eq!(page.numbers.len(), 5);
    assert!(page.delivered.iter().all(|one| one.to == 0), "{:?}", page.delivered);
    let ended = Revoked { user: user.clone(), sessions: vec![session], grants: Vec::new() };
    let of_grant = Revoked { user: user.clone(), sessions: Vec::new(), grants: vec![grant] };
    assert_eq!(revoked(&page), [ended.clone(), ended.clone(), of_grant.clone()]);
    assert!(matches!(told(&page).last(), Some(Event::User(id, Some(_))) if *id == user), "{page:?}");
    let service = acme.service.id.clone();
    let lately = test.read(move |snapshot| Revoked::lately(snapshot, &service, START)).await.expect("reads");
    // Newest first, with the entry that the end of the session wrote.
    assert_eq!(lately, [of_grant, ended.clone(), ended.clone(), ended]);
}

#[tokio::test]
async fn a_page_ends_before_it_reads_too_much() {
    let test = TestIdentity::open().await;
    let acme = Tenant::new(&test, "acme").await;
    let (_, _) = acme.sign_in(&test).await;
    let mut services = vec![acme.listening()];
    for number in 0..60 {
        let service = test.service(&acme.organization, &format!("service-{number}")).await;
        services.push(Listening { service: service.id, ..acme.listening() });
    }
    let mut from = begin(&test).await;
    for number in 0..20 {
        rename(&test, &acme.user, format!("Ada {number}")).await;
    }
    // 61 states for an entry, of which a page of ten reads about fifty.
    let (mut numbers, mut pages, mut events) = (Vec::new(), 0, 0);
    loop {
        let page = deliver(&test, &from, 10, services.clone()).await;
        assert!(page.numbers.len() <= 10 && page.delivered.iter().all(|one| one.to == 0));
        events += page.delivered.len();
        numbers.extend(page.numbers);
        (from, pages) = (page.end, pages + 1);
        if !page.is_full {
            break;
        }
    }
    numbers.dedup();
    assert_eq!((numbers.len(), events), (20, 20), "each entry once");
    assert_eq!(pages, 20, "an entry a page");
}
