//! Scans of long tables by primary key, one page at a time. They find ended rows without an index that every sign-in
//! would have to update.

/// A page of a scan.
#[derive(Clone, Debug)]
pub struct Page<I> {
    /// The ended rows of the page. An ended row stays ended.
    pub ended: Vec<I>,
    /// The last row, after which the next page starts. `None` at the end of the table.
    pub last: Option<I>,
}

impl<I: Clone> Page<I> {
    /// Creates a page from up to `most` rows. The flag of a row is true if the row has ended.
    pub(crate) fn of(rows: Vec<(I, bool)>, most: i64) -> Page<I> {
        let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= most);
        let last = rows.last().filter(|_| is_full).map(|(id, _)| id.clone());
        Page { ended: rows.into_iter().filter_map(|(id, has_ended)| has_ended.then_some(id)).collect(), last }
    }
}
