//! Arguments of statements and values of rows: five types, the same on every database.

use crate::{Error, Time};
use std::borrow::Cow;

/// An argument of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// Numbers, flags (0/1) and times.
    Int(i64),
    /// Floating point.
    Real(f64),
    /// UTF-8 text, including JSON.
    Text(Cow<'a, str>),
    /// Bytes: hashes, sealed secrets.
    Blob(Cow<'a, [u8]>),
}

#[cfg(feature = "postgres")]
impl Value<'_> {
    /// A copy that borrows nothing.
    pub(crate) fn to_static(&self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Int(number) => Value::Int(*number),
            Value::Real(number) => Value::Real(*number),
            Value::Text(text) => Value::Text(Cow::Owned(text.as_ref().to_owned())),
            Value::Blob(bytes) => Value::Blob(Cow::Owned(bytes.as_ref().to_owned())),
        }
    }
}

/// A value in a row, borrowed from the driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// SQL NULL.
    Null,
    /// Numbers, flags and times.
    Int(i64),
    /// Floating point.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

impl ValueRef<'_> {
    fn kind(&self) -> &'static str {
        match self {
            ValueRef::Null => "NULL",
            ValueRef::Int(_) => "a number",
            ValueRef::Real(_) => "a floating-point number",
            ValueRef::Text(_) => "text",
            ValueRef::Blob(_) => "bytes",
        }
    }
}

/// A row of a result. Columns are read by position, in the order of the SELECT.
pub struct Row<'r> {
    source: &'r dyn RowSource,
}

/// A back end's row.
pub(crate) trait RowSource {
    fn value(&self, column: usize) -> Result<ValueRef<'_>, Error>;
}

impl<'r> Row<'r> {
    pub(crate) fn new(source: &'r dyn RowSource) -> Row<'r> {
        Row { source }
    }

    /// The value of column `column` (from 0) as `T`; use `Option<T>` for columns that may be NULL.
    pub fn get<T: FromValue>(&self, column: usize) -> Result<T, Error> {
        let value = self.source.value(column)?;
        T::from_value(value).ok_or_else(|| Error::WrongType {
            column,
            expected: T::KIND,
            found: value.kind(),
        })
    }
}

/// A Rust type that a column can be read as.
pub trait FromValue: Sized {
    /// Its name in errors.
    const KIND: &'static str;
    /// `None` if the value has another type.
    fn from_value(value: ValueRef<'_>) -> Option<Self>;
}

impl FromValue for i64 {
    const KIND: &'static str = "a number";
    fn from_value(value: ValueRef<'_>) -> Option<i64> {
        if let ValueRef::Int(number) = value { Some(number) } else { None }
    }
}

impl FromValue for f64 {
    const KIND: &'static str = "a floating-point number";
    fn from_value(value: ValueRef<'_>) -> Option<f64> {
        if let ValueRef::Real(number) = value { Some(number) } else { None }
    }
}

impl FromValue for bool {
    const KIND: &'static str = "0 or 1";
    fn from_value(value: ValueRef<'_>) -> Option<bool> {
        match value {
            ValueRef::Int(0) => Some(false),
            ValueRef::Int(1) => Some(true),
            _ => None,
        }
    }
}

impl FromValue for Time {
    const KIND: &'static str = "a time in milliseconds";
    fn from_value(value: ValueRef<'_>) -> Option<Time> {
        i64::from_value(value).map(Time::from_millis)
    }
}

impl FromValue for String {
    const KIND: &'static str = "text";
    fn from_value(value: ValueRef<'_>) -> Option<String> {
        if let ValueRef::Text(text) = value { Some(text.to_owned()) } else { None }
    }
}

impl FromValue for Vec<u8> {
    const KIND: &'static str = "bytes";
    fn from_value(value: ValueRef<'_>) -> Option<Vec<u8>> {
        if let ValueRef::Blob(bytes) = value { Some(bytes.to_vec()) } else { None }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const KIND: &'static str = T::KIND;
    fn from_value(value: ValueRef<'_>) -> Option<Option<T>> {
        if value == ValueRef::Null { Some(None) } else { T::from_value(value).map(Some) }
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}
impl From<&i64> for Value<'_> {
    fn from(number: &i64) -> Self {
        Value::Int(*number)
    }
}
impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Real(number)
    }
}
impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Value::Int(flag.into())
    }
}
impl From<Time> for Value<'_> {
    fn from(time: Time) -> Self {
        Value::Int(time.millis())
    }
}
impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}
impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}
impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}
impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Blob(Cow::Borrowed(bytes))
    }
}
impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Value::Blob(Cow::Borrowed(bytes))
    }
}
impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Value::Blob(Cow::Borrowed(bytes))
    }
}
impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// A Rust type that a column can be written from, by reference: [`ToRow`](crate::ToRow) needs one for each field.
pub trait ToValue {
    /// The value.
    fn to_value(&self) -> Value<'_>;
}

macro_rules! to_value {
    ($($type:ty = |$value:ident| $made:expr;)*) => { $(
        impl ToValue for $type {
            fn to_value(&self) -> Value<'_> {
                let $value = self;
                $made
            }
        }
    )* };
}

to_value! {
    i64 = |number| Value::Int(*number);
    f64 = |number| Value::Real(*number);
    bool = |flag| Value::Int(i64::from(*flag));
    Time = |time| Value::Int(time.millis());
    str = |text| Value::Text(Cow::Borrowed(text));
    String = |text| Value::Text(Cow::Borrowed(text));
    [u8] = |bytes| Value::Blob(Cow::Borrowed(bytes));
    Vec<u8> = |bytes| Value::Blob(Cow::Borrowed(bytes));
}

impl<const N: usize> ToValue for [u8; N] {
    fn to_value(&self) -> Value<'_> {
        Value::Blob(Cow::Borrowed(self))
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, ToValue::to_value)
    }
}

impl<T: ToValue + ?Sized> ToValue for &T {
    fn to_value(&self) -> Value<'_> {
        T::to_value(self)
    }
}

/// The arguments of a statement, in the order of `?1`, `?2`, …
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::Value::from($value)),*] as &[$crate::Value<'_>] };
}
