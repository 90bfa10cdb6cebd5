//! A request as a tree, before it has a type. Fields keep their order and may be repeated, so that both can be checked.

use super::{FieldErrors, syntax};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use std::collections::HashSet;
use std::fmt;

/// A part of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Null,
    Boolean(bool),
    Number(Number),
    Text(String),
    /// The value of a query parameter: text that may stand for a number or a boolean.
    Parameter(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
    /// In the place of a value that is missing or has the wrong type: whatever type is asked for.
    Placeholder,
}

impl Node {
    /// Parses JSON. Fails with the line, the column and what was expected there.
    pub(super) fn from_json(bytes: &[u8]) -> Result<Node, String> {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let parsed = Node::deserialize(&mut json).and_then(|tree| json.end().map(|()| tree));
        parsed.map_err(|error| match bytes.trim_ascii() {
            [] => "The body is empty. Send a JSON object.".to_owned(),
            _ => syntax::problem(&error),
        })
    }

    /// Parses a JSON object.
    pub(super) fn object(bytes: &[u8]) -> Result<Node, String> {
        match Node::from_json(bytes)? {
            object @ Node::Object(_) => Ok(object),
            other => Err(format!("The body is {}. Send a JSON object.", other.kind())),
        }
    }

    /// The parameters of a query string.
    pub(super) fn from_query(query: &[u8]) -> Node {
        let parameters = form_urlencoded::parse(query);
        Node::Object(
            parameters
                .map(|(name, value)| (name.into_owned(), Node::Parameter(value.into_owned())))
                .collect(),
        )
    }

    /// What this is, in JSON's words.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Boolean(_) => "a boolean",
            Node::Number(_) => "a number",
            Node::Text(_) | Node::Parameter(_) => "a string",
            Node::Array(_) => "an array",
            Node::Object(_) => "an object",
            Node::Placeholder => "missing",
        }
    }

    /// Removes what no type would refuse: fields that are repeated, and texts with a NUL, which not every database stores.
    pub(super) fn clean(&mut self, errors: &mut FieldErrors) {
        self.clean_at(&Place::Root, errors);
    }

    fn clean_at(&mut self, place: &Place<'_>, errors: &mut FieldErrors) {
        match self {
            Node::Text(text) if text.contains('\0') => {
                errors.add("invalid", place.path(), "the text has a NUL (\\u0000); remove it");
                *self = Node::Placeholder;
            }
            Node::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    item.clean_at(&Place::Item(place, index), errors);
                }
            }
            Node::Object(fields) => {
                if is_any_repeated(fields) {
                    let mut seen = HashSet::with_capacity(fields.len());
                    fields.retain(|(name, _)| {
                        let is_new = seen.insert(name.clone());
                        if !is_new {
                            let field = Place::Field(place, name).path();
                            errors.note("repeated", field, "sent more than once; send it once");
                        }
                        is_new
                    });
                }
                for (name, value) in fields {
                    value.clean_at(&Place::Field(place, name), errors);
                }
            }
            _ => {}
        }
    }
}

/// Whether a name comes twice. Objects usually have a few fields, whose names are compared faster than hashed.
fn is_any_repeated(fields: &[(String, Node)]) -> bool {
    const FEW: usize = 8;
    let mut names = fields.iter().map(|(name, _)| name);
    if fields.len() <= FEW {
        return names.enumerate().any(|(index, name)| fields[..index].iter().any(|(other, _)| other == name));
    }
    let mut seen = HashSet::with_capacity(fields.len());
    !names.all(|name| seen.insert(name))
}

/// Where a part of a request is. Its path is made only for an error.
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn path(&self) -> String {
        match self {
            Place::Root => String::new(),
            Place::Field(object, name) => child(&object.path(), name),
            Place::Item(array, index) => format!("{}[{index}]", array.path()),
        }
    }
}

/// The longest name of a field that an answer repeats.
const NAME_LENGTH_MAX: usize = 100;

/// The path of a field of the object at `path`. A name that is no plain word is quoted.
pub(super) fn child(path: &str, name: &str) -> String {
    let is_plain = !name.is_empty()
        && name.len() <= NAME_LENGTH_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let short: String = name.chars().take(NAME_LENGTH_MAX).collect();
    match (path, is_plain) {
        ("", true) => name.to_owned(),
        (_, true) => format!("{path}.{name}"),
        ("", false) => format!("{short:?}"),
        (_, false) => format!("{path}[{short:?}]"),
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Node {
        match value {
            Value::Null => Node::Null,
            Value::Bool(flag) => Node::Boolean(*flag),
            Value::Number(number) => Node::Number(number.clone()),
            Value::String(text) => Node::Text(text.clone()),
            Value::Array(items) => Node::Array(items.iter().map(Node::from).collect()),
            Value::Object(fields) => {
                Node::Object(fields.iter().map(|(name, value)| (name.clone(), Node::from(value))).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(Tree)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Node, E> {
        Ok(Node::Boolean(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Number::from_f64(number).map_or(Node::Null, Node::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(Node::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Node::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(field) = fields.next_entry()? {
            object.push(field);
        }
        Ok(Node::Object(object))
    }
}
