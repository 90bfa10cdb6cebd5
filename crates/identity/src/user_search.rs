//! Search of users by the beginning of their e-mail address, of their name, or of a later word of their name.
//!
//! A search reads the terms (`user_terms`) that begin with its text, in order, so a page costs the same in a short and in a
//! long table, and the order of the answer is that of the terms.

use crate::Result;
use crate::ids::{OrganizationId, UserId};
use crate::users::{self, User};
use store::{FromRow, Snapshot, args, select_row, statements};

pub use crate::user_terms::{TERM_LENGTH_MAX, terms, text};

/// Sorts behind every character.
const LAST: char = '\u{10ffff}';

statements! {
    // A user with several matching terms is found by the first of them only.
    static FIND = select_row::<Place>("FROM user_terms t", "WHERE t.organization_id = ?1 AND t.term >= ?3 AND t.term < ?5 AND (t.term > ?3 OR t.user_id > ?4)
       AND NOT EXISTS (SELECT 1 FROM user_terms e WHERE e.user_id = t.user_id AND e.term >= ?2 AND e.term < t.term)
     ORDER BY t.term, t.user_id LIMIT ?6");
}

/// Where a page of a search ends: the term and the user.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
#[row(of = "t")]
pub struct Place {
    /// The term by which the user was found.
    pub term: String,
    /// The user.
    #[row("user_id")]
    pub user: UserId,
}

/// Lists the users with a term that begins with `text`, which [`text`] has returned, each with the place after which the
/// next page begins.
pub fn find(
    snapshot: &mut Snapshot<'_>,
    organization: &OrganizationId,
    text: &str,
    after: Option<&Place>,
    limit: i64,
) -> Result<Vec<(Place, User)>> {
    let end = format!("{text}{LAST}");
    let (term, user) = after.map_or((text, ""), |place| (place.term.as_str(), place.user.as_str()));
    let places = snapshot.all(&FIND, args![organization, text, term, user, &end, limit], Place::from_row)?;
    let mut found = Vec::with_capacity(places.len());
    for place in places {
        let user = users::get(snapshot, &place.user)?;
        found.push((place, user));
    }
    Ok(found)
}
