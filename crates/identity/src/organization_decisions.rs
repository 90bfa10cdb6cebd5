//! What platform owners decide about organizations: the review, a suspension and its end.
//!
//! These rules ask who owns an organization and whether it is deleted, so they are above `organizations`, which owns the
//! tables.

use crate::audit::{self, Actor};
use crate::organizations::{self, Decision, Organization, PLATFORM, Status};
use crate::{Error, Result, administrators, organization_deletions};
use store::Tx;

/// Approves or rejects a pending organization. An organization is reviewed once, but one that was rejected can still be approved.
pub fn review(
    tx: &mut Tx<'_>,
    organization: &Organization,
    decision: Decision,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<Organization> {
    let reason = audit::reason(reason)?;
    let id = &organization.id;
    tx.lock(&organizations::LOCK, id.into())?;
    let mut is_decided = organizations::decide(tx, id, decision, reason.as_deref(), actor)?;
    // The owners of a rejected one may have left, and nobody could use it then.
    let has_owner = is_decided || administrators::has_owner(tx.snapshot(), id)?;
    if !is_decided && decision == Decision::Approved && has_owner {
        is_decided = organizations::approve_after_all(tx, id, reason.as_deref(), actor)?;
    }
    if !has_owner && decision == Decision::Approved {
        let problem = "nobody owns this organization any more, so nobody could use it if it was approved; its users can register another one";
        return Err(Error::refused("already_reviewed", problem));
    }
    if !is_decided {
        let problem = "this organization has already been reviewed; one that was approved can be suspended, and one that was rejected can \
                       still be approved";
        return Err(Error::refused("already_reviewed", problem));
    }
    organizations::keys(id).into_iter().for_each(|key| tx.changed(key));
    let action = format!("organization.{}", decision.as_str());
    organizations::note_decision(tx, organization, actor, &action, reason.as_deref())?;
    organizations::get(tx.snapshot(), id)
}

/// Suspends an organization. Idempotent. `platform` cannot be suspended. One that is deleted stays suspended if it is restored.
pub fn suspend(
    tx: &mut Tx<'_>,
    organization: &Organization,
    reason: Option<&str>,
    actor: &Actor,
) -> Result<Organization> {
    let reason = audit::reason(reason)?;
    tx.lock(&organizations::LOCK, (&organization.id).into())?;
    let organization = &organizations::get(tx.snapshot(), &organization.id)?;
    if organization.slug == PLATFORM {
        let problem = "the organization platform cannot be suspended";
        return Err(Error::refused("platform_stays", problem));
    }
    if organization.status == Status::Deleted {
        return organization_deletions::suspend(tx, organization, reason.as_deref(), actor);
    }
    if !matches!(organization.status, Status::Active | Status::Suspended) {
        let status = organization.status.as_str();
        let problem = format!("this organization is {status}; only an active one can be suspended");
        return Err(Error::refused("organization_not_active", problem));
    }
    let id = &organization.id;
    let is_new = organizations::put_suspension(tx, id, reason.as_deref(), actor)?;
    if is_new {
        organizations::note_decision(tx, organization, actor, "organization.suspended", reason.as_deref())?;
    }
    organizations::get(tx.snapshot(), id)
}

/// Ends the suspension of an organization. Idempotent.
pub fn activate(tx: &mut Tx<'_>, organization: &Organization, actor: &Actor) -> Result<Organization> {
    tx.lock(&organizations::LOCK, (&organization.id).into())?;
    let organization = &organizations::get(tx.snapshot(), &organization.id)?;
    if organization.status == Status::Deleted {
        let problem = "this organization is deleted; one of its owners can restore it within 30 days";
        return Err(Error::refused("organization_not_active", problem));
    }
    if matches!(organization.status, Status::Pending | Status::Rejected) {
        let status = organization.status.as_str();
        let problem =
            format!("this organization is {status}, not suspended; it becomes active when it is approved");
        return Err(Error::refused("organization_not_active", problem));
    }
    let id = &organization.id;
    let was_suspended = organizations::end_suspension(tx, id)?;
    if was_suspended {
        organizations::note_decision(tx, organization, actor, "organization.activated", None)?;
    }
    organizations::get(tx.snapshot(), id)
}
