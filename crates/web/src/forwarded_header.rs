//! The header `Forwarded` (RFC 7239), read from the right.
//!
//! A proxy appends an element to what its client has sent, which may be anything, such as a quotation mark that is never
//! closed. Read from the left that would hide the element of the proxy, so elements are found from the right: there each one
//! was written by a proxy, as long as the one before it is trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most pairs of one element; RFC 7239 defines four.
const PAIRS_MAX: usize = 16;

/// The addresses of the elements of a value, the last one first. `None`: the element has none, as it is malformed, or the
/// proxy does not tell (`unknown`, `_hidden`).
pub(crate) fn addresses(value: &[u8]) -> impl Iterator<Item = Option<IpAddr>> {
    Elements(Some(value)).filter(|element| !element.is_empty()).map(address_of)
}

/// The elements of a value, the last one first, without white space around them.
struct Elements<'v>(Option<&'v [u8]>);

impl<'v> Iterator for Elements<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let value = self.0.take()?;
        let Some(comma) = last_comma(value) else { return Some(value.trim_ascii()) };
        self.0 = Some(&value[..comma]);
        Some(value[comma + 1..].trim_ascii())
    }
}

/// The last comma that is not in a quoted string.
fn last_comma(value: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in value.iter().enumerate().rev() {
        match byte {
            b'"' if !is_quoted => is_quoted = true,
            b'"' => {
                let escapes = value[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
                is_quoted = escapes % 2 == 1;
            }
            b',' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// The address in the pair `for` of an element.
fn address_of(element: &[u8]) -> Option<IpAddr> {
    let mut names: Vec<&[u8]> = Vec::new();
    let (mut rest, mut node) = (element, None);
    loop {
        // Empty pairs are allowed.
        rest = rest.trim_ascii_start();
        match rest.first() {
            None => break,
            Some(b';') => rest = &rest[1..],
            Some(_) => {
                let (name, after) = token(rest)?;
                let (value, after) = value(after.strip_prefix(b"=")?)?;
                let is_again = names.iter().any(|known| known.eq_ignore_ascii_case(name));
                if is_again || names.len() == PAIRS_MAX {
                    return None;
                }
                names.push(name);
                if name.eq_ignore_ascii_case(b"for") {
                    node = Some(value);
                }
                rest = after.trim_ascii_start();
                if !matches!(rest.first(), None | Some(b';')) {
                    return None;
                }
            }
        }
    }
    node_address(std::str::from_utf8(&node?).ok()?)
}

/// A token at the beginning, and what follows.
fn token(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let end = text.iter().position(|byte| !is_of_token(byte)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A token or a quoted string at the beginning, and what follows.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        return token(text).map(|(token, rest)| (token.to_vec(), rest));
    };
    let (mut value, mut bytes) = (Vec::new(), quoted.iter().enumerate());
    let is_text = |byte: u8| byte == b'\t' || byte >= b' ' && byte != 0x7f;
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((value, &quoted[at + 1..])),
            b'\\' => value.push(bytes.next().map(|(_, byte)| *byte).filter(|byte| is_text(*byte))?),
            byte => value.push(Some(*byte).filter(|byte| is_text(*byte))?),
        }
    }
    None
}

/// The address of a node: `203.0.113.9`, `203.0.113.9:4711`, `[2001:db8::1]` or `[2001:db8::1]:_port`.
fn node_address(node: &str) -> Option<IpAddr> {
    let (address, port) = match node.strip_prefix('[') {
        Some(bracketed) => {
            let (address, port) = bracketed.split_once(']')?;
            (IpAddr::V6(address.parse::<Ipv6Addr>().ok()?), port)
        }
        None => {
            let end = node.find(':').unwrap_or(node.len());
            (IpAddr::V4(node[..end].parse::<Ipv4Addr>().ok()?), &node[end..])
        }
    };
    let has_no_port = port.is_empty();
    (has_no_port || port.strip_prefix(':').is_some_and(is_port)).then_some(address)
}

/// Whether a port is a number, or one that the proxy does not tell.
fn is_port(port: &str) -> bool {
    let is_hidden = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    match port.strip_prefix('_') {
        Some(name) => is_hidden(name),
        None => port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(value: &str) -> Option<String> {
        addresses(value.as_bytes()).next().flatten().map(|address| address.to_string())
    }

    #[test]
    fn the_grammar_of_rfc_7239_is_read() {
        for (value, expected) in [
            ("for=192.0.2.43", "192.0.2.43"),
            ("For=192.0.2.43", "192.0.2.43"),
            ("for=\"192.0.2.43\"", "192.0.2.43"),
            ("for=\"192.0.2.43:47011\"", "192.0.2.43"),
            ("for=\"192.0.2.43:_gazonk\"", "192.0.2.43"),
            ("for=\"[2001:db8:cafe::17]\"", "2001:db8:cafe::17"),
            ("for=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("FOR=\"[2001:db8:cafe::17]:_a.b-c\"", "2001:db8:cafe::17"),
            ("for=\"1\\92.0.2.43\"", "192.0.2.43"),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
            ("by=203.0.113.43;host=\"a, b; for=1.1.1.1\";for=192.0.2.60", "192.0.2.60"),
            ("for=192.0.2.60; proto=https ;host=id.example.com", "192.0.2.60"),
            (";;for=192.0.2.60;", "192.0.2.60"),
            ("for=1.1.1.1, for=192.0.2.60", "192.0.2.60"),
            ("for=1.1.1.1,for=192.0.2.60 , ,", "192.0.2.60"),
        ] {
            assert_eq!(last(value).as_deref(), Some(expected), "{value}");
        }
    }

    #[test]
    fn what_is_no_address_or_no_element_is_none() {
        for value in [
            "",
            "for=",
            "for",
            "192.0.2.43",
            "for=unknown",
            "for=_hidden",
            "for=_SEVKISEK",
            "proto=https",
            "for=192.0.2.43:80",
            "for=[2001:db8::1]",
            "for=\"2001:db8::1\"",
            "for=\"[2001:db8::1\"",
            "for=\"[2001:db8::1]4711\"",
            "for=\"[192.0.2.43]\"",
            "for=\"[fe80::1%eth0]\"",
            "for=\"192.0.2.43:\"",
            "for=\"192.0.2.43:65536\"",
            "for=\"192.0.2.43:+80\"",
            "for=\"192.0.2.43:_\"",
            "for=\" 192.0.2.43\"",
            "for=192.0.2.043",
            "for=192.0.2.43;for=192.0.2.44",
            "for=192.0.2.43;FOR=192.0.2.43",
            "for =192.0.2.43",
            "for= 192.0.2.43",
            "for=192.0.2.43 proto=http",
            "for=\"192.0.2.43",
            "for=\"192.0.2.43\"x",
            "for=192.0.2.43;a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1;j=1;k=1;l=1;m=1;n=1;o=1;p=1",
        ] {
            assert_eq!(last(value), None, "{value}");
        }
    }

    #[test]
    fn what_a_client_sends_does_not_hide_what_its_proxy_appends() {
        for junk in ["for=\"", "\"", "for=\"\\", "a=\"b\\\"", "for=\"x\",\"", ";;;", "for=\"a\\\\", ",", "\\"]
        {
            for own in [
                "for=192.0.2.60",
                "for=\"[2001:db8::1]:1\";host=\"a\\\\\\\"b,c\"",
                "host=\"\\\\\";for=192.0.2.60",
            ] {
                let expected = if own.contains("2001") { "2001:db8::1" } else { "192.0.2.60" };
                assert_eq!(last(&format!("{junk}, {own}")).as_deref(), Some(expected), "{junk} and {own}");
            }
        }
    }
}
