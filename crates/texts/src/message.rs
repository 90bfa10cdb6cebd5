//! A text with placeholders: `Signed in as {email}.`

use std::collections::BTreeSet;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it stands in the file.
    Text(&'a str),
    /// The place of the value with this name.
    Value(&'a str),
}

/// The parts of a text that was checked.
pub(crate) fn pieces(message: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = message;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = rest.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            rest = after;
            return Some(Piece::Value(name));
        }
        // A brace at the beginning that opens no placeholder is text, so that this ends for any message.
        let end =
            rest.char_indices().skip(1).find(|(_, letter)| *letter == '{').map_or(rest.len(), |(at, _)| at);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Piece::Text(text))
    })
}

/// The names of its placeholders, or what is wrong with its braces.
pub(crate) fn placeholders(message: &str) -> Result<BTreeSet<&str>, &'static str> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_')
    };
    let mut names = BTreeSet::new();
    for piece in pieces(message) {
        match piece {
            Piece::Value(name) if is_name(name) => {
                names.insert(name);
            }
            Piece::Text(text) if !text.contains(['{', '}']) => {}
            _ => return Err("has a brace that belongs to no placeholder; a placeholder is like {email}"),
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_text_and_placeholders_in_any_order() {
        let found: Vec<_> = pieces("{a} und {b}.").collect();
        assert_eq!(found, [Piece::Value("a"), Piece::Text(" und "), Piece::Value("b"), Piece::Text(".")]);
        assert_eq!(pieces("").count(), 0);
        assert_eq!(pieces("{a}{b}").count(), 2);
        assert_eq!(placeholders("{b} {a} {b}"), Ok(BTreeSet::from(["a", "b"])));
    }

    #[test]
    fn a_brace_without_a_placeholder_is_wrong() {
        for message in ["{", "}", "a { b", "{}", "{A}", "{a b}", "{a}}", "{{a}"] {
            assert!(placeholders(message).is_err(), "{message}");
        }
    }
}
