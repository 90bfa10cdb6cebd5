//! Redirect URIs, for codes and after a sign-out: the lists of a client, and matching of requests.

use super::uris::{Purpose, check_uri};
use super::{Client, Kind};
use crate::ids::ClientId;
use crate::{Error, Result, names};
use store::{Sql, Tx, args, insert, sql, statements};

/// The most addresses of one list.
pub const URIS_MAX: usize = 50;

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

/// Validates the list of a client's redirect URIs, without its items: a kind that uses authorization codes needs one.
pub fn check_redirect_uris(kind: Kind, uris: &[String]) -> Result<()> {
    if uris.is_empty() && kind.default_grants().contains(&"authorization_code") {
        let problem = format!("a {} client needs at least one; add one", kind.as_str());
        return Err(Error::wrong("missing", "redirect_uris", problem));
    }
    check_list(Purpose::Redirect, uris)
}

/// Validates the length of a list of redirect URIs, and that each is listed once.
pub fn check_list(purpose: Purpose, uris: &[String]) -> Result<()> {
    let field = purpose.field();
    if uris.len() > URIS_MAX {
        return Err(Error::wrong("too_many", field, format!("too many; use at most {URIS_MAX}")));
    }
    names::refuse_repeated(field, uris)
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
    replace_in(tx, Purpose::Redirect, [&DELETE_ALL, &INSERT], id, uris)
}

/// Replaces the addresses after a sign-out. Without one, the redirect URIs count. The caller declares the changed keys.
pub(super) fn replace_post_logout(tx: &mut Tx<'_>, id: &ClientId, uris: &[String]) -> Result<()> {
    check_list(Purpose::PostLogout, uris)?;
    replace_in(tx, Purpose::PostLogout, [&DELETE_ALL_POST_LOGOUT, &INSERT_POST_LOGOUT], id, uris)
}

fn replace_in(
    tx: &mut Tx<'_>,
    purpose: Purpose,
    [delete_all, insert]: [&'static Sql; 2],
    id: &ClientId,
    uris: &[String],
) -> Result<()> {
    tx.exec(delete_all, args![id])?;
    for uri in uris {
        check_uri(purpose, uri)?;
        tx.exec(insert, args![id, uri])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
