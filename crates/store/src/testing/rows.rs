//! Table tests that go on: a row that fails is noted, the next is tried, and the end names all that failed.

use std::fmt::Display;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// The rows of one test. Dropping it fails the test when a row has failed.
#[derive(Default)]
pub struct Rows {
    failed: Vec<String>,
}

impl Rows {
    /// No row has been tried.
    pub fn new() -> Rows {
        Rows::default()
    }

    /// Tries a row. Its assertions are those of any test.
    pub async fn row(&mut self, name: impl Display, row: impl Future<Output = ()>) {
        let mut row = pin!(row);
        let tried = poll_fn(|context| {
            // A row that has panicked is not polled again, and what it shares with others is the test's own.
            let polled = catch_unwind(AssertUnwindSafe(|| row.as_mut().poll(context)));
            match polled {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        self.note(&name, tried.await);
    }

    /// Tries a row that waits for nothing.
    pub fn check(&mut self, name: impl Display, row: impl FnOnce()) {
        self.note(&name, catch_unwind(AssertUnwindSafe(row)));
    }

    fn note(&mut self, name: &dyn Display, tried: std::thread::Result<()>) {
        let Err(panic) = tried else { return };
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
        self.failed.push(format!("{name}: {text}"));
    }
}

impl Drop for Rows {
    #[expect(clippy::panic, reason = "a test with a row that failed has failed")]
    fn drop(&mut self) {
        if self.failed.is_empty() {
            return;
        }
        let text = format!("{} rows failed:\n{}", self.failed.len(), self.failed.join("\n"));
        match std::thread::panicking() {
            // What comes after the rows has failed too.
            true => eprintln!("{text}"),
            false => panic!("{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_row_that_failed_is_named_and_the_others_are_tried() {
        let (mut rows, mut tried) = (Rows::new(), Vec::new());
        for number in 0..5 {
            let row = async {
                tokio::task::yield_now().await;
                tried.push(number);
                assert!(number % 2 == 0, "{number} is odd");
            };
            rows.row(format!("row {number}"), row).await;
        }
        rows.check("the last", || panic!("never"));
        assert_eq!(tried, [0, 1, 2, 3, 4]);
        let failed = catch_unwind(AssertUnwindSafe(move || drop(rows))).expect_err("it fails");
        let text = failed.downcast_ref::<String>().expect("a text");
        assert_eq!(text, "3 rows failed:\nrow 1: 1 is odd\nrow 3: 3 is odd\nthe last: never");
    }

    #[test]
    fn rows_that_hold_fail_nothing() {
        let mut rows = Rows::new();
        rows.check("one", || ());
    }
}
