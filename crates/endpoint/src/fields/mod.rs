//! The fields of a request: each body and query string is read completely, and one answer lists everything that is wrong
//! with it.
//!
//! - `node.rs`: a body or a query string as a tree. `syntax.rs`: what is wrong with a body that is not JSON.
//! - `reader.rs`: from the tree to the type of the request, with serde; the words for what does not fit.
//! - `repair.rs`: goes on after a wrong field, with a placeholder in its place, so that the others are checked too.
//!
//! A field is named by its path: `name`, `services[1]`, `checks[3].user`. What the types cannot say, such as the form of
//! a slug, is in the rules that a reader of a body takes; those of the platform are in its domain, which applies them again.

mod node;
mod reader;
mod repair;
mod syntax;

use crate::words::{capitalised, sentence, uncapitalised};
use node::Node;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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

/// The wrong fields of one request, in the order in which they were found.
#[derive(Debug, Default)]
pub struct FieldErrors {
    found: Vec<FieldError>,
}

/// Why a request could not be read.
#[derive(Debug)]
pub enum Unreadable {
    /// It is not JSON, or not of the kind that was expected. The text is for the client.
    Syntax(String),
    /// These fields are wrong, at least one.
    Fields(Vec<FieldError>),
}

impl FieldErrors {
    /// Notes a field unless it is good. `rule` says what it must, such as "be 1 to 500".
    pub fn require(&mut self, is_good: bool, field: &str, rule: &str) {
        if !is_good {
            self.note("invalid", field.to_owned(), &format!("`{field}` must {rule}"));
        }
    }

    /// Checks the part of a body at `path` by the rules of the part's own type.
    pub fn check_part(&mut self, path: &str, rules: impl FnOnce(&mut FieldErrors)) {
        let mut errors = FieldErrors::default();
        rules(&mut errors);
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

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn is_full(&self) -> bool {
        self.found.len() >= ERRORS_MAX
    }

    /// The wrong fields; an error if there is one.
    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }
}

/// Whether the field `inner` is `outer` or a part of it.
fn is_within(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What a problem document says about all of its fields together.
pub fn summary(errors: &[FieldError]) -> String {
    match errors {
        [only] if only.field.is_empty() => only.detail.clone(),
        [only] => format!("{}: {}", only.field, uncapitalised(&only.detail)),
        several => {
            let names: Vec<&str> = several.iter().take(NAMES_MAX).map(|error| error.field.as_str()).collect();
            let more = if several.len() > NAMES_MAX { ", …" } else { "" };
            format!("{} fields are wrong: {}{more}. See `errors`.", several.len(), names.join(", "))
        }
    }
}

/// Reads a JSON object. `rules` are its rules beyond the types.
pub fn read_object<T: DeserializeOwned>(
    json: &[u8],
    rules: impl FnOnce(&T, &mut FieldErrors),
) -> Result<T, Unreadable> {
    read(Node::object(json).map_err(Unreadable::Syntax)?, rules)
}

/// Reads a query string, whose percent-encoding was checked.
pub fn read_query<T: DeserializeOwned>(query: &[u8]) -> Result<T, Unreadable> {
    read(Node::from_query(query), |_, _| {})
}

/// Reads JSON of any kind. What fits is read without a tree.
pub fn read_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, Unreadable> {
    let error = match serde_json::from_slice(json) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let (mut tree, mut errors) = (Node::from_json(json).map_err(Unreadable::Syntax)?, FieldErrors::default());
    tree.clean(&mut errors);
    repair::read::<T>(&mut tree, &mut errors);
    Err(wrong(errors, &error))
}

/// Reads the arguments of a call, which are JSON that was read already. A field that the type does not have is wrong too. What
/// fits is read without a tree.
pub fn read_arguments<T: DeserializeOwned>(
    arguments: &Value,
    rules: impl FnOnce(&T, &mut FieldErrors),
) -> Result<T, Unreadable> {
    let mut errors = FieldErrors::default();
    let error = match repair::without_unknown(arguments, &mut errors) {
        Ok(value) if errors.found.is_empty() => {
            rules(&value, &mut errors);
            return errors.finish().map(|()| value).map_err(Unreadable::Fields);
        }
        Ok(_) => <serde_json::Error as serde::de::Error>::custom("a field is unknown"),
        Err(error) => error,
    };
    let (mut tree, mut errors) = (Node::from(arguments), FieldErrors::default());
    if let Some(value) = repair::read::<T>(&mut tree, &mut errors) {
        // Those that `T` refuses itself are noted already.
        let _ = repair::without_unknown::<_, T>(reader::Reader(&tree), &mut errors);
        rules(&value, &mut errors);
    }
    Err(wrong(errors, &error))
}

/// The wrong fields; what serde found if the tree shows none, because it can be read.
fn wrong(mut errors: FieldErrors, found: &serde_json::Error) -> Unreadable {
    if errors.found.is_empty() {
        errors.add("invalid", String::new(), &format!("the value is not valid: {found}"));
    }
    Unreadable::Fields(errors.found)
}

fn read<T: DeserializeOwned>(
    mut tree: Node,
    rules: impl FnOnce(&T, &mut FieldErrors),
) -> Result<T, Unreadable> {
    let mut errors = FieldErrors::default();
    tree.clean(&mut errors);
    let value = repair::read(&mut tree, &mut errors);
    if let Some(value) = &value {
        rules(value, &mut errors);
    }
    match (errors.finish(), value) {
        (Ok(()), Some(value)) => Ok(value),
        (Err(errors), _) => Err(Unreadable::Fields(errors)),
        (Ok(()), None) => Err(Unreadable::Syntax("The request cannot be read.".to_owned())),
    }
}
