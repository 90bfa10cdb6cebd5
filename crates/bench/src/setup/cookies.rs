//! The cookies of one browser at one server: names and values. Path, domain, lifetime and `Secure` are ignored, because the
//! bench visits one origin for a few minutes.

/// Cheap to copy: a flow that changes no cookies uses its own copy.
#[derive(Debug, Clone, Default)]
pub struct Cookies(Vec<(String, String)>);

impl Cookies {
    /// Takes one `Set-Cookie` header.
    pub fn take(&mut self, set_cookie: &str) {
        let mut parts = set_cookie.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let (name, value) = (name.trim(), value.trim());
        let ends = parts.any(|attribute| {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            key.trim().eq_ignore_ascii_case("max-age")
                && value.trim().parse::<i64>().is_ok_and(|age| age <= 0)
        });
        self.0.retain(|(known, _)| known != name);
        if !ends && !value.is_empty() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Takes all `Set-Cookie` among `headers`.
    pub fn take_from<'h>(&mut self, headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) {
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("set-cookie") {
                self.take(&String::from_utf8_lossy(value));
            }
        }
    }

    /// The `Cookie` header. `None`: there are no cookies.
    pub fn header(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Some(pairs.join("; "))
    }
}
