//! Values on their way to and from MySQL, each read as the type that the server says.

use crate::value::RowSource;
use crate::{Error, Value, ValueRef};
use ::mysql_async::consts::ColumnType;
use ::mysql_async::{Column, Params, Row, Value as Wire};

/// The character set of what is bytes and no text.
const BINARY: u16 = 63;

/// The arguments in the order of their places. There is one for each: the caller has counted.
pub(super) fn bound(args: &[Value<'_>], order: &[usize]) -> Params {
    if order.is_empty() {
        return Params::Empty;
    }
    Params::Positional(order.iter().map(|index| args.get(*index).map_or(Wire::NULL, wire)).collect())
}

fn wire(value: &Value<'_>) -> Wire {
    match value {
        Value::Null => Wire::NULL,
        Value::Int(number) => Wire::Int(*number),
        Value::Real(number) => Wire::Double(*number),
        Value::Text(text) => Wire::Bytes(text.as_bytes().to_vec()),
        Value::Blob(bytes) => Wire::Bytes(bytes.to_vec()),
    }
}

/// A row, with its numbers made into numbers: the server sends a DECIMAL as text.
pub(super) struct Read {
    row: Row,
}

impl Read {
    pub(super) fn new(row: Row) -> Read {
        Read { row }
    }
}

impl RowSource for Read {
    fn value(&self, column: usize) -> Result<ValueRef<'_>, Error> {
        let (Some(value), Some(of)) = (self.row.as_ref(column), self.row.columns_ref().get(column)) else {
            return Err(Error::Database(format!("there is no column {column}")));
        };
        read(value, of).map_err(|problem| Error::Database(format!("column {column}: {problem}")))
    }
}

fn read<'a>(value: &'a Wire, of: &Column) -> Result<ValueRef<'a>, String> {
    match value {
        Wire::NULL => Ok(ValueRef::Null),
        Wire::Int(number) => Ok(ValueRef::Int(*number)),
        Wire::UInt(number) => match i64::try_from(*number) {
            Ok(number) => Ok(ValueRef::Int(number)),
            Err(_) => Err("a number that is larger than BIGINT".to_owned()),
        },
        Wire::Float(number) => Ok(ValueRef::Real((*number).into())),
        Wire::Double(number) => Ok(ValueRef::Real(*number)),
        Wire::Bytes(bytes) => match of.column_type() {
            ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => decimal(bytes),
            _ if of.character_set() == BINARY => Ok(ValueRef::Blob(bytes)),
            _ => std::str::from_utf8(bytes).map(ValueRef::Text).map_err(|_| "not UTF-8".to_owned()),
        },
        Wire::Date(..) | Wire::Time(..) => {
            Err(format!("the store does not read the type {:?}", of.column_type()))
        }
    }
}

/// What SUM and AVG of a BIGINT give: a whole number where there is no point in it, as on SQLite.
fn decimal(bytes: &[u8]) -> Result<ValueRef<'static>, String> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let read = match text.contains('.') {
        true => text.parse().ok().map(ValueRef::Real),
        false => text.parse().ok().map(ValueRef::Int),
    };
    read.ok_or_else(|| "a number that is larger than BIGINT".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_whole_numbers_and_averages_are_not() {
        assert_eq!(decimal(b"42"), Ok(ValueRef::Int(42)));
        assert_eq!(decimal(b"-9223372036854775808"), Ok(ValueRef::Int(i64::MIN)));
        assert_eq!(decimal(b"14.0000"), Ok(ValueRef::Real(14.0)));
        assert!(decimal(b"9223372036854775808").is_err());
    }

    #[test]
    fn an_argument_goes_to_each_of_its_places() {
        let args = [Value::Int(1), Value::from("two")];
        let Params::Positional(places) = bound(&args, &[1, 0, 1]) else { panic!("positional") };
        let two = Wire::Bytes(b"two".to_vec());
        assert_eq!(places, [two.clone(), Wire::Int(1), two]);
        assert_eq!(bound(&[], &[]), Params::Empty);
    }
}
