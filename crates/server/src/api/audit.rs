//! `/api/organizations/{org}/audit`: the audit trail of an organization, newest first.

use crate::web::administration::Administrator;
use crate::web::error::Result;
use crate::web::json::{Json, List, Page, rfc3339};
use identity::audit::{self, Entry};
use identity::ids::AuditId;
use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct EntryBody {
    id: String,
    actor: String,
    actor_email: Option<String>,
    action: String,
    target: String,
    target_name: Option<String>,
    address: String,
    details: String,
    created_at: String,
}

fn show(entry: Entry) -> EntryBody {
    EntryBody {
        id: entry.id.to_string(),
        actor: entry.actor,
        actor_email: entry.actor_email,
        action: entry.action,
        target: entry.target,
        target_name: entry.target_name,
        address: entry.address,
        details: entry.details,
        created_at: rfc3339(entry.created_at),
    }
}

pub(crate) async fn list(admin: Administrator, page: Page<AuditId>) -> Result<Json<List<EntryBody>>> {
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| audit::list(snapshot, &organization, cursor.as_deref(), fetch));
    Ok(Json(List::new(found.await?, &page, |entry| entry.id.to_string(), show)))
}
