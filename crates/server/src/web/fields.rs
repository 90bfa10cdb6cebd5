//! The fields of a request, as the platform's API reports them: every wrong field, with 422 `invalid` for a body and 400
//! `invalid_query` for a query string. How they are found is in `endpoint::fields`; the rules of a field are in the domain.

use super::error::Problem;
use super::json::check_size;
pub use endpoint::fields::{FieldError, FieldErrors};
use endpoint::fields::{Unreadable, read_object, read_query as read_parameters, summary};
use http::StatusCode;
use identity::Error;
use serde::de::DeserializeOwned;

/// The rules of a body beyond its types. The types are in the crate `api`, which does not know the domain.
pub trait Validate {
    /// Notes every field that breaks a rule. A field that could not be read holds a placeholder here; what is noted about
    /// it is ignored.
    fn validate(&self, errors: &mut FieldErrors);
}

/// The rules of the domain as those of a body.
pub trait Rules {
    /// The value, if the rule holds. Otherwise notes the field. Errors that are not about a field are left to the command.
    fn check<T>(&mut self, result: identity::Result<T>) -> Option<T>;

    /// Checks a field that may be left out.
    fn check_sent<T, V>(&mut self, value: Option<T>, rule: impl FnOnce(T) -> identity::Result<V>);

    /// Checks each item of the list in `field`.
    fn check_each<T, V>(&mut self, field: &str, items: &[T], rule: impl Fn(&T) -> identity::Result<V>);

    /// Fails if a parameter of the query string is wrong.
    fn finish_query(self) -> Result<(), Problem>;
}

impl Rules for FieldErrors {
    fn check<T>(&mut self, result: identity::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::Invalid { field, code, problem, .. }) => {
                self.note(code, field.to_owned(), &problem);
                None
            }
            Err(_) => None,
        }
    }

    fn check_sent<T, V>(&mut self, value: Option<T>, rule: impl FnOnce(T) -> identity::Result<V>) {
        if let Some(value) = value {
            self.check(rule(value));
        }
    }

    fn check_each<T, V>(&mut self, field: &str, items: &[T], rule: impl Fn(&T) -> identity::Result<V>) {
        for (index, item) in items.iter().enumerate() {
            if let Err(Error::Invalid { code, problem, .. }) = rule(item) {
                self.note(code, format!("{field}[{index}]"), &problem);
            }
        }
    }

    fn finish_query(self) -> Result<(), Problem> {
        self.finish().map_err(Problem::of_query)
    }
}

impl Problem {
    /// A problem with fields of the request.
    pub(super) fn of_fields(status: StatusCode, code: &'static str, errors: Vec<FieldError>) -> Problem {
        let detail = summary(&errors);
        Problem { errors, ..Problem::new(status, code, detail) }
    }

    /// 400 for parameters of the query string.
    fn of_query(errors: Vec<FieldError>) -> Problem {
        Problem::of_fields(StatusCode::BAD_REQUEST, "invalid_query", errors)
    }
}

/// Reads a JSON body. `rules` are its rules beyond the types.
pub(crate) fn read_body<T: DeserializeOwned>(
    bytes: &[u8],
    rules: impl FnOnce(&T, &mut FieldErrors),
) -> Result<T, Problem> {
    check_size(bytes)?;
    read_object(bytes, rules).map_err(|unreadable| match unreadable {
        Unreadable::Syntax(detail) => Problem::bad_request("invalid_json", detail),
        Unreadable::Fields(errors) => Problem::of_fields(StatusCode::UNPROCESSABLE_ENTITY, "invalid", errors),
    })
}

/// Reads a query string, whose percent-encoding was checked.
pub(super) fn read_query<T: DeserializeOwned>(query: &[u8]) -> Result<T, Problem> {
    read_parameters(query).map_err(|unreadable| match unreadable {
        Unreadable::Syntax(detail) => Problem::bad_request("invalid_query", detail),
        Unreadable::Fields(errors) => Problem::of_query(errors),
    })
}
