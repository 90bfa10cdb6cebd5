//! From a tree to the type of a request, with serde. What does not fit is a [`Mismatch`] with its place.

use super::node::Node;
use crate::words::expectation;
use serde::de::value::MapDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt;
use std::iter::Enumerate;
use std::num::IntErrorKind;
use std::slice;

/// By this name `serde_json::value::RawValue` asks for the text of its value.
const RAW: &str = "$serde_json::private::RawValue";

/// The expected value, for a number that is too large for any field.
const HELD: &str = "a value that the field can hold";

/// A step into a tree: the position of a field of an object, or of an item of an array.
pub(super) type Step = usize;

/// Where a request does not fit its type, and how.
#[derive(Debug)]
pub(super) struct Mismatch {
    /// The way to it, from the innermost step to the outermost.
    pub(super) steps: Vec<Step>,
    pub(super) kind: Kind,
}

/// How it does not fit.
#[derive(Debug)]
pub(super) enum Kind {
    /// The object lacks this field.
    Missing(&'static str),
    /// The field is unknown; these are known.
    Unknown(&'static [&'static str]),
    /// The name of a field is no key of a map like this one.
    Name { code: &'static str, problem: String },
    /// The value is wrong.
    Value { code: &'static str, problem: String },
}

impl Mismatch {
    fn new(kind: Kind) -> Mismatch {
        Mismatch { steps: Vec::new(), kind }
    }

    fn value(code: &'static str, problem: String) -> Mismatch {
        Mismatch::new(Kind::Value { code, problem })
    }

    /// The node is of another type than `expected`.
    fn wrong_type(node: &Node, expected: &str) -> Mismatch {
        let problem = match node {
            Node::Parameter(text) => format!("{:?} is not {expected}; use {expected}", short(text)),
            Node::Number(number) => format!("{number} is not {expected}; use {expected}"),
            other => format!("the value is {}; use {expected}", other.kind()),
        };
        Mismatch::value("wrong_type", problem)
    }

    /// The value has the right type, but the field does not take it.
    fn out_of_range(value: &str, taken: &str) -> Mismatch {
        Mismatch::value("out_of_range", format!("{value} is out of range; use {taken}"))
    }

    /// The name of the field at this position is wrong.
    fn in_name(self, step: Step) -> Mismatch {
        let kind = match self.kind {
            Kind::Value { code, problem } => Kind::Name { code, problem },
            kind => kind,
        };
        Mismatch { kind, ..self }.within(step)
    }

    fn within(mut self, step: Step) -> Mismatch {
        self.steps.push(step);
        self
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.kind)
    }
}

impl std::error::Error for Mismatch {}

impl Error for Mismatch {
    fn custom<T: fmt::Display>(problem: T) -> Mismatch {
        Mismatch::value("invalid", problem.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        let expected = expected.to_string();
        let expected = expected.strip_prefix("a JSON ").map_or(expected.clone(), |kind| format!("a {kind}"));
        Mismatch::value("wrong_type", format!("the value has the wrong type; use {expected}"))
    }

    fn invalid_value(value: Unexpected<'_>, expected: &dyn Expected) -> Mismatch {
        let expected = expected.to_string();
        let taken = expectation(&expected);
        match value {
            Unexpected::Signed(number) => Mismatch::out_of_range(&number.to_string(), taken),
            Unexpected::Unsigned(number) => Mismatch::out_of_range(&number.to_string(), taken),
            Unexpected::Float(number) => Mismatch::out_of_range(&number.to_string(), taken),
            _ => Mismatch::value("invalid", format!("the value is not allowed; use {expected}")),
        }
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Mismatch {
        Mismatch::value("invalid", format!("{length} items do not fit; use {expected}"))
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Mismatch {
        Mismatch::value(
            "not_allowed",
            format!("{:?} is not allowed; use {}", short(name), alternatives(known)),
        )
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Mismatch {
        Mismatch::new(Kind::Unknown(known))
    }

    fn missing_field(name: &'static str) -> Mismatch {
        Mismatch::new(Kind::Missing(name))
    }
}

/// The beginning of a text, for an answer that repeats it.
fn short(text: &str) -> String {
    text.chars().take(100).collect()
}

/// Names to choose from: `a, b or c`.
pub(super) fn alternatives(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

/// A node that serde reads.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a Node);

impl<'a> Reader<'a> {
    fn integer<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let wrong = || Mismatch::wrong_type(self.0, "an integer");
        match self.0 {
            Node::Placeholder => visitor.visit_i64(0),
            Node::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_i64(number),
                (None, Some(number), _) => visitor.visit_u64(number),
                // The parser makes a float of an integer that is too large.
                (.., Some(float)) if float.abs() >= i64::MAX as f64 => {
                    Err(Mismatch::out_of_range(&number.to_string(), HELD))
                }
                _ => Err(wrong()),
            },
            Node::Parameter(text) => match text.parse::<i64>() {
                Ok(number) => visitor.visit_i64(number),
                Err(error) => match error.kind() {
                    IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
                        Err(Mismatch::out_of_range(&short(text), HELD))
                    }
                    _ => Err(wrong()),
                },
            },
            _ => Err(wrong()),
        }
    }

    fn float<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let number = match self.0 {
            Node::Placeholder => Some(0.0),
            Node::Number(number) => number.as_f64(),
            Node::Parameter(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        };
        number
            .ok_or_else(|| Mismatch::wrong_type(self.0, "a number"))
            .and_then(|number| visitor.visit_f64(number))
    }

    fn text<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Text(text) | Node::Parameter(text) => visitor.visit_borrowed_str(text),
            Node::Placeholder => visitor.visit_borrowed_str(""),
            other => Err(Mismatch::wrong_type(other, "a string")),
        }
    }

    fn array<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Node::Placeholder => visitor.visit_seq(Items([].iter().enumerate())),
            other => Err(Mismatch::wrong_type(other, "an array")),
        }
    }

    /// `known` are the fields of a struct; a placeholder has all of them.
    fn object<V: Visitor<'a>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Object(fields) => {
                visitor.visit_map(Fields { rest: fields.iter().enumerate(), current: None })
            }
            Node::Placeholder => visitor.visit_map(PlaceholderFields(known.iter())),
            other => Err(Mismatch::wrong_type(other, "an object")),
        }
    }
}

macro_rules! forward {
    ($($method:ident => $to:ident),* $(,)?) => {
        $(fn $method<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            self.$to(visitor)
        })*
    };
}

impl<'a> Deserializer<'a> for Reader<'a> {
    type Error = Mismatch;

    forward! {
        deserialize_i8 => integer, deserialize_i16 => integer, deserialize_i32 => integer, deserialize_i64 => integer,
        deserialize_i128 => integer, deserialize_u8 => integer, deserialize_u16 => integer, deserialize_u32 => integer,
        deserialize_u64 => integer, deserialize_u128 => integer,
        deserialize_f32 => float, deserialize_f64 => float,
        deserialize_char => text, deserialize_str => text, deserialize_string => text, deserialize_identifier => text,
        deserialize_bytes => text, deserialize_byte_buf => text,
        deserialize_seq => array,
    }

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Null => visitor.visit_unit(),
            Node::Boolean(flag) => visitor.visit_bool(*flag),
            Node::Number(number) if number.is_f64() => self.float(visitor),
            Node::Number(_) | Node::Placeholder => self.integer(visitor),
            Node::Text(_) | Node::Parameter(_) => self.text(visitor),
            Node::Array(_) => self.array(visitor),
            Node::Object(_) => self.object(&[], visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Boolean(flag) => visitor.visit_bool(*flag),
            Node::Placeholder => visitor.visit_bool(false),
            Node::Parameter(text) if text == "true" => visitor.visit_bool(true),
            Node::Parameter(text) if text == "false" => visitor.visit_bool(false),
            other => Err(Mismatch::wrong_type(other, "a boolean")),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Null | Node::Placeholder => visitor.visit_unit(),
            other => Err(Mismatch::wrong_type(other, "null")),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match name {
            // Any JSON fits; the value of the tree is not used.
            RAW => visitor.visit_map(MapDeserializer::new(std::iter::once((RAW, "null")))),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_tuple<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Mismatch> {
        self.array(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.array(visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.object(&[], visitor)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.object(known, visitor)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.0 {
            Node::Text(name) | Node::Parameter(name) => visitor.visit_enum(Variant { name, of: None }),
            Node::Placeholder => {
                visitor.visit_enum(Variant { name: known.first().copied().unwrap_or_default(), of: None })
            }
            Node::Object(fields) => match &**fields {
                [(name, content)] if known.contains(&name.as_str()) => {
                    visitor.visit_enum(Variant { name, of: Some((self.0, content)) })
                }
                _ => Err(Mismatch::wrong_type(self.0, "a string")),
            },
            other => Err(Mismatch::wrong_type(other, "a string")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_unit()
    }
}

struct Items<'a>(Enumerate<slice::Iter<'a, Node>>);

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Mismatch> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        seed.deserialize(Reader(item)).map(Some).map_err(|error| error.within(index))
    }
}

struct Fields<'a> {
    rest: Enumerate<slice::Iter<'a, (String, Node)>>,
    current: Option<(usize, &'a Node)>,
}

impl<'a> MapAccess<'a> for Fields<'a> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        let Some((position, (name, value))) = self.rest.next() else { return Ok(None) };
        self.current = Some((position, value));
        seed.deserialize(NameReader(name)).map(Some).map_err(|error| error.in_name(position))
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        let (position, value) = self.current.take().unwrap_or((0, &Node::Placeholder));
        seed.deserialize(Reader(value)).map_err(|error| error.within(position))
    }
}

struct PlaceholderFields(slice::Iter<'static, &'static str>);

impl<'a> MapAccess<'a> for PlaceholderFields {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        self.0.next().map(|name| seed.deserialize(NameReader(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        seed.deserialize(Reader(&Node::Placeholder))
    }
}

/// The name of a field, which may be a number as the key of a map.
#[derive(Clone, Copy)]
struct NameReader<'a>(&'a str);

impl<'a> NameReader<'a> {
    fn integer<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match (self.0.parse(), self.0.parse()) {
            (Ok(number), _) => visitor.visit_i64(number),
            (_, Ok(number)) => visitor.visit_u64(number),
            _ => Err(Mismatch::custom("the name is not an integer; use an integer")),
        }
    }
}

impl<'a> Deserializer<'a> for NameReader<'a> {
    type Error = Mismatch;

    forward! {
        deserialize_i8 => integer, deserialize_i16 => integer, deserialize_i32 => integer, deserialize_i64 => integer,
        deserialize_u8 => integer, deserialize_u16 => integer, deserialize_u32 => integer, deserialize_u64 => integer,
    }

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_enum(Variant { name: self.0, of: None })
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i128 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

/// A variant of an enum: a text, or an object whose only field has its content.
#[derive(Clone, Copy)]
struct Variant<'a> {
    name: &'a str,
    /// The object, and the content.
    of: Option<(&'a Node, &'a Node)>,
}

impl<'a> Variant<'a> {
    fn content<T>(self, read: impl FnOnce(Reader<'a>) -> Result<T, Mismatch>) -> Result<T, Mismatch> {
        let (_, content) = self.of.ok_or_else(|| Mismatch::custom("the value needs content"))?;
        read(Reader(content)).map_err(|error| error.within(0))
    }
}

impl<'a> EnumAccess<'a> for Variant<'a> {
    type Error = Mismatch;
    type Variant = Variant<'a>;

    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Variant<'a>), Mismatch> {
        Ok((seed.deserialize(NameReader(self.name))?, self))
    }
}

impl<'a> VariantAccess<'a> for Variant<'a> {
    type Error = Mismatch;

    fn unit_variant(self) -> Result<(), Mismatch> {
        match self.of {
            None | Some((_, Node::Null)) => Ok(()),
            Some((object, _)) => Err(Mismatch::wrong_type(object, "a string")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Mismatch> {
        self.content(|content| seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Mismatch> {
        self.content(|content| content.array(visitor))
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.content(|content| content.object(known, visitor))
    }
}
