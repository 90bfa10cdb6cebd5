//! Fields with a few allowed words, and text fields with a form of their own, in the description. The limits and the words are
//! those of the domain; tests of the server compare them.

use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, SchemaType, Type};

/// The most characters of a display name.
pub const NAME_LENGTH_MAX: usize = 100;
/// The most characters of an e-mail address.
pub const EMAIL_LENGTH_MAX: usize = 255;
/// The most characters of a search.
pub const SEARCH_LENGTH_MAX: usize = 255;
/// The most characters of a reason.
pub const REASON_LENGTH_MAX: usize = 500;
/// The orders of a list of users.
pub const USER_ORDERS: [&str; 3] = ["created_at", "-created_at", "email"];

/// A text.
pub fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// One of a few words.
pub fn one_of(words: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(words))
}

/// A display name.
pub fn name() -> ObjectBuilder {
    text()
        .min_length(Some(1))
        .max_length(Some(NAME_LENGTH_MAX))
        .description(Some("On one line; nothing in it is invisible but joiners where a script uses them."))
}

/// The display name of a user, who gets one without it.
pub fn user_name() -> ObjectBuilder {
    text()
        .max_length(Some(NAME_LENGTH_MAX))
        .description(Some("Without it, the e-mail address or its first part."))
}

/// An e-mail address.
pub fn email() -> ObjectBuilder {
    text()
        .format(Some(SchemaFormat::Custom("idn-email".to_owned())))
        .max_length(Some(EMAIL_LENGTH_MAX))
        .description(Some("An internationalized domain is stored as A-labels (`xn--…`)."))
}

/// The beginning of a search.
pub fn search() -> ObjectBuilder {
    text().min_length(Some(1)).max_length(Some(SEARCH_LENGTH_MAX))
}

/// The order of a list of users.
pub fn user_order() -> ObjectBuilder {
    one_of(USER_ORDERS)
}

/// The reason of a change.
pub fn reason() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .max_length(Some(REASON_LENGTH_MAX))
        .description(Some("For the audit trail; on one line."))
}

/// The kind of a session.
pub fn session_kind() -> ObjectBuilder {
    one_of(["browser", "device"])
}
