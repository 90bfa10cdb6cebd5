//! `/auth/userinfo` (OpenID Connect Core 5.3): the claims about the user that the token's scope allows.

use super::token::subject_claims;
use crate::app::App;
use crate::web::auth::Bearer;
use crate::web::error::{Problem, Result};
use crate::web::json::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CACHE_CONTROL;

pub(crate) async fn get(State(app): State<App>, Bearer(access): Bearer) -> Result<impl IntoResponse> {
    let Some(user) = access.user() else {
        return Err(Problem::insufficient_scope("A program has no user information."));
    };
    if !access.terms.scope.contains("openid") {
        return Err(Problem::insufficient_scope("This needs a token with scope openid."));
    }
    let claims = subject_claims(&app, &user, &access.terms.scope).await?;
    Ok(([(CACHE_CONTROL, "no-store")], Json(claims)))
}
