//! Pages of lists.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{IntoParams, PartialSchema, ToSchema};

/// The query of a list without filters.
#[derive(Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// How many items the page may have.
    pub limit: Option<i64>,
    /// The `next` value of the previous page.
    pub cursor: Option<String>,
}

/// A part of a list in a response.
#[derive(Serialize, Deserialize)]
pub struct List<T> {
    /// The items.
    pub items: Vec<T>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
}

impl<T: ToSchema> PartialSchema for List<T> {
    fn schema() -> RefOr<Schema> {
        let next = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some("The `cursor` of the next page; null on the last one."));
        let items = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let list = ObjectBuilder::new().property("items", items).property("next", next);
        list.required("items").required("next").into()
    }
}

impl<T: ToSchema> ToSchema for List<T> {
    fn name() -> Cow<'static, str> {
        format!("{}List", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}
