//! `/api/organizations/{org}/billing/{connection}/events`: the events of the last weeks, newest first.

use crate::web::administration::Administrator;
use crate::web::error::Result;
use crate::web::json::{Json, List, Page, rfc3339};
use crate::web::path::Path;
use identity::billing::connections;
use identity::billing::events::{self, Received};
use identity::ids::{BillingConnectionId, BillingEventId};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
#[schema(as = BillingEvent)]
pub(crate) struct EventBody {
    id: String,
    /// The provider's id.
    billing_event: String,
    #[serde(rename = "type")]
    kind: String,
    /// The provider's id of what it is about.
    subject: String,
    /// What it has led to.
    outcome: String,
    #[schema(format = DateTime)]
    occurred_at: String,
}

fn show(event: Received) -> EventBody {
    EventBody {
        id: event.id.to_string(),
        billing_event: event.external.to_string(),
        kind: event.kind,
        subject: event.subject.to_string(),
        outcome: event.outcome,
        occurred_at: rfc3339(event.occurred_at),
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Path((_, connection)): Path<(String, String)>,
    page: Page<BillingEventId>,
) -> Result<Json<List<EventBody>>> {
    let (organization, connection) =
        (admin.organization.id.clone(), BillingConnectionId::parse(&connection)?);
    let (cursor, fetch) = (page.cursor.clone(), page.fetch());
    let found = admin.list(move |snapshot| {
        let connection = connections::get(snapshot, &organization, &connection)?;
        events::list(snapshot, &connection, cursor.as_deref(), fetch)
    });
    Ok(Json(page.list(found.await?, |event| event.id.to_string(), show)))
}
