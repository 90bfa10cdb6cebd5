//! The cookies of one browser at one server: names and values. Path, domain and `Secure` are ignored, because a test or a
//! bench visits one origin.

/// Cheap to copy: a flow that changes no cookies uses its own copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cookies(Vec<(String, String)>);

impl Cookies {
    /// Takes one `Set-Cookie` header.
    pub fn take(&mut self, set_cookie: &str) {
        let mut parts = set_cookie.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let ends = parts.any(|attribute| {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            key.trim().eq_ignore_ascii_case("max-age")
                && value.trim().parse::<i64>().is_ok_and(|age| age <= 0)
        });
        self.set(name.trim(), if ends { "" } else { value.trim() });
    }

    /// Takes all `Set-Cookie` among `headers`.
    pub fn take_from<'h, V: AsRef<[u8]>>(&mut self, headers: impl IntoIterator<Item = (&'h str, V)>) {
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("set-cookie") {
                self.take(&String::from_utf8_lossy(value.as_ref()));
            }
        }
    }

    /// Puts a cookie there, or removes it when the value is empty.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The value of a cookie.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The `Cookie` header. `None`: there are no cookies.
    pub fn header(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let pairs: Vec<String> = self.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Some(pairs.join("; "))
    }
}

#[test]
fn a_cookie_is_replaced_and_ends() {
    let mut cookies = Cookies::default();
    assert_eq!(cookies.header(), None);
    cookies.take("a=1; Path=/; HttpOnly");
    cookies.take_from([("content-type", "b=2"), ("Set-Cookie", "b=3"), ("set-cookie", "a=4")]);
    assert_eq!(cookies.header().as_deref(), Some("b=3; a=4"));
    cookies.take("b=; Max-Age=0");
    cookies.take("nonsense");
    assert_eq!((cookies.get("a"), cookies.get("b")), (Some("4"), None));
    cookies.take("a=5; max-age=0");
    assert_eq!(cookies.header(), None);
}
