//! What an operation is: a type with its method, path, caller, query, body and answer, and a line in the table of its noun.

use crate::callers::{By, Caller};
use std::marker::PhantomData;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::Schema;
use utoipa::{IntoParams, ToSchema};

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

/// An operation. [`operations!`](crate::operations) makes them.
pub trait Operation: 'static {
    /// The method.
    const METHOD: Method;
    /// The path, with parameters such as `{org}`.
    const PATH: &'static str;
    /// The callers that are allowed.
    type By: By;
    /// The query string; `()` without one.
    type Asks;
    /// The body; `()` without one.
    type Takes;
    /// The answer: an [`Answer`].
    type Gives;
}

/// An answer with a status and a body; `()` without one.
pub struct Answer<const STATUS: u16, T>(PhantomData<T>);

/// The operations of a noun, with a name and a text for people.
pub struct Table {
    /// The name in the description.
    pub name: &'static str,
    /// What they are about.
    pub about: &'static str,
    /// The operations, in the order in which they are shown.
    pub entries: &'static [Entry],
}

/// What a description shows of an operation.
pub struct Entry {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: &'static str,
    /// The name for generated clients.
    pub id: &'static str,
    /// The lines of its comment: the first is a summary, paragraphs in Markdown follow.
    pub doc: &'static [&'static str],
    /// The callers that are allowed.
    pub caller: Caller,
    /// The query string.
    pub asks: Option<Query>,
    /// The body.
    pub takes: Option<fn() -> Part>,
    /// The status of the answer.
    pub status: u16,
    /// The body of the answer. That of a 204 is not sent.
    pub gives: fn() -> Part,
    /// The error codes that its caller and its body do not say.
    pub fails: &'static [&'static str],
}

/// The parameters of a query string.
pub type Query = fn() -> Vec<Parameter>;

/// A type in a description.
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its schema.
    pub schema: RefOr<Schema>,
    /// The schemas to which it refers.
    pub others: Vec<(String, RefOr<Schema>)>,
}

impl Part {
    /// The part that a type is.
    pub fn of<T: ToSchema>() -> Part {
        let mut others = Vec::new();
        T::schemas(&mut others);
        Part { name: T::name().into_owned(), schema: T::schema(), others }
    }
}

/// The parameters that a type is.
pub fn query<T: IntoParams>() -> Vec<Parameter> {
    T::into_params(|| Some(ParameterIn::Query))
}

impl Entry {
    /// The first line of its comment.
    pub fn summary(&self) -> &'static str {
        self.doc.first().map_or("", |line| line.trim())
    }

    /// The paragraphs after the first line.
    pub fn paragraphs(&self) -> Vec<String> {
        let lines: Vec<&str> = self.doc.iter().skip(1).map(|line| line.trim()).collect();
        let paragraphs = lines.split(|line| line.is_empty()).map(|lines| lines.join(" "));
        paragraphs.filter(|paragraph| !paragraph.is_empty()).collect()
    }
}

/// The operations of a noun: a type for each, and the table of them.
///
/// A comment is the summary, and after an empty line the text of the description. After the id come the method, the path,
/// the caller, the query (`asks`), the body (`takes`), the status and the body of the answer (`gives`), and the codes that the
/// caller and the body do not say (`fails`).
#[macro_export]
macro_rules! operations {
    ($table:ident = $tag:literal, $about:literal; $(
        $(#[doc = $doc:literal])+
        $name:ident = $id:literal: $method:ident $path:literal by $by:ident
        $(, asks $asks:ty)? $(, takes $takes:ty)?, gives $status:literal $gives:ty $(, fails [$($code:literal),+])?;
    )+) => {
        $(
            $(#[doc = $doc])+
            pub struct $name;

            impl $crate::Operation for $name {
                const METHOD: $crate::Method = $crate::Method::$method;
                const PATH: &'static str = $path;
                type By = $crate::callers::$by;
                type Asks = $crate::operations!(@type $($asks)?);
                type Takes = $crate::operations!(@type $($takes)?);
                type Gives = $crate::Answer<$status, $gives>;
            }
        )+

        #[doc = $about]
        pub const $table: $crate::Table = $crate::Table {
            name: $tag,
            about: $about,
            entries: &[$($crate::Entry {
                method: $crate::Method::$method,
                path: $path,
                id: $id,
                doc: &[$($doc),+],
                caller: <$crate::callers::$by as $crate::callers::By>::CALLER,
                asks: $crate::operations!(@query $($asks)?),
                takes: $crate::operations!(@part $($takes)?),
                status: $status,
                gives: $crate::Part::of::<$gives>,
                fails: &[$($($code),+)?],
            }),+],
        };
    };
    (@type) => { () };
    (@type $type:ty) => { $type };
    (@query) => { None };
    (@query $type:ty) => { Some($crate::operation::query::<$type> as $crate::Query) };
    (@part) => { None };
    (@part $type:ty) => { Some($crate::Part::of::<$type> as fn() -> $crate::Part) };
}
