//! The terms of a plan: what its price, currency, features, limits and seats may be.

use super::Limits;
use crate::{Error, Result, names};

/// The largest price, so that every JSON reader gets it exactly.
const PRICE_CENTS_MAX: i64 = 1_000_000_000_000;
const FEATURES_MAX: usize = 100;
const LIMITS_MAX: usize = 100;
const SEATS_MAX: i64 = 1_000_000;

pub(super) fn price(price_cents: i64) -> Result<i64> {
    if (0..=PRICE_CENTS_MAX).contains(&price_cents) {
        return Ok(price_cents);
    }
    Err(Error::invalid("price_cents", format!("{price_cents} is no price; use 0 to {PRICE_CENTS_MAX}")))
}

pub(super) fn currency(currency: &str) -> Result<String> {
    if currency.len() == 3 && currency.bytes().all(|letter| letter.is_ascii_uppercase()) {
        return Ok(currency.to_owned());
    }
    Err(Error::invalid(
        "currency",
        format!("{currency:?} is no currency; use three capital letters, like \"EUR\""),
    ))
}

pub(super) fn features(features: &[String]) -> Result<Vec<String>> {
    if features.len() > FEATURES_MAX {
        return Err(Error::invalid("features", format!("a plan has {FEATURES_MAX} at most")));
    }
    features.iter().map(|feature| names::display("features", feature)).collect()
}

pub(super) fn limits(limits: &Limits) -> Result<Limits> {
    if limits.len() > LIMITS_MAX {
        return Err(Error::invalid("limits", format!("a plan has {LIMITS_MAX} at most")));
    }
    limits.iter().map(|(name, limit)| Ok((names::display("limits", name)?, limit.clone()))).collect()
}

pub(super) fn seats(seats: Option<i64>) -> Result<Option<i64>> {
    match seats {
        Some(count) if !(1..=SEATS_MAX).contains(&count) => Err(Error::invalid(
            "seats",
            format!("{count} is no number of seats; use 1 to {SEATS_MAX}, or none"),
        )),
        _ => Ok(seats),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Number;

    fn problem<T: std::fmt::Debug>(checked: Result<T>) -> String {
        checked.expect_err("against the rule").to_string()
    }

    #[test]
    fn what_is_against_a_rule_is_told_with_field_and_rule() {
        assert_eq!(problem(price(-1)), "price_cents: -1 is no price; use 0 to 1000000000000");
        for wrong in ["", "eur", "EURO", "€€€"] {
            let problem = problem(currency(wrong));
            assert!(
                problem.starts_with("currency: ") && problem.contains("three capital letters"),
                "{problem}"
            );
        }
        assert_eq!(problem(seats(Some(0))), "seats: 0 is no number of seats; use 1 to 1000000, or none");
        let problem = problem(features(&["\n".to_owned()]));
        assert_eq!(problem, "features: expected 1 to 100 characters on one line");
    }

    #[test]
    fn what_is_within_the_rules_is_taken() {
        assert_eq!(price(0).expect("free"), 0);
        assert_eq!(currency("EUR").expect("fine"), "EUR");
        assert_eq!(seats(None).expect("not counted"), None);
        let some = Limits::from([("projects".to_owned(), Number::from(3))]);
        assert_eq!(limits(&some).expect("fine"), some);
    }
}
