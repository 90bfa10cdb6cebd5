//! The capacity in words of an operator. Every assumption is printed.

use std::fmt::Write as _;

use serde::Serialize;

use super::SIGN_INS_TITLE;
use super::climb::Climb;
use crate::cli::CapacityArgs;
use crate::report::{milliseconds, thousands};

const SECONDS_PER_DAY: f64 = 86_400.0;
const SECONDS_PER_MONTH: f64 = 30.0 * SECONDS_PER_DAY;

/// The JSON of `sarsen bench capacity`.
#[derive(Debug, Serialize)]
pub struct CapacityReport {
    pub bound_ms: u64,
    pub requests_per_user_per_second: f64,
    pub peak_to_mean: f64,
    pub online_share: f64,
    pub daily_share: f64,
    pub price_per_month: Option<f64>,
    pub climbs: Vec<Climb>,
    /// One for each workload with a level that held.
    pub in_users: Vec<InUsers>,
}

/// A rate as numbers of users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InUsers {
    pub workload: String,
    pub requests_per_second: f64,
    pub concurrent: f64,
    pub daily: f64,
    pub monthly: f64,
    pub requests_per_month: f64,
    /// Of a thousand monthly users.
    pub price_per_1000_users: Option<f64>,
}

impl CapacityReport {
    pub(super) fn new(args: &CapacityArgs, climbs: Vec<Climb>) -> CapacityReport {
        let in_users = climbs.iter().filter_map(|climb| {
            let rate = climb.best()?.total.accepted_per_second;
            Some(InUsers::new(args, &climb.workload, rate))
        });
        CapacityReport {
            bound_ms: args.bound.as_millis() as u64,
            requests_per_user_per_second: args.requests_per_user,
            peak_to_mean: args.peak_to_mean,
            online_share: args.online_share,
            daily_share: args.daily_share,
            price_per_month: args.price,
            in_users: in_users.collect(),
            climbs,
        }
    }

    pub(super) fn render(&self) -> String {
        let mut text = format!(
            "\ncapacity with p99 <= {} ms and no failure, server and generator on this machine\n{:<20} {:>8} {:>9} {:>9}  \
             ran out\n",
            self.bound_ms, "workload", "users", "req/s", "p99 ms"
        );
        // Writing to a String cannot fail.
        for climb in &self.climbs {
            let _ = match climb.best() {
                Some(best) => writeln!(
                    text,
                    "{:<20} {:>8} {:>9} {:>9}  {}",
                    climb.workload,
                    thousands(best.users as u64),
                    whole(best.total.accepted_per_second),
                    milliseconds(best.total.latency.p99_us),
                    climb.ran_out
                ),
                None => writeln!(text, "{:<20} no level held", climb.workload),
            };
            let _ = writeln!(text, "{:<20} ended: {}; to change: {}", "", climb.ended, climb.advice);
        }
        self.assumptions(&mut text);
        text
    }

    fn assumptions(&self, text: &mut String) {
        let _ = write!(
            text,
            "\nin users, if\n\
             - a user who is online sends {} requests a second at the time of most requests (--requests-per-user)\n\
             - {:.1} % of a day's users are online at that time (--online-share)\n\
             - {:.1} % of a month's users come on a day (--daily-share)\n\
             - that rate is {} times the mean rate of a month (--peak-to-mean)\n\
             - a user signs in with a password once on each day (W2)\n\
             {:<20} {:>12} {:>12} {:>12} {:>18}",
            self.requests_per_user_per_second,
            self.online_share * 100.0,
            self.daily_share * 100.0,
            self.peak_to_mean,
            "workload",
            "concurrent",
            "daily",
            "monthly",
            "requests a month"
        );
        text.push_str(if self.price_per_month.is_some() { "  price of 1,000 monthly users\n" } else { "\n" });
        for row in &self.in_users {
            let _ = write!(
                text,
                "{:<20} {:>12} {:>12} {:>12} {:>18}",
                row.workload,
                whole(row.concurrent),
                whole(row.daily),
                whole(row.monthly),
                whole(row.requests_per_month)
            );
            let price = row.price_per_1000_users.map_or_else(String::new, |price| format!("  {price:.4}"));
            let _ = writeln!(text, "{price}");
        }
        if self.price_per_month.is_none() {
            text.push_str(
                "With --price of this machine a month it also prints the price of a thousand users.\n",
            );
        }
    }
}

impl InUsers {
    fn new(args: &CapacityArgs, workload: &str, requests_per_second: f64) -> InUsers {
        let (concurrent, daily) = if workload == SIGN_INS_TITLE {
            let daily = requests_per_second / args.peak_to_mean * SECONDS_PER_DAY;
            (daily * args.online_share, daily)
        } else {
            let concurrent = requests_per_second / args.requests_per_user;
            (concurrent, concurrent / args.online_share)
        };
        let monthly = daily / args.daily_share;
        InUsers {
            workload: workload.to_owned(),
            requests_per_second,
            concurrent,
            daily,
            monthly,
            requests_per_month: requests_per_second / args.peak_to_mean * SECONDS_PER_MONTH,
            price_per_1000_users: args.price.map(|price| price / monthly * 1_000.0),
        }
    }
}

fn whole(number: f64) -> String {
    thousands(number.round() as u64)
}
