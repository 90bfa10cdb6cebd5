//! Deleting what is offered: a plan or a service goes only when nothing depends on it any more. These rules stand above
//! services, clients, plans and subscriptions, which do not import each other for them.

use crate::audit::Actor;
use crate::plans::{self, Plan};
use crate::services::{self, Service};
use crate::{Error, Result, clients, subscriptions};
use store::Tx;

/// Deletes a service without clients and plans.
pub fn delete_service(tx: &mut Tx<'_>, service: &Service, actor: &Actor) -> Result<()> {
    tx.lock(&services::LOCK, (&service.id).into())?;
    let in_use = clients::any_of_service(tx.snapshot(), &service.organization, &service.id)?
        || plans::any_of_service(tx.snapshot(), &service.id)?;
    if in_use {
        let problem = "this service still has clients or plans; delete those first";
        return Err(Error::refused("service_in_use", problem));
    }
    services::remove(tx, service, actor)
}

/// Deletes a plan without subscriptions.
pub fn delete_plan(tx: &mut Tx<'_>, plan: &Plan, actor: &Actor) -> Result<()> {
    tx.lock(&plans::LOCK, (&plan.id).into())?;
    if subscriptions::any_of_plan(tx.snapshot(), &plan.id)? {
        let problem = "this plan still has subscriptions; move or delete those first";
        return Err(Error::refused("plan_in_use", problem));
    }
    plans::remove(tx, plan, actor)
}
