//! An organization always has an owner, and only platform owners administer `platform`.

use crate::support::{TestIdentity, not_found, refused};
use identity::administrators::{self, Administrator, Role};
use identity::organizations::Organization;
use identity::users::User;
use identity::{Result, ids::UserId, user_suspensions};
use std::sync::Arc;

async fn remove(test: &TestIdentity, organization: &Organization, user: &User) -> Result<()> {
    let (organization, user) = (organization.id.clone(), user.id.clone());
    test.write(move |tx, actor| administrators::remove(tx, &organization, &user, actor)).await
}

async fn change(
    test: &TestIdentity,
    organization: &Organization,
    user: &User,
    role: Role,
) -> Result<Administrator> {
    let (organization, user) = (organization.id.clone(), user.id.clone());
    test.write(move |tx, actor| administrators::change_role(tx, &organization, &user, role, actor)).await
}

async fn role_of(test: &TestIdentity, organization: &Organization, user: &UserId) -> Option<Role> {
    let (organization, user) = (organization.id.clone(), user.clone());
    test.read(move |snapshot| administrators::role_of(snapshot, &organization, &user)).await.expect("reads")
}

#[tokio::test]
async fn the_last_owner_cannot_be_removed_or_demoted() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.administrator(&acme, "ada@sarsen.test", Role::Owner).await;
    let bob = test.administrator(&acme, "bob@sarsen.test", Role::Admin).await;

    assert_eq!(refused(remove(&test, &acme, &ada).await), "last_owner");
    assert_eq!(refused(change(&test, &acme, &ada, Role::Admin).await), "last_owner");
    assert_eq!(change(&test, &acme, &ada, Role::Owner).await.expect("no change").role, Role::Owner);

    change(&test, &acme, &bob, Role::Owner).await.expect("a second owner");
    change(&test, &acme, &ada, Role::Member).await.expect("not the last owner");
    assert_eq!(role_of(&test, &acme, &ada.id).await, Some(Role::Member));
    assert_eq!(refused(remove(&test, &acme, &bob).await), "last_owner");
    remove(&test, &acme, &ada).await.expect("members may leave");
    assert_eq!(role_of(&test, &acme, &ada.id).await, None);
    assert_eq!(not_found(remove(&test, &acme, &ada).await), "administrator");
}

#[tokio::test]
async fn a_suspended_owner_is_no_other_owner() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.administrator(&acme, "ada@sarsen.test", Role::Owner).await;
    let bob = test.administrator(&acme, "bob@sarsen.test", Role::Owner).await;
    let user = bob.clone();
    let suspend = test.write(move |tx, actor| user_suspensions::suspend(tx, &user, None, actor));
    suspend.await.expect("suspends");
    assert_eq!(refused(remove(&test, &acme, &ada).await), "last_owner");
    assert_eq!(refused(change(&test, &acme, &ada, Role::Admin).await), "last_owner");
    remove(&test, &acme, &bob).await.expect("ada stays");
    assert_eq!(refused(remove(&test, &acme, &ada).await), "last_owner");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_removals_keep_one_owner() {
    let test = Arc::new(TestIdentity::open().await);
    let acme = test.organization("acme").await;
    let ada = test.administrator(&acme, "ada@sarsen.test", Role::Owner).await;
    let bob = test.administrator(&acme, "bob@sarsen.test", Role::Owner).await;
    let leaving = [ada, bob].map(|user| {
        let (test, acme) = (test.clone(), acme.clone());
        tokio::spawn(async move { remove(&test, &acme, &user).await })
    });
    let mut left = 0;
    for leaving in leaving {
        match leaving.await.expect("joins") {
            Ok(()) => left += 1,
            kept => assert_eq!(refused(kept), "last_owner"),
        }
    }
    assert_eq!(left, 1);
}

#[tokio::test]
async fn administrators_are_users_of_platform() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.administrator(&acme, "ada@sarsen.test", Role::Owner).await;
    let carol = test.user(&acme, "carol@acme.test").await;
    for user in [carol.id, UserId::from_uuid(7)] {
        let acme = acme.clone();
        let added = test.write(move |tx, actor| administrators::add(tx, &acme, &user, Role::Admin, actor));
        assert_eq!(not_found(added.await), "user");
    }
    let (again, id) = (acme.clone(), ada.id.clone());
    let again = test.write(move |tx, actor| administrators::add(tx, &again, &id, Role::Admin, actor));
    assert_eq!(refused(again.await), "already_administrator");

    let asked = ada.id.clone();
    let memberships =
        test.read(move |snapshot| administrators::of_user(snapshot, &ada.id)).await.expect("reads");
    let memberships: Vec<(String, Role)> =
        memberships.into_iter().map(|(organization, role)| (organization.slug, role)).collect();
    assert_eq!(memberships, [("acme".to_owned(), Role::Owner)]);
    let slugs =
        test.read(move |snapshot| administrators::slugs_of_user(snapshot, &asked)).await.expect("reads");
    assert_eq!(slugs, memberships);
    let listed = test.read(move |snapshot| administrators::list(snapshot, &acme.id, None, 50)).await;
    assert_eq!(listed.expect("reads")[0].email, "ada@sarsen.test");
}

#[tokio::test]
async fn only_platform_owners_administer_platform() {
    let test = TestIdentity::open().await;
    let acme = test.organization("acme").await;
    let ada = test.user(&test.platform, "ada@sarsen.test").await;
    let eve = test.user(&test.platform, "eve@sarsen.test").await.id;
    for _ in 0..2 {
        let (platform, owner) = (test.platform.id.clone(), ada.id.clone());
        let added =
            test.write(move |tx, actor| administrators::add_platform_owner(tx, &platform, &owner, actor));
        added.await.expect("idempotent");
    }
    let asked = ada.id.clone();
    assert!(
        test.read(move |snapshot| administrators::is_platform_owner(snapshot, &asked)).await.expect("reads")
    );
    assert_eq!(role_of(&test, &test.platform, &ada.id).await, Some(Role::Owner));
    assert_eq!(
        role_of(&test, &acme, &ada.id).await,
        None,
        "platform owners have no role in other organizations"
    );

    let platform = test.platform.clone();
    let added = test.write(move |tx, actor| administrators::add(tx, &platform, &eve, Role::Member, actor));
    assert_eq!(refused(added.await), "platform_owners_only");
    let carol = test.user(&acme, "carol@acme.test").await.id;
    for organization in [test.platform.id.clone(), acme.id.clone()] {
        let carol = carol.clone();
        let added =
            test.write(move |tx, actor| administrators::add_platform_owner(tx, &organization, &carol, actor));
        assert_eq!(not_found(added.await), "user");
    }
}
