//! The articles: their figures, the rows that repeat them, and their sections of the page. Figures and facts of an article
//! stand here, its sentences do not.

mod inserts;
mod live;
mod passwords;
mod sign_on;
mod updates;

use super::row::{Row, Scale};
use super::table::Found;

/// An article with its load test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Article {
    SignOn,
    Passwords,
    Inserts,
    Live,
    Updates,
}

impl Article {
    /// From 000 to 004.
    pub const ALL: [Article; 5] =
        [Article::SignOn, Article::Passwords, Article::Inserts, Article::Live, Article::Updates];
}

pub(super) fn rows(article: Article, scale: Scale<'_>) -> Vec<Row> {
    match article {
        Article::SignOn => sign_on::rows(scale),
        Article::Passwords => passwords::rows(scale),
        Article::Inserts => inserts::rows(scale),
        Article::Live => live::rows(scale),
        Article::Updates => updates::rows(scale),
    }
}

pub(super) fn section(article: Article, found: &Found<'_>) -> String {
    match article {
        Article::SignOn => sign_on::section(found),
        Article::Passwords => passwords::section(found),
        Article::Inserts => inserts::section(found),
        Article::Live => live::section(found),
        Article::Updates => updates::section(found),
    }
}

/// The ids of the rows of all articles.
pub(super) fn all_ids() -> impl Iterator<Item = String> {
    [sign_on::ids(), passwords::ids(), inserts::ids(), live::ids(), updates::ids()].into_iter().flatten()
}
