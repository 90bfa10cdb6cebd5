//! Services, clients and plans are created, changed, and deleted only while unused.

use crate::support::{START, TestIdentity, invalid, not_found, refused};
use identity::administrators::Role;
use identity::audit_trail::{self, Filter};
use identity::catalog;
use identity::clients::{self, Client, ClientPatch, Kind, NewSecret, Pkce};
use identity::ids::ClientSecretId;
use identity::keys::Algorithm;
use identity::organizations::Organization;
use identity::plans::{self, PlanPatch};
use identity::{Result, services, subscriptions};
use std::time::Duration;

async fn patch(test: &TestIdentity, client: &Client, patch: ClientPatch) -> Result<Client> {
    let client = client.clone();
    test.write(move |tx, actor| clients::patch(tx, &client, &patch, Role::Owner, actor)).await
}

#[tokio::test]
async fn a_service_in_use_cannot_be_deleted() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let app = test.service(&acme, "app").await;
    let client = test.client(&app, Kind::Device).await;
    let plan = test.plan(&acme, "pro", &["app"]).await;
    let delete = |service: services::Service| {
        test.write(move |tx, actor| catalog::delete_service(tx, &service, actor))
    };

    assert_eq!(refused(delete(app.clone()).await), "service_in_use");
    test.write(move |tx, actor| clients::delete(tx, &client, actor)).await.expect("deletes the client");
    assert_eq!(refused(delete(app.clone()).await), "service_in_use");
    test.write(move |tx, actor| catalog::delete_plan(tx, &plan, actor)).await.expect("deletes the plan");
    delete(app.clone()).await.expect("unused");
    let gone = test.read(move |snapshot| services::find(snapshot, &acme.id, "app")).await;
    assert_eq!(not_found(gone), "service");
}

#[tokio::test]
async fn a_client_patch_is_validated_against_its_kind() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let app = test.service(&acme, "app").await;
    let (web, spa) = (test.client(&app, Kind::Web).await, test.client(&app, Kind::Spa).await);

    let changes = ClientPatch {
        name: Some("Shop".to_owned()),
        redirect_uris: Some(vec!["https://shop.test/b".to_owned(), "https://shop.test/a".to_owned()]),
        post_logout_redirect_uris: Some(vec!["https://shop.test/bye".to_owned()]),
        consent_required: Some(false),
        pkce: Some(Pkce::Required),
        id_token_alg: Some(Algorithm::Es256),
        device_flow: None,
    };
    assert_eq!((web.pkce, spa.pkce), (Pkce::Optional, Pkce::Required), "the defaults");
    assert!(web.may_return_to("http://127.0.0.1/callback"), "a redirect URI, as long as there is no other");
    let changed = patch(&test, &web, changes).await.expect("a confidential client");
    assert_eq!(changed.name, "Shop");
    assert_eq!(changed.redirect_uris, ["https://shop.test/a", "https://shop.test/b"]);
    assert_eq!((changed.consent_required, changed.pkce), (false, Pkce::Required));
    assert_eq!(changed.id_token_alg, Algorithm::Es256);
    assert!(changed.may_return_to("https://shop.test/bye"));
    for other in
        ["https://shop.test/a", "https://shop.test/bye/", "https://shop.test/bye?x", "https://SHOP.test/bye"]
    {
        assert!(!changed.may_return_to(other), "{other}");
    }
    let unchanged = patch(&test, &web, ClientPatch::default()).await.expect("nothing to change");
    assert_eq!(unchanged.redirect_uris, changed.redirect_uris);
    assert_eq!(unchanged.post_logout_redirect_uris, changed.post_logout_redirect_uris);
    assert_eq!(unchanged.pkce_used_at, None);
    let (used, later) = (web.id.clone(), START + Duration::from_secs(5));
    test.write(move |tx, _| clients::set_pkce_used(tx, &used, later)).await.expect("writes");
    let listed = {
        let acme = acme.id.clone();
        test.read(move |snapshot| clients::list(snapshot, &acme, None, None, 10)).await.expect("reads")
    };
    let listed = listed.iter().find(|client| client.id == web.id).expect("listed");
    assert_eq!(
        (listed.pkce_used_at, &*listed.post_logout_redirect_uris[0]),
        (Some(later), "https://shop.test/bye")
    );
    let none = ClientPatch { post_logout_redirect_uris: Some(Vec::new()), ..ClientPatch::default() };
    let again = patch(&test, &web, none).await.expect("no address of its own");
    assert!(again.may_return_to("https://shop.test/a"), "the redirect URIs count again");
    let wrong = ClientPatch {
        post_logout_redirect_uris: Some(vec!["http://shop.test/bye".to_owned()]),
        ..ClientPatch::default()
    };
    assert!(invalid(patch(&test, &web, wrong).await).starts_with("post_logout_redirect_uris: "));

    let without_pkce = ClientPatch { pkce: Some(Pkce::Optional), ..ClientPatch::default() };
    let problem = invalid(patch(&test, &spa, without_pkce).await);
    assert_eq!(problem, "pkce: a spa client is public and requires PKCE; use required");
    let with_devices = ClientPatch { device_flow: Some(true), ..ClientPatch::default() };
    let problem = invalid(patch(&test, &spa, with_devices).await);
    assert_eq!(
        problem,
        "device_flow: a spa client cannot use the device flow; use a native or device client"
    );
    let uris = |uris: &[&str]| ClientPatch {
        redirect_uris: Some(uris.iter().map(|uri| (*uri).to_owned()).collect()),
        ..ClientPatch::default()
    };
    let problem = invalid(patch(&test, &spa, uris(&[])).await);
    assert_eq!(problem, "redirect_uris: a spa client needs at least one; add one");
    let problem = invalid(patch(&test, &spa, uris(&["https://a.test/", "https://a.test/"])).await);
    assert_eq!(problem, "redirect_uris: \"https://a.test/\" is listed twice; list it once");
    assert!(invalid(patch(&test, &spa, uris(&["http://a.test/"])).await).contains("use https"));
    let after = patch(&test, &spa, ClientPatch::default()).await.expect("exists");
    assert_eq!(after.redirect_uris, ["http://127.0.0.1/callback"], "a rejected patch changes nothing");
}

#[tokio::test]
async fn secrets_are_added_listed_and_deleted() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let app = test.service(&acme, "app").await;
    let (web, spa) = (test.client(&app, Kind::Web).await, test.client(&app, Kind::Spa).await);
    let add = |client: &Client| {
        let (client, new) = (client.clone(), NewSecret::generate(START, test.random()));
        let secret = new.clone();
        let added = test.write(move |tx, actor| {
            let (organization, id) = (&client.organization, &client.id);
            clients::add_secret(tx, organization, id, &new, Role::Admin, actor)
        });
        async move { added.await.map(|()| secret) }
    };
    assert_eq!(refused(add(&spa).await.map(|_| ())), "public_client");
    let (one, other) = (add(&web).await.expect("one"), add(&web).await.expect("another"));
    let id = web.id.clone();
    let client = test.read(move |snapshot| clients::get(snapshot, &id)).await.expect("the client");
    assert!(client.has_secret(&one.secret) && client.has_secret(&other.secret), "both are valid");

    let listed = web.clone();
    let listed = test.read(move |snapshot| clients::list_secrets(snapshot, &listed)).await.expect("a list");
    assert!(listed.iter().any(|secret| secret.id == one.id && one.secret.ends_with(&secret.hint)));
    let (owner, first) = (web.clone(), one.id.clone());
    test.write(move |tx, actor| clients::delete_secret(tx, &owner, &first, actor)).await.expect("deletes");
    let id = web.id.clone();
    let client = test.read(move |snapshot| clients::get(snapshot, &id)).await.expect("the client");
    assert!(!client.has_secret(&one.secret) && client.has_secret(&other.secret));
    let unknown = ClientSecretId::new(START, test.random());
    let owner = web.clone();
    let deleted = test.write(move |tx, actor| clients::delete_secret(tx, &owner, &unknown, actor));
    assert_eq!(not_found(deleted.await), "client secret");
    for _ in 1..10 {
        add(&web).await.expect("up to ten");
    }
    assert_eq!(refused(add(&web).await.map(|_| ())), "too_many_secrets");
}

#[tokio::test]
async fn clients_are_listed_with_redirect_uris_and_filtered_by_service() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let (app, docs) = (test.service(&acme, "app").await, test.service(&acme, "docs").await);
    let (one, two) = (test.client(&app, Kind::Web).await, test.client(&docs, Kind::Spa).await);
    test.client(&app, Kind::Device).await;

    let id = acme.id.clone();
    let all = test.read(move |snapshot| clients::list(snapshot, &id, None, None, 50)).await.expect("a list");
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|client| client.redirect_uris.len() == usize::from(client.kind != Kind::Device)));
    let (id, service) = (acme.id.clone(), docs.id.clone());
    let of_docs = test.read(move |snapshot| clients::list(snapshot, &id, Some(&service), None, 50)).await;
    assert_eq!(of_docs.expect("a list").iter().map(|client| &client.id).collect::<Vec<_>>(), [&two.id]);
    let after = all.iter().map(|client| client.id.clone()).max().expect("three");
    let none =
        test.read(move |snapshot| clients::list(snapshot, &acme.id, None, Some(after.as_str()), 50)).await;
    assert!(none.expect("a list").is_empty() && all.iter().any(|client| client.id == one.id));
}

#[tokio::test]
async fn a_plan_covers_services_of_its_organization() {
    let test = TestIdentity::open().await;
    let (acme, bolt) = (test.organization("acme").await, test.organization("bolt").await);
    test.service(&acme, "app").await;
    test.service(&acme, "docs").await;
    test.service(&bolt, "theirs").await;
    let create = |services: &[&str]| {
        let (organization, new) = (acme.id.clone(), test.new_plan("pro", services));
        test.write(move |tx, actor| plans::create(tx, &organization, &new, actor))
    };
    assert_eq!(invalid(create(&[]).await), "services: use the slugs of 1 to 50 services");
    let theirs = invalid(create(&["theirs"]).await);
    assert_eq!(theirs, "services: service \"theirs\" not found; use app or docs");
    assert_eq!(invalid(create(&["app", "app"]).await), "services: \"app\" is listed twice; list it once");
    let pro = create(&["docs", "app"]).await.expect("a plan");
    let taken = create(&["app"]).await.expect_err("the slug is in use").to_string();
    assert_eq!(taken, "slug: \"pro\" is taken; choose another");

    test.plan(&acme, "team", &["docs"]).await;
    let id = acme.id.clone();
    let listed = test.read(move |snapshot| plans::list(snapshot, &id, None, 50)).await.expect("a list");
    let listed: Vec<(&str, Vec<&str>)> = listed
        .iter()
        .map(|plan| (&*plan.slug, plan.services.iter().map(|service| &*service.slug).collect()))
        .collect();
    assert_eq!(listed, [("pro", vec!["app", "docs"]), ("team", vec!["docs"])]);

    let changes = PlanPatch { price_cents: Some(2_900), seats: Some(Some(5)), ..PlanPatch::default() };
    let plan = pro.clone();
    test.write(move |tx, actor| plans::patch(tx, &plan, &changes, actor)).await.expect("changes");
    let id = acme.id.clone();
    let changed = test.read(move |snapshot| plans::find(snapshot, &id, "pro")).await.expect("the plan");
    assert_eq!((changed.price_cents, changed.seats, changed.name), (2_900, Some(5), pro.name));
    assert_eq!(changed.features, ["export"]);
}

/// The details of the entries with this action, in alphabetical order: all are of one moment.
async fn details(test: &TestIdentity, organization: &Organization, action: &str) -> Vec<String> {
    let id = organization.id.clone();
    let filter = Filter { action: Some(action.to_owned()), ..Filter::default() };
    let found = test.read(move |snapshot| audit_trail::list(snapshot, &id, &filter, None, 50)).await;
    let mut details: Vec<String> = found.expect("entries").into_iter().map(|entry| entry.details).collect();
    details.sort();
    details
}

#[tokio::test]
async fn a_change_to_the_same_values_leaves_no_audit_entry() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let app = test.service(&acme, "app").await;
    let pro = test.plan(&acme, "pro", &["app"]).await;
    let same = PlanPatch {
        name: Some(pro.name.clone()),
        price_cents: Some(pro.price_cents),
        features: Some(pro.features.clone()),
        limits: Some(pro.limits.clone()),
        seats: Some(pro.seats),
    };
    let dearer = PlanPatch { price_cents: Some(pro.price_cents + 1), ..same.clone() };
    for changes in [PlanPatch::default(), same, dearer] {
        let plan = pro.clone();
        test.write(move |tx, actor| plans::patch(tx, &plan, &changes, actor)).await.expect("a plan");
    }
    assert_eq!(details(&test, &acme, "plan.changed").await, ["price_cents"]);

    let client = test.client(&app, Kind::Native).await;
    let uris = ["com.example.app:/b".to_owned(), "com.example.app:/a".to_owned()];
    let set = ClientPatch { redirect_uris: Some(uris.to_vec()), ..ClientPatch::default() };
    let client = patch(&test, &client, set.clone()).await.expect("a client");
    let same = ClientPatch {
        name: Some(client.name.clone()),
        post_logout_redirect_uris: Some(Vec::new()),
        consent_required: Some(client.consent_required),
        pkce: Some(client.pkce),
        id_token_alg: Some(client.id_token_alg),
        device_flow: Some(client.may_use_device_flow()),
        ..set
    };
    let other = ClientPatch { device_flow: Some(!client.may_use_device_flow()), ..same.clone() };
    for changes in [ClientPatch::default(), same, other] {
        patch(&test, &client, changes).await.expect("a client");
    }
    assert_eq!(details(&test, &acme, "client.changed").await, ["device_flow", "redirect_uris"]);
    let wrong = ClientPatch { name: Some(String::new()), ..ClientPatch::default() };
    patch(&test, &client, wrong).await.expect_err("an empty name is still refused");
}

#[tokio::test]
async fn a_plan_with_subscriptions_cannot_be_deleted() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.service(&acme, "app").await;
    let plan = test.plan(&acme, "pro", &["app"]).await;
    let ada = test.user(&acme, "ada@acme.test").await;
    let (id, new) = (acme.id.clone(), test.new_subscription(&ada, "pro"));
    let subscription =
        test.write(move |tx, actor| subscriptions::create(tx, &id, &new, actor)).await.expect("subscribes");
    let kept = plan.clone();
    let deleted = test.write(move |tx, actor| catalog::delete_plan(tx, &kept, actor)).await;
    assert_eq!(refused(deleted), "plan_in_use");
    test.write(move |tx, actor| subscriptions::delete(tx, &subscription, actor)).await.expect("ends");
    test.write(move |tx, actor| catalog::delete_plan(tx, &plan, actor)).await.expect("unused");
}

#[tokio::test]
async fn the_plans_of_a_service_are_limited_in_number_and_in_size() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.service(&acme, "app").await;
    test.service(&acme, "other").await;
    let create = async |slug: &str, services: &[&str], features: Vec<String>| {
        let new = plans::NewPlan { features, ..test.new_plan(slug, services) };
        let organization = acme.id.clone();
        test.write(move |tx, actor| plans::create(tx, &organization, &new, actor)).await
    };
    // A hundred names of a hundred letters with four bytes each: 40 KB.
    let long = |count: usize| -> Vec<String> { (0..count).map(|_| "𝔞".repeat(100)).collect() };
    for number in 0..26 {
        create(&format!("large-{number}"), &["app"], long(100)).await.expect("a plan");
    }
    assert_eq!(refused(create("too-large", &["other", "app"], long(100)).await), "plans_too_large");
    let last = create("last", &["app"], Vec::new()).await.expect("a small one fits");
    let change = async |features: Vec<String>| {
        let (plan, patch) = (last.clone(), PlanPatch { features: Some(features), ..PlanPatch::default() });
        test.write(move |tx, actor| plans::patch(tx, &plan, &patch, actor)).await
    };
    assert_eq!(refused(change(long(100)).await), "plans_too_large");
    change(long(1)).await.expect("a small change fits");
    change(Vec::new()).await.expect("a plan may become smaller");

    for number in 0..200 {
        create(&format!("plan-{number}"), &["other"], Vec::new()).await.expect("a plan");
    }
    assert_eq!(refused(create("plan-200", &["app", "other"], Vec::new()).await), "too_many_plans");
    create("plan-200", &["app"], Vec::new()).await.expect("another service has room");
    let of_acme = acme.id.clone();
    let plan = test.read(move |snapshot| plans::find(snapshot, &of_acme, "plan-7")).await.expect("found");
    test.write(move |tx, actor| catalog::delete_plan(tx, &plan, actor)).await.expect("deletes");
    create("plan-201", &["other"], Vec::new()).await.expect("there is room again");
}
