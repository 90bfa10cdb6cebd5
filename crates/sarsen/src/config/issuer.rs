//! The setting `issuer`: an origin, advertised byte for byte as it was given.

use std::fmt;
use ureq::http::Uri;

/// `https://host` or `http://host:port`, and nothing after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    text: String,
    https: bool,
    host: String,
}

impl Origin {
    /// Reads an origin. It has no slash at its end, no path, no user and no capital letters: clients compare the bytes
    /// of issuers.
    pub fn parse(text: &str) -> Option<Origin> {
        let uri: Uri = text.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
        let whole = format!("{scheme}://{authority}");
        let https = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let good = whole == text
            && !authority.as_str().contains('@')
            && !authority.host().is_empty()
            && text.bytes().all(|letter| letter.is_ascii_graphic() && !letter.is_ascii_uppercase())
            // Port 0 asks the system for any free port; no client can connect to it.
            && authority.port_u16() != Some(0)
            && (authority.port_u16().is_some() || !authority.as_str().ends_with(':'));
        good.then(|| Origin { text: whole, https, host: authority.host().to_owned() })
    }

    /// Whether it is `https`.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Its host, without the port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether its host is this machine.
    pub fn is_loopback(&self) -> bool {
        server::is_loopback(&self.host)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_an_origin_and_nothing_more() {
        for good in
            ["https://id.example.com", "http://localhost:7070", "https://[::1]:8443", "http://127.0.0.1"]
        {
            assert_eq!(Origin::parse(good).expect(good).to_string(), good);
        }
        for bad in [
            "",
            "id.example.com",
            "https://id.example.com/",
            "https://id.example.com/x",
            "https://ID.example.com",
            "https://ada@id.example.com",
            "https://id.example.com:",
            "http://localhost:0",
            "https://id.example.com?x",
            "https://id.example.com#x",
            "ftp://id.example.com",
            "https://",
            "https://idé.example.com",
        ] {
            assert_eq!(Origin::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn loopback_names_and_addresses_are_this_machine() {
        let is_loopback = |text: &str| Origin::parse(text).expect("an origin").is_loopback();
        for own in ["http://localhost:7070", "http://app.localhost", "http://127.1.2.3", "http://[::1]:7070"]
        {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["http://localhost.example.com", "http://10.0.0.1", "http://[::2]", "http://128.0.0.1"] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
