//! The fields of a request: each body and query string is read completely, and one answer lists everything that is wrong
//! with it.
//!
//! - `node.rs`: a body or a query string as a tree. `syntax.rs`: what is wrong with a body that is not JSON.
//! - `reader.rs`: from the tree to the type of the request, with serde; the words for what does not fit.
//! - `repair.rs`: goes on after a wrong field, with a placeholder in its place, so that the others are checked too.
//!
//! A field is named by its path: `name`, `services[1]`, `checks[3].user`. What the types cannot say, such as the form of
//! a slug, is in the [`Validate`] of a body; the rules themselves are in the domain, which applies them again.

mod node;
mod reader;
mod repair;
mod syntax;

use super::error::{Problem, capitalised, sentence};
use super::json::check_size;
use http::StatusCode;
use identity::Error;
use node::Node;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most fields that one answer lists.
const ERRORS_MAX: usize = 50;
/// The most fields that its `detail` names.
const NAMES_MAX: usize = 10;

/// One wrong field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FieldError {
    /// The path of the field, such as `checks[0].user`.
    pub field: String,
    /// Stable, snake_case.
    pub code: &'static str,
    /// What is wrong, then what to do.
    pub detail: String,
}

impl FieldError {
    /// A wrong field; `problem` is in the form of the domain's errors.
    pub fn new(code: &'static str, field: impl Into<String>, problem: &str) -> FieldError {
        FieldError { field: field.into(), code, detail: sentence(&capitalised(problem)) }
    }
}

/// The rules of a body beyond its types.
pub trait Validate {
    /// Notes every field that breaks a rule. A field that could not be read holds a placeholder here; what is noted about
    /// it is ignored.
    fn validate(&self, errors: &mut FieldErrors);
}

/// The wrong fields of one request, in the order in which they were found.
#[derive(Debug, Default)]
pub struct FieldErrors {
    found: Vec<FieldError>,
}

impl Problem {
    /// A problem with fields of the request.
    pub(super) fn of_fields(status: StatusCode, code: &'static str, errors: Vec<FieldError>) -> Problem {
        let detail = summary(&errors);
        Problem { errors, ..Problem::new(status, code, detail) }
    }
}

impl FieldErrors {
    /// The value, if the rule holds. Otherwise notes the field. Errors that are not about a field are left to the command.
    pub fn check<T>(&mut self, result: identity::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Error::Invalid { field, code, problem }) => {
                self.note(code, field.to_owned(), &problem);
                None
            }
            Err(_) => None,
        }
    }

    /// Checks a field that may be left out.
    pub fn check_sent<T, V>(&mut self, value: Option<T>, rule: impl FnOnce(T) -> identity::Result<V>) {
        if let Some(value) = value {
            self.check(rule(value));
        }
    }

    /// Checks each item of the list in `field`.
    pub fn check_each<T, V>(&mut self, field: &str, items: &[T], rule: impl Fn(&T) -> identity::Result<V>) {
        for (index, item) in items.iter().enumerate() {
            if let Err(Error::Invalid { code, problem, .. }) = rule(item) {
                self.note(code, format!("{field}[{index}]"), &problem);
            }
        }
    }

    /// Checks the part of a body at `path` by the rules of the part's own type.
    pub fn check_part(&mut self, path: &str, part: &impl Validate) {
        let mut errors = FieldErrors::default();
        part.validate(&mut errors);
        for FieldError { field, code, detail } in errors.found {
            self.note(code, format!("{path}.{field}"), &detail);
        }
    }

    /// Notes a wrong field, unless it, a part of it or what it is a part of is known to be wrong.
    pub fn note(&mut self, code: &'static str, field: String, problem: &str) {
        let is_known =
            |known: &FieldError| is_within(&known.field, &field) || is_within(&field, &known.field);
        if !self.is_full() && !self.found.iter().any(is_known) {
            self.found.push(FieldError::new(code, field, problem));
        }
    }

    /// Notes a wrong field that the types do not accept. A field is listed once.
    fn add(&mut self, code: &'static str, field: String, problem: &str) {
        if !self.is_full() && self.found.iter().all(|known| known.field != field) {
            self.found.push(FieldError::new(code, field, problem));
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= ERRORS_MAX
    }

    /// Fails with this status and code if any field is wrong.
    pub fn finish(self, status: StatusCode, code: &'static str) -> Result<(), Problem> {
        if self.found.is_empty() { Ok(()) } else { Err(Problem::of_fields(status, code, self.found)) }
    }
}

/// Whether the field `inner` is `outer` or a part of it.
fn is_within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What a problem document says about all of its fields together.
fn summary(errors: &[FieldError]) -> String {
    match errors {
        [only] => format!("{}: {}", only.field, uncapitalised(&only.detail)),
        several => {
            let names: Vec<&str> = several.iter().take(NAMES_MAX).map(|error| error.field.as_str()).collect();
            let more = if several.len() > NAMES_MAX { ", …" } else { "" };
            format!("{} fields are wrong: {}{more}. See `errors`.", several.len(), names.join(", "))
        }
    }
}

/// Inside a sentence, the detail begins in lower case. A quoted value keeps its case.
fn uncapitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters
        .next()
        .map_or_else(String::new, |first| [&first.to_lowercase().to_string(), letters.as_str()].concat())
}

/// Reads a JSON body. `rules` are its rules beyond the types.
pub(crate) fn read_body<T: DeserializeOwned>(
    bytes: &[u8],
    rules: impl FnOnce(&T, &mut FieldErrors),
) -> Result<T, Problem> {
    check_size(bytes)?;
    let tree = Node::from_json(bytes).map_err(|problem| Problem::bad_request("invalid_json", problem))?;
    read(tree, rules, StatusCode::UNPROCESSABLE_ENTITY, "invalid")
}

/// Reads a query string, whose percent-encoding was checked.
pub(super) fn read_query<T: DeserializeOwned>(query: &[u8]) -> Result<T, Problem> {
    read(Node::from_query(query), |_, _| {}, StatusCode::BAD_REQUEST, "invalid_query")
}

fn read<T: DeserializeOwned>(
    mut tree: Node,
    rules: impl FnOnce(&T, &mut FieldErrors),
    status: StatusCode,
    code: &'static str,
) -> Result<T, Problem> {
    let mut errors = FieldErrors::default();
    tree.clean(&mut errors);
    let value = repair::read(&mut tree, &mut errors);
    if let Some(value) = &value {
        rules(value, &mut errors);
    }
    errors.finish(status, code)?;
    value.ok_or_else(Problem::internal)
}
