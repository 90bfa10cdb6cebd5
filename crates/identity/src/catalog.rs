//! Deletion of services and plans. Each can be deleted only while no other row depends on it. The rules live in a
//! module above services, clients, plans and subscriptions, so that those need not import each other.

use crate::audit::Actor;
use crate::billing::prices;
use crate::plans::{self, Plan};
use crate::services::{self, Service};
use crate::{Error, Result, api_keys, clients, subscriptions};
use store::Tx;

/// Deletes a service and revokes its API keys. It must have no clients and no plans.
pub fn delete_service(tx: &mut Tx<'_>, service: &Service, actor: &Actor) -> Result<()> {
    tx.lock(&services::LOCK, (&service.id).into())?;
    let in_use = clients::any_of_service(tx.snapshot(), &service.organization, &service.id)?
        || plans::any_of_service(tx.snapshot(), &service.id)?;
    if in_use {
        let problem = "this service still has clients or plans; delete them first";
        return Err(Error::refused("service_in_use", problem));
    }
    api_keys::revoke_of_service(tx, service, actor)?;
    services::remove(tx, service, actor)
}

/// Deletes a plan. It must have no subscriptions and no prices of billing connections.
pub fn delete_plan(tx: &mut Tx<'_>, plan: &Plan, actor: &Actor) -> Result<()> {
    tx.lock(&plans::LOCK, (&plan.id).into())?;
    if subscriptions::any_of_plan(tx.snapshot(), &plan.id)? {
        let problem = "this plan still has subscriptions; move or delete them first";
        return Err(Error::refused("plan_in_use", problem));
    }
    if prices::any_of_plan(tx.snapshot(), plan)? {
        let problem = "a billing connection has a price for this plan; remove the price first";
        return Err(Error::refused("plan_in_use", problem));
    }
    plans::remove(tx, plan, actor)
}
