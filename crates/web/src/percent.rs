//! Percent-encoding of forms and addresses, decoded and checked in one pass: a form of 64 KiB may have nothing else in it
//! ([0029](../../../../docs/design/0029-plain-forms-where-a-shortcut-saves-little.md)).

/// Why something cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A `%` is not followed by two hexadecimal digits.
    Percent,
    /// The decoded bytes are not UTF-8.
    NotUtf8,
}

/// Decodes a part of a path.
pub fn decode(encoded: &[u8]) -> Result<String, Broken> {
    decode_with(encoded, b'+')
}

/// Decodes a name or a value of a form, in which `+` is a space.
pub fn decode_form(encoded: &[u8]) -> Result<String, Broken> {
    decode_with(encoded, b' ')
}

/// Whether the percent-encoded text is UTF-8 without a NUL, which not every database accepts in text.
pub fn is_text(encoded: &[u8]) -> bool {
    decode(encoded).is_ok_and(|text| !text.contains('\0'))
}

/// Adds a name or a value of a form, encoded.
pub fn encode_form(text: &str, form: &mut String) {
    let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => {
                form.push(char::from(byte))
            }
            b' ' => form.push('+'),
            _ => form.extend(['%', digit(byte >> 4), digit(byte & 15)]),
        }
    }
}

fn decode_with(encoded: &[u8], plus: u8) -> Result<String, Broken> {
    let is_escape = |byte: &u8| matches!(byte, b'%' | b'+');
    let (mut decoded, mut rest) = (Vec::with_capacity(encoded.len()), encoded);
    while !rest.is_empty() {
        let (plain, escapes) = rest.split_at(rest.iter().position(is_escape).unwrap_or(rest.len()));
        decoded.extend_from_slice(plain);
        rest = escapes;
        loop {
            rest = match rest {
                [b'%', high, low, after @ ..] => {
                    decoded.push(digit(*high)? << 4 | digit(*low)?);
                    after
                }
                [b'%', ..] => return Err(Broken::Percent),
                [b'+', after @ ..] => {
                    decoded.push(plus);
                    after
                }
                _ => break,
            };
        }
    }
    String::from_utf8(decoded).map_err(|_| Broken::NotUtf8)
}

fn digit(letter: u8) -> Result<u8, Broken> {
    match letter {
        b'0'..=b'9' => Ok(letter - b'0'),
        b'a'..=b'f' => Ok(letter - b'a' + 10),
        b'A'..=b'F' => Ok(letter - b'A' + 10),
        _ => Err(Broken::Percent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_text_is_decoded_and_other_bytes_are_refused() {
        let of = |encoded: &str| decode_form(encoded.as_bytes());
        assert_eq!(of("a%20b+c%2B%c3%A4ö").as_deref(), Ok("a b c+äö"));
        assert_eq!(decode(b"a+b%2fc").as_deref(), Ok("a+b/c"));
        for broken in ["%", "a%", "%4", "%4g", "%g4", "%%41", "%+1", "%\u{e4}"] {
            assert_eq!(of(broken), Err(Broken::Percent), "{broken}");
        }
        for broken in ["%ff", "%c3", "%c3%41", "%ed%a0%80"] {
            assert_eq!(of(broken), Err(Broken::NotUtf8), "{broken}");
        }
        assert_eq!(decode(b"a\xff"), Err(Broken::NotUtf8));
    }
}
