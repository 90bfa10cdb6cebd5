//! Builds the bytes of a request. Hot requests are built once and sent many times.

use std::fmt::Write as _;

/// A request. `encode` adds `Host` and `Content-Length`.
#[derive(Debug, Clone)]
pub struct RequestDraft {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl RequestDraft {
    pub fn get(path: impl Into<String>) -> RequestDraft {
        RequestDraft { method: "GET", path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub fn post_form(path: impl Into<String>, fields: &[(&str, &str)]) -> RequestDraft {
        RequestDraft::post(path, "application/x-www-form-urlencoded", form_body(fields).into_bytes())
    }

    pub fn post_json(path: impl Into<String>, value: &serde_json::Value) -> RequestDraft {
        RequestDraft::post(path, "application/json", value.to_string().into_bytes())
    }

    /// `POST` without a body and without a content type.
    pub fn post_empty(path: impl Into<String>) -> RequestDraft {
        RequestDraft { method: "POST", ..RequestDraft::get(path) }
    }

    /// `PUT` or `PATCH` with a JSON body.
    pub(crate) fn json(method: &'static str, path: &str, value: &serde_json::Value) -> RequestDraft {
        RequestDraft { method, ..RequestDraft::post_json(path, value) }
    }

    pub(crate) fn delete(path: &str) -> RequestDraft {
        RequestDraft { method: "DELETE", ..RequestDraft::get(path) }
    }

    pub(crate) fn post(path: impl Into<String>, content_type: &str, body: Vec<u8>) -> RequestDraft {
        let headers = vec![("Content-Type", content_type.to_owned())];
        RequestDraft { method: "POST", path: path.into(), headers, body }
    }

    /// A request of a browser, with its cookies, from a made-up IP address.
    pub fn in_browser(request: browser::Request, cookies: &browser::Cookies, address: &str) -> RequestDraft {
        let browser::Request { is_post, path, headers, body } = request;
        let method = if is_post { "POST" } else { "GET" };
        let draft = RequestDraft { method, path, headers, body: body.into_bytes() };
        let draft = draft.header("Accept", "text/html").header("X-Forwarded-For", address);
        match cookies.header() {
            Some(cookies) => draft.header("Cookie", cookies),
            None => draft,
        }
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> RequestDraft {
        self.headers.push((name, value.into()));
        self
    }

    /// `METHOD /path`, without the query: for messages.
    pub fn label(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        format!("{} {path}", self.method)
    }

    /// The bytes on the wire.
    pub fn encode(&self, host: &str) -> Vec<u8> {
        let mut head = String::with_capacity(256);
        // Writing to a String cannot fail.
        let _ = write!(head, "{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if self.method != "GET" {
            let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// `application/x-www-form-urlencoded`.
pub fn form_body(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}
