//! Limits of the database's writer, from the environment: they make commits slow and batches small.

use sarsen::{Environment, Error, Result};
use server::WriterLimits;
use std::time::Duration;

/// The defaults, with what `SARSEN_TEST_COMMIT_DELAY_MS` and `SARSEN_TEST_BATCH_MAX` change.
pub fn from(environment: &Environment) -> Result<WriterLimits> {
    let mut limits = WriterLimits::default();
    if let Some(delay_ms) = number(environment, "SARSEN_TEST_COMMIT_DELAY_MS")? {
        limits.commit_delay = Duration::from_millis(delay_ms);
    }
    if let Some(batch_max) = number(environment, "SARSEN_TEST_BATCH_MAX")? {
        limits.batch_max = usize::try_from(batch_max).unwrap_or(usize::MAX).max(1);
    }
    Ok(limits)
}

fn number(environment: &Environment, name: &str) -> Result<Option<u64>> {
    let Some(text) = environment.get(name) else { return Ok(None) };
    let wrong = |_| Error::usage(format!("{name}={text} is not allowed; use a whole number"));
    text.parse().map(Some).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_sets_the_limits() {
        let of = |variables: &[(&str, &str)]| from(&Environment::of(variables));
        let limits = of(&[("SARSEN_TEST_BATCH_MAX", "3"), ("SARSEN_TEST_COMMIT_DELAY_MS", "20")]);
        let limits = limits.expect("both are numbers");
        assert_eq!((limits.batch_max, limits.commit_delay), (3, Duration::from_millis(20)));
        let limits = of(&[]).expect("nothing is set");
        assert_eq!(limits.commit_delay, Duration::ZERO);
        let error = of(&[("SARSEN_TEST_COMMIT_DELAY_MS", "soon")]).expect_err("not a number");
        assert_eq!(error.to_string(), "SARSEN_TEST_COMMIT_DELAY_MS=soon is not allowed; use a whole number");
    }
}
