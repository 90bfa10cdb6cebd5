//! 004: updates of random rows at a constant rate of arrivals, a million a minute, on PostgreSQL.

use serde_json::{Value, json};

use crate::report::thousands;
use crate::seeds::row::{Row, Scale, of_run};
use crate::seeds::table::{Figures, Found, Shortfalls, Table, ms};

/// What the article did, the rate of arrivals, and what came out.
const ARTICLE: [(&str, &str, &str); 6] = [
    ("Go with Gin, logged table", "15,000", "the longest request took 7.44 s"),
    ("Rust, not optimized, request log", "15,000", "not reached: 6,000 a second"),
    ("Rust, optimized, request log", "10,000", "reached"),
    ("Rust, no log, 400 workers, 100 database connections", "15,000", "reached"),
    ("the same", "20,000", "not reached: 19,000 a second"),
    ("the same, table UNLOGGED", "20,000", "reached: mean 20 ms, the longest below 1 s"),
];
/// A million a minute.
const RATE: u64 = 16_667;
const MINUTE: f64 = 1_000_000.0;
const CONNECTIONS: [u64; 2] = [150, 1_000];
const RATES: [u64; 3] = [10_000, 15_000, 20_000];
const MEAN_MS_MAX: f64 = 20.0;
const MAX_MS_MAX: f64 = 1_000.0;
const TIMES_BASELINE: f64 = 5.0;

const TEXT: &str = "\
## 004: a million updates a minute

*How I manage to handle 1 million requests of updating per minute with Rust* (Thiện Trần, 2021-06-17). `PATCH /attempts/{1..100000}` with the answers of a student,
at a constant rate of arrivals for one minute, by k6 with up to 15,000 virtual users; actix-web, sqlx and PostgreSQL 12, one statement a request, on 6 cores
with 24 GB. `pgbench` reached 55,000 of these updates a second there.
";

const OURS: &str = "\
Ours: `sarsen bench attempts` on `examples/exam_attempts`. Latency counts from the scheduled start, so a stalled server cannot hide. The table is logged
and `fsync` is on. The load keeps up to 1,000 connections, or 150: with many requests in flight the same load waits longer. MySQL was not run.
";

const BESIDE: &str = "\
**Beside one statement a request.** `bench/baselines/attempts_actix` is the article's server: actix-web, sqlx, a pool of 100 connections, no request log. Both
are measured in closed loop in turn on one throw-away PostgreSQL, five rounds; only the baseline's table is UNLOGGED where the row says so.
";

fn minute(connections: u64) -> String {
    format!("004/million/{connections}")
}

fn at(rate: u64) -> String {
    format!("004/rate/{rate}")
}

fn beside(is_unlogged: bool, connections: u64) -> String {
    let table = if is_unlogged { "unlogged" } else { "logged" };
    format!("004/baseline-{table}/{connections}")
}

const SQLITE: &str = "004/sqlite/1000";

pub(super) fn ids() -> Vec<String> {
    let open = RATES.map(at).into_iter().chain(CONNECTIONS.map(minute)).chain([SQLITE.to_owned()]);
    let closed =
        [false, true].into_iter().flat_map(|is_unlogged| CONNECTIONS.map(|n| beside(is_unlogged, n)));
    open.chain(closed).collect()
}

pub(super) fn rows(scale: Scale<'_>) -> Vec<Row> {
    let open = |id: String, database: &str, rate: u64, connections: u64, full: &str| {
        let rate = scale.users(rate);
        let times = format!("{{--duration {full} --warmup 3s|--duration 1s --warmup 300ms}}");
        let words =
            format!("attempts {database}--rates {rate} --connections {} {times}", scale.users(connections));
        Row {
            id,
            words: scale.words(&words),
            places: scale.back_end("exam_attempts", !database.is_empty()),
            needs_postgres: !database.is_empty(),
            read: read_rates,
        }
    };
    let closed = |is_unlogged: bool, connections: u64| {
        let unlogged = if is_unlogged { " --unlogged" } else { "" };
        let rounds = "{--rounds 5 --duration 10s --warmup 3s|--rounds 1 --duration 1s --warmup 300ms}";
        let connections_now = scale.users(connections);
        let words =
            format!("attempts --postgres --connections {connections_now} {rounds}{unlogged} --baseline");
        // The path of the baseline follows the flag.
        let mut places = vec![scale.args.baseline.display().to_string()];
        places.extend(scale.back_end("exam_attempts", true));
        let id = beside(is_unlogged, connections);
        Row { id, words: scale.words(&words), places, needs_postgres: true, read: read_rounds }
    };
    let mut rows: Vec<Row> = RATES.map(|rate| open(at(rate), "--postgres ", rate, 1_000, "60s")).into();
    rows.extend(
        CONNECTIONS.map(|connections| open(minute(connections), "--postgres ", RATE, connections, "10m")),
    );
    rows.push(open(SQLITE.to_owned(), "", RATE, 1_000, "60s"));
    for is_unlogged in [false, true] {
        rows.extend(CONNECTIONS.map(|connections| closed(is_unlogged, connections)));
    }
    rows
}

fn read_rates(report: &Value) -> Option<Value> {
    of_run(report["rates"]["runs"].get(0)?)
}

fn read_rounds(report: &Value) -> Option<Value> {
    let rounds = &report["rounds"];
    let runs = rounds["runs"].as_array()?;
    let rates = |from: usize| -> Vec<f64> {
        let of_server = runs.iter().skip(from).step_by(2);
        of_server.filter_map(|run| run["total"]["accepted_per_second"].as_f64()).collect()
    };
    let steal = runs.iter().filter_map(|run| run["steal_percent"].as_f64()).fold(0.0, f64::max);
    let not_accepted = |from: usize| -> u64 {
        let of_server = runs.iter().skip(from).step_by(2);
        let both = |run: &Value| Some(run["total"]["failed"].as_u64()? + run["total"]["refused"].as_u64()?);
        of_server.filter_map(both).sum()
    };
    Some(json!({
        "ours_per_second": crate::measure::median(rates(0)),
        "baseline_per_second": crate::measure::median(rates(1)),
        "ratio": rounds["median_ratio"],
        "ratios": rounds["ratios"],
        "not_accepted": not_accepted(0),
        "steal_percent": steal,
    }))
}

pub(super) fn section(found: &Found<'_>) -> String {
    let mut article = Table::new(&["article", "arrivals a second", "result"]);
    for (what, rate, result) in ARTICLE {
        article.row([what, rate, result]);
    }
    let (article, ours, beside) = (article.render(), arrivals(found).render(), baselines(found).render());
    let (missing, runs) = (shortfalls(found).render(), found.runs(&ids()));
    let cpu = found.cpu_time([
        ("a million a minute, 150 connections", found.figures(&minute(150))),
        ("a million a minute, 1,000 connections", found.figures(&minute(1_000))),
        ("a million a minute on SQLite", found.figures(SQLITE)),
    ]);
    format!("{TEXT}\n{article}\n{OURS}\n{ours}\n{BESIDE}\n{beside}\n{missing}\n{cpu}\n{runs}")
}

fn arrivals(found: &Found<'_>) -> Table {
    let mut table = Table::new(&[
        "arrivals a second",
        "ours on",
        "connections",
        "time",
        "accepted a second",
        "accepted in all",
        "mean",
        "p95",
        "p99",
        "longest",
        "failed",
        "server cores",
    ]);
    let mut lines: Vec<(String, u64, &str, u64, &str)> =
        RATES.map(|rate| (at(rate), rate, "PostgreSQL, logged", 1_000, "1 min")).into();
    lines.extend(
        CONNECTIONS
            .map(|connections| (minute(connections), RATE, "PostgreSQL, logged", connections, "10 min")),
    );
    lines.push((SQLITE.to_owned(), RATE, "SQLite", 1_000, "1 min"));
    for (id, rate, database, connections, time) in lines {
        let ours = found.cells(&id, |figures| {
            [
                figures.count("per_second"),
                accepted(figures).map_or_else(String::new, |accepted| thousands(accepted.round() as u64)),
                figures.ms("mean_ms"),
                figures.ms("p95_ms"),
                figures.ms("p99_ms"),
                figures.ms("max_ms"),
                figures.count("not_accepted"),
                figures.decimals("server_cores", 2),
            ]
        });
        let cells = [thousands(rate), database.to_owned(), thousands(connections), time.to_owned()];
        table.row(cells.into_iter().chain(ours));
    }
    table
}

fn accepted(figures: Figures<'_>) -> Option<f64> {
    Some(figures.number("count")? - figures.number("not_accepted")?)
}

fn baselines(found: &Found<'_>) -> Table {
    let mut table = Table::new(&[
        "baseline's table",
        "connections",
        "ours, durable: req/s",
        "one statement a request: req/s",
        "median ratio",
        "rounds",
        "ours failed",
    ]);
    for is_unlogged in [false, true] {
        for connections in CONNECTIONS {
            let ours = found.cells(&beside(is_unlogged, connections), |figures| {
                let rounds = figures.0["ratios"].as_array().into_iter().flatten().filter_map(Value::as_f64);
                let rounds: Vec<String> = rounds.map(|ratio| format!("{ratio:.2}")).collect();
                [
                    figures.count("ours_per_second"),
                    figures.count("baseline_per_second"),
                    figures.decimals("ratio", 2),
                    rounds.join(", "),
                    figures.count("not_accepted"),
                ]
            });
            let kind = if is_unlogged { "UNLOGGED" } else { "logged" };
            table.row([kind.to_owned(), thousands(connections)].into_iter().chain(ours));
        }
    }
    table
}

fn shortfalls(found: &Found<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    for connections in CONNECTIONS {
        let figures = found.figures(&minute(connections));
        let wanted = format!(
            "a million updates a minute for ten minutes, {} connections, none failed",
            thousands(connections)
        );
        let result = figures.and_then(|figures| {
            let a_minute = figures.number("per_second")? * 60.0;
            let failed = figures.number("not_accepted")?;
            let text = format!("{} a minute, {failed:.0} failed", thousands(a_minute.round() as u64));
            // The last arrivals end after the window.
            Some((text, failed == 0.0 && a_minute >= 0.999 * MINUTE))
        });
        shortfalls.check(&wanted, result);
        let wanted = format!(
            "mean within 20 ms and the longest within 1 s there, {} connections",
            thousands(connections)
        );
        let result = figures.and_then(|figures| {
            let (mean, max) = (figures.number("mean_ms")?, figures.number("max_ms")?);
            Some((format!("{} and {}", ms(mean), ms(max)), mean <= MEAN_MS_MAX && max <= MAX_MS_MAX))
        });
        shortfalls.check(&wanted, result);
    }
    for (is_unlogged, times) in [(false, TIMES_BASELINE), (true, 1.0)] {
        for connections in CONNECTIONS {
            let table = if is_unlogged { "UNLOGGED" } else { "logged" };
            let wanted = format!(
                "at least {times:.0} times the one-statement baseline with a {table} table, {} connections",
                thousands(connections)
            );
            let ratio =
                found.figures(&beside(is_unlogged, connections)).and_then(|figures| figures.number("ratio"));
            shortfalls.check(&wanted, ratio.map(|ratio| (format!("{ratio:.2} times"), ratio >= times)));
        }
    }
    shortfalls
}
