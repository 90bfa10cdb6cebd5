//! `/api/organizations/{org}/audit`: the audit trail of an organization, newest first; `?actor=&action=&target=&since=&until=`.

use crate::openapi::words;
use crate::web::administration::Administrator;
use crate::web::error::Result;
use crate::web::fields::{FieldErrors, Rules as _};
use crate::web::json::{Json, List, Page, Params, parse_time_or_date, rfc3339};
use identity::audit_trail::{self, Entry, Filter};
use identity::ids::AuditId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

#[derive(Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct EntryBody {
    id: String,
    /// The actor: the id of a user, a client or an API key, or `system`.
    actor: String,
    #[schema(required)]
    actor_email: Option<String>,
    /// What was done, such as `user.created`.
    action: String,
    /// The id of the object.
    target: String,
    #[schema(required)]
    target_name: Option<String>,
    /// The IP address of the request.
    address: String,
    details: String,
    #[schema(format = DateTime)]
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

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    limit: Option<i64>,
    cursor: Option<String>,
    /// An e-mail address, the id of a user, an API key or a client, `system` or `unknown`.
    #[param(schema_with = words::actor)]
    actor: Option<String>,
    /// What was done, such as `user.created`.
    #[param(schema_with = words::action)]
    action: Option<String>,
    /// The id of the object, or the e-mail address of a user or an administrator.
    #[param(schema_with = words::target)]
    target: Option<String>,
    /// From this time or date on.
    #[param(schema_with = words::time_or_date)]
    since: Option<String>,
    /// Before this time or date.
    #[param(schema_with = words::time_or_date)]
    until: Option<String>,
}

impl ListQuery {
    fn filter(&self) -> Result<Filter> {
        let mut errors = FieldErrors::default();
        let time = |field, text: &str| parse_time_or_date(field, text);
        let filter = Filter {
            actor: self.actor.as_deref().and_then(|actor| errors.check(audit_trail::actor(actor))),
            action: self.action.as_deref().and_then(|action| errors.check(audit_trail::action(action))),
            target: self.target.as_deref().and_then(|target| errors.check(audit_trail::target(target))),
            since: self.since.as_deref().and_then(|since| errors.check(time("since", since))),
            until: self.until.as_deref().and_then(|until| errors.check(time("until", until))),
        };
        errors.finish_query()?;
        Ok(filter)
    }
}

pub(crate) async fn list(
    admin: Administrator,
    Params(query): Params<ListQuery>,
) -> Result<Json<List<EntryBody>>> {
    let filter = query.filter()?;
    let parameters = [&query.actor, &query.action, &query.since, &query.until, &query.target];
    // The tag of a cursor depends on the place of each parameter.
    let parameters = parameters.map(Option::as_deref);
    let page = Page::<AuditId>::filtered(query.limit, query.cursor, &parameters)?;
    let (organization, cursor, fetch) = (admin.organization.id.clone(), page.cursor.clone(), page.fetch());
    let found = admin
        .list(move |snapshot| audit_trail::list(snapshot, &organization, &filter, cursor.as_deref(), fetch));
    Ok(Json(page.list(found.await?, |entry| entry.id.to_string(), show)))
}
