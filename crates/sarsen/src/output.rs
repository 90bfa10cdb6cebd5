//! Results on stdout: tables and records for people, JSON for programs.
//!
//! What comes from a server is shown without control characters: a name must not move the cursor.

use crate::error::{Error, Result};
use serde_json::Value;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

/// A column of a table or a line of a record: its label, and where the value is (RFC 6901). Two places, with a space
/// between them, are a name and the id beside it; a server may not say the name.
pub type Column = (&'static str, &'static str);

/// Writes a text. A reader that has gone, like `head`, wanted no more.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to stdout")(error))
        }
        _ => Ok(()),
    }
}

/// Writes JSON: on one line, but indented on a terminal.
pub fn print_json(value: &Value) -> Result<()> {
    let text = if std::io::stdout().is_terminal() { format!("{value:#}\n") } else { format!("{value}\n") };
    print(&text)
}

/// Writes a table, or `nothing` when it would have no rows.
pub fn print_table(columns: &[Column], rows: &[Value], nothing: &str) -> Result<()> {
    if rows.is_empty() {
        eprintln!("{nothing}");
        return Ok(());
    }
    print(&table(columns, rows))
}

/// Writes one object, a line a field.
pub fn print_record(columns: &[Column], object: &Value) -> Result<()> {
    print(&record(columns, object))
}

fn table(columns: &[Column], rows: &[Value]) -> String {
    let head: Vec<String> = columns.iter().map(|(label, _)| label.to_uppercase()).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|(_, place)| text_at(row, place)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns.len()).map(|column| width(column).unwrap_or_default()).collect();
    lines.iter().map(|line| line_of(line, &widths)).collect()
}

fn line_of(cells: &[String], widths: &[usize]) -> String {
    let padded: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
    format!("{}\n", padded.join("  ").trim_end())
}

fn record(columns: &[Column], object: &Value) -> String {
    let shown: Vec<(&str, String)> = columns
        .iter()
        .filter(|(_, place)| place.split(' ').any(|place| object.pointer(place).is_some()))
        .map(|(label, place)| (*label, text_at(object, place)))
        .collect();
    let width = shown.iter().map(|(label, _)| label.chars().count()).max().unwrap_or_default();
    shown.iter().map(|(label, text)| format!("{label:width$}  {text}\n")).collect()
}

fn text_at(object: &Value, place: &str) -> String {
    let known = place.split(' ').filter_map(|place| object.pointer(place));
    let mut texts = known.map(text).filter(|text| text != "-");
    match (texts.next(), texts.next()) {
        (Some(name), Some(id)) => format!("{name} ({id})"),
        (Some(one), None) => one,
        (None, _) => "-".to_owned(),
    }
}

/// A value as people read it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => sanitize(text),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Object(fields) if fields.is_empty() => "-".to_owned(),
        Value::Object(fields) => {
            let pairs = fields.iter().map(|(name, value)| format!("{}={}", sanitize(name), text(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Without what a terminal would obey.
pub fn sanitize(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{FFFD}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_has_a_column_for_each_field_and_obeys_nobody() {
        let columns = [("slug", "/slug"), ("name", "/name"), ("seats", "/seats")];
        let rows = [
            json!({"slug": "a", "name": "Ärger\u{1b}[2J", "seats": null}),
            json!({"slug": "long-one", "name": "B"}),
        ];
        insta::assert_snapshot!(table(&columns, &rows), @r"
        SLUG      NAME       SEATS
        a         Ärger�[2J  -
        long-one  B          -
        ");
    }

    #[test]
    fn a_name_stands_before_its_id_when_it_is_known() {
        let columns = [("who", "/email /id"), ("to", "/name /target")];
        let rows = [
            json!({"email": "ada@acme.test", "id": "user_1", "name": null, "target": "plan_2"}),
            json!({"id": "system", "name": "", "target": null}),
        ];
        insta::assert_snapshot!(table(&columns, &rows), @r"
        WHO                     TO
        ada@acme.test (user_1)  plan_2
        system                  -
        ");
        insta::assert_snapshot!(record(&columns, &json!({"id": "user_1"})), @"who  user_1");
    }

    #[test]
    fn a_record_leaves_out_what_is_not_there() {
        let columns =
            [("id", "/id"), ("secret", "/secret"), ("limits", "/limits"), ("on", "/on"), ("of", "/of")];
        let object = json!({"id": 7, "limits": {"projects": 3}, "on": true, "of": ["a", "b"]});
        insta::assert_snapshot!(record(&columns, &object), @r"
        id      7
        limits  projects=3
        on      yes
        of      a, b
        ");
    }
}
