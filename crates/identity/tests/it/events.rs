//! The log of events: what an entry says by itself, and what its delivery reads.

use crate::support::{START, TestIdentity};
use identity::authentication::{Authentication, Method};
use identity::authorization_codes::{self, NewCode, Presented, Redeemed};
use identity::clients::{self, Client};
use identity::consents;
use identity::events::{self, EVENTS, Event, Listening, Page, Revoked};
use identity::grants::{self, NewGrant, NewRefresh};
use identity::ids::{GrantId, OrganizationId, ServiceId, SessionId};
use identity::organizations::Organization;
use identity::plans::{self, NewPlan, PlanPatch};
use identity::scopes::Scope;
use identity::services::{self, Service};
use identity::sessions;
use identity::user_deletions;
use identity::users::{self, Profile, User};
use std::time::Duration;
use store::testing::{Kind, TestPlace};
use store::{LogCursor, Sql, args, sql};

/// Puts the tables away that say whose a session is and where it has grants.
static PUT_AWAY: [Sql; 3] = [
    sql("ALTER TABLE sessions RENAME TO sessions_away"),
    sql("ALTER TABLE grants RENAME TO grants_away"),
    sql("ALTER TABLE clients RENAME TO clients_away"),
];

#[derive(Clone)]
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
        let client = test.client(&service, clients::Kind::Spa).await;
        let user = test.user(&organization, "ada@example.test").await;
        Tenant { organization, service, client, user }
    }

    fn listening(&self) -> Listening {
        Listening {
            organization: self.organization.id.clone(),
            service: self.service.id.clone(),
            is_of_platform: false,
            keys: Vec::new(),
        }
    }

    /// Signs the user in to the service.
    async fn sign_in(&self, test: &TestIdentity) -> (SessionId, GrantId) {
        let session = test.session(&self.user).await;
        let grant = self.grant(test, &session, &self.client).await;
        (session, grant)
    }

    /// Signs the user in at a client, in a session that they have.
    async fn grant(&self, test: &TestIdentity, session: &SessionId, client: &Client) -> GrantId {
        let new = NewGrant {
            id: GrantId::new(START, test.random()),
            organization: self.organization.id.clone(),
            user: self.user.id.clone(),
            client: client.id.clone(),
            session: session.clone(),
            scope: Scope::parse("openid"),
            authentication: Authentication::new(START, &[Method::Password]),
        };
        let grant = new.id.clone();
        test.write(move |tx, _| grants::create(tx, &new, None, START)).await.expect("a grant");
        grant
    }
}

async fn begin(test: &TestIdentity) -> LogCursor {
    let history = test.store.log_history();
    test.read(move |snapshot| events::begin(snapshot, history)).await.expect("a cursor")
}

async fn deliver(test: &TestIdentity, from: &LogCursor, most: usize, services: Vec<Listening>) -> Page {
    deliver_bytes(test, from, most, services, 8 << 20).await
}

/// The same with a page that ends when its events take so many bytes.
async fn deliver_bytes(
    test: &TestIdentity,
    from: &LogCursor,
    most: usize,
    services: Vec<Listening>,
    bytes: usize,
) -> Page {
    let (history, from) = (test.store.log_history(), from.clone());
    let page =
        test.read(move |snapshot| events::deliver(snapshot, &from, history, most, &services, bytes, START));
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

/// A user may sign in at a client as often as they like. Whoever ends the session must not have to pass over all that.
#[tokio::test]
async fn a_session_with_very_many_grants_ends_as_quickly_as_any() {
    static AGAIN: Sql =
        sql("INSERT INTO grants (id, organization_id, user_id, client_id, session_id, scope, created_at)
         SELECT ?1 || id, organization_id, user_id, client_id, session_id, scope, created_at
         FROM grants WHERE client_id = ?2 LIMIT 4096");
    let place = TestPlace::on(Kind::Sqlite).expect("SQLite is always available");
    // To read half a million rows takes longer.
    let test = TestIdentity::open_limited(place, Duration::from_millis(150)).await;
    let acme = Tenant::new(&test, "acme").await;
    let other = test.service(&acme.organization, "draw").await;
    let of_other = test.client(&other, clients::Kind::Spa).await;
    let (session, grant) = acme.sign_in(&test).await;
    acme.grant(&test, &session, &of_other).await;
    for round in 0..150 {
        let (prefix, client, of) = (format!("{round:03}"), acme.client.id.clone(), grants::key(&grant));
        let made = test.write(move |tx, _| {
            tx.changed(of.clone());
            Ok(tx.exec(&AGAIN, args![&prefix, &client])?)
        });
        assert_eq!(made.await.expect("more grants"), 1 << round.min(12));
    }
    let from = begin(&test).await;
    end(&test, &session).await;
    let (page, other) = (deliver(&test, &from, 10, vec![acme.listening()]).await, other.id.clone());
    let listening = Listening { service: other, ..acme.listening() };
    assert_eq!(revoked(&page)[0].sessions, std::slice::from_ref(&session));
    assert_eq!(revoked(&deliver(&test, &from, 10, vec![listening]).await)[0].sessions, [session]);
    let page =
        test.read(move |snapshot| grants::ended(snapshot, "", START + Duration::from_secs(86_400), 1000));
    let page = page.await.expect("the scan of the housekeeping reads a page");
    assert!(
        page.ended.len() == 1000 && !page.ended.contains(&grant),
        "all but the newest are followed by one"
    );
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
        is_of_platform: false,
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
    // Nor does the state of a service.
    for (at, expected) in [(&services[0], 202), (&services[1], 0)] {
        let service = at.service.clone();
        let lately = test.read(move |snapshot| Revoked::lately(snapshot, &service, START)).await;
        assert_eq!(lately.expect("reads").len(), expected);
    }
}

#[tokio::test]
async fn a_page_that_is_cut_has_the_states_of_all_its_entries() {
    let test = TestIdentity::open().await;
    let acme = Tenant::new(&test, "acme").await;
    let grace = Tenant { user: test.user(&acme.organization, "grace@example.test").await, ..acme.clone() };
    acme.sign_in(&test).await;
    grace.sign_in(&test).await;
    let from = begin(&test).await;
    for (tenant, name) in [(&acme, "Ada"), (&acme, "Ada L."), (&grace, "Grace"), (&acme, "Ada Lovelace")] {
        rename(&test, &tenant.user, name.to_owned()).await;
    }
    let users = |page: &Page| -> Vec<_> {
        let user =
            |event| if let Event::User(user, state) = event { Some((user, state.is_some())) } else { None };
        told(page).into_iter().filter_map(user).collect()
    };
    let (of_ada, of_grace) = ((acme.user.id.clone(), true), (grace.user.id.clone(), true));
    let whole = deliver(&test, &from, 10, vec![acme.listening()]).await;
    assert_eq!(users(&whole), [of_grace.clone(), of_ada.clone()], "once each");
    assert_eq!(whole.delivered[1].merged, whole.numbers[..2]);
    // Cut behind the third entry: what the first two have changed must not wait for the fourth.
    let cut = deliver_bytes(&test, &from, 10, vec![acme.listening()], 1).await;
    assert_eq!((users(&cut), cut.is_full), (vec![of_grace.clone(), of_ada.clone()], true));
    let last = &cut.delivered[1];
    assert_eq!((last.number, &*last.merged), (cut.numbers[1], &cut.numbers[..1]));
    let rest = deliver_bytes(&test, &cut.end, 10, vec![acme.listening()], 1).await;
    assert_eq!((users(&rest), rest.delivered[0].merged.len()), (vec![of_ada.clone()], 0));
    // States that are left to later entries count, because all of them may be told at the end.
    let eve = Tenant { user: test.user(&acme.organization, "eve@example.test").await, ..acme.clone() };
    eve.sign_in(&test).await;
    let from = begin(&test).await;
    let of_eve = (eve.user.id.clone(), true);
    for (tenant, name) in [&acme, &acme, &grace, &eve, &acme, &grace, &eve].into_iter().zip(0..) {
        rename(&test, &tenant.user, format!("Name {name}")).await;
    }
    let early = deliver_bytes(&test, &from, 10, vec![acme.listening()], 2000).await;
    assert_eq!((users(&early), early.numbers.len(), early.is_full), (vec![of_ada, of_grace], 3, true));
    let rest = deliver_bytes(&test, &early.end, 10, vec![acme.listening()], 10_000).await;
    assert_eq!((users(&rest).len(), users(&rest).contains(&of_eve), rest.is_full), (3, true, false));
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
async fn of_several_changes_of_a_state_the_last_one_has_it() {
    let test = TestIdentity::open().await;
    let acme = Tenant::new(&test, "acme").await;
    let (first, _) = acme.sign_in(&test).await;
    let (second, _) = acme.sign_in(&test).await;
    let from = begin(&test).await;
    for number in 0..50 {
        rename(&test, &acme.user, format!("Ada {number}")).await;
        let (service, name) = (acme.service.clone(), format!("Sketch {number}"));
        test.write(move |tx, actor| services::rename(tx, &service, &name, actor)).await.expect("renames");
        match number {
            10 => end(&test, &first).await,
            20 => end(&test, &second).await,
            _ => {}
        }
    }
    let page = deliver(&test, &from, 200, vec![acme.listening()]).await;
    assert_eq!((page.numbers.len(), page.is_full), (102, false));
    let events = told(&page);
    // Each session that ended, and the states at the places of their last entries.
    let [Event::Session(one), Event::Session(other), Event::User(_, Some(state)), Event::Service(service)] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((&one.sessions, &other.sessions), (&vec![first], &vec![second]));
    assert_eq!((&*state.user.profile.name, &*service.service.name), ("Ada 49", "Sketch 49"));
    assert_eq!(page.delivered.last().map(|one| one.number), page.numbers.last().copied());
    assert_eq!(
        page.delivered.last().map(|one| one.merged.len()),
        Some(49),
        "the renames of the service before"
    );
    // From the event before on, those behind it come again.
    let again = deliver(&test, &page.delivered[1].cursor, 200, vec![acme.listening()]).await;
    assert_eq!(told(&again).len(), 2, "{again:?}");
}

/// Reads all pages and returns what they deliver, with the number of pages.
async fn all_pages(
    test: &TestIdentity,
    mut from: LogCursor,
    most: usize,
    services: &[Listening],
) -> (Vec<Page>, usize) {
    let mut pages = Vec::new();
    loop {
        let page = deliver(test, &from, most, services.to_vec()).await;
        from = page.end.clone();
        let is_full = page.is_full;
        pages.push(page);
        if !is_full {
            let count = pages.len();
            return (pages, count);
        }
    }
}

/// A tenant whose user has signed in at the first of 31 services that somebody reads.
async fn acme_with_services(test: &TestIdentity) -> (Tenant, Vec<Listening>) {
    let acme = Tenant::new(test, "acme").await;
    acme.sign_in(test).await;
    let mut services = vec![acme.listening()];
    for number in 0..30 {
        let service = test.service(&acme.organization, &format!("service-{number}")).await;
        services.push(Listening { service: service.id, ..acme.listening() });
    }
    (acme, services)
}

#[tokio::test]
async fn a_page_ends_before_it_reads_too_much() {
    let test = TestIdentity::open().await;
    let (acme, services) = acme_with_services(&test).await;
    let from = begin(&test).await;
    for number in 0..10 {
        let bob = test.user(&acme.organization, &format!("bob-{number}@example.test")).await;
        test.write(move |tx, actor| user_deletions::delete(tx, &bob, actor)).await.expect("deletes");
        rename(&test, &acme.user, format!("Ada {number}")).await;
    }
    // Each service may have known a user who is deleted: 31 states, of which a page of twenty entries reads a hundred.
    let (pages, count) = all_pages(&test, from, 20, &services).await;
    assert!((4..=6).contains(&count), "{count}");
    let numbers: Vec<i64> = pages.iter().flat_map(|page| page.numbers.clone()).collect();
    assert!(numbers.len() == 30 && numbers.is_sorted(), "each entry once: {numbers:?}");
    let is_ada = |event: &Event| matches!(event, Event::User(_, Some(_)));
    let names: Vec<_> = pages.iter().flat_map(told).filter(is_ada).collect();
    assert_eq!(names.len(), count, "the user of the service in each page: {names:?}");
    let deleted = pages.iter().flat_map(|page| &page.delivered).flat_map(|one| &one.events);
    let told = deleted.filter(|event| matches!(event, Event::User(_, None))).count();
    // Each deletion has two entries, of which the last in a page counts.
    assert!((310..=310 + 31 * count).contains(&told), "{told}");
}

#[tokio::test]
async fn an_entry_about_a_user_reads_nothing_for_services_that_do_not_know_them() {
    let test = TestIdentity::open().await;
    let (acme, services) = acme_with_services(&test).await;
    let from = begin(&test).await;
    for number in 0..20 {
        let bob = test.user(&acme.organization, &format!("bob-{number}@example.test")).await;
        rename(&test, &bob, "Bob".to_owned()).await;
    }
    rename(&test, &acme.user, "Ada".to_owned()).await;
    // With a state for each service these would be seven pages.
    let (pages, count) = all_pages(&test, from, 30, &services).await;
    assert_eq!(count, 1, "{pages:?}");
    let delivered: Vec<_> = pages.iter().flat_map(|page| &page.delivered).collect();
    assert!(matches!(&delivered[..], [one] if one.to == 0), "{delivered:?}");
}

#[tokio::test]
async fn services_learn_of_the_deletion_of_a_user_who_signed_out() {
    let test = TestIdentity::open().await;
    let acme = Tenant::new(&test, "acme").await;
    let (session, grant) = acme.sign_in(&test).await;
    test.write(move |tx, _| grants::revoke(tx, &grant, "a test", START)).await.expect("revokes");
    end(&test, &session).await;
    let from = begin(&test).await;
    let (organization, id) = (acme.user.organization.clone(), acme.user.id.clone());
    rename(&test, &acme.user, "Ada".to_owned()).await;
    let page = deliver(&test, &from, 10, vec![acme.listening()]).await;
    assert!(told(&page).is_empty(), "the service does not know her any more: {page:?}");
    let ada =
        test.read(move |snapshot| users::in_organization(snapshot, &organization, &id)).await.expect("ada");
    test.write(move |tx, actor| user_deletions::delete(tx, &ada, actor)).await.expect("deletes");
    let page = deliver(&test, &page.end, 10, vec![acme.listening()]).await;
    let told = told(&page);
    assert!(matches!(&told[..], [Event::User(user, None)] if *user == acme.user.id), "{told:?}");
}

#[tokio::test]
async fn a_page_ends_when_its_events_are_large() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let (mut services, mut plans) = (Vec::new(), Vec::new());
    for number in 0..12 {
        let slug = format!("service-{number}");
        let service = test.service(&acme, &slug).await;
        for plan in 0..25 {
            let new = NewPlan {
                features: (0..100).map(|_| "𝔞".repeat(100)).collect(),
                ..test.new_plan(&format!("plan-{number}-{plan}"), &[&slug])
            };
            let organization = acme.id.clone();
            let made = test.write(move |tx, actor| plans::create(tx, &organization, &new, actor));
            plans.push(made.await.expect("a plan"));
        }
        services.push(Listening {
            organization: acme.id.clone(),
            service: service.id,
            is_of_platform: false,
            keys: Vec::new(),
        });
    }
    let from = begin(&test).await;
    for plan in plans {
        let patch = PlanPatch { name: Some("Pro".to_owned()), ..PlanPatch::default() };
        test.write(move |tx, actor| plans::patch(tx, &plan, &patch, actor)).await.expect("changes");
    }
    let (pages, count) = all_pages(&test, from, 500, &services).await;
    // A service has 1 MB of plans, which changed 25 times.
    assert_eq!(count, 2);
    let numbers: Vec<i64> = pages.iter().flat_map(|page| page.numbers.clone()).collect();
    assert!(numbers.len() == 300 && numbers.is_sorted(), "{}", numbers.len());
    let to: Vec<usize> = pages.iter().flat_map(|page| &page.delivered).map(|one| one.to).collect();
    assert_eq!(to, (0..12).collect::<Vec<_>>(), "each service has its last state once");
}

#[tokio::test]
async fn what_was_revoked_is_lately_until_no_clock_accepts_its_tokens() {
    let test = TestIdentity::open().await;
    let acme = Tenant::new(&test, "acme").await;
    let (session, _) = acme.sign_in(&test).await;
    end(&test, &session).await;
    for (minutes, expected) in [(0, 1), (10, 1), (12, 1), (13, 0)] {
        let (service, now) = (acme.service.id.clone(), START + Duration::from_secs(minutes * 60));
        let lately = test.read(move |snapshot| Revoked::lately(snapshot, &service, now)).await;
        assert_eq!(lately.expect("reads").len(), expected, "after {minutes} minutes");
    }
}

/// Whether a session is being ended in this database.
static IS_ENDING_POSTGRES: Sql = sql("SELECT COUNT(*) FROM pg_stat_activity
     WHERE datname = current_database() AND state = 'active' AND query LIKE 'UPDATE sessions SET ended_at%'");
static IS_ENDING_MYSQL: Sql = sql("SELECT COUNT(*) FROM information_schema.processlist
     WHERE db = DATABASE() AND info LIKE 'UPDATE sessions SET ended_at%'");
/// A statement that is seen so many times in a row waits for a lock.
const SEEN_WAITING: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_while_its_code_is_redeemed_has_the_grant_or_refuses_it() {
    for (kind, is_ending) in [(Kind::Postgres, &IS_ENDING_POSTGRES), (Kind::Mysql, &IS_ENDING_MYSQL)] {
        let Some(place) = TestPlace::on(kind) else { continue };
        let test = TestIdentity::open_in(place).await;
        let acme = Tenant::new(&test, "acme").await;
        let (session, redirect_uri) =
            (test.session(&acme.user).await, "http://127.0.0.1/callback".to_owned());
        let (client, scope) = (acme.client.id.clone(), Scope::parse("openid"));
        let of_session = (client.clone(), session.clone(), redirect_uri.clone(), scope);
        let (at_client, at_session, at_uri, scope) = of_session;
        let live = test.read(move |snapshot| sessions::live(snapshot, &at_session, START)).await;
        let session_there = live.expect("reads").expect("the session lives");
        let code = NewCode::generate(at_client, &session_there, at_uri, scope, START, test.random());
        let presented = Presented { code: code.code.clone(), client, redirect_uri, verifier: None };
        test.write(move |tx, actor| {
            let session = sessions::live(tx.snapshot(), &code.session, START)?.expect("the session lives");
            consents::give(tx, &session, &code.client, &code.scope, actor)?;
            authorization_codes::create(tx, &code, START)
        })
        .await
        .expect("a code");
        let from = begin(&test).await;

        // The command that redeems has not committed when the session ends.
        let (grant, refresh) = (GrantId::new(START, test.random()), NewRefresh::first(START, test.random()));
        let (redeemed, mut is_redeemed) = tokio::sync::mpsc::unbounded_channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let redeem = test.write(move |tx, actor| {
            let result = authorization_codes::redeem(tx, &presented, &grant, &refresh, actor)?;
            // Nobody listens when the command runs again.
            let _ = redeemed.send(());
            let _ = released.lock().expect("a lock").recv();
            Ok(result)
        });
        let end_it = async {
            is_redeemed.recv().await.expect("redeems");
            let (mut ending, mut seen) = (std::pin::pin!(end(&test, &session)), 0);
            while seen < SEEN_WAITING {
                let found = test.read(|snapshot| Ok(snapshot.one(is_ending, &[], |row| row.get::<i64>(0))?));
                tokio::select! {
                    () = &mut ending => return drop(release),
                    found = found => seen = if found.expect("reads") == Some(0) { 0 } else { seen + 1 },
                }
            }
            drop(release);
            ending.await;
        };
        let (redeemed, ()) = tokio::join!(redeem, end_it);
        let page = deliver(&test, &from, 10, vec![acme.listening()]).await;
        match redeemed {
            Ok(Redeemed::Grant { .. }) => {
                let [ended] = &revoked(&page)[..] else { panic!("{kind:?}: {page:?}") };
                assert_eq!(ended.sessions, [session], "{kind:?}");
            }
            Err(identity::Error::InvalidGrant) => assert_eq!(revoked(&page), [], "{kind:?}"),
            other => panic!("{kind:?}: {other:?}"),
        }
    }
}
