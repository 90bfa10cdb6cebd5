//! A way through an HTTP proxy: `CONNECT` to the address that was judged, so that the proxy resolves no name again.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest head of an answer.
const HEAD_MAX: usize = 8 * 1024;

/// A proxy, from `http://[user:password@]host:port`.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    credentials: Option<String>,
}

impl Proxy {
    /// Whether its address holds a password.
    pub fn has_password(&self) -> bool {
        self.credentials.is_some()
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Asks the proxy behind `stream` for a way to this place. The error says why there is none.
    pub(crate) async fn open(&self, stream: &mut TcpStream, place: SocketAddr) -> Result<(), String> {
        let mut head = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
        if let Some(credentials) = &self.credentials {
            head.push_str(&format!("Proxy-Authorization: {credentials}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await.map_err(|error| error.to_string())?;
        // A byte at a time: what follows the head is of the machine behind the proxy.
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == HEAD_MAX {
                return Err("its answer is too long".to_owned());
            }
            answer.push(stream.read_u8().await.map_err(|error| error.to_string())?);
        }
        let status = answer.get(..12).filter(|start| start.starts_with(b"HTTP/1."));
        match status.and_then(|line| std::str::from_utf8(line.get(9..)?).ok()) {
            Some(status) if status.starts_with('2') => Ok(()),
            Some(status) if status.bytes().all(|digit| digit.is_ascii_digit()) => {
                Err(format!("it answers {status} to CONNECT"))
            }
            _ => Err("its answer is not that of an HTTP proxy".to_owned()),
        }
    }
}

/// A text that is no address of a proxy.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidProxy;

impl FromStr for Proxy {
    type Err = InvalidProxy;

    fn from_str(text: &str) -> Result<Proxy, InvalidProxy> {
        let rest = text.strip_prefix("http://").ok_or(InvalidProxy)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let (host, port) = place.rsplit_once(':').ok_or(InvalidProxy)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(InvalidProxy)?;
        if host.is_empty() || host.contains(['/', '?', '#', '@', ' ']) {
            return Err(InvalidProxy);
        }
        let credentials = match user.map(|user| percent_decode_str(user).collect::<Vec<u8>>()) {
            Some(user) if !user.contains(&b':') => return Err(InvalidProxy),
            user => user.map(|user| format!("Basic {}", BASE64_STANDARD.encode(user))),
        };
        Ok(Proxy { host: host.to_owned(), port, credentials })
    }
}

/// Without its password.
impl fmt::Display for Proxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = if self.credentials.is_some() { "********@" } else { "" };
        match self.host.contains(':') {
            true => write!(out, "http://{secret}[{}]:{}", self.host, self.port),
            false => write!(out, "http://{secret}{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_shown_without_its_password() {
        for (text, shown) in [
            ("http://proxy.internal:3128", "http://proxy.internal:3128"),
            ("http://proxy.internal:3128/", "http://proxy.internal:3128"),
            ("http://ada:s%40cret@10.0.0.1:3128", "http://********@10.0.0.1:3128"),
            ("http://[fd00::1]:3128", "http://[fd00::1]:3128"),
        ] {
            assert_eq!(text.parse::<Proxy>().expect("valid").to_string(), shown);
        }
        let proxy: Proxy = "http://ada:s%40cret@10.0.0.1:3128".parse().expect("valid");
        assert_eq!(proxy.credentials.as_deref(), Some("Basic YWRhOnNAY3JldA=="));
        for wrong in
            ["", "proxy:3128", "https://proxy:3128", "http://proxy", "http://proxy:0", "http://a b:1"]
        {
            assert_eq!(wrong.parse::<Proxy>(), Err(InvalidProxy), "{wrong}");
        }
    }
}
