//! The terms by which `user_search` finds users: rows of `user_terms`, written with each user.
//!
//! A user has a few: the e-mail address (of an internationalized domain both forms), and the name from each of its words on
//! ("ada lovelace", "lovelace"), in lower case.

use crate::ids::{OrganizationId, UserId};
use crate::{Error, Result};
use std::collections::BTreeSet;
use store::{Tx, args, insert, sql, statements};
use text::mail;

/// The most words of a name at which a term begins.
const WORDS_MAX: usize = 6;
/// The longest term, in characters. An e-mail address has 255 at most.
pub const TERM_LENGTH_MAX: usize = 255;

statements! {
    static INSERT = insert("user_terms", &[&["organization_id", "term", "user_id"]]);
    static DELETE = sql("DELETE FROM user_terms WHERE user_id = ?1");
}

/// Validates the text of a search and brings it into the form of the terms.
pub fn text(typed: &str) -> Result<String> {
    let text = folded(typed);
    if text.is_empty() {
        return Err(Error::wrong(
            "missing",
            "q",
            "the text is empty; use the beginning of a name or an e-mail address",
        ));
    }
    if text.chars().count() > TERM_LENGTH_MAX {
        let problem = format!("the text is too long; use at most {TERM_LENGTH_MAX} characters");
        return Err(Error::wrong("too_long", "q", problem));
    }
    Ok(text)
}

/// In lower case, with one space between words.
fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// The terms of a user: a row of `user_terms` for each.
pub fn terms(email: &str, name: &str) -> BTreeSet<String> {
    let name = folded(name);
    let starts = name.match_indices(' ').map(|(space, _)| space + 1);
    let starts = std::iter::once(0).chain(starts).take(WORDS_MAX);
    let of_name = starts.map(|start| name[start..].chars().take(TERM_LENGTH_MAX).collect());
    of_name.chain([email.to_owned(), mail::shown(email)]).filter(|term: &String| !term.is_empty()).collect()
}

/// Stores the terms of a new user.
pub(crate) fn add(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &UserId,
    email: &str,
    name: &str,
) -> Result<()> {
    for term in terms(email, name) {
        tx.exec(&INSERT, args![organization, &term, id])?;
    }
    Ok(())
}

/// Replaces the terms of a user whose name or address has changed.
pub(crate) fn replace(
    tx: &mut Tx<'_>,
    organization: &OrganizationId,
    id: &UserId,
    email: &str,
    name: &str,
) -> Result<()> {
    remove(tx, id)?;
    add(tx, organization, id, email, name)
}

/// Removes a user from the search.
pub(crate) fn remove(tx: &mut Tx<'_>, id: &UserId) -> Result<()> {
    tx.exec(&DELETE, args![id])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_from_each_of_its_words() {
        let found: Vec<String> = terms("ada@acme.test", " Ada  King Lovelace ").into_iter().collect();
        assert_eq!(found, ["ada king lovelace", "ada@acme.test", "king lovelace", "lovelace"]);
        assert_eq!(terms("ada@acme.test", "").len(), 1);
        assert_eq!(terms("ada@acme.test", "Ada@acme.test").len(), 1, "the name of a user without a name");
        let both = terms("a@xn--bcher-kva.example", "Ada");
        assert!(both.contains("a@bücher.example") && both.contains("a@xn--bcher-kva.example"), "{both:?}");
        assert_eq!(terms("a@b.test", "a b c d e f g h").len(), WORDS_MAX + 1);
        let long = terms("a@b.test", &"\u{130}".repeat(200));
        assert!(long.iter().all(|term| term.chars().count() <= TERM_LENGTH_MAX));
    }

    #[test]
    fn a_text_is_brought_into_the_form_of_the_terms() {
        assert_eq!(text("  ADA   Love ").expect("valid"), "ada love");
        for wrong in ["", "  ", &"x".repeat(TERM_LENGTH_MAX + 1)] {
            assert!(text(wrong).is_err(), "{wrong:?}");
        }
    }
}
