//! What kinds of client there are, and what follows from the kind.

use crate::{Error, Result};

/// What a client is; decides its grants and whether it can keep a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A server that keeps a secret.
    Web,
    /// A page in a browser.
    Spa,
    /// An app with a browser beside it; loopback redirects with any port (RFC 8252).
    Native,
    /// A terminal or a device without a browser (RFC 8628).
    Device,
    /// A program that acts for itself.
    Machine,
}

/// The grant type of RFC 8628.
pub const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

impl Kind {
    /// Every kind, by its word on the wire.
    pub const ALL: [(&'static str, Kind); 5] = [
        ("web", Kind::Web),
        ("spa", Kind::Spa),
        ("native", Kind::Native),
        ("device", Kind::Device),
        ("machine", Kind::Machine),
    ];

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// Reads the word on the wire.
    pub fn parse(word: &str) -> Result<Kind> {
        let found = Kind::ALL.iter().find(|(known, _)| *known == word);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            Error::invalid(
                "kind",
                format!("{word:?} is not a kind of client; use web, spa, native, device or machine"),
            )
        })
    }

    /// Whether it keeps a secret.
    pub fn is_confidential(self) -> bool {
        matches!(self, Kind::Web | Kind::Machine)
    }

    /// Whether there is a device flow for it.
    pub fn has_device_flow(self) -> bool {
        self.default_grants().contains(&DEVICE_GRANT)
    }

    /// The grants that it gets when none are named.
    pub fn default_grants(self) -> &'static [&'static str] {
        match self {
            Kind::Web | Kind::Spa => &["authorization_code", "refresh_token"],
            Kind::Native => &["authorization_code", "refresh_token", DEVICE_GRANT],
            Kind::Device => &[DEVICE_GRANT, "refresh_token"],
            Kind::Machine => &["client_credentials"],
        }
    }
}
