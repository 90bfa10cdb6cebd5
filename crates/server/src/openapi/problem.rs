//! The schema of problem documents (RFC 9457), as `web/error.rs` writes them.

use super::codes::CODES;
use crate::web::fields::FieldError;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};

/// What was wrong, and what to do.
#[derive(ToSchema)]
#[expect(dead_code, reason = "`web/error.rs` writes the document; tests compare its answers with this")]
pub(super) struct Problem {
    /// `urn:sarsen:problem:` and the code.
    r#type: String,
    /// The name of the status.
    title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: i32,
    /// What was wrong, then what to do, for people.
    detail: String,
    #[schema(schema_with = code)]
    code: String,
    /// All wrong fields, if the body or the address has any.
    #[schema(nullable = false)]
    errors: Option<Vec<FieldError>>,
}

fn code() -> ObjectBuilder {
    let known = CODES.iter().map(|code| format!("- `{}` ({}): {}", code.code, code.status, code.text));
    let known: Vec<String> = known.collect();
    let text = format!("Stable, snake_case. New codes may appear.\n\n{}", known.join("\n"));
    ObjectBuilder::new().schema_type(Type::String).description(Some(text))
}
