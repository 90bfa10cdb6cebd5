//! How many plans may cover a service, and how large they may be together. Products read all plans of their service at once,
//! and get them again with each change of one.

use super::Covered;
use crate::{Error, Result, services};
use store::{Tx, args, sql, statements};

/// Plans that cover a service.
const PLANS_MAX: usize = 200;
/// The features and limits of these plans together, in bytes of JSON.
const TERMS_SIZE_MAX: i64 = 1024 * 1024;

statements! {
    static SIZES = sql("SELECT OCTET_LENGTH(features) + OCTET_LENGTH(limits) FROM plans
     WHERE id IN (SELECT plan_id FROM plan_services WHERE service_id = ?1)");
}

/// Fails if another plan does not fit to those of a service that it covers.
pub(super) fn for_new(tx: &mut Tx<'_>, services: &[Covered], size: usize) -> Result<()> {
    each(tx, services, |service, plans, all| {
        if plans >= PLANS_MAX {
            let slug = &service.slug;
            let problem = format!("{PLANS_MAX} plans cover the service {slug} already; delete one first");
            return Err(Error::refused("too_many_plans", problem));
        }
        require_size(service, all + size as i64)
    })
}

/// Fails if the terms of a plan that become larger do not fit to those of the other plans of a service that it covers.
pub(super) fn for_changed(tx: &mut Tx<'_>, services: &[Covered], before: usize, after: usize) -> Result<()> {
    if after <= before {
        return Ok(());
    }
    each(tx, services, |service, _, all| require_size(service, all + (after - before) as i64))
}

/// Checks the number and the size of the plans of each service.
fn each(
    tx: &mut Tx<'_>,
    services: &[Covered],
    check: impl Fn(&Covered, usize, i64) -> Result<()>,
) -> Result<()> {
    let mut by_id: Vec<&Covered> = services.iter().collect();
    // Always in the same order, so that no two commands wait for each other.
    by_id.sort_by(|one, other| one.id.cmp(&other.id));
    for service in by_id {
        tx.lock(&services::LOCK, (&service.id).into())?;
        let sizes: Vec<i64> = tx.all(&SIZES, args![&service.id], |row| row.get(0))?;
        check(service, sizes.len(), sizes.iter().sum())?;
    }
    Ok(())
}

fn require_size(service: &Covered, size: i64) -> Result<()> {
    if size <= TERMS_SIZE_MAX {
        return Ok(());
    }
    let problem = format!(
        "the features and limits of all plans of the service {} would take more than 1 MiB; shorten them or delete a plan",
        service.slug
    );
    Err(Error::refused("plans_too_large", problem))
}
