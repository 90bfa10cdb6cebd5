//! Errors as answers: an object like that of OAuth, and 500 for errors of the server.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

pub struct Failure {
    status: StatusCode,
    error: &'static str,
}

impl Failure {
    pub const UNAUTHORIZED: Failure = Failure::new(StatusCode::UNAUTHORIZED, "invalid_token");
    pub const INVALID_REQUEST: Failure = Failure::new(StatusCode::BAD_REQUEST, "invalid_request");
    pub const INVALID_CLIENT: Failure = Failure::new(StatusCode::BAD_REQUEST, "invalid_client");
    pub const INVALID_GRANT: Failure = Failure::new(StatusCode::BAD_REQUEST, "invalid_grant");
    pub const PENDING: Failure = Failure::new(StatusCode::BAD_REQUEST, "authorization_pending");
    pub const EXPIRED: Failure = Failure::new(StatusCode::BAD_REQUEST, "expired_token");
    const INTERNAL: Failure = Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error");

    const fn new(status: StatusCode, error: &'static str) -> Failure {
        Failure { status, error }
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Failure {
        eprintln!("database: {error}");
        Failure::INTERNAL
    }
}

impl From<aws_lc_rs::error::Unspecified> for Failure {
    fn from(_: aws_lc_rs::error::Unspecified) -> Failure {
        Failure::INTERNAL
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(serde_json::json!({ "error": self.error }))).into_response()
    }
}
