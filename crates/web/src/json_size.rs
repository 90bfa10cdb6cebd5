//! Limits on JSON before it is parsed: a body of a megabyte of tiny values takes a hundred times as much memory when it is read.

/// The most that a JSON text may have.
pub struct JsonLimits {
    /// Values, those in lists and objects included.
    pub values: usize,
    /// Levels of lists and objects.
    pub depth: usize,
    /// Bytes of a text, escapes as they are written.
    pub text: usize,
}

impl JsonLimits {
    /// Looks through a JSON text once. The error says what it has too much of: `more than 16 levels of lists and objects`.
    /// It does not check that the text is JSON; the parser does.
    pub fn check(&self, json: &[u8]) -> Result<(), String> {
        let (mut values, mut depth, mut rest) = (1, 0_usize, json);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => {
                    let length = text_length(rest);
                    if length > self.text {
                        return Err(format!("a text of more than {} bytes", self.text));
                    }
                    rest = rest.get(length + 1..).unwrap_or_default();
                }
                b',' => values += 1,
                b'[' | b'{' => (values, depth) = (values + 1, depth + 1),
                b']' | b'}' => depth = depth.saturating_sub(1),
                // The rest needs no look at the limits.
                _ => continue,
            }
            if values > self.values {
                return Err(format!("more than {} values", self.values));
            }
            if depth > self.depth {
                return Err(format!("more than {} levels of lists and objects", self.depth));
            }
        }
        Ok(())
    }
}

/// The bytes before the quotation mark that ends a text, escapes as they are written.
fn text_length(json: &[u8]) -> usize {
    let mut length = 0;
    loop {
        match json.get(length) {
            Some(b'\\') => length += 2,
            Some(b'"') | None => return length,
            Some(_) => length += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: JsonLimits = JsonLimits { values: 5, depth: 2, text: 4 };

    #[test]
    fn values_levels_and_texts_are_counted() {
        for good in ["[1,2,3]", "{\"a\":[1,2]}", "[\"[[[,\"]", "[\"\\\",[\"]", "[[],[]]", ""] {
            assert_eq!(LIMITS.check(good.as_bytes()), Ok(()), "{good}");
        }
        for (bad, what) in [
            ("[1,2,3,4,5]", "more than 5 values"),
            ("[[[]]]", "more than 2 levels of lists and objects"),
            ("[\"abcde\"]", "a text of more than 4 bytes"),
            ("\"abcde", "a text of more than 4 bytes"),
        ] {
            assert_eq!(LIMITS.check(bad.as_bytes()), Err(what.to_owned()), "{bad}");
        }
    }
}
