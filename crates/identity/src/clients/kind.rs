//! The kinds of clients, with the grant types and properties of each.

use crate::{Error, Result};
use store::{FromValue, ToValue, Value, ValueRef};

/// The kind of a client. It determines the grant types and whether the client is confidential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A web application with a back end that keeps a secret.
    Web,
    /// A single-page application in a browser.
    Spa,
    /// An app that opens the system browser. Loopback redirects may use any port (RFC 8252).
    Native,
    /// A terminal or a device without a browser (RFC 8628).
    Device,
    /// A service that acts on its own behalf, without a user.
    Machine,
}

/// The grant type of RFC 8628.
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

impl Kind {
    /// Every kind with its name in the API.
    pub const ALL: [(&'static str, Kind); 5] = [
        ("web", Kind::Web),
        ("spa", Kind::Spa),
        ("native", Kind::Native),
        ("device", Kind::Device),
        ("machine", Kind::Machine),
    ];

    /// Returns the name used in the API.
    pub fn as_str(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// Parses the name used in the API.
    pub fn parse(word: &str) -> Result<Kind> {
        let found = Kind::ALL.iter().find(|(known, _)| *known == word);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            Error::wrong(
                "not_allowed",
                "kind",
                format!("{word:?} is not a client kind; use web, spa, native, device or machine"),
            )
        })
    }

    /// Whether the client can keep a secret.
    pub fn is_confidential(self) -> bool {
        matches!(self, Kind::Web | Kind::Machine)
    }

    /// Whether the kind supports the device flow.
    pub fn has_device_flow(self) -> bool {
        self.default_grants().contains(&DEVICE_GRANT)
    }

    /// The grant types of a new client of this kind.
    pub fn default_grants(self) -> &'static [&'static str] {
        match self {
            Kind::Web | Kind::Spa => &["authorization_code", "refresh_token"],
            Kind::Native => &["authorization_code", "refresh_token", DEVICE_GRANT],
            Kind::Device => &[DEVICE_GRANT, "refresh_token"],
            Kind::Machine => &["client_credentials"],
        }
    }
}

impl FromValue for Kind {
    const KIND: &'static str = "a kind of client";
    fn from_value(value: ValueRef<'_>) -> Option<Kind> {
        if let ValueRef::Text(word) = value { Kind::parse(word).ok() } else { None }
    }
}

impl ToValue for Kind {
    fn to_value(&self) -> Value<'_> {
        self.as_str().into()
    }
}
