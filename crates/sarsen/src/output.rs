//! Results on stdout: tables and records for people, JSON for programs.
//!
//! Text from a server is printed without control characters and those that reorder a line: a name must not move the
//! cursor. Tables fit the width of
//! a terminal; in a pipe every value is whole.

mod cell;
mod table;

pub use cell::{Cell, Time};
pub(crate) use table::{print_record, print_table};

use crate::error::{Error, Result};
use serde_json::Value;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

/// What a user sees of an object: a line a field in a record, a column for some of the fields in a table.
pub trait Record {
    /// The fields in their order.
    fn fields(&self) -> Vec<Field>;
}

/// A field of an object.
pub struct Field {
    label: &'static str,
    cell: Cell,
    in_table: bool,
    /// Whether a narrow terminal leaves the column out before it shortens the others.
    is_dispensable: bool,
}

impl Field {
    /// A column that a narrow terminal leaves out, the last of them first.
    pub fn dispensable(self) -> Field {
        Field { is_dispensable: true, ..self }
    }
}

/// A field that is also a column of tables.
pub fn column(label: &'static str, cell: impl Into<Cell>) -> Field {
    Field { label, cell: cell.into(), in_table: true, is_dispensable: false }
}

/// A field that only a record shows.
pub fn detail(label: &'static str, cell: impl Into<Cell>) -> Field {
    Field { label, cell: cell.into(), in_table: false, is_dispensable: false }
}

/// Writes a text. A closed pipe, as behind `head`, is no error.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to stdout")(error))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr. That nobody reads it is no error: the work is done.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The end of a command that has changed something: a result that cannot be printed does not fail it, because a script
/// would repeat what is done.
pub(crate) fn after_change(printed: Result<()>) -> Result<()> {
    if let Err(error) = printed {
        tell(&format!("sarsen: it is done, but the result cannot be printed: {error}"));
    }
    Ok(())
}

/// Writes JSON: on one line, but indented on a terminal.
pub fn print_json(value: &Value) -> Result<()> {
    let text = if std::io::stdout().is_terminal() { format!("{value:#}\n") } else { format!("{value}\n") };
    print(&inert(&text))
}

/// JSON with the same value, where characters that are invisible or reorder text are escapes. They can only be in strings.
fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut hidden = text::hidden(json).map(|(at, _)| at).peekable();
    for (at, letter) in json.char_indices() {
        let is_hidden = hidden.next_if_eq(&at).is_some();
        match letter {
            '\u{7f}'..='\u{9f}' => escape(letter, &mut text),
            _ if is_hidden => escape(letter, &mut text),
            _ => text.push(letter),
        }
    }
    text
}

/// RFC 8259 section 7: in units of UTF-16.
fn escape(letter: char, text: &mut String) {
    for unit in letter.encode_utf16(&mut [0; 2]) {
        text.push_str(&format!("\\u{unit:04x}"));
    }
}

/// The text without characters that a terminal would obey, that are invisible, or that reorder the text around them.
pub fn sanitize(text: &str) -> String {
    let mut hidden = text::hidden(text).map(|(at, _)| at).peekable();
    let visible = |(at, letter): (usize, char)| {
        let is_bad = hidden.next_if_eq(&at).is_some() || letter.is_control();
        if is_bad { '\u{FFFD}' } else { letter }
    };
    text.char_indices().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_move_the_cursor_or_reorder_a_line() {
        let json = Value::from("a\u{202e}b\u{e0041}c\u{9b}ü\n\u{1b}");
        let text = inert(&json.to_string());
        assert_eq!(text, "\"a\\u202eb\\udb40\\udc41c\\u009bü\\n\\u001b\"");
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(json));
        assert_eq!(sanitize("علی\u{200c}رضا"), "علی\u{200c}رضا", "a name as its bearer writes it");
        assert_eq!(sanitize("a\u{1b}[2Jb\u{202e}c\u{200b}ü"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}ü");
    }
}
