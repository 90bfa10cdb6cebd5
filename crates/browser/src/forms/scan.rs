//! A scanner of tags, not a parser of HTML: it reads comments, scripts, attributes and character references, and builds
//! no tree.

use super::Field;

pub(super) struct Tag {
    /// In lower case; with its slash when it closes.
    pub(super) name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// A control without a name is not sent; a button without a name may still be pressed.
    pub(super) fn field(&self, value: &str, is_button: bool) -> Option<Field> {
        let name = self.attribute("name").unwrap_or_default();
        if (name.is_empty() && !is_button) || self.has("disabled") {
            return None;
        }
        Some(Field { name: name.to_owned(), value: value.to_owned(), is_button })
    }
}

/// The next tag and the text after it. Comments and declarations are skipped.
pub(super) fn next_tag(page: &str) -> Option<(Tag, &str)> {
    let mut rest = page;
    loop {
        rest = &rest[rest.find('<')? + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = &comment[comment.find("-->")? + 3..];
            continue;
        }
        let name_length =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '/' && c != '-').unwrap_or(rest.len());
        let starts = rest.trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic());
        if name_length == 0 || !starts {
            continue;
        }
        let (name, after_name) = rest.split_at(name_length);
        // `<br/>`: the slash at the end is not part of the name.
        let name = name.trim_end_matches('/').to_ascii_lowercase();
        let (attributes, after) = attributes(after_name);
        return Some((Tag { name, attributes }, after));
    }
}

fn attributes(text: &str) -> (Vec<(String, String)>, &str) {
    let mut attributes = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if let Some(after) = rest.strip_prefix('>') {
            return (attributes, after);
        }
        if rest.is_empty() {
            return (attributes, rest);
        }
        let end = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'))
            .map_or(rest.len(), |(at, _)| at);
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start();
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix('=') {
            (value, rest) = attribute_value(after.trim_start());
        }
        attributes.push((name, value));
    }
}

fn attribute_value(text: &str) -> (String, &str) {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let end = quoted.find(quote).unwrap_or(quoted.len());
            let after = quoted.get(end + 1..).unwrap_or_default();
            return (decode(&quoted[..end]), after);
        }
    }
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(text.len());
    (decode(&text[..end]), &text[end..])
}

pub(super) fn after_raw_text<'p>(rest: &'p str, name: &str) -> &'p str {
    let end = format!("</{name}");
    let found =
        rest.as_bytes().windows(end.len()).position(|window| window.eq_ignore_ascii_case(end.as_bytes()));
    found.map_or("", |at| &rest[at..])
}

/// Decodes the character references of HTML, such as `&amp;`.
pub fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        match reference(rest) {
            Some((character, length)) => {
                decoded.push(character);
                rest = &rest[length..];
            }
            None => {
                decoded.push('&');
                rest = &rest[1..];
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

/// The character at the start of `text` (which begins with `&`) and the length of its reference in bytes.
fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let name = &text[1..end];
    let character = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((character, end + 1))
}
