//! Validation of a plan's terms: price, currency, features, limits and seats.

use super::Limits;
use crate::{Error, Result, names};

/// The largest price. Every JSON parser represents it exactly.
pub const PRICE_CENTS_MAX: i64 = 1_000_000_000_000;
/// The most features, the most limits, and the most seats of a plan.
pub const FEATURES_MAX: usize = 100;
pub const LIMITS_MAX: usize = 100;
pub const SEATS_MAX: i64 = 1_000_000;

/// Validates a price.
pub fn price(price_cents: i64) -> Result<i64> {
    if (0..=PRICE_CENTS_MAX).contains(&price_cents) {
        return Ok(price_cents);
    }
    Err(Error::wrong(
        "out_of_range",
        "price_cents",
        format!("{price_cents} is not a price; use 0 to {PRICE_CENTS_MAX}"),
    ))
}

/// Validates a currency: three capital letters.
pub fn currency(currency: &str) -> Result<String> {
    if currency.len() == 3 && currency.bytes().all(|letter| letter.is_ascii_uppercase()) {
        return Ok(currency.to_owned());
    }
    Err(Error::invalid(
        "currency",
        format!("{currency:?} is not a currency; use three capital letters, like \"EUR\""),
    ))
}

/// Validates the name of a feature.
pub fn feature(name: &str) -> Result<String> {
    names::display("features", name)
}

/// Validates the features: how many there are, and the name of each.
pub fn features(features: &[String]) -> Result<Vec<String>> {
    if features.len() > FEATURES_MAX {
        return Err(Error::wrong("too_many", "features", format!("too many; use at most {FEATURES_MAX}")));
    }
    features.iter().map(|name| feature(name)).collect()
}

/// Validates the usage limits: how many there are, and the name of each.
pub fn limits(limits: &Limits) -> Result<Limits> {
    if limits.len() > LIMITS_MAX {
        return Err(Error::wrong("too_many", "limits", format!("too many; use at most {LIMITS_MAX}")));
    }
    limits.iter().map(|(name, limit)| Ok((names::display("limits", name)?, limit.clone()))).collect()
}

/// Validates a number of seats.
pub fn seats(seats: Option<i64>) -> Result<Option<i64>> {
    match seats {
        Some(count) if !(1..=SEATS_MAX).contains(&count) => Err(Error::wrong(
            "out_of_range",
            "seats",
            format!("{count} is not a valid number of seats; use 1 to {SEATS_MAX}, or none for unlimited"),
        )),
        _ => Ok(seats),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Number;

    fn problem<T: std::fmt::Debug>(checked: Result<T>) -> String {
        checked.expect_err("invalid").to_string()
    }

    #[test]
    fn an_invalid_value_is_rejected_with_field_and_rule() {
        assert_eq!(problem(price(-1)), "price_cents: -1 is not a price; use 0 to 1000000000000");
        for wrong in ["", "eur", "EURO", "€€€"] {
            let problem = problem(currency(wrong));
            assert!(
                problem.starts_with("currency: ") && problem.contains("three capital letters"),
                "{problem}"
            );
        }
        let problem_of_seats = problem(seats(Some(0)));
        let expected = "seats: 0 is not a valid number of seats; use 1 to 1000000, or none for unlimited";
        assert_eq!(problem_of_seats, expected);
        let problem = problem(features(&["\n".to_owned()]));
        assert_eq!(problem, "features: use 1 to 100 characters on one line");
    }

    #[test]
    fn a_valid_value_is_accepted() {
        assert_eq!(price(0).expect("valid"), 0);
        assert_eq!(currency("EUR").expect("valid"), "EUR");
        assert_eq!(seats(None).expect("unlimited"), None);
        let some = Limits::from([("projects".to_owned(), Number::from(3))]);
        assert_eq!(limits(&some).expect("valid"), some);
    }
}
