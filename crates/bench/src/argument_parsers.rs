//! Parsers of command-line values: durations, counts, rates, shares.

use std::time::Duration;

/// The most instances.
const INSTANCES_MAX: usize = 64;
/// The most probers: their organizations are created one after the other.
const PROBERS_MAX: usize = 200;

/// `250ms`, `30s`, `5m`, `1h`, or `0`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 =
        number.parse().map_err(|_| format!("use a number and a unit, as in 30s or 5m, not {text:?}"))?;
    let seconds = match unit {
        "ms" => number / 1_000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(format!("use ms, s, m or h after the number, not {unit:?}")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse() {
        Ok(0) => Err("use at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("use a whole number".to_owned()),
    }
}

pub(crate) fn parse_instances(text: &str) -> Result<usize, String> {
    parse_count(text).and_then(|count| {
        if count <= INSTANCES_MAX { Ok(count) } else { Err(format!("use at most {INSTANCES_MAX}")) }
    })
}

pub(crate) fn parse_probers(text: &str) -> Result<usize, String> {
    let most = format!("use at most {PROBERS_MAX}");
    parse_count(text).and_then(|count| if count <= PROBERS_MAX { Ok(count) } else { Err(most) })
}

pub(crate) fn parse_load(text: &str) -> Result<f64, String> {
    parse_share(text).and_then(|load| if load > 0.0 { Ok(load) } else { Err("use more than 0.0".to_owned()) })
}

pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "use 0.0 to 1.0".to_owned())
}

pub(crate) fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "use a number above 0".to_owned())
}
