//! 002: durable inserts by `hey`, with 1 to 16 connections, and on to 1,024.

use serde_json::{Value, json};

use crate::report::thousands;
use crate::seeds::row::{Row, Scale, of_run};
use crate::seeds::table::{Found, Shortfalls, Table, ms};

/// Connections, requests a second, mean and slowest response in milliseconds.
const ARTICLE: [(u64, &str, &str, &str); 6] = [
    (1, "750", "1.33 ms", "13.1 ms"),
    (2, "1,080", "1.83 ms", "15.4 ms"),
    (4, "1,889", "2.1 ms", "40.8 ms"),
    (8, "2,572", "3.1 ms", "189.4 ms"),
    (10, "2,730", "3.67 ms", "249.3 ms"),
    (16, "633", "26.4 ms", "5.4 s"),
];
const BEYOND: [u64; 3] = [64, 256, 1_024];
/// The longest stall that is allowed beyond the raw flushes.
const STALL_MS_MAX: f64 = 250.0;
/// Of the peak, with 1,024 connections.
const MANY_MIN: f64 = 0.9;

const TEXT: &str = "\
## 002: one insert a request on SQLite

*SQLite Myths: Linear writes don't scale* (2023-12-05). Rails 7.1 with Puma, 10 workers of 3 threads, SQLite 3.44 through Ruby 3.2, on
an Apple M1 Max with 32 GB; `hey -c N -z 10s -m POST`, three runs each, their mean. With 16 connections requests failed and others waited 5.4 s. A
machine with 16 newer cores and 16 workers took 4,272 requests a second from 128 connections, 29.2 ms in the mean and 65.1 ms at most.

Ours: `POST /requests` of `examples/request_log`, a row with the same columns a request, by the same `hey`, and by the own load
generator in a run of its own. Both take CPU time of the same machine, so with many connections the generator may be the limit
before the server is.
";

fn connections() -> impl Iterator<Item = u64> {
    ARTICLE.iter().map(|(connections, ..)| *connections).chain(BEYOND)
}

fn by_hey(connections: u64) -> String {
    format!("002/hey/{connections}")
}

fn own(connections: u64) -> String {
    format!("002/own/{connections}")
}

pub(super) fn ids() -> Vec<String> {
    connections().flat_map(|connections| [by_hey(connections), own(connections)]).collect()
}

pub(super) fn rows(scale: Scale<'_>) -> Vec<Row> {
    let hey = |connections: u64| {
        let words =
            format!("writes --connections {connections} {{--runs 3 --duration 10s|--runs 1 --duration 1s}}");
        // The path of the program follows the flag, which is part of the command.
        let mut places = vec![scale.args.hey.display().to_string()];
        places.extend(scale.back_end("request_log", false));
        Row { words: format!("{} --hey", scale.words(&words)), places, ..row(by_hey(connections), read_hey) }
    };
    let own = |connections: u64| {
        let times = "{--duration 10s --warmup 2s|--duration 500ms --warmup 200ms}";
        let words = scale.words(&format!("writes --connections {connections} {times}"));
        Row { words, places: scale.back_end("request_log", false), ..row(own(connections), read_own) }
    };
    connections().flat_map(|connections| [hey(connections), own(connections)]).collect()
}

fn row(id: String, read: fn(&Value) -> Option<Value>) -> Row {
    Row { id, words: String::new(), places: Vec::new(), needs_postgres: false, read }
}

fn read_hey(report: &Value) -> Option<Value> {
    let level = report["hey"].get(0)?;
    Some(json!({
        "server": report["server"],
        "per_second": level["requests_per_second"],
        "mean_ms": level["average_ms"],
        "max_ms": level["slowest_ms"],
        "not_accepted": level["not_accepted"],
        "steal_percent": level["steal_percent"],
    }))
}

fn read_own(report: &Value) -> Option<Value> {
    let mut figures = of_run(report["levels"].get(0)?)?;
    let longest = report["fsync"].as_array()?.iter().filter_map(|fsync| fsync["max_us"].as_f64());
    figures["fsync_max_ms"] = json!(longest.fold(0.0, f64::max) / 1_000.0);
    Some(figures)
}

pub(super) fn section(found: &Found<'_>) -> String {
    let mut table = Table::new(&[
        "connections",
        "article: req/s",
        "mean",
        "slowest",
        "ours by hey: req/s",
        "mean",
        "failed",
        "slowest",
        "ours, own generator: req/s",
        "mean",
        "p99",
        "failed",
        "slowest",
    ]);
    for connections in connections() {
        let article = ARTICLE.iter().find(|(of, ..)| *of == connections);
        let article =
            article.map_or(["–", "–", "–"], |(_, rate, mean, slowest)| [*rate, *mean, *slowest]);
        let hey = found.cells(&by_hey(connections), |figures| {
            [
                figures.count("per_second"),
                figures.ms("mean_ms"),
                figures.count("not_accepted"),
                figures.ms("max_ms"),
            ]
        });
        let own = found.cells(&own(connections), |figures| {
            let [rate, mean] = [figures.count("per_second"), figures.ms("mean_ms")];
            [rate, mean, figures.ms("p99_ms"), figures.count("not_accepted"), figures.ms("max_ms")]
        });
        let cells = std::iter::once(thousands(connections)).chain(article.map(str::to_owned));
        table.row(cells.chain(hey).chain(own));
    }
    let runs = found.runs(&ids());
    let at = |connections| found.figures(&own(connections));
    let cpu = found.cpu_time([
        ("16 connections, own generator", at(16)),
        ("256 connections", at(256)),
        ("1,024 connections", at(1_024)),
    ]);
    format!("{TEXT}\n{}\n{}\n{cpu}\n{runs}", table.render(), shortfalls(found).render())
}

fn shortfalls(found: &Found<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    let all: Option<Vec<_>> = ids().iter().map(|id| found.figures(id)).collect();
    let failed = all.map(|all| all.iter().filter_map(|figures| figures.number("not_accepted")).sum::<f64>());
    shortfalls.check("no request fails", failed.map(|failed| (format!("{failed:.0} failed"), failed == 0.0)));
    let ours: Option<Vec<_>> = connections().map(|connections| found.figures(&own(connections))).collect();
    let slowest = ours.map(|ours| {
        let most = |name: &str| ours.iter().filter_map(|figures| figures.number(name)).fold(0.0, f64::max);
        let (slowest, flush) = (most("max_ms"), most("fsync_max_ms"));
        let text = format!("{}, and the longest raw flush took {}", ms(slowest), ms(flush));
        (text, slowest <= STALL_MS_MAX + flush)
    });
    shortfalls.check("the slowest response is within 250 ms and a raw flush", slowest);
    for (by, id) in [("by the own generator", own as fn(u64) -> String), ("by hey", by_hey)] {
        let rates: Option<Vec<f64>> =
            connections().map(|connections| found.figures(&id(connections))?.number("per_second")).collect();
        let share = rates.and_then(|rates| {
            let peak = rates.iter().copied().fold(0.0, f64::max);
            let share = rates.last()? / peak;
            Some((format!("{:.0} %", share * 100.0), share >= MANY_MIN))
        });
        shortfalls.check(&format!("1,024 connections reach 90 % of the peak, {by}"), share);
    }
    shortfalls
}
