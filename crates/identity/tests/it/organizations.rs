//! Organizations are reviewed once, suspended and activated, and listed by administrator.

use crate::support::{TestIdentity, invalid, refused};
use identity::administrators::Role;
use identity::audit_trail::{self, Filter};
use identity::organizations::{self, Decision, DeviceFlow, Organization, Status};
use identity::{Result, organization_decisions, organization_deletions};

async fn review(
    test: &TestIdentity,
    organization: &Organization,
    decision: Decision,
) -> Result<Organization> {
    let organization = organization.clone();
    test.write(move |tx, actor| {
        let reason = Some("looked at it");
        organization_decisions::review(tx, &organization, decision, reason, actor)
    })
    .await
}

#[tokio::test]
async fn a_pending_organization_is_reviewed_once() {
    let test = TestIdentity::open().await;
    let acme = test.pending_organization("acme").await;
    assert_eq!(acme.status, Status::Pending);
    assert_eq!(review(&test, &acme, Decision::Approved).await.expect("the first").status, Status::Active);
    for decision in [Decision::Approved, Decision::Rejected] {
        assert_eq!(refused(review(&test, &acme, decision).await), "already_reviewed");
    }
    let evil = test.pending_organization("evil").await;
    assert_eq!(review(&test, &evil, Decision::Rejected).await.expect("the first").status, Status::Rejected);
    assert_eq!(refused(review(&test, &evil, Decision::Rejected).await), "already_reviewed");
    let rejected = test
        .read({
            let id = evil.id.clone();
            move |snapshot| organizations::get(snapshot, &id)
        })
        .await
        .expect("it is there");
    let activated = test.write(move |tx, actor| organization_decisions::activate(tx, &rejected, actor)).await;
    assert_eq!(refused(activated), "organization_not_active");
    assert_eq!(
        refused(review(&test, &evil, Decision::Approved).await),
        "already_reviewed",
        "its owners have left"
    );
    test.administrator(&evil, "eve@evil.test", Role::Owner).await;
    assert_eq!(review(&test, &evil, Decision::Approved).await.expect("after all").status, Status::Active);
    assert_eq!(refused(review(&test, &evil, Decision::Rejected).await), "already_reviewed");

    let id = acme.id.clone();
    let trail = test
        .read(move |snapshot| audit_trail::list(snapshot, &id, &audit_trail::Filter::default(), None, 50))
        .await
        .expect("a trail");
    let trail: Vec<(&str, &str)> = trail.iter().map(|entry| (&*entry.action, &*entry.details)).collect();
    let expected = [("organization.approved", "looked at it"), ("organization.created", "acme")];
    assert_eq!(trail.len(), 2);
    assert!(expected.iter().all(|entry| trail.contains(entry)), "{trail:?}");
}

#[tokio::test]
async fn an_active_organization_is_suspended_and_activated() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    for _ in 0..2 {
        let stopped = acme.clone();
        let stopped =
            test.write(move |tx, actor| organization_decisions::suspend(tx, &stopped, Some("unpaid"), actor));
        assert_eq!(stopped.await.expect("idempotent").status, Status::Suspended);
    }
    for _ in 0..2 {
        let stopped = acme.clone();
        let activated = test.write(move |tx, actor| organization_decisions::activate(tx, &stopped, actor));
        assert_eq!(activated.await.expect("idempotent").status, Status::Active);
    }
    let platform = test.platform.clone();
    let stopped = test.write(move |tx, actor| organization_decisions::suspend(tx, &platform, None, actor));
    assert_eq!(refused(stopped.await), "platform_stays");
    let pending = test.pending_organization("later").await;
    let stopped = test.write(move |tx, actor| organization_decisions::suspend(tx, &pending, None, actor));
    assert_eq!(refused(stopped.await), "organization_not_active");
}

#[tokio::test]
async fn a_deleted_organization_that_is_suspended_stays_so_when_it_is_restored() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.administrator(&acme, "owner@sarsen.test", Role::Owner).await;
    let deleted = acme.clone();
    test.write(move |tx, actor| organization_deletions::delete(tx, &deleted, actor)).await.expect("deletes");
    let id = acme.id.clone();
    let deleted = test.read(move |snapshot| organizations::get(snapshot, &id)).await.expect("reads");
    for _ in 0..2 {
        let deleted = deleted.clone();
        let stopped =
            test.write(move |tx, actor| organization_decisions::suspend(tx, &deleted, Some("spam"), actor));
        assert_eq!(stopped.await.expect("idempotent").status, Status::Deleted);
    }
    let restored = test.write(move |tx, actor| organization_deletions::restore(tx, &deleted, actor)).await;
    assert_eq!(restored.expect("restores").status, Status::Suspended);
    let trail =
        test.read(move |snapshot| audit_trail::list(snapshot, &acme.id, &Filter::default(), None, 9)).await;
    let trail = trail.expect("a trail");
    let suspended: Vec<_> = trail.iter().filter(|entry| entry.action == "organization.suspended").collect();
    assert_eq!(suspended.iter().map(|entry| &*entry.details).collect::<Vec<_>>(), ["spam"]);
}

#[tokio::test]
async fn the_device_flow_setting_is_stored_and_audited() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    assert_eq!(acme.device_flow, DeviceFlow::Allowed);
    for wanted in [DeviceFlow::Off, DeviceFlow::Off, DeviceFlow::Short, DeviceFlow::Allowed] {
        let acme = acme.clone();
        let set = test.write(move |tx, actor| {
            let set = organizations::set_device_flow(tx, &acme, wanted, actor)?;
            Ok([set, organizations::get(tx.snapshot(), &acme.id)?])
        });
        let shown = set.await.expect("idempotent").map(|found| found.device_flow);
        assert_eq!(shown, [wanted; 2]);
        assert_eq!(DeviceFlow::parse(wanted.as_str()).expect("parses its own name"), wanted);
    }
    let id = acme.id.clone();
    let trail = test
        .read(move |snapshot| audit_trail::list(snapshot, &id, &audit_trail::Filter::default(), None, 50))
        .await
        .expect("a trail");
    let changes = trail.iter().filter(|entry| entry.action == "organization.changed").count();
    assert_eq!(changes, 3, "setting the same value again writes no entry: {trail:?}");
    let platform = test.platform.clone();
    let set =
        test.write(move |tx, actor| organizations::set_device_flow(tx, &platform, DeviceFlow::Off, actor));
    assert_eq!(refused(set.await), "platform_stays");
    let problem = invalid(DeviceFlow::parse("on"));
    assert_eq!(problem, "device_flow: \"on\" is not a device flow setting; use allowed, short or off");
}

#[tokio::test]
async fn lists_are_sorted_by_slug_and_filtered_by_administrator() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    test.organization("bolt").await;
    test.organization("crow").await;
    let ada = test.administrator(&acme, "ada@sarsen.test", Role::Member).await;
    let slugs = |found: Vec<Organization>| found.into_iter().map(|found| found.slug).collect::<Vec<_>>();

    let page =
        test.read(|snapshot| organizations::list(snapshot, None, None, None, 2)).await.expect("a page");
    assert_eq!(slugs(page), ["acme", "bolt"]);
    let page = test
        .read(|snapshot| organizations::list(snapshot, None, None, Some("bolt"), 2))
        .await
        .expect("a page");
    assert_eq!(slugs(page), ["crow", "platform"]);
    let own = test.read(move |snapshot| organizations::list(snapshot, Some(&ada.id), None, None, 50)).await;
    assert_eq!(slugs(own.expect("a page")), ["acme"]);
}

#[tokio::test]
async fn an_invalid_name_is_rejected_with_field_and_rule() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let renamed = acme.clone();
    let renamed = test.write(move |tx, actor| organizations::rename(tx, &renamed, " Acme & Co ", actor));
    assert_eq!(renamed.await.expect("valid").name, "Acme & Co");
    for name in [String::new(), "x".repeat(101), "a\nb".to_owned()] {
        let renamed = acme.clone();
        let renamed = test.write(move |tx, actor| organizations::rename(tx, &renamed, &name, actor));
        assert_eq!(invalid(renamed.await), "name: use 1 to 100 characters on one line");
    }
}
