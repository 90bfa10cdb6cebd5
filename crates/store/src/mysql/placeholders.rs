//! A statement's text as MySQL wants it: places without numbers, arguments in the order of the places.

use crate::sql::IF_ABSENT;

/// What the server's count of rows means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowCount {
    /// The rows that matched.
    Matched,
    /// Of an upsert of one row: 1 when it was inserted, 2 when it was changed.
    Upserted,
    /// Of an insert that may find the row there: then there is no count, but a duplicate key.
    IfAbsent,
}

/// A text with `?` for each place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Positional {
    pub(super) sql: String,
    /// For each place the index of its argument.
    pub(super) order: Vec<usize>,
    /// How many arguments there are.
    pub(super) args: usize,
    pub(super) count: RowCount,
}

impl Positional {
    /// `?2 … ?1 … ?2` → `? … ? … ?` with the second, the first and the second argument. What stands in a
    /// string literal stays.
    pub(super) fn of(numbered: &str) -> Positional {
        let mut sql = String::with_capacity(numbered.len());
        let mut order = Vec::new();
        let mut quoted = false;
        let mut letters = numbered.chars().peekable();
        while let Some(letter) = letters.next() {
            quoted ^= letter == '\'';
            sql.push(letter);
            if letter != '?' || quoted {
                continue;
            }
            let mut number = 0_usize;
            while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
                number = number.saturating_mul(10).saturating_add(digit as usize);
                letters.next();
            }
            order.push(number.saturating_sub(1));
        }
        let args = order.iter().max().map_or(0, |last| last + 1);
        Positional { sql, order, args, count: count_of(numbered) }
    }
}

fn count_of(text: &str) -> RowCount {
    if text.starts_with(IF_ABSENT) {
        RowCount::IfAbsent
    } else if text.contains(" ON DUPLICATE KEY UPDATE ") {
        RowCount::Upserted
    } else {
        RowCount::Matched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, insert_if_absent, upsert};

    fn places(text: &str) -> (String, Vec<usize>, usize) {
        let Positional { sql, order, args, .. } = Positional::of(text);
        (sql, order, args)
    }

    #[test]
    fn numbers_may_repeat_and_come_in_any_order() {
        let (sql, order, args) = places("UPDATE t SET a = ?3, b = ?1 WHERE c < ?3 AND d = ?2");
        assert_eq!(sql, "UPDATE t SET a = ?, b = ? WHERE c < ? AND d = ?");
        assert_eq!((order, args), (vec![2, 0, 2, 1], 3));
        assert_eq!(places("SELECT ?12").1, [11]);
        assert_eq!(places("SELECT 1"), ("SELECT 1".to_owned(), vec![], 0));
    }

    #[test]
    fn literals_stay_as_they_are() {
        let (sql, order, _) = places("SELECT 'why?1', 'it''s ?2', ?1");
        assert_eq!((sql.as_str(), order), ("SELECT 'why?1', 'it''s ?2', ?", vec![0]));
    }

    #[test]
    fn the_helpers_say_how_to_count() {
        let count = |sql: &crate::Sql| Positional::of(sql.text(Dialect::Mysql)).count;
        assert_eq!(count(&upsert("t", &["id"], &["a"])), RowCount::Upserted);
        assert_eq!(count(&insert_if_absent("t", &["id"])), RowCount::IfAbsent);
        assert_eq!(count(&crate::sql("UPDATE t SET a = 1")), RowCount::Matched);
    }
}
