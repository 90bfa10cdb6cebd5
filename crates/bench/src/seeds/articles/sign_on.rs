//! 000: single sign-on, 70 % subscription checks, 20 % device flow, 10 % reads of users, on one core and on all.

use serde_json::{Value, json};

use crate::report::thousands;
use crate::seeds::row::{Row, Scale, of_run};
use crate::seeds::table::{Figures, Found, Shortfalls, Table, ms, percent};

const USERS: [u64; 5] = [1_000, 2_000, 4_000, 6_000, 10_000];
/// Ten minutes at 10,000 users on 4 virtual CPUs: the stage, requests, p50, p99, failed.
const STAGES: [(&str, u64, &str, &str, &str); 4] = [
    ("article: an INSERT in each handler", 963_611, "162 ms", "54,360 ms", "14.2 %"),
    ("article: one task writes", 900_911, "0.70 ms", "56,622 ms", "16.0 %"),
    ("article: it writes batches of 256", 1_094_883, "1.50 ms", "29,597 ms", "14.1 %"),
    ("article: handlers draw the codes", 1_075_562, "1.80 ms", "25,778 ms", "12.4 %"),
];
const STAGE_S: f64 = 600.0;
/// Of hosted services at 500,000 monthly users, in dollars a month, as the article gives them.
const COSTS: [(&str, &str); 4] = [
    ("the article's own server, 1 vCPU, 1 GB", "10"),
    ("Supabase, Firebase Auth", "1,350"),
    ("Clerk, Pro", "10,000"),
    ("Auth0, Okta", "15,000 and more"),
];
const MONTHLY_USERS: f64 = 500_000.0;
const CAPACITY: &str = "000/capacity";
/// A longer p99 than that on one core counts from here on.
const SLOWER: f64 = 1.2;
const P99_MS_MAX: f64 = 1_000.0;
const SPREAD_MORE_MAX: f64 = 2.0;
/// Spreads below this are noise.
const SPREAD_SMALL: f64 = 0.05;

const TEXT: &str = "\
## 000: single sign-on on SQLite, on a small server

A service with axum, sqlx and one SQLite file in WAL mode, loaded by k6 without think time: 70 % `GET /api/subscription`, 20 % device flow (a code,
then a poll), 10 % `GET /api/user`. Its writer confirms a write before it commits the batch. Its target was p99 < 30 s.

Ours: `sarsen bench sso`, the same mix from 2,000 accounts in 20 organizations. On one core the server has core 0 and 1 GiB, and the generator core 1;
the rows say how the memory is limited. On all cores server and generator share them.
";

const PARADOX: &str = "\
**The paradox.** The article's server was steadier on one core than on four, because fewer handlers filled the queue of its
writer: 0.0001 % failed in place of 0.02 %. It shows here if all cores fail more often than one, have a p99 that is more than
1.2 times as long, or a rate that changes from second to second more than twice as much (coefficient of variation).
";

const COST: &str = "\
**What it costs.** The article assumes a request in ten seconds from each user who is online, and a server of 5 dollars a month, 10 with
backups and traffic. `sarsen bench capacity` measures what one core carries with p99 within 250 ms, and takes the same price and the
same ten seconds. Other assumptions are its own, and are printed: 10 % of a day's users are online at the same time, 30 % of a month's users come on a
day, and each of them signs in with a password once. Prices of others are the article's; nobody has checked them here.
";

#[derive(Clone, Copy)]
enum Cores {
    One,
    All,
}

impl Cores {
    const BOTH: [Cores; 2] = [Cores::One, Cores::All];

    fn word(self) -> &'static str {
        match self {
            Cores::One => "one-core",
            Cores::All => "all-cores",
        }
    }
}

fn id(cores: Cores, users: u64) -> String {
    format!("000/{}/{users}", cores.word())
}

pub(super) fn ids() -> Vec<String> {
    let runs = Cores::BOTH.into_iter().flat_map(|cores| USERS.map(|users| id(cores, users)));
    runs.chain([CAPACITY.to_owned()]).collect()
}

pub(super) fn rows(scale: Scale<'_>) -> Vec<Row> {
    let run = |cores: Cores, users: u64| {
        let limits = match cores {
            Cores::One => " --pin --memory-max 1024",
            Cores::All => "",
        };
        let times =
            "{--duration 60s --warmup 10s|--duration 1s --warmup 300ms --accounts 20 --tenants 2}".to_owned();
        let words = scale.words(&format!("sso --users {} {times}{limits}", scale.users(users)));
        Row { id: id(cores, users), words, places: Vec::new(), needs_postgres: false, read: read_run }
    };
    let mut rows: Vec<Row> =
        Cores::BOTH.into_iter().flat_map(|cores| USERS.map(|users| run(cores, users))).collect();
    let words = scale.words(
        "capacity --only sso,login --pin --requests-per-user 0.1 --price 10 {--duration 10s|--duration 300ms --warmup 100ms}",
    );
    let read = read_capacity;
    rows.push(Row { id: CAPACITY.to_owned(), words, places: Vec::new(), needs_postgres: false, read });
    rows
}

fn read_run(report: &Value) -> Option<Value> {
    of_run(report["runs"].get(0)?)
}

fn read_capacity(report: &Value) -> Option<Value> {
    let of = |users: &Value| {
        json!({
            "workload": users["workload"],
            "per_second": users["requests_per_second"],
            "concurrent": users["concurrent"],
            "monthly": users["monthly"],
        })
    };
    let in_users: Vec<Value> = report["in_users"].as_array()?.iter().map(of).collect();
    Some(json!({
        "price": report["price_per_month"],
        "bound_ms": report["bound_ms"],
        "in_users": in_users,
    }))
}

pub(super) fn section(found: &Found<'_>) -> String {
    let tables = [runs(found), stages(found)].map(|table| table.render()).join("\n");
    let (paradox, cost, shown) = (paradox(found).render(), cost(found), found.runs(&ids()));
    let of = |cores| found.figures(&id(cores, 6_000));
    let cpu = found
        .cpu_time([("6,000 users, one core", of(Cores::One)), ("6,000 users, all cores", of(Cores::All))]);
    let missing = shortfalls(found).render();
    format!("{TEXT}\n{tables}\n{PARADOX}\n{paradox}\n{COST}\n{cost}\n{missing}\n{cpu}\n{shown}")
}

fn runs(found: &Found<'_>) -> Table {
    let mut table = Table::new(&[
        "users",
        "server",
        "article: req/s",
        "p50",
        "p99",
        "failed",
        "ours: req/s",
        "p50",
        "p99",
        "failed",
        "spread",
        "cores used",
        "peak memory",
        "limited by",
    ]);
    for cores in Cores::BOTH {
        for users in USERS {
            let article = match (cores, users) {
                (Cores::One, 6_000) => ["1,766", "2.30 ms", "16,086 ms", "0.0001 %"],
                (Cores::All, 6_000) => ["2,304", "–", "11,995 ms", "0.02 %"],
                _ => ["–"; 4],
            };
            let ours = found.cells(&id(cores, users), |figures| {
                let server = figures.text("server").unwrap_or_default();
                let limited = server.split_once(", ").map_or("–", |(_, limit)| limit);
                [
                    figures.count("per_second"),
                    figures.ms("p50_ms"),
                    figures.ms("p99_ms"),
                    figures.percent("not_accepted_percent"),
                    figures.decimals("spread", 3),
                    figures.decimals("server_cores", 2),
                    format!("{} MiB", figures.count("peak_mib")),
                    limited.to_owned(),
                ]
            });
            let server = match cores {
                Cores::One => "one core, 1 GiB (article: 1 vCPU, 1 GB)",
                Cores::All => "all cores (article: 4 vCPU)",
            };
            let cells = [thousands(users), server.to_owned()].into_iter();
            table.row(cells.chain(article.map(str::to_owned)).chain(ours));
        }
    }
    table
}

fn stages(found: &Found<'_>) -> Table {
    let mut table = Table::new(&["10,000 users, all cores", "requests", "req/s", "p50", "p99", "failed"]);
    for (stage, requests, p50, p99, failed) in STAGES {
        let rate = thousands((requests as f64 / STAGE_S).round() as u64);
        let requests = thousands(requests);
        table.row([stage, &requests, &rate, p50, p99, failed]);
    }
    let ours = found.cells(&id(Cores::All, 10_000), |figures| {
        [
            figures.count("count"),
            figures.count("per_second"),
            figures.ms("p50_ms"),
            figures.ms("p99_ms"),
            figures.percent("not_accepted_percent"),
        ]
    });
    table.row(std::iter::once("ours, one minute".to_owned()).chain(ours));
    table
}

/// The runs with the same users on one core and on all.
fn pair<'a>(found: &Found<'a>, users: u64) -> Option<(Figures<'a>, Figures<'a>)> {
    Some((found.figures(&id(Cores::One, users))?, found.figures(&id(Cores::All, users))?))
}

fn paradox(found: &Found<'_>) -> Table {
    let mut table = Table::new(&[
        "users",
        "req/s, all cores by one core",
        "p99, all by one",
        "failed: one core, all cores",
        "spread: one core, all cores",
        "does it show?",
    ]);
    for users in USERS {
        let Some((one, all)) = pair(found, users) else {
            table.row([&thousands(users), "not run yet", "", "", "", ""]);
            continue;
        };
        let ratio = |name: &str| match (all.number(name), one.number(name)) {
            (Some(all), Some(one)) if one > 0.0 => format!("{:.2}", all / one),
            _ => "–".to_owned(),
        };
        let both = |cell: &dyn Fn(Figures<'_>) -> String| format!("{}, {}", cell(one), cell(all));
        table.row([
            thousands(users),
            ratio("per_second"),
            ratio("p99_ms"),
            both(&|figures| figures.percent("not_accepted_percent")),
            both(&|figures| figures.decimals("spread", 3)),
            if is_steadier_on_one(one, all) { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table
}

fn is_steadier_on_one(one: Figures<'_>, all: Figures<'_>) -> bool {
    let of = |figures: Figures<'_>, name: &str| figures.number(name).unwrap_or(0.0);
    let is_more = |name: &str, times: f64| of(all, name) > times * of(one, name);
    is_more("not_accepted_percent", 1.0)
        || is_more("p99_ms", SLOWER)
        || (of(all, "spread") > SPREAD_SMALL && is_more("spread", SPREAD_MORE_MAX))
}

fn cost(found: &Found<'_>) -> String {
    let mut table = Table::new(&["at 500,000 monthly users", "dollars a month"]);
    for (service, dollars) in COSTS {
        table.row([service, dollars]);
    }
    let Some(figures) = found.figures(CAPACITY) else {
        table.row(["ours, on one core", "not run yet"]);
        return table.render();
    };
    let mut text = String::new();
    for part in figures.list("in_users") {
        let workload = part.text("workload").unwrap_or_default();
        let (rate, monthly) = (part.count("per_second"), part.count("monthly"));
        text.push_str(&format!("- {workload}: {rate} a second on one core are {monthly} monthly users.\n"));
    }
    let monthly = figures.list("in_users").filter_map(|part| part.number("monthly")).fold(f64::MAX, f64::min);
    let machines = (MONTHLY_USERS / monthly).ceil().max(1.0);
    let dollars = machines * figures.number("price").unwrap_or(0.0);
    let server = if machines > 1.0 { "servers" } else { "server" };
    table.row([format!("ours, on {machines:.0} such {server}"), thousands(dollars.round() as u64)]);
    format!("{}\n{text}", table.render())
}

fn shortfalls(found: &Found<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    let all: Option<Vec<_>> = Cores::BOTH
        .into_iter()
        .flat_map(|cores| USERS.map(|users| id(cores, users)))
        .map(|id| found.figures(&id))
        .collect();
    let failed = all.map(|all| all.iter().filter_map(|figures| figures.number("not_accepted")).sum::<f64>());
    shortfalls.check(
        "no request fails, up to 10,000 users",
        failed.map(|failed| (format!("{failed:.0} failed"), failed == 0.0)),
    );
    for cores in Cores::BOTH {
        let p99 = found.figures(&id(cores, 10_000)).and_then(|figures| figures.number("p99_ms"));
        let wanted = format!("p99 below 1 s at 10,000 users ({})", cores.word());
        shortfalls.check(&wanted, p99.map(|p99| (ms(p99), p99 < P99_MS_MAX)));
    }
    let pairs: Option<Vec<_>> = USERS.iter().map(|users| pair(found, *users)).collect();
    let shows = pairs.map(|pairs| pairs.iter().filter(|(one, all)| is_steadier_on_one(*one, *all)).count());
    let paradox = shows.map(|shows| (format!("it shows in {shows} of {} rows", USERS.len()), shows == 0));
    shortfalls.check("the paradox does not show", paradox);
    let limited = found.figures(&id(Cores::One, 6_000)).map(|figures| {
        let server = figures.text("server").unwrap_or_default();
        let failed = figures.number("not_accepted_percent").unwrap_or(0.0);
        (format!("{server}; {} failed", percent(failed)), !server.contains("not limited"))
    });
    shortfalls.check("1 GiB is a limit of the system at 6,000 users", limited);
    shortfalls
}
