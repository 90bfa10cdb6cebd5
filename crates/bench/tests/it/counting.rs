//! Which requests count, and where.

use std::time::Duration;

use bench::measure::{Cause, Recorder, RequestKind, Verdict};
use bench::parse_duration;
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);

/// A recorder whose window is second 10 to second 20 after `begin`.
fn recorder() -> (Instant, Recorder) {
    let begin = Instant::now();
    (begin, Recorder::new(begin + 10_000 * MS, begin + 20_000 * MS))
}

fn refused() -> Verdict {
    let cause = Cause::Status(503, "overloaded".to_owned());
    Verdict::Refused { after: Duration::from_secs(1), cause }
}

#[test]
fn percentiles_of_known_latencies() {
    let (begin, mut recorder) = recorder();
    let start = begin + 11_000 * MS;
    for ms in 1..=1_000 {
        recorder.record(RequestKind::Subscription, start, start + ms * MS, &Verdict::Accepted);
    }
    let record = recorder.kind(RequestKind::Subscription);
    for (quantile, ms) in [(0.5, 500u64), (0.9, 900), (0.99, 990), (0.999, 999)] {
        let found = record.latency_us.value_at_quantile(quantile);
        assert!(found.abs_diff(ms * 1_000) <= ms, "{quantile}: {found}");
    }
    assert_eq!((record.accepted, record.refused, record.failed), (1_000, 0, 0));
}

#[test]
fn a_request_in_flight_in_the_window_counts() {
    let (begin, mut recorder) = recorder();
    let kind = RequestKind::DeviceCode;
    // Warm-up: began and ended before the window.
    recorder.record(kind, begin + 9_000 * MS, begin + 9_900 * MS, &Verdict::Accepted);
    recorder.record(kind, begin + 9_000 * MS, begin + 9_900 * MS, &Verdict::Failed(Cause::Reset));
    // Began in the warm-up, ended after the window.
    recorder.record(kind, begin + 5_000 * MS, begin + 33_000 * MS, &Verdict::Accepted);
    // Began in the warm-up, ended in the window.
    recorder.record(kind, begin + 9_999 * MS, begin + 10_001 * MS, &Verdict::Accepted);
    // Began in the window, ended long after it.
    recorder.record(kind, begin + 19_000 * MS, begin + 40_000 * MS, &Verdict::Failed(Cause::Timeout));
    // Began after it.
    recorder.record(kind, begin + 20_000 * MS, begin + 20_001 * MS, &Verdict::Failed(Cause::Reset));
    let record = recorder.kind(kind);
    assert_eq!((record.count(), record.ended_within, record.accepted_within), (3, 1, 1));
    assert!(record.latency_us.max() >= 27_900_000);
    assert_eq!(recorder.failures().keys().collect::<Vec<_>>(), [&(kind, Cause::Timeout)]);
    assert_eq!(recorder.warm_up_failures()[&(kind, Cause::Reset)], 1, "warm-up failures are not forgotten");
}

#[test]
fn failures_are_counted_by_cause() {
    let (begin, mut recorder) = recorder();
    let start = begin + 11_000 * MS;
    let causes = [
        Cause::Connect("refused"),
        Cause::ConnectTimeout,
        Cause::Reset,
        Cause::Closed,
        Cause::Timeout,
        Cause::NeverSent,
        Cause::Status(500, String::new()),
        Cause::Status(500, "internal".to_owned()),
        Cause::Status(503, "overloaded".to_owned()),
        Cause::BadBody("plan is not the account's"),
    ];
    for (times, cause) in causes.iter().enumerate() {
        for _ in 0..=times {
            recorder.record(RequestKind::User, start, start + 5 * MS, &Verdict::Failed(cause.clone()));
        }
    }
    recorder.record(RequestKind::Subscription, start, start + 5 * MS, &Verdict::Failed(Cause::Reset));
    for (times, cause) in causes.iter().enumerate() {
        assert_eq!(recorder.failures()[&(RequestKind::User, cause.clone())], times as u64 + 1, "{cause}");
    }
    assert_eq!(recorder.failures()[&(RequestKind::Subscription, Cause::Reset)], 1);
    let texts: std::collections::BTreeSet<String> = causes.iter().map(Cause::to_string).collect();
    assert_eq!(texts.len(), causes.len(), "each cause has words of its own");
}

#[test]
fn a_timeout_is_a_latency_and_a_quick_failure_is_not() {
    let (begin, mut recorder) = recorder();
    let start = begin + 11_000 * MS;
    let kind = RequestKind::Subscription;
    recorder.record(kind, start, start + 30_000 * MS, &Verdict::Failed(Cause::Timeout));
    recorder.record(kind, start, start + MS, &Verdict::Failed(Cause::Connect("refused")));
    let record = recorder.kind(kind);
    assert_eq!((record.failed, record.latency_us.len()), (2, 1));
    assert!(record.latency_us.max() >= 29_900_000);
}

#[test]
fn refusals_are_counted_separately() {
    let (begin, mut recorder) = recorder();
    let start = begin + 11_000 * MS;
    recorder.record(RequestKind::DeviceCode, start, start + 2 * MS, &refused());
    recorder.record(RequestKind::DeviceCode, start, start + 900 * MS, &Verdict::Accepted);
    let total = recorder.total();
    assert_eq!((total.accepted, total.refused, total.failed), (1, 1, 0));
    assert!(total.latency_us.min() >= 890_000, "a quick refusal does not flatter the latencies");
    assert!(total.refused_latency_us.max() <= 2_100);
}

#[test]
fn the_bench_itself_is_outside_the_mix() {
    let (begin, mut recorder) = recorder();
    let start = begin + 11_000 * MS;
    recorder.record(RequestKind::Refresh, start, start + MS, &Verdict::Accepted);
    assert_eq!(recorder.kind(RequestKind::Refresh).accepted, 1);
    assert_eq!((recorder.total().count(), recorder.answered(), recorder.take_second().accepted), (0, 0, 0));
}

#[test]
fn each_kind_has_its_place() {
    for (place, kind) in RequestKind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, place, "{}", kind.label());
    }
}

#[test]
fn durations() {
    assert_eq!(parse_duration("250ms"), Ok(250 * MS));
    assert_eq!(parse_duration("1.5s"), Ok(1_500 * MS));
    assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
    assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
    for wrong in ["", "5", "s", "-1s", "5 s", "1e9h"] {
        assert!(parse_duration(wrong).is_err(), "{wrong}");
    }
}
