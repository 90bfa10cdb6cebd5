//! `GET /api/live`: the stream of what changes for a user, or for the users of a service (`events/`).

use crate::events::Subscriber;
use crate::web::error::Result;
use axum::response::Response;

pub(crate) async fn get(subscriber: Subscriber) -> Result<Response> {
    subscriber.open().await
}
