//! How many tests ran, and how many did not: reads what cargo's, node's and pytest's runners print.

use std::ops::AddAssign;

use crate::failures;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    /// Tests that ended because the machine lacks something. They prove nothing, so CI fails on them.
    pub skipped: u64,
    /// The names of those that failed, each with what it said, as far as their runner tells.
    pub failures: Vec<String>,
}

impl Counts {
    pub const ONE_PASSED: Counts = Counts::of(1, 0, 0);
    pub const ONE_FAILED: Counts = Counts::of(0, 1, 0);
    pub const ONE_SKIPPED: Counts = Counts::of(0, 0, 1);
    const NONE: Counts = Counts::of(0, 0, 0);

    const fn of(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts { passed, failed, skipped, failures: Vec::new() }
    }

    /// The tests of a runner that also has an exit status. A run that failed without a failed test
    /// (it did not compile, say) is one failure, and so is a run that held no test at all.
    pub fn with_status(self, success: bool) -> Counts {
        let nothing_ran = self == Counts::default();
        let silent_failure = !success && self.failed == 0;
        if nothing_ran || silent_failure { Counts { failed: self.failed + 1, ..self } } else { self }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; …`, once for each test binary, and `SKIPPED …` of a test that ended
/// early (`store::testing::say_skipped`). Ignored tests are those of the soak (`tidy/ignored.rs`).
pub fn of_cargo(output: &str) -> Counts {
    let mut counts = Counts { failures: failures::of_cargo(output), ..Counts::NONE };
    for line in output.lines() {
        if line.starts_with("test result: ") {
            counts.passed += before(line, " passed");
            counts.failed += before(line, " failed");
        } else if line.starts_with("SKIPPED ") {
            counts += Counts::ONE_SKIPPED;
        }
    }
    counts
}

/// `ℹ pass 3`, `ℹ fail 0`, `ℹ skipped 0`; a cancelled test is a failed one.
pub fn of_node(output: &str) -> Counts {
    let number = |name: &str| -> u64 {
        let lines = output.lines().filter_map(|line| line.strip_prefix("ℹ ")?.strip_prefix(name));
        lines.filter_map(|rest| rest.trim().parse::<u64>().ok()).sum()
    };
    Counts {
        passed: number("pass "),
        failed: number("fail ") + number("cancelled "),
        skipped: number("skipped ") + number("todo "),
        failures: failures::of_node(output),
    }
}

/// `=== 1 failed, 2 passed, 3 skipped, 1 error in 0.50s ===`.
pub fn of_pytest(output: &str) -> Counts {
    let last = output.lines().rev().find(|line| line.starts_with('=') && line.contains(" in "));
    let line = last.unwrap_or_default();
    Counts {
        passed: before(line, " passed"),
        failed: before(line, " failed") + before(line, " error"),
        skipped: before(line, " skipped") + before(line, " xfailed"),
        failures: failures::of_pytest(output),
    }
}

/// The number that stands right before a word.
fn before(line: &str, word: &str) -> u64 {
    let text = line.split(word).next().filter(|text| text.len() < line.len()).unwrap_or_default();
    let digits = text.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_summed_over_binaries() {
        let text = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured\nx\n\
                    test result: FAILED. 3 passed; 2 failed; 0 ignored";
        assert_eq!(of_cargo(text), Counts { passed: 15, failed: 2, skipped: 0, ..Counts::NONE });
    }

    #[test]
    fn a_skipped_test_is_counted_wherever_its_runner_says_it() {
        let cargo = "test pooler::a ... \nSKIPPED behind a pooler: there is no pgbouncer\nok\n\
                     test result: ok. 1 passed; 0 failed; 4 ignored";
        assert_eq!(of_cargo(cargo), Counts { passed: 1, failed: 0, skipped: 1, ..Counts::NONE });
        let node = "ℹ pass 3\nℹ fail 0\nℹ cancelled 0\nℹ skipped 2\nℹ todo 1";
        assert_eq!(of_node(node), Counts { passed: 3, failed: 0, skipped: 3, ..Counts::NONE });
        let pytest = "=== 2 passed, 3 skipped, 1 xfailed in 0.50s ===";
        assert_eq!(of_pytest(pytest), Counts { passed: 2, failed: 0, skipped: 4, ..Counts::NONE });
    }

    #[test]
    fn node_counts_a_cancelled_test_as_failed() {
        let text = "ℹ tests 6\nℹ pass 3\nℹ fail 1\nℹ cancelled 2\nℹ duration_ms 12.5";
        assert_eq!(of_node(text), Counts { passed: 3, failed: 3, skipped: 0, ..Counts::NONE });
    }

    #[test]
    fn pytest_counts_an_error_as_failed() {
        let text = "==== test session starts ====\n==== 1 failed, 2 passed, 1 error in 0.50s ====";
        assert_eq!(of_pytest(text), Counts { passed: 2, failed: 2, ..Counts::NONE });
    }

    #[test]
    fn a_run_that_did_not_compile_or_held_no_test_has_failed() {
        assert_eq!(Counts::default().with_status(false), Counts::ONE_FAILED);
        assert_eq!(Counts::default().with_status(true), Counts::ONE_FAILED);
        assert_eq!(
            Counts::ONE_PASSED.with_status(false),
            Counts { passed: 1, failed: 1, skipped: 0, ..Counts::NONE }
        );
        assert_eq!(Counts::ONE_PASSED.with_status(true), Counts::ONE_PASSED);
    }
}
