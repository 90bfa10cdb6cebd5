//! Extracts the parameters of a route, in their order: `Path((org, user)): Path<(String, String)>`.

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;
use std::sync::Arc;
use web::current_request;

/// The parameters of a route, by name; an extension of requests whose route has any.
#[derive(Clone)]
pub(crate) struct PathParameters(pub(crate) Arc<[(String, String)]>);

/// The parameters of the route.
pub struct Path<T>(pub T);

/// The types for the values of a route's parameters.
pub trait FromParameters: Sized {
    /// None if the route has another number of parameters.
    fn from_parameters(parameters: &[(String, String)]) -> Option<Self>;
}

impl FromParameters for String {
    fn from_parameters(parameters: &[(String, String)]) -> Option<String> {
        let [(_, only)] = parameters else { return None };
        Some(only.clone())
    }
}

impl FromParameters for (String, String) {
    fn from_parameters(parameters: &[(String, String)]) -> Option<(String, String)> {
        let [(_, first), (_, second)] = parameters else { return None };
        Some((first.clone(), second.clone()))
    }
}

impl FromParameters for (String, String, String) {
    fn from_parameters(parameters: &[(String, String)]) -> Option<(String, String, String)> {
        let [(_, first), (_, second), (_, third)] = parameters else { return None };
        Some((first.clone(), second.clone(), third.clone()))
    }
}

impl<T: FromParameters, S: Send + Sync> FromRequestParts<S> for Path<T> {
    /// A defect of the program, which no client can cause.
    type Rejection = StatusCode;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Path<T>, StatusCode> {
        let found = parts.extensions.get::<PathParameters>();
        let taken = found.and_then(|parameters| T::from_parameters(&parameters.0));
        taken.map(Path).ok_or_else(|| {
            let request_id = current_request::id();
            tracing::error!(
                path = parts.uri.path(),
                request_id,
                "a handler expects other parameters than its route has"
            );
            StatusCode::INTERNAL_SERVER_ERROR
        })
    }
}

/// The parameter with this name, such as `org` of `/api/organizations/{org}`; empty if the route has none.
pub fn parameter<'a>(parts: &'a Parts, name: &str) -> &'a str {
    let found = parts.extensions.get::<PathParameters>();
    let named = found.and_then(|parameters| parameters.0.iter().find(|(known, _)| known == name));
    named.map_or("", |(_, value)| value)
}
