//! What may be registered as an address of a client: a URI in the form of RFC 3986 to which a browser goes without changing
//! it. A request must repeat the address byte for byte, so one that no browser or library writes like that never matches.

use crate::{Error, Result, names};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The longest address, in bytes.
pub const LENGTH_MAX: usize = 2000;

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Codes are sent to it.
    Redirect,
    /// A user comes to it after a sign-out.
    PostLogout,
}

impl Purpose {
    /// The name of the field with the list of such addresses.
    pub const fn field(self) -> &'static str {
        match self {
            Purpose::Redirect => "redirect_uris",
            Purpose::PostLogout => "post_logout_redirect_uris",
        }
    }

    /// The parameters that a response adds. An address that has one already would get it twice, and a client that reads
    /// the first would read a foreign one (RFC 6749 section 3.1, RFC 9207).
    const fn response_parameters(self) -> &'static [&'static str] {
        match self {
            Purpose::Redirect => &[
                "code",
                "state",
                "iss",
                "error",
                "error_description",
                "error_uri",
                "response",
                "session_state",
                "id_token",
                "access_token",
            ],
            Purpose::PostLogout => &["state"],
        }
    }
}

/// The first label of schemes that a browser runs or shows itself. `javascript.x:` is no such scheme, but looks like one.
const SCHEMES_OF_BROWSERS: [&str; 16] = [
    "about",
    "blob",
    "cid",
    "content",
    "data",
    "file",
    "filesystem",
    "ftp",
    "http",
    "https",
    "intent",
    "javascript",
    "mailto",
    "vbscript",
    "view-source",
    "ws",
];
/// Schemes of editors, which have no dot. Extensions share them: the host is `publisher.extension`.
/// See docs/design/0105.
const SCHEMES_OF_EDITORS: [&str; 4] = ["cursor", "vscode", "vscode-insiders", "windsurf"];

const EXAMPLE: &str = "https://app.example.com/callback";

/// Validates an address at registration. It must be an absolute URI without a fragment and a user name, with the scheme
/// `https`, `http` on a loopback address, or a private scheme (RFC 8252 section 7.1). `*` stands for nothing.
pub fn check_uri(purpose: Purpose, uri: &str) -> Result<()> {
    let field = purpose.field();
    if uri.len() > LENGTH_MAX {
        let problem = format!("the URI has {} bytes; use at most {LENGTH_MAX}", uri.len());
        return Err(Error::wrong("too_long", field, problem));
    }
    names::refuse_deceptive(field, uri)?;
    problem(purpose, uri).map_err(|problem| Error::invalid(field, format!("{uri:?}: {problem}")))
}

fn problem(purpose: Purpose, uri: &str) -> std::result::Result<(), String> {
    if uri.chars().any(|letter| letter.is_control() || letter.is_whitespace() || letter == '\\') {
        return Err(format!("use a URI without spaces, control characters and backslashes, like {EXAMPLE}"));
    }
    if !uri.is_ascii() {
        return Err(format!("a URI is ASCII; use {}", in_ascii(uri)));
    }
    if uri.contains('#') {
        return Err(format!("remove the fragment, which begins with #; use a URI like {EXAMPLE}"));
    }
    let Some((scheme, rest)) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return Err(format!("this is not an absolute URI; use one like {EXAMPLE}"));
    };
    let (authority, rest) = match rest.strip_prefix("//") {
        Some(rest) => {
            let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (Some(authority), rest)
        }
        None => (None, rest),
    };
    check_scheme(scheme, authority, rest)?;
    if let Some(authority) = authority {
        check_authority(scheme, authority)?;
    }
    check_letters(rest)?;
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let added = purpose.response_parameters();
    match form_urlencoded::parse(query.as_bytes()).find(|(name, _)| added.contains(&&**name)) {
        Some((name, _)) => {
            Err(format!("the parameter {name} is one that the response adds; use another name in the query"))
        }
        None => Ok(()),
    }
}

fn check_scheme(scheme: &str, authority: Option<&str>, rest: &str) -> std::result::Result<(), String> {
    match (scheme, authority) {
        ("https" | "http", Some(_)) => return Ok(()),
        ("https" | "http", None) => {
            return Err(format!("name a host, without a user name; use a URI like {EXAMPLE}"));
        }
        _ => {}
    }
    let lower = scheme.to_ascii_lowercase();
    let (first, others) = lower.split_once('.').unwrap_or((&lower, ""));
    let advice = "use https, like https://app.example.com/callback, or in a native app a private scheme that is a domain in \
                  reverse order, like com.example.app:/callback";
    if SCHEMES_OF_BROWSERS.contains(&first) {
        return Err(format!("browsers use the scheme {first} themselves; {advice}"));
    }
    let is_editor = SCHEMES_OF_EDITORS.contains(&&*lower);
    if is_editor && authority.is_none_or(|extension| !extension.contains('.')) {
        return Err(format!("name the extension; use {scheme}://publisher.extension/callback"));
    }
    let is_reversed =
        !first.is_empty() && !others.is_empty() && others.split('.').all(|label| !label.is_empty());
    // Without a slash, what follows the scheme is no path but a text of any form.
    let has_path = authority.is_some() || rest.starts_with('/');
    if (is_editor || is_reversed) && has_path { Ok(()) } else { Err(advice.to_owned()) }
}

fn check_authority(scheme: &str, authority: &str) -> std::result::Result<(), String> {
    if authority.contains('*') {
        return Err(format!("wildcards are not supported; register each address, like {EXAMPLE}"));
    }
    if authority.contains('@') {
        return Err(format!("remove the user name before the @; use a URI like {EXAMPLE}"));
    }
    let end =
        if authority.starts_with('[') { authority.find(']').map(|end| end + 1) } else { authority.find(':') };
    let (host, port) = match end {
        Some(end) => authority.split_at(end),
        None if authority.starts_with('[') => {
            return Err("close the bracket of the IPv6 address; use [::1]".to_owned());
        }
        None => (authority, ""),
    };
    let is_port = |digits: &str| !digits.starts_with(['0', '+']) && digits.parse::<u16>().is_ok();
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err("the port is not valid; use a number from 1 to 65535, or leave the port out".to_owned());
    }
    let is_loopback = ["127.0.0.1", "[::1]", "localhost"].contains(&host);
    match scheme {
        "http" if !is_loopback => Err(format!(
            "http is allowed only for loopback addresses (127.0.0.1, [::1], localhost); use https, like {EXAMPLE}"
        )),
        "http" => Ok(()),
        "https" if host.is_empty() => Err(format!("the host is missing; use a URI like {EXAMPLE}")),
        // A private scheme needs no host.
        _ if host.is_empty() => Ok(()),
        _ => check_host(host),
    }
}

fn check_host(host: &str) -> std::result::Result<(), String> {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return match address.parse::<Ipv6Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{host} is not an IPv6 address; use one like [2001:db8::1]")),
        };
    }
    if host.contains('%') {
        return Err(format!("the host is percent-encoded; use its plain letters, like {EXAMPLE}"));
    }
    // A browser reads a host that ends in a number as an IPv4 address, in many forms.
    let is_number = |label: &str| {
        let digits = label.strip_prefix("0x").or(label.strip_prefix("0X"));
        digits.map_or(label.bytes().all(|digit| digit.is_ascii_digit()), |digits| {
            digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    if !last.is_empty() && is_number(last) {
        return match host.parse::<Ipv4Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{host} is not an IPv4 address; use one like 192.0.2.1")),
        };
    }
    // The names of machines in a private network may have an underscore, which no domain has.
    if text::domain::to_ascii(&host.replace('_', "x")).is_some() {
        return Ok(());
    }
    let rule = "labels of 1 to 63 letters, digits and inner hyphens, with dots between them";
    Err(format!("{host} is not the name of a host; use {rule}, like app.example.com"))
}

/// RFC 3986, appendix A: what a path and a query consist of.
fn check_letters(rest: &str) -> std::result::Result<(), String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?%".contains(letter);
    if let Some(letter) = rest.chars().find(|letter| !is_allowed(*letter)) {
        return Err(format!("{letter} cannot stand in a URI; use %{:02X} for it", u32::from(letter)));
    }
    let is_pair =
        |pair: &str| pair.as_bytes().get(..2).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit));
    match rest.split('%').skip(1).all(is_pair) {
        true => Ok(()),
        false => Err("a % must begin a pair like %20; use %25 for the percent sign itself".to_owned()),
    }
}

/// The address in ASCII: the host as A-labels, everything else percent-encoded.
fn in_ascii(uri: &str) -> String {
    let encoded = |text: &str| {
        let mut ascii = String::with_capacity(text.len());
        for letter in text.chars() {
            match letter.is_ascii() {
                true => ascii.push(letter),
                false => letter.to_string().bytes().for_each(|byte| ascii.push_str(&format!("%{byte:02X}"))),
            }
        }
        ascii
    };
    let split = uri.split_once("://").map(|(scheme, rest)| {
        let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        (scheme, authority, rest)
    });
    let Some((scheme, authority, rest)) = split.filter(|(_, authority, _)| !authority.is_ascii()) else {
        return encoded(uri);
    };
    let (host, port) = authority.split_at(authority.rfind(':').unwrap_or(authority.len()));
    match text::domain::to_ascii(host) {
        Some(host) => format!("{}://{host}{port}{}", encoded(scheme), encoded(rest)),
        None => format!("the xn-- form of the host, like {EXAMPLE}"),
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"+-.".contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(uri: &str) -> String {
        check_uri(Purpose::Redirect, uri).expect_err(uri).to_string()
    }

    #[test]
    fn redirect_uris_are_uris() {
        for good in [
            "https://app.example/callback",
            "https://app.example",
            "https://app.example?a=1&b=%20+x",
            "https://app.example:8443/cb;v=1/%7Bx%7D?tenant=a,b&codes=1&State=2",
            "https://192.0.2.1/cb",
            "https://[2001:db8::1]:444/cb",
            "https://xn--bcher-kva.example/cb",
            "https://my_app.internal/cb",
            "https://app.example/*",
            "http://127.0.0.1:9999/callback",
            "http://localhost/cb",
            "http://[::1]:80/cb",
            "com.example.app:/callback",
            "com.example.app://callback/x?y=1",
            "com.example.app:///callback",
            "cursor://anysphere.cursor-mcp/oauth/callback",
        ] {
            assert!(check_uri(Purpose::Redirect, good).is_ok(), "{good}: {}", refusal(good));
            assert!(check_uri(Purpose::PostLogout, good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/callback",
            "http://app.example/callback",
            "http://127.0.0.1.evil.example/",
            "http://127.0.0.2/cb",
            "http://localhost@evil.example/",
            "https://user@evil.example/",
            "javascript:alert(1)",
            "javascript.x:alert(1)",
            "JavaScript.x:/alert(1)",
            "data:text/html,x",
            "data.x:y",
            "view-source.x:/y",
            "intent://x.y/z",
            "myapp:/callback",
            "com.example.app:callback",
            ".com.example:/callback",
            "com..example:/callback",
            "com.:/callback",
            "cursor:/callback",
            "cursor://callback",
            "https://app.example/#here",
            "https://app.example/a b",
            "https:/\\evil.example",
            "https:app.example/cb",
            "https:///cb",
            "//evil.example:8080/callback",
            "/my.app:callback",
            "http://localhost:+80/callback",
            "https://:443/cb",
            "https://:80/cb",
            "https://%00/cb",
            "https://[::1/cb",
            "https://[::1]x/cb",
            "https://[::g]/cb",
            "https://[v1.x]/cb",
            "https://::1/cb",
            "https://app.example.com:99999/cb",
            "https://app.example.com:0/cb",
            "https://app.example.com:/cb",
            "https://app.example.com:080/cb",
            "https://app.example.com:80:80/cb",
            "http://127.0.0.1:0/cb",
            "https://app%2eexample.com/cb",
            "https://app.example.com/%zz",
            "https://app.example.com/%2",
            "https://app.example.com/cb?x=%",
            "https://app.example.com/{x}",
            "https://app.example.com/a[1]",
            "https://app.example.com/\"",
            "https://app.example.com/a|b",
            "https://127.1/cb",
            "https://0x7f.1/cb",
            "https://1.2.3.4.5/cb",
            "https://2130706433/cb",
            "https://app..example/cb",
            "https://app.example./cb",
            "https://-app.example/cb",
            "https://app!.example/cb",
            "https://xn--a.example/cb",
            "com.example.app://x:99999/cb",
            "com.example.app://user@x/cb",
        ] {
            assert!(refusal(bad).contains("use "), "{bad} is told what would be right: {}", refusal(bad));
        }
        assert!(refusal("https://app.example/\u{202e}callback").contains("remove it"));
        let long = check_uri(Purpose::Redirect, &format!("https://app.example/{}", "a".repeat(LENGTH_MAX)));
        assert!(
            matches!(long, Err(Error::Invalid { code: "too_long", field: "redirect_uris", .. })),
            "{long:?}"
        );
        for wildcard in [
            "https://*.app.example/callback",
            "https://*/callback",
            "http://localhost:*/callback",
            "a.b://*/callback",
        ] {
            let refused = refusal(wildcard);
            assert!(refused.contains("wildcards are not supported; register each address"), "{refused}");
        }
    }

    #[test]
    fn what_is_not_ascii_is_told_in_ascii() {
        for (typed, ascii) in [
            ("https://bücher.example/cb", "https://xn--bcher-kva.example/cb"),
            ("https://bücher.example:8443/ü?x=ü", "https://xn--bcher-kva.example:8443/%C3%BC?x=%C3%BC"),
            ("https://app.example.com/ü", "https://app.example.com/%C3%BC"),
            // The first letter is Cyrillic.
            ("https://аpp.example.com/cb", "https://xn--pp-6kc.example.com/cb"),
        ] {
            let refused = refusal(typed);
            assert!(refused.contains(&format!("use {ascii}")), "{refused}");
            assert!(check_uri(Purpose::Redirect, ascii).is_ok());
        }
    }

    #[test]
    fn the_names_of_the_response_are_not_in_the_query() {
        for name in ["code", "state", "iss", "error", "error_description", "error_uri", "%63ode"] {
            let refused = refusal(&format!("https://app.example.com/cb?a=1&{name}=1"));
            assert!(refused.contains("the response adds"), "{refused}");
        }
        assert!(check_uri(Purpose::PostLogout, "https://app.example.com/?state=1").is_err());
        assert!(check_uri(Purpose::PostLogout, "https://app.example.com/?code=1").is_ok());
    }
}
