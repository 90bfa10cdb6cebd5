//! 003: live queries on PostgreSQL with a replica and two instances, more users until it breaks.

use serde_json::{Value, json};

use crate::report::thousands;
use crate::seeds::row::{Row, Scale, of_run};
use crate::seeds::table::{Figures, Found, Shortfalls, Table, ms};

/// Users, requests a second, p50, p90 and p99 in ms, and failed requests.
const ARTICLE: [(u64, &str, u64, u64, u64, &str); 12] = [
    (250, "2,373", 2, 9, 41, "0"),
    (450, "4,324", 1, 4, 11, "0"),
    (650, "6,251", 1, 4, 11, "0"),
    (850, "8,155", 1, 3, 33, "0"),
    (1_050, "10,022", 1, 3, 69, "0"),
    (1_250, "11,659", 1, 14, 74, "0"),
    (1_450, "12,535", 2, 46, 110, "0"),
    (1_650, "10,980", 27, 128, 265, "0"),
    (1_850, "11,533", 35, 151, 290, "0"),
    (2_050, "12,203", 47, 165, 266, "0"),
    (2_250, "10,962", 85, 248, 404, "0"),
    (2_450, "9,065", 85, 282, 2_128, "8.46 %"),
];
/// The most users without an error.
const ARTICLE_USERS: u64 = 2_250;
/// Forge 0.10.2 on a machine with two cores, measured outside this repository: requests a second.
const FORGE_ON_TWO_CORES: f64 = 2_430.0;
const TIMES_FORGE: f64 = 5.0;
const RAMP: &str = "003/ramp";
/// The levels of the comparison.
const LEVELS: [u64; 4] = [1_050, 1_450, 1_850, 2_250];
const TOPOLOGIES: [(&str, &str, &str); 5] = [
    ("003/replica-2", "PostgreSQL, a replica, two instances", "--postgres --instances 2"),
    ("003/no-replica-2", "PostgreSQL, two instances", "--postgres --no-replica --instances 2"),
    ("003/replica-1", "PostgreSQL, a replica, one instance", "--postgres"),
    ("003/no-replica-1", "PostgreSQL, one instance", "--postgres --no-replica"),
    ("003/sqlite", "SQLite, one instance", ""),
];

const TEXT: &str = "\
## 003: live queries on PostgreSQL

*Forge: Performance.* Users on server-sent events: each watches one of 128 counters and sends a request every 100 ms, 50 % a counter, 20 % a list of
20, 30 % an increment. 200 more users arrive in each level, until p90 is above 2 s or 2 % of the requests fail. A laptop with 12 cores and 18 GB, PostgreSQL 18 with a
replica in Docker, `synchronous_commit=off`, two instances with 40 database connections each. Its generator does not look at what arrives on the streams.

Ours: `sarsen bench live` on `examples/counters`, the same mix and topology, `synchronous_commit=on`. The run also measures the time from a write to
its arrival at each watcher (write → frame), ends when p90 of that is above 2 s, and fails when a watcher does not hold the database's value
at the end. Servers, databases and generator share one machine. On a machine with two cores, measured outside this
repository, Forge 0.10.2 made about 2,430 requests a second (450 users, p90 185 ms).
";

const COMPARED: &str = "\
**One instance against two, with and without the replica.** Each cell: requests a second, p90, failed.
";

pub(super) fn ids() -> Vec<String> {
    std::iter::once(RAMP).chain(TOPOLOGIES.map(|(id, ..)| id)).map(str::to_owned).collect()
}

pub(super) fn rows(scale: Scale<'_>) -> Vec<Row> {
    let row = |id: &str, words: String| {
        let on_postgres = words.contains("--postgres");
        Row {
            id: id.to_owned(),
            words: scale.words(&words),
            places: scale.back_end("counters", on_postgres),
            needs_postgres: on_postgres,
            read: read_live,
        }
    };
    let quick = "--users 10 --step 10 --connections 20 --warmup 500ms --duration 1s";
    let ramp = format!("live --postgres --instances 2 {{--users 250 --step 200|{quick}}}");
    let compared = TOPOLOGIES.map(|(id, _, flags)| {
        let levels = "--users 1050 --step 400 --connections 2250";
        row(id, format!("live {flags} {{{levels}|{quick}}}"))
    });
    std::iter::once(row(RAMP, ramp)).chain(compared).collect()
}

fn read_live(report: &Value) -> Option<Value> {
    let levels: Option<Vec<Value>> = report["levels"].as_array()?.iter().map(read_level).collect();
    let levels = levels?;
    let steal = levels.iter().filter_map(|level| level["steal_percent"].as_f64()).fold(0.0, f64::max);
    Some(json!({
        "levels": levels,
        "ended": report["ended"],
        "watchers_behind": report["end_state"]["behind"],
        "settled_ms": report["end_state"]["settled_ms"],
        "steal_percent": steal,
    }))
}

fn read_level(level: &Value) -> Option<Value> {
    let mut figures = of_run(&level["run"])?;
    figures["users"] = level["users"].clone();
    figures["error_percent"] = level["error_percent"].clone();
    figures["writes_per_second"] = level["increments_per_second"].clone();
    figures["frames_per_second"] = level["frames_per_second"].clone();
    let frame = |name: &str| level["write_to_frame"][name].as_f64().map(|us| us / 1_000.0);
    figures["frame_p50_ms"] = json!(frame("p50_us"));
    figures["frame_p99_ms"] = json!(frame("p99_us"));
    Some(figures)
}

fn level<'a>(run: Figures<'a>, users: u64) -> Option<Figures<'a>> {
    run.list("levels").find(|level| level.number("users") == Some(users as f64))
}

pub(super) fn section(found: &Found<'_>) -> String {
    let (ramp, ended) = (ramp(found).render(), ended(found));
    let (compared, missing) = (compared(found).render(), shortfalls(found).render());
    let at = |id| found.figures(id).and_then(|run| level(run, LEVELS[0]));
    let names: Vec<_> =
        TOPOLOGIES.iter().map(|(id, name, _)| (format!("{name}, 1,050 users"), at(id))).collect();
    let cpu = found.cpu_time(names.iter().map(|(name, level)| (name.as_str(), *level)));
    format!("{TEXT}\n{ramp}{ended}\n{COMPARED}\n{compared}\n{missing}\n{cpu}\n{}", found.runs(&ids()))
}

fn ramp(found: &Found<'_>) -> Table {
    let mut table = Table::new(&[
        "users",
        "article: req/s",
        "p50",
        "p90",
        "p99",
        "failed",
        "ours: req/s",
        "p50",
        "p90",
        "p99",
        "failed",
        "writes/s",
        "frames/s",
        "write → frame p50",
        "p99",
    ]);
    let run = found.figures(RAMP);
    let mut users: Vec<u64> = ARTICLE.iter().map(|(users, ..)| *users).collect();
    let measured = run.into_iter().flat_map(|run| run.list("levels"));
    users.extend(measured.filter_map(|level| level.number("users")).map(|users| users as u64));
    users.sort_unstable();
    users.dedup();
    for (index, users) in users.into_iter().enumerate() {
        let article = ARTICLE.iter().find(|(of, ..)| *of == users).map_or_else(
            || ["–"; 5].map(str::to_owned),
            |(_, rate, p50, p90, p99, failed)| {
                let [p50, p90, p99] = [p50, p90, p99].map(|ms| format!("{} ms", thousands(*ms)));
                [(*rate).to_owned(), p50, p90, p99, (*failed).to_owned()]
            },
        );
        let ours = match run {
            Some(run) => level(run, users).map_or_else(|| [const { String::new() }; 9], row_of),
            // Once is enough.
            None if index > 0 => [const { String::new() }; 9],
            None => found.cells(RAMP, row_of),
        };
        table.row(std::iter::once(thousands(users)).chain(article).chain(ours));
    }
    table
}

fn row_of(level: Figures<'_>) -> [String; 9] {
    [
        level.count("per_second"),
        level.ms("p50_ms"),
        level.ms("p90_ms"),
        level.ms("p99_ms"),
        level.percent("error_percent"),
        level.count("writes_per_second"),
        level.count("frames_per_second"),
        level.ms("frame_p50_ms"),
        level.ms("frame_p99_ms"),
    ]
}

fn ended(found: &Found<'_>) -> String {
    let Some(run) = found.figures(RAMP) else { return String::new() };
    let behind = match run.number("watchers_behind") {
        Some(behind) if behind > 0.0 => {
            format!("{behind:.0} watchers did not hold the value of the database")
        }
        _ => "every watcher held the value of the database".to_owned(),
    };
    format!("\nThe ramp ended because {}; {behind}.\n", run.text("ended").unwrap_or("of an error"))
}

fn compared(found: &Found<'_>) -> Table {
    let mut head = vec!["topology".to_owned()];
    head.extend(LEVELS.map(|users| format!("{} users", thousands(users))));
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for (id, name, _) in TOPOLOGIES {
        let cells = found.cells(id, |run| {
            LEVELS.map(|users| {
                level(run, users).map_or_else(String::new, |level| {
                    format!(
                        "{}, {}, {}",
                        level.count("per_second"),
                        level.ms("p90_ms"),
                        level.percent("error_percent")
                    )
                })
            })
        });
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    table
}

fn shortfalls(found: &Found<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    let run = found.figures(RAMP);
    let levels = || run.into_iter().flat_map(|run| run.list("levels"));
    let bar = TIMES_FORGE * FORGE_ON_TWO_CORES;
    let peak = levels()
        .filter_map(|level| Some((level.number("per_second")?, level.number("users")?)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let found_peak = peak.map(|(rate, users)| {
        let times = rate / FORGE_ON_TWO_CORES;
        let (rate_text, users) = (thousands(rate.round() as u64), thousands(users as u64));
        (format!("{rate_text} at {users} users, {times:.1} times"), rate >= bar)
    });
    let wanted =
        "5 times the 2,430 requests a second of Forge on two cores, in its topology (only on such a machine)";
    shortfalls.check(wanted, found_peak);
    let first_error = levels().find(|level| level.number("error_percent").unwrap_or(0.0) > 0.0);
    let most = levels().filter_map(|level| level.number("users")).fold(0.0, f64::max);
    let without_error = run.map(|_| match first_error.and_then(|level| level.number("users")) {
        Some(users) => (format!("the first at {}", thousands(users as u64)), users > ARTICLE_USERS as f64),
        None => (format!("none up to {}", thousands(most as u64)), most >= ARTICLE_USERS as f64),
    });
    shortfalls.check("no error up to 2,250 users", without_error);
    let p90 = run.and_then(|run| level(run, 1_450)?.number("p90_ms"));
    shortfalls.check("p90 within the article's 46 ms at 1,450 users", p90.map(|p90| (ms(p90), p90 <= 46.0)));
    let rate = |id: &str| found.figures(id).and_then(|run| level(run, 1_050)?.number("per_second"));
    for (wanted, more, fewer) in [
        (
            "a second instance makes it faster (1,050 users, with the replica)",
            "003/replica-2",
            "003/replica-1",
        ),
        ("the replica makes it faster (1,050 users, two instances)", "003/replica-2", "003/no-replica-2"),
    ] {
        let pair = rate(more).zip(rate(fewer));
        shortfalls
            .check(wanted, pair.map(|(more, fewer)| (format!("{:.2} times", more / fewer), more > fewer)));
    }
    shortfalls
}
