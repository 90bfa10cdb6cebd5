//! Finds a string member of a JSON object without parsing the rest, for the hot path. It reads the top level and does not
//! decode escapes: codes and slugs have none.

/// The raw bytes of the string member `name`.
pub fn string_field<'a>(json: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut scanner = Scanner { bytes: json, at: 0 };
    scanner.skip_space();
    scanner.take(b'{')?;
    loop {
        scanner.skip_space();
        let key = scanner.string()?;
        scanner.skip_space();
        scanner.take(b':')?;
        scanner.skip_space();
        if key == name.as_bytes() {
            return scanner.string();
        }
        scanner.skip_value()?;
        scanner.skip_space();
        scanner.take(b',')?;
    }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let text = self.bytes.get(start..self.at)?;
        self.at += 1;
        Some(text)
    }

    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth == 0 => return Some(()),
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' if depth == 0 => return Some(()),
                _ => self.at += 1,
            }
        }
    }
}
