//! Who may open a stream: a user with the access token of a service, or the back end of a service with an API key.

use super::{service_stream, user_stream};
use crate::app::App;
use crate::openapi::describe::Describe;
use crate::openapi::operation::Operation;
use crate::web::auth::{ServiceUser, bearer};
use crate::web::error::{Problem, Result};
use crate::web::service_key::ServiceKey;
use axum::extract::FromRequestParts;
use axum::response::Response;
use http::HeaderName;
use http::request::Parts;
use identity::api_keys;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A caller of `GET /api/live`.
pub(crate) enum Subscriber {
    /// A user of a service.
    User(App, Box<ServiceUser>),
    /// A back end, and the cursor that it goes on from.
    Service(App, Box<ServiceKey>, Option<String>),
}

impl FromRequestParts<App> for Subscriber {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Subscriber> {
        if !bearer(&parts.headers).is_some_and(api_keys::is_key) {
            let user = ServiceUser::from_request_parts(parts, app).await?;
            return Ok(Subscriber::User(app.clone(), Box::new(user)));
        }
        let key = ServiceKey::from_request_parts(parts, app).await?;
        for scope in api_keys::SERVICE_SCOPES {
            key.require(scope)?;
        }
        let cursor = parts.headers.get(LAST_EVENT_ID).map(|cursor| cursor.to_str().unwrap_or("?").to_owned());
        let cursor = cursor.filter(|cursor| !cursor.is_empty());
        Ok(Subscriber::Service(app.clone(), Box::new(key), cursor))
    }
}

impl Subscriber {
    /// Opens the stream.
    pub(crate) async fn open(self) -> Result<Response> {
        match self {
            Subscriber::User(app, user) => user_stream::open(app, *user).await,
            Subscriber::Service(app, key, cursor) => service_stream::open(app, *key, cursor).await,
        }
    }
}

impl Describe for Subscriber {
    fn describe(operation: &mut Operation) {
        operation.access_token([""; 0]).api_key(api_keys::SERVICE_SCOPES.iter().copied());
        operation.fails(&["too_many_streams"]);
    }
}
