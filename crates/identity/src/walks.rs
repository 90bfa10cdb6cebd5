//! Walks through a long table by its primary key, a page at a time: so what is over is found without an index that
//! every sign-in would have to write.

/// A page of a walk.
#[derive(Clone, Debug)]
pub struct Page<I> {
    /// Which of its rows are over; what is over stays so.
    pub over: Vec<I>,
    /// Its last row, after which the next page begins. None at the end.
    pub last: Option<I>,
}

impl<I: Clone> Page<I> {
    /// A page of up to `most` rows, with whether each is over.
    pub(crate) fn of(rows: Vec<(I, bool)>, most: i64) -> Page<I> {
        let is_full = i64::try_from(rows.len()).is_ok_and(|count| count >= most);
        let last = rows.last().filter(|_| is_full).map(|(id, _)| id.clone());
        Page { over: rows.into_iter().filter_map(|(id, is_over)| is_over.then_some(id)).collect(), last }
    }
}
