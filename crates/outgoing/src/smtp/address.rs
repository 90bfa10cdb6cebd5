//! The address of a relay: the setting `smtp_url`.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::str::FromStr;
use text::domain;

/// How the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// From its first byte: `smtps`.
    Implicit,
    /// By the command STARTTLS: `smtp`.
    StartTls,
}

/// A relay: `smtps://user@host:465` or `smtp://user@host:587`. User and port may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAddress {
    encryption: Encryption,
    user: Option<String>,
    host: String,
    port: u16,
}

impl RelayAddress {
    /// How the connection is encrypted.
    pub fn encryption(&self) -> Encryption {
        self.encryption
    }

    /// Who signs in there; the password is a setting of its own.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// A text that is no address of a relay.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidRelay;

impl FromStr for RelayAddress {
    type Err = InvalidRelay;

    fn from_str(text: &str) -> Result<RelayAddress, InvalidRelay> {
        let (encryption, usual, rest) = match text.split_once("://") {
            Some(("smtps", rest)) => (Encryption::Implicit, 465, rest),
            Some(("smtp", rest)) => (Encryption::StartTls, 587, rest),
            _ => return Err(InvalidRelay),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, place) = match rest.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, rest),
        };
        let user = match user {
            // A password in an address ends up in lists of processes and in logs.
            Some(user) if user.is_empty() || user.contains([':', '/', '?', '#', '@']) => {
                return Err(InvalidRelay);
            }
            Some(user) => {
                Some(percent_decode_str(user).decode_utf8().map_err(|_| InvalidRelay)?.into_owned())
            }
            None => None,
        };
        let (host, port) = match place.strip_prefix('[').map(|place| place.split_once(']')) {
            Some(Some((host, port))) if host.parse::<std::net::Ipv6Addr>().is_ok() => (host.to_owned(), port),
            Some(_) => return Err(InvalidRelay),
            None => {
                let end = place.find(':').unwrap_or(place.len());
                let (host, port) = place.split_at(end);
                (host_name(host).ok_or(InvalidRelay)?, port)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => usual,
            Some(port) if port.bytes().all(|digit| digit.is_ascii_digit()) => {
                port.parse().ok().filter(|port| *port != 0).ok_or(InvalidRelay)?
            }
            _ => return Err(InvalidRelay),
        };
        if user.as_ref().is_some_and(|user| user.chars().any(char::is_control)) {
            return Err(InvalidRelay);
        }
        Ok(RelayAddress { encryption, user, host, port })
    }
}

/// A name, also one of a container network, where underscores are usual.
fn host_name(text: &str) -> Option<String> {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'-' | b'_');
    let is_plain = (1..=253).contains(&text.len()) && text.bytes().all(is_letter);
    if is_plain { Some(text.to_ascii_lowercase()) } else { domain::to_ascii(text) }
}

impl fmt::Display for RelayAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.encryption {
            Encryption::Implicit => "smtps://",
            Encryption::StartTls => "smtp://",
        })?;
        if let Some(user) = &self.user {
            let user = percent_encoding::utf8_percent_encode(user, USER);
            write!(out, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// What is not written as it is in a user.
const USER: &percent_encoding::AsciiSet = &percent_encoding::CONTROLS
    .add(b' ')
    .add(b'%')
    .add(b':')
    .add(b'/')
    .add(b'?')
    .add(b'#')
    .add(b'@')
    .add(b'[')
    .add(b']');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_usual_port_and_no_password() {
        for (text, shown) in [
            ("smtps://smtp.example.com", "smtps://smtp.example.com:465"),
            ("smtp://smtp.example.com", "smtp://smtp.example.com:587"),
            ("smtp://mailer@smtp.example.com:2525/", "smtp://mailer@smtp.example.com:2525"),
            (
                "smtps://mail%40example.com@SMTP.example.com:465",
                "smtps://mail%40example.com@smtp.example.com:465",
            ),
            ("smtp://127.0.0.1:25", "smtp://127.0.0.1:25"),
            ("smtp://[::1]:25", "smtp://[::1]:25"),
            ("smtp://mail_relay:25", "smtp://mail_relay:25"),
            ("smtp://bücher.example", "smtp://xn--bcher-kva.example:587"),
        ] {
            let address: RelayAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse(), Ok(address));
        }
        for wrong in [
            "",
            "smtp.example.com",
            "https://smtp.example.com",
            "smtp://",
            "smtp://user:password@smtp.example.com",
            "smtp://a@b@smtp.example.com",
            "smtp://@smtp.example.com",
            "smtp://smtp.example.com:0",
            "smtp://smtp.example.com:70000",
            "smtp://smtp.example.com:",
            "smtp://smtp.example.com/path",
            "smtp://smtp.example.com?x",
            "smtp://user%0d%0a@smtp.example.com",
            "smtp://::1:25",
        ] {
            assert_eq!(wrong.parse::<RelayAddress>(), Err(InvalidRelay), "{wrong}");
        }
    }
}
