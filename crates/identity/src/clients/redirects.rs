//! Redirect URIs, for codes and after a sign-out: validation at registration, and matching of requests.

use super::{Client, Kind};
use crate::ids::ClientId;
use crate::{Error, Result, names};
use store::{Sql, Tx, args, insert, sql, statements};

const REDIRECT_URIS_MAX: usize = 50;

statements! {
    static INSERT = insert("redirect_uris", &[&["client_id", "uri"]]);
    static DELETE_ALL = sql("DELETE FROM redirect_uris WHERE client_id = ?1");
    static INSERT_POST_LOGOUT = insert("post_logout_redirect_uris", &[&["client_id", "uri"]]);
    static DELETE_ALL_POST_LOGOUT = sql("DELETE FROM post_logout_redirect_uris WHERE client_id = ?1");
}

impl Client {
    /// Whether a code may be sent to `uri`. It must equal a registered URI byte for byte. Native apps may use any port
    /// on a loopback address (RFC 8252 section 7.3).
    pub fn may_redirect_to(&self, uri: &str) -> bool {
        let native = self.kind == Kind::Native;
        self.redirect_uris
            .iter()
            .any(|known| known == uri || (native && same_but_for_loopback_port(known, uri)))
    }

    /// Whether a user may be sent to `uri` after a sign-out. A client without addresses of its own for this uses its
    /// redirect URIs. The rules for matching are the same.
    pub fn may_return_to(&self, uri: &str) -> bool {
        match self.post_logout_redirect_uris.is_empty() {
            true => self.may_redirect_to(uri),
            false => self.post_logout_redirect_uris.iter().any(|known| known == uri),
        }
    }
}

fn same_but_for_loopback_port(known: &str, uri: &str) -> bool {
    let split = |text: &str| {
        let rest = text.strip_prefix("http://127.0.0.1").or_else(|| text.strip_prefix("http://[::1]"))?;
        let host = text.len() - rest.len();
        let rest = match rest.strip_prefix(':') {
            Some(port) => {
                let digits = port.bytes().take_while(u8::is_ascii_digit).count();
                port[..digits].parse::<u16>().ok()?;
                &port[digits..]
            }
            None => rest,
        };
        (rest.is_empty() || rest.starts_with('/')).then(|| (text[..host].to_owned(), rest.to_owned()))
    };
    split(known).is_some_and(|parts| Some(parts) == split(uri))
}

/// Validates a redirect URI at registration. It must be absolute and without a fragment, with the scheme `https`,
/// `http` on a loopback address, or a private scheme with a dot (RFC 8252 section 7.1). `*` stands for nothing: a host with
/// it would never match, because requests are compared byte for byte.
pub fn check_redirect_uri(field: &'static str, uri: &str) -> Result<()> {
    let wrong = |problem: &str| Err(Error::invalid(field, format!("{uri:?}: {problem}")));
    if uri.len() > 2000
        || uri.chars().any(|letter| letter.is_control() || letter.is_whitespace() || letter == '\\')
    {
        return wrong(
            "use a URI of at most 2000 characters without spaces, control characters and backslashes",
        );
    }
    names::refuse_deceptive(field, uri)?;
    if uri.contains('#') {
        return wrong(
            "remove the fragment, which begins with #; use a URI like https://app.example.com/callback",
        );
    }
    let Some((scheme, rest)) = uri.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return wrong("this is not an absolute URI; use one like https://app.example.com/callback");
    };
    let authority = rest.strip_prefix("//").map(|rest| rest.split(['/', '?']).next().unwrap_or(""));
    if authority.is_some_and(|authority| authority.contains('*')) {
        return wrong(
            "wildcards are not supported; register each address, like https://app.example.com/callback",
        );
    }
    match (scheme, authority) {
        ("https", Some(host)) if !host.is_empty() && !host.contains('@') => Ok(()),
        ("http", Some(host)) if is_loopback(host) => Ok(()),
        ("http", _) => wrong(
            "http is allowed only for loopback addresses (127.0.0.1, [::1], localhost); use https, like \
                 https://app.example.com/callback",
        ),
        ("https", _) => {
            wrong("name a host, without a user name; use a URI like https://app.example.com/callback")
        }
        (private, _) if private.contains('.') => Ok(()),
        _ => wrong(
            "use https, like https://app.example.com/callback, or in a native app a private scheme with a dot, like \
             com.example.app:/callback",
        ),
    }
}

/// Validates the list of a client's redirect URIs, without its items: a kind that uses authorization codes needs one.
pub fn check_redirect_uris(kind: Kind, uris: &[String]) -> Result<()> {
    if uris.is_empty() && kind.default_grants().contains(&"authorization_code") {
        let problem = format!("a {} client needs at least one; add one", kind.as_str());
        return Err(Error::wrong("missing", "redirect_uris", problem));
    }
    check_list("redirect_uris", uris)
}

/// Validates the length of a list of redirect URIs, and that each is listed once.
pub fn check_list(field: &'static str, uris: &[String]) -> Result<()> {
    if uris.len() > REDIRECT_URIS_MAX {
        return Err(Error::wrong("too_many", field, format!("too many; use at most {REDIRECT_URIS_MAX}")));
    }
    names::refuse_repeated(field, uris)
}

/// RFC 3986 section 3.1.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"+-.".contains(&letter))
}

fn is_loopback(authority: &str) -> bool {
    ["127.0.0.1", "[::1]", "localhost"].iter().any(|host| {
        let port = authority.strip_prefix(host);
        port.is_some_and(|port| {
            let is_port = |port: &str| !port.starts_with('+') && port.parse::<u16>().is_ok();
            port.is_empty() || port.strip_prefix(':').is_some_and(is_port)
        })
    })
}

/// Deletes all redirect URIs of a client. The caller declares the changed keys.
pub(super) fn delete_all(tx: &mut Tx<'_>, id: &ClientId) -> Result<()> {
    tx.exec(&DELETE_ALL, args![id])?;
    tx.exec(&DELETE_ALL_POST_LOGOUT, args![id])?;
    Ok(())
}

/// Replaces the redirect URIs of a client. The caller declares the changed keys.
pub(super) fn replace(tx: &mut Tx<'_>, id: &ClientId, kind: Kind, uris: &[String]) -> Result<()> {
    check_redirect_uris(kind, uris)?;
    replace_in(tx, "redirect_uris", [&DELETE_ALL, &INSERT], id, uris)
}

/// Replaces the addresses after a sign-out. Without one, the redirect URIs count. The caller declares the changed keys.
pub(super) fn replace_post_logout(tx: &mut Tx<'_>, id: &ClientId, uris: &[String]) -> Result<()> {
    check_list("post_logout_redirect_uris", uris)?;
    let statements = [&DELETE_ALL_POST_LOGOUT, &INSERT_POST_LOGOUT];
    replace_in(tx, "post_logout_redirect_uris", statements, id, uris)
}

fn replace_in(
    tx: &mut Tx<'_>,
    field: &'static str,
    [delete_all, insert]: [&'static Sql; 2],
    id: &ClientId,
    uris: &[String],
) -> Result<()> {
    tx.exec(delete_all, args![id])?;
    for uri in uris {
        check_redirect_uri(field, uri)?;
        tx.exec(insert, args![id, uri])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_uris_are_validated_at_registration() {
        for good in [
            "https://app.example/callback",
            "http://127.0.0.1:9999/callback",
            "http://localhost/cb",
            "http://[::1]:80/cb",
            "com.example.app:/callback",
        ] {
            assert!(check_redirect_uri("redirect_uris", good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/callback",
            "http://app.example/callback",
            "http://127.0.0.1.evil.example/",
            "http://localhost@evil.example/",
            "https://user@evil.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "myapp:/callback",
            "https://app.example/#here",
            "https://app.example/a b",
            "https:/\\evil.example",
            "//evil.example:8080/callback",
            "/my.app:callback",
            "http://localhost:+80/callback",
        ] {
            let refused = check_redirect_uri("redirect_uris", bad).expect_err(bad).to_string();
            assert!(refused.contains("use "), "{bad} is told what would be right: {refused}");
        }
        assert!(
            check_redirect_uri("redirect_uris", "https://app.example/*").is_ok(),
            "a path may have the letter"
        );
        let reversed = check_redirect_uri("redirect_uris", "https://app.example/\u{202e}callback");
        assert!(reversed.expect_err("a deceptive character").to_string().contains("remove it"));
        for wildcard in [
            "https://*.app.example/callback",
            "https://*/callback",
            "http://localhost:*/callback",
            "a.b://*/callback",
        ] {
            let refused = check_redirect_uri("redirect_uris", wildcard).expect_err(wildcard).to_string();
            assert!(refused.contains("wildcards are not supported; register each address"), "{refused}");
        }
    }

    #[test]
    fn any_port_matches_on_the_same_loopback_address() {
        assert!(same_but_for_loopback_port("http://127.0.0.1/cb", "http://127.0.0.1:4711/cb"));
        assert!(same_but_for_loopback_port("http://[::1]:1/cb", "http://[::1]:65535/cb"));
        for wrong in [
            "http://127.0.0.1:4711/other",
            "http://127.0.0.1.evil/cb",
            "http://127.0.0.1:/cb",
            "http://127.0.0.1:80@evil/cb",
            "http://127.0.0.1:65536/cb",
            "http://[::1]:80/cb",
            "https://127.0.0.1:80/cb",
        ] {
            assert!(!same_but_for_loopback_port("http://127.0.0.1/cb", wrong), "{wrong}");
        }
    }
}
