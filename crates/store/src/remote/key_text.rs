//! Keys as the change log stores them: one a line.

use crate::Key;

/// One key a line. What a line or a database cannot hold is escaped.
pub(crate) fn text_of(keys: &[Key]) -> String {
    let mut text = String::new();
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        for letter in key.as_str().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                // PostgreSQL accepts no NUL in a TEXT.
                '\0' => text.push_str("\\0"),
                other => text.push(other),
            }
        }
    }
    text
}

pub(crate) fn keys_of(text: &str) -> Vec<Key> {
    text.split('\n').filter(|line| !line.is_empty()).map(key_of).collect()
}

fn key_of(line: &str) -> Key {
    if !line.contains('\\') {
        return Key::of_text(line);
    }
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let meant = match letter {
            '\\' => letters.next().map(|escaped| match escaped {
                'n' => '\n',
                '0' => '\0',
                other => other,
            }),
            other => Some(other),
        };
        text.extend(meant);
    }
    Key::of_text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lines_whatever_they_contain() {
        let keys = [Key::table("users"), Key::row("users", "email", "a\nb\\\0n\\"), Key::table("plans")];
        let text = text_of(&keys);
        assert_eq!(text, "users\nusers.email=a\\nb\\\\\\0n\\\\\nplans");
        assert_eq!(keys_of(&text), keys);
        assert_eq!(keys_of(&text_of(&[])), []);
    }
}
