//! Values on their way to and from PostgreSQL, each written and read as the type that the server says.

use crate::value::RowSource;
use crate::{Error, Value, ValueRef};
use bytes::BytesMut;
use futures_core::Stream as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Row, RowStream};

type Problem = Box<dyn std::error::Error + Sync + Send>;

/// An argument. NULL fits every type; a number fits every type of number.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a>(pub(super) &'a Value<'a>);

/// The kind only: the driver writes arguments into its debug log.
impl fmt::Debug for Bound<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(kind(self.0))
    }
}

fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Int(_) => "a number",
        Value::Real(_) => "a floating-point number",
        Value::Text(_) => "text",
        Value::Blob(_) => "bytes",
    }
}

impl Bound<'_> {
    /// The type that the argument has by itself; where it has none the server decides.
    pub(super) fn own_type(&self) -> Type {
        match self.0 {
            Value::Null => Type::UNKNOWN,
            Value::Int(_) => Type::INT8,
            Value::Real(_) => Type::FLOAT8,
            Value::Text(_) => Type::TEXT,
            Value::Blob(_) => Type::BYTEA,
        }
    }
}

impl ToSql for Bound<'_> {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, Problem> {
        match (self.0, wanted) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Int(number), &Type::INT8) => number.to_sql(wanted, out),
            (Value::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(wanted, out),
            (Value::Int(number), &Type::INT2) => i16::try_from(*number)?.to_sql(wanted, out),
            (Value::Int(number), &Type::FLOAT8) => (*number as f64).to_sql(wanted, out),
            (Value::Int(number @ (0 | 1)), &Type::BOOL) => (*number == 1).to_sql(wanted, out),
            (Value::Real(number), &Type::FLOAT8) => number.to_sql(wanted, out),
            (Value::Real(number), &Type::FLOAT4) => (*number as f32).to_sql(wanted, out),
            (Value::Text(text), &Type::TEXT | &Type::VARCHAR | &Type::BPCHAR | &Type::UNKNOWN) => {
                text.as_ref().to_sql(wanted, out)
            }
            (Value::Blob(bytes), &Type::BYTEA) => bytes.as_ref().to_sql(wanted, out),
            (value, wanted) => Err(format!("{} does not fit {wanted}", kind(value)).into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A column as it arrived.
struct Raw<'a> {
    of: Type,
    bytes: Option<&'a [u8]>,
}

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(of: &Type, bytes: &'a [u8]) -> Result<Raw<'a>, Problem> {
        Ok(Raw { of: of.clone(), bytes: Some(bytes) })
    }

    fn from_sql_null(of: &Type) -> Result<Raw<'a>, Problem> {
        Ok(Raw { of: of.clone(), bytes: None })
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl RowSource for Row {
    fn value(&self, column: usize) -> Result<ValueRef<'_>, Error> {
        let raw: Raw<'_> = self.try_get(column).map_err(|error| Error::Database(error.to_string()))?;
        let Some(bytes) = raw.bytes else { return Ok(ValueRef::Null) };
        read(&raw.of, bytes).map_err(|problem| Error::Database(format!("column {column}: {problem}")))
    }
}

fn read<'a>(of: &Type, bytes: &'a [u8]) -> Result<ValueRef<'a>, Problem> {
    Ok(match *of {
        Type::INT8 => ValueRef::Int(i64::from_sql(of, bytes)?),
        Type::INT4 => ValueRef::Int(i32::from_sql(of, bytes)?.into()),
        Type::INT2 => ValueRef::Int(i16::from_sql(of, bytes)?.into()),
        Type::BOOL => ValueRef::Int(bool::from_sql(of, bytes)?.into()),
        Type::FLOAT8 => ValueRef::Real(f64::from_sql(of, bytes)?),
        Type::FLOAT4 => ValueRef::Real(f32::from_sql(of, bytes)?.into()),
        Type::NUMERIC => numeric(bytes)?,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => {
            ValueRef::Text(<&str>::from_sql(of, bytes)?)
        }
        Type::BYTEA => ValueRef::Blob(bytes),
        Type::VOID => ValueRef::Null,
        _ => return Err(format!("the store does not read the type {of}").into()),
    })
}

/// What SUM and AVG of a BIGINT give: a whole number where the scale says so, as on SQLite.
///
/// On the wire: count of digits, weight of the first, sign, scale; then the digits, to base 10,000.
fn numeric(bytes: &[u8]) -> Result<ValueRef<'static>, Problem> {
    let words: Vec<u16> = bytes.as_chunks().0.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
    let [count, weight, sign, scale, digits @ ..] = words.as_slice() else {
        return Err("a number that is cut off".into());
    };
    if digits.len() != usize::from(*count) || !matches!(sign, 0x0000 | 0x4000) {
        return Err("not a finite number".into());
    }
    let weight = i32::from(*weight as i16);
    if *scale == 0 {
        let mut whole: i128 = 0;
        for place in 0..=weight.min(5) {
            whole = whole * 10_000 + i128::from(digits.get(place as usize).copied().unwrap_or(0));
        }
        let whole = if *sign == 0 { whole } else { -whole };
        return match i64::try_from(whole) {
            Ok(number) if weight <= 5 => Ok(ValueRef::Int(number)),
            _ => Err("a number that is larger than BIGINT".into()),
        };
    }
    let parts =
        digits.iter().zip(0..).map(|(digit, place)| f64::from(*digit) * 10_000_f64.powi(weight - place));
    let size: f64 = parts.sum();
    Ok(ValueRef::Real(if *sign == 0 { size } else { -size }))
}

/// Hands out rows until `each` has had enough, but reads to the end: an error on the way there ends the
/// transaction on the server, and a COMMIT would not say so.
pub(super) async fn for_each_row(
    rows: RowStream,
    each: &mut dyn FnMut(&dyn RowSource) -> Result<bool, Error>,
) -> Result<Result<(), Error>, tokio_postgres::Error> {
    let (mut rows, mut wanted) = (pin!(rows), Ok(true));
    while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
        let row = row?;
        if matches!(wanted, Ok(true)) {
            wanted = each(&row);
        }
    }
    Ok(wanted.map(|_| ()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn sums_are_whole_numbers_and_averages_are_not() {
        let read = |words: &[u16]| numeric(&wire(words));
        assert_eq!(read(&[0, 0, 0, 0]).expect("zero"), ValueRef::Int(0));
        assert_eq!(read(&[1, 1, 0, 0, 12]).expect("trailing zeros are not sent"), ValueRef::Int(120_000));
        assert_eq!(read(&[2, 1, 0x4000, 0, 1, 2345]).expect("negative"), ValueRef::Int(-12_345));
        let largest = [5, 4, 0, 0, 922, 3372, 368, 5477, 5807];
        assert_eq!(read(&largest).expect("the largest"), ValueRef::Int(i64::MAX));
        assert!(read(&[5, 4, 0, 0, 922, 3372, 368, 5477, 5808]).is_err());
        assert_eq!(read(&[2, 0, 0, 1, 2, 5000]).expect("a fraction"), ValueRef::Real(2.5));
        assert!(read(&[0, 0, 0xC000, 0]).is_err(), "not a number");
        assert!(read(&[3, 0]).is_err());
    }

    #[test]
    fn an_argument_does_not_show_in_a_debug_log() {
        assert_eq!(format!("{:?}", Bound(&Value::from("secret"))), "text");
    }
}
