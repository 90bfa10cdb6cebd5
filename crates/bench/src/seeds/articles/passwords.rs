//! 001: registrations, sign-ins, approvals and the audit trail, at 210 requests a second and at saturation.

use serde_json::{Value, json};

use crate::seeds::row::{Row, Scale, of_run};
use crate::seeds::table::{Figures, Found, Shortfalls, Table, ms};

/// Requests a second, and p95 of all requests.
const MODERATE: (f64, f64) = (210.0, 4.88);
const SATURATION: f64 = 467.0;
/// The shares of requests that hash.
const SHARES: [(&str, &str); 2] = [("0.25", "a quarter"), ("0.05", "a twentieth")];
/// Of the raw rate, at saturation.
const ARGON2_MIN: f64 = 0.9;

const TEXT: &str = "\
## 001: sign-ins with passwords on SQLite

A server with SQLite that registers users, signs them in, lets owners of the platform approve organizations, writes an audit trail and manages
webhooks. It had collapsed at 130 requests a second: Argon2 ran on the threads of the runtime, each request wrote an audit row and a \"last seen\", and queues had no
end. Then hashing got its own threads and a limit, audit rows are written up to a second after the reply, \"last seen\" once in five minutes,
and a full server answers 429. The article does not say which share of the requests hashes. With p95 at 4.88 ms and 50 ms a hash, it
is below one in twenty.

Ours: `sarsen bench auth`: registrations and sign-ins (a page and a form each, which hashes), approvals (a user registers an organization, an owner approves
it), and reads of the audit trail. An audit row is in the transaction of what it is about, so it is durable before the
reply. Twice: a quarter of the requests hash, and a twentieth. The hash is Argon2id with the server's own parameters. The raw rate is that of
sign-ins alone, in the same run. There are no webhooks yet, so the mix has none.
";

const DIAGRAMS: &str = "\
### How it is built here

The article draws four pictures of its changes. These are the same four places in Sarsen.

![An event goes from a request through the command and its commit to the log, the audit trail, caches and streams](diagrams/event-flow.svg)

A command writes its row, its audit row and its event in one transaction. After the commit the changed keys drop cached entries and wake streams.

![Commands of many requests wait in a bounded queue, one writer commits them with one flush, then all are answered](diagrams/buffered-writes.svg)

The article's buffer answers before it writes. Here the batch is committed first: a reply means that the write is on the disk.

![The first request of five minutes writes when a user was last seen, the others do not](diagrams/debounce.svg)

When a user was last seen is noted in memory, and written at most once in five minutes.

![Requests without a password pass beside the lane of password hashing, which has its own threads and a bounded queue](diagrams/lanes.svg)

Passwords have a lane of their own: threads with the lowest priority, a queue that is as long as its deadline allows, and 429 when it is full.
";

fn moderate(share: &str) -> String {
    format!("001/moderate/{share}")
}

fn saturation(share: &str) -> String {
    format!("001/saturation/{share}")
}

pub(super) fn ids() -> Vec<String> {
    SHARES.iter().flat_map(|(share, _)| [moderate(share), saturation(share)]).collect()
}

pub(super) fn rows(scale: Scale<'_>) -> Vec<Row> {
    let row = |id: String, words: String| Row {
        id,
        words: scale.words(&words),
        places: Vec::new(),
        needs_postgres: false,
        read: read_auth,
    };
    let of_share = |share: &str| {
        let (rate, _) = MODERATE;
        let mix = format!("auth --hash-share {share}");
        [
            row(
                moderate(share),
                format!(
                    "{mix} {{--rate {rate} --duration 60s|--rate 20 --accounts 4 --duration 1s --warmup 300ms}}"
                ),
            ),
            row(
                saturation(share),
                format!("{mix} {{--duration 15s|--users 4 --accounts 4 --duration 1s --warmup 300ms}}"),
            ),
        ]
    };
    SHARES.iter().flat_map(|(share, _)| of_share(share)).collect()
}

fn read_auth(report: &Value) -> Option<Value> {
    let best = usize::try_from(report["best"].as_u64()?).ok()?;
    let level = report["levels"].get(best)?;
    let mut figures = of_run(level)?;
    let parts = &level["by_hashing"];
    let p95 = |part: &Value| part["latency"]["p95_us"].as_f64().map(|us| us / 1_000.0);
    let count = |part: &Value| part["count"].as_f64();
    let hashing = count(&parts["hashing"]).zip(count(&parts["others"]));
    figures["hashing_p95_ms"] = json!(p95(&parts["hashing"]));
    figures["others_p95_ms"] = json!(p95(&parts["others"]));
    figures["hashing_percent"] = json!(hashing.map(|(hashing, others)| 100.0 * hashing / (hashing + others)));
    figures["hashes_per_second"] = parts["hashing"]["accepted_per_second"].clone();
    figures["argon2_per_second"] = report["argon2_per_second"].clone();
    figures["ended"] = report["ended"].clone();
    Some(figures)
}

/// A line of the table: its name, the article's three cells, and ours.
type Line<'l> = (&'l str, [&'l str; 3], &'l dyn Fn(Figures<'_>) -> String);

pub(super) fn section(found: &Found<'_>) -> String {
    let mut table = Table::new(&[
        "",
        "article: at first",
        "moderate",
        "saturation",
        "ours: moderate, a quarter hashes",
        "moderate, a twentieth",
        "saturation, a quarter",
        "saturation, a twentieth",
    ]);
    let ours: Vec<String> = [moderate as fn(&str) -> String, saturation]
        .iter()
        .flat_map(|id| SHARES.map(|(share, _)| id(share)))
        .collect();
    let lines: [Line<'_>; 9] = [
        ("requests/s", ["135 (unstable)", "210", "467"], &|figures| figures.decimals("per_second", 1)),
        ("p95 of all", ["17,690 ms", "4.88 ms", "2,720 ms"], &|figures| figures.ms("p95_ms")),
        ("p95 of requests that hash", ["–"; 3], &|figures| figures.ms("hashing_p95_ms")),
        ("p95 of the others", ["–"; 3], &|figures| figures.ms("others_p95_ms")),
        ("failed", ["0", "0.00 %", "0.01 %"], &|figures| figures.percent("not_accepted_percent")),
        ("share that hashes", ["–"; 3], &|figures| figures.percent("hashing_percent")),
        ("hashes/s", ["–"; 3], &|figures| figures.decimals("hashes_per_second", 1)),
        ("raw Argon2, hashes/s", ["–"; 3], &|figures| figures.decimals("argon2_per_second", 1)),
        ("limit", ["CPU and database locks", "none", "database connections"], &|figures| {
            figures.text("ended").unwrap_or("none").to_owned()
        }),
    ];
    for (name, article, show) in lines {
        let cell = |id: &String| {
            let [cell] = found.cells(id, |figures| [show(figures)]);
            cell
        };
        let cells = std::iter::once(name.to_owned()).chain(article.map(str::to_owned));
        table.row(cells.chain(ours.iter().map(cell)));
    }
    let cpu = found.cpu_time([
        ("saturation, a quarter hashes", found.figures(&saturation("0.25"))),
        ("saturation, a twentieth", found.figures(&saturation("0.05"))),
    ]);
    let (missing, runs) = (shortfalls(found).render(), found.runs(&ids()));
    format!("{TEXT}\n{}\n{missing}\n{cpu}\n{}\n\n{DIAGRAMS}", table.render(), runs.trim_end())
}

fn shortfalls(found: &Found<'_>) -> Shortfalls {
    let mut shortfalls = Shortfalls::default();
    for (share, in_words) in SHARES {
        let figures = found.figures(&moderate(share));
        let others = figures.and_then(|figures| figures.number("others_p95_ms"));
        let (_, p95) = MODERATE;
        let wanted = format!("p95 of requests that do not hash within {p95} ms, {in_words} hashes");
        shortfalls.check(&wanted, others.map(|found| (ms(found), found <= p95)));
        let failed = figures.and_then(|figures| figures.number("not_accepted"));
        let wanted = format!("nothing fails at 210 requests a second, {in_words} hashes");
        shortfalls.check(&wanted, failed.map(|failed| (format!("{failed:.0} failed"), failed == 0.0)));
    }
    for (share, in_words) in SHARES {
        let figures = found.figures(&saturation(share));
        let rate = figures.and_then(|figures| figures.number("per_second"));
        let wanted = format!("467 requests a second at saturation, {in_words} hashes");
        shortfalls.check(&wanted, rate.map(|rate| (format!("{rate:.0}"), rate >= SATURATION)));
        if share != "0.25" {
            // There other requests are the limit, and passwords wait for nobody.
            continue;
        }
        let of_raw = figures.and_then(|figures| {
            Some(figures.number("hashes_per_second")? / figures.number("argon2_per_second")?)
        });
        let wanted = format!("90 % of the raw Argon2 rate at saturation, {in_words} hashes");
        shortfalls
            .check(&wanted, of_raw.map(|share| (format!("{:.0} %", share * 100.0), share >= ARGON2_MIN)));
    }
    shortfalls
}
