//! `sso --tokens`: the CPU of `GET /api/subscription` with many live tokens, which no cache may be large enough for.
//!
//! The accounts, their grants and the tokens are made directly in the database while no server runs. For each number of
//! tokens a server starts and gets each token once. Then tokens are drawn by the skew until each could have come once
//! more, and the cost is measured: first that, then that of a few tokens over and over, the hot read.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::cli::{Skew, SsoArgs, TokenArgs};
use crate::error::Error;
use crate::http::{RequestDraft, Response, Target};
use crate::launcher::Launcher;
use crate::load::{Plan, Random, VirtualUser, Workload, measure};
use crate::machine::ensure_descriptors;
use crate::measure::{MemoryUse, ProcessUse, RequestKind, Verdict};
use crate::report::{RunReport, print_result, progress, thousands, write_json};
use crate::subprocess::Outcome;
use crate::workloads::floor::TIMEOUT;
use crate::workloads::servers::{ServerUnderTest, TestBed};

/// Grants of each account: a million tokens belong to 200,000 users.
const GRANTS_EACH: usize = 5;
const USERS_DEFAULT: usize = 64;
/// The first level of `--walk`.
const WALK_FROM: usize = 1_000;
/// Tokens of the hot read.
const HOT: usize = 64;
const MEASURED_MAX: Duration = Duration::from_secs(10);
const HOT_MEASURED: Duration = Duration::from_secs(4);
/// The warm-up ends after this time in any case: tokens live ten minutes, and signing a million takes more than one.
const WARM_UP_MAX: Duration = Duration::from_secs(480);
const WARM_UP_SLICE: Duration = Duration::from_secs(1);
/// Bars: uniform and Zipf, as multiples of the CPU of the hot read; the growth by a doubling; memory over the budget.
const UNIFORM_RATIO_MAX: f64 = 8.0;
const ZIPF_RATIO_MAX: f64 = 3.0;
const DOUBLING_MAX: f64 = 1.5;
const MEMORY_FACTOR: f64 = 1.3;

/// The JSON of `sarsen bench sso --tokens`.
#[derive(Serialize)]
pub struct TokensReport {
    pub skew: Skew,
    pub cache_memory_bytes: u64,
    pub fill_s: f64,
    pub levels: Vec<TokensLevel>,
}

/// One number of tokens.
#[derive(Debug, Clone, Serialize)]
pub struct TokensLevel {
    pub tokens: usize,
    pub accounts: usize,
    pub cpu_us: f64,
    pub hot_cpu_us: f64,
    /// `cpu_us` over `hot_cpu_us`.
    pub ratio: f64,
    /// By how much a doubling of the tokens has raised the ratio, since the level before.
    pub per_doubling: Option<f64>,
    pub per_second: f64,
    pub warm_up_s: f64,
    /// Before the first request, and at the end.
    pub idle_bytes: u64,
    pub resident_bytes: u64,
    pub peak_bytes: u64,
    /// They invalidate the figures.
    pub not_accepted: u64,
}

/// The tokens of a file, one a line, and the request around them.
struct Tokens {
    text: Vec<u8>,
    /// Where each token begins; one more for the end.
    begins: Vec<usize>,
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// Requests with tokens: each once, then by the skew.
struct TokenLoad {
    tokens: Rc<Tokens>,
    /// The first so many are used.
    count: usize,
    skew: Skew,
    /// Requests begun.
    begun: Cell<usize>,
}

/// `sarsen bench sso --tokens`.
pub async fn many_tokens(args: &SsoArgs, wanted: &TokenArgs, launcher: &Launcher) -> Result<(), Error> {
    let tools = launcher.for_tools()?;
    let users = args.users.unwrap_or(USERS_DEFAULT);
    ensure_descriptors(users)?;
    let test_bed = TestBed::open(&args.common, launcher, true)?;
    let counts = wanted.levels()?;
    let most = counts.last().copied().unwrap_or(WALK_FROM);
    let filled = Filled::make(&test_bed, &tools, args.common.database.as_deref(), most).await?;
    let mut levels: Vec<TokensLevel> = Vec::new();
    for count in counts {
        let level = filled.level(args, wanted, &test_bed, &tools, users, count).await?;
        let level =
            TokensLevel { per_doubling: levels.last().map(|before| level.per_doubling(before)), ..level };
        print_result(&level.line(wanted, levels.is_empty()));
        levels.push(level);
    }
    let report = TokensReport {
        skew: wanted.skew,
        cache_memory_bytes: wanted.cache_memory(),
        fill_s: filled.seconds,
        levels,
    };
    print_result(&report.judge());
    match &args.common.json {
        Some(path) => write_json(path, &report),
        None => Ok(()),
    }
}

impl TokenArgs {
    pub fn cache_memory(&self) -> u64 {
        self.cache_memory << 20
    }

    /// The numbers of tokens, smallest first.
    fn levels(&self) -> Result<Vec<usize>, Error> {
        let Some(most) = self.tokens else {
            return Err(Error::Usage("--walk needs --tokens".to_owned()));
        };
        if !self.walk {
            return Ok(vec![most]);
        }
        let mut levels: Vec<usize> = Vec::new();
        let mut next = self.walk_from.unwrap_or(WALK_FROM);
        while next < most {
            levels.push(next);
            next *= 2;
        }
        levels.push(most);
        Ok(levels)
    }
}

/// A filled database.
struct Filled {
    database: String,
    key_file: PathBuf,
    issuer: String,
    grants_file: PathBuf,
    tokens_file: PathBuf,
    seconds: f64,
}

impl Filled {
    /// Creates an installation with accounts and grants for so many tokens.
    async fn make(
        test_bed: &TestBed<'_>,
        tools: &Launcher,
        database: Option<&str>,
        tokens: usize,
    ) -> Result<Filled, Error> {
        let (demo, _) = test_bed.demo().await?;
        let said = |pointer: &str| demo.ready_text(pointer).map(str::to_owned);
        let (issuer, organization, client) =
            (said("/issuer")?, said("/organization/slug")?, said("/clients/cli/client_id")?);
        demo.stop().await?;
        let file = || format!("sqlite:{}", test_bed.data().join("demo.db").display());
        let filled = Filled {
            database: database.map_or_else(file, str::to_owned),
            key_file: test_bed.data().join("demo.key"),
            issuer,
            grants_file: test_bed.folder().join("grants"),
            tokens_file: test_bed.folder().join("tokens"),
            seconds: 0.0,
        };
        progress(&format!("set-up: creating {} accounts", thousands(accounts_for(tokens) as u64)));
        let arguments = [
            "fill".to_owned(),
            "--database".to_owned(),
            filled.database.clone(),
            "--org".to_owned(),
            organization,
            "--users".to_owned(),
            accounts_for(tokens).to_string(),
            "--grants".to_owned(),
            GRANTS_EACH.to_string(),
            "--client".to_owned(),
            client,
            "--grants-file".to_owned(),
            text_of(&filled.grants_file),
        ];
        let seconds = run(tools, "fill", &arguments).await?;
        Ok(Filled { seconds, ..filled })
    }

    /// Signs so many tokens and reads them.
    async fn sign(&self, tools: &Launcher, count: usize) -> Result<Tokens, Error> {
        progress(&format!("set-up: signing {} tokens", thousands(count as u64)));
        let arguments = [
            "sign".to_owned(),
            "--database".to_owned(),
            self.database.clone(),
            "--key-file".to_owned(),
            text_of(&self.key_file),
            "--issuer".to_owned(),
            self.issuer.clone(),
            "--grants-file".to_owned(),
            text_of(&self.grants_file),
            "--tokens".to_owned(),
            count.to_string(),
            "--out".to_owned(),
            text_of(&self.tokens_file),
        ];
        run(tools, "sign", &arguments).await?;
        let text = std::fs::read(&self.tokens_file).map_err(Error::io("cannot read the tokens"))?;
        Tokens::new(text, &Target::parse(&self.issuer)?.host)
    }

    /// Measures one number of tokens on a server of its own.
    async fn level(
        &self,
        args: &SsoArgs,
        wanted: &TokenArgs,
        test_bed: &TestBed<'_>,
        tools: &Launcher,
        users: usize,
        count: usize,
    ) -> Result<TokensLevel, Error> {
        let tokens = Rc::new(self.sign(tools, count).await?);
        if tokens.len() < count {
            return Err(Error::set_up("sign", format!("{} tokens of {count}", tokens.len())));
        }
        let server = self.serve(wanted, test_bed).await?;
        let idle = memory(&server);
        let load =
            Rc::new(TokenLoad { tokens: tokens.clone(), count, skew: wanted.skew, begun: Cell::new(0) });
        let plan = |warm_up, duration, part: u64| Plan {
            users,
            think: Duration::ZERO,
            rate: None,
            warm_up,
            duration,
            timeout: TIMEOUT,
            // With the same seed each part would draw the same tokens, and leave what a first request of a user in a while
            // costs to the part that is measured.
            seed: args.common.seed.wrapping_add(part),
        };
        progress(&format!("{} tokens: each once", thousands(count as u64)));
        let began = Instant::now();
        let mut parts = 0..;
        let mut plan_part = |warm_up, duration| plan(warm_up, duration, parts.next().unwrap_or_default());
        while load.begun.get() < 2 * count && began.elapsed() < WARM_UP_MAX {
            let slice = plan_part(Duration::ZERO, WARM_UP_SLICE);
            let run = measure("sso: warm-up", &server.targets, &server.monitored, &slice, load.clone()).await;
            if run.not_accepted() > 0 {
                let causes = run.failures.first().map_or("refused", |row| row.cause.as_str()).to_owned();
                return Err(Error::set_up("warm-up", causes));
            }
        }
        let warm_up_s = began.elapsed().as_secs_f64();
        if load.begun.get() < count {
            let asked = thousands(load.begun.get() as u64);
            let text = format!(
                "only {asked} tokens were asked once in {warm_up_s:.0} s; use fewer, or a faster machine"
            );
            return Err(Error::set_up("warm-up", text));
        }
        let measured = plan_part(Duration::from_secs(1), args.duration.min(MEASURED_MAX));
        let run = measure("sso: tokens", &server.targets, &server.monitored, &measured, load.clone()).await;
        let resident = memory(&server);
        let hot =
            Rc::new(TokenLoad { tokens, count: HOT.min(count), skew: Skew::Uniform, begun: Cell::new(0) });
        let short = plan_part(Duration::from_secs(1), HOT_MEASURED.min(args.duration));
        let hot = measure("sso: hot read", &server.targets, &server.monitored, &short, hot).await;
        server.stop().await?;
        let (cpu_us, hot_cpu_us) = (cpu_us(&run)?, cpu_us(&hot)?);
        Ok(TokensLevel {
            tokens: count,
            accounts: accounts_for(count),
            cpu_us,
            hot_cpu_us,
            ratio: cpu_us / hot_cpu_us,
            per_doubling: None,
            per_second: run.total.accepted_per_second,
            warm_up_s,
            idle_bytes: idle.map_or(0, |memory| memory.resident_bytes),
            resident_bytes: resident.map_or(0, |memory| memory.resident_bytes),
            peak_bytes: run.server_memory.map_or(0, |memory| memory.peak_bytes),
            not_accepted: run.not_accepted() + hot.not_accepted(),
        })
    }

    async fn serve(&self, wanted: &TokenArgs, test_bed: &TestBed<'_>) -> Result<ServerUnderTest, Error> {
        let memory = ["--cache-memory".to_owned(), wanted.cache_memory().to_string()];
        let (target, process) =
            test_bed.instance_with("tokens", &self.database, None, &self.issuer, &memory).await?;
        Ok(test_bed.under_test("sarsen", target, None, process))
    }
}

/// Runs a tool to its end. Returns its seconds.
async fn run(tools: &Launcher, name: &str, arguments: &[String]) -> Result<f64, Error> {
    let done = tools.run(name, arguments, |_| false).await?;
    let line = if let Outcome::Completed(line) = done.outcome { line } else { Value::Null };
    line["seconds"].as_f64().ok_or_else(|| Error::set_up(name.to_owned(), format!("unexpected JSON: {line}")))
}

fn text_of(path: &Path) -> String {
    path.display().to_string()
}

fn accounts_for(tokens: usize) -> usize {
    tokens.div_ceil(GRANTS_EACH)
}

fn memory(server: &ServerUnderTest) -> Option<MemoryUse> {
    ProcessUse::sum_now(&server.monitored.pids).memory
}

fn cpu_us(run: &RunReport) -> Result<f64, Error> {
    let measured = run.server_cpu_us_per_request.filter(|cpu| *cpu > 0.0);
    measured.ok_or_else(|| Error::set_up(run.workload.clone(), "no CPU time was measured".to_owned()))
}

impl Tokens {
    fn new(text: Vec<u8>, host: &str) -> Result<Tokens, Error> {
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let begins = std::iter::once(0).chain(ends).collect();
        const MARK: &str = "TOKEN";
        let request =
            RequestDraft::get("/api/subscription").header("Authorization", format!("Bearer {MARK}"));
        let request = String::from_utf8_lossy(&request.encode(host)).into_owned();
        let parts = request.split_once(MARK);
        let (head, tail) =
            parts.ok_or_else(|| Error::set_up("request", "no place for a token".to_owned()))?;
        Ok(Tokens { text, begins, head: head.as_bytes().to_vec(), tail: tail.as_bytes().to_vec() })
    }

    fn len(&self) -> usize {
        self.begins.len() - 1
    }

    fn request(&self, number: usize) -> Vec<u8> {
        let token = &self.text[self.begins[number]..self.begins[number + 1] - 1];
        [&self.head, token, &self.tail].concat()
    }
}

impl TokenLoad {
    fn next(&self, random: &mut Random) -> usize {
        let begun = self.begun.get();
        self.begun.set(begun + 1);
        if begun < self.count { begun } else { self.skew.draw(self.count, random) }
    }
}

impl Workload for TokenLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let request = self.tokens.request(self.next(&mut user.random));
        let by_status = |response: &Response<'_>| Verdict::by_status(response, 200);
        user.send(RequestKind::Subscription, &request, intended, by_status).await
    }
}

impl Skew {
    /// One of `count` tokens.
    pub fn draw(self, count: usize, random: &mut Random) -> usize {
        match self {
            Skew::Uniform => random.below(count as u32) as usize,
            // The rank r has a probability of about 1/r. A walk of the whole table separates popular tokens.
            Skew::Zipf => {
                let rank = ((count as f64 + 1.0).powf(random.unit()) - 1.0) as usize;
                const STEP: usize = 7_368_787;
                rank.min(count - 1) * STEP % count
            }
        }
    }

    fn ratio_max(self) -> f64 {
        match self {
            Skew::Uniform => UNIFORM_RATIO_MAX,
            Skew::Zipf => ZIPF_RATIO_MAX,
        }
    }
}

impl TokensLevel {
    fn per_doubling(&self, before: &TokensLevel) -> f64 {
        let doublings = (self.tokens as f64 / before.tokens as f64).log2();
        (self.ratio / before.ratio).powf(1.0 / doublings.max(f64::EPSILON))
    }

    fn line(&self, wanted: &TokenArgs, is_first: bool) -> String {
        let mut text = String::new();
        if is_first {
            text = format!(
                "\nsso: tokens drawn {}, caches of {} MiB, server on one core\n{:>11}{:>10}{:>9}{:>8}{:>8}{:>12}{:>10}{:>11}{:>9}\n",
                wanted.skew.label(),
                wanted.cache_memory,
                "tokens",
                "accounts",
                "CPU us",
                "hot us",
                "x hot",
                "x doubling",
                "req/s",
                "resident",
                "idle",
            );
        }
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        text.push_str(&format!(
            "{:>11}{:>10}{:>9.1}{:>8.1}{:>8.2}{:>12}{:>10}{:>11}{:>9}\n",
            thousands(self.tokens as u64),
            thousands(self.accounts as u64),
            self.cpu_us,
            self.hot_cpu_us,
            self.ratio,
            self.per_doubling.map_or(String::new(), |factor| format!("{factor:.2}")),
            thousands(self.per_second.round() as u64),
            mebibytes(self.resident_bytes),
            mebibytes(self.idle_bytes),
        ));
        if self.not_accepted > 0 {
            text.push_str(&format!(
                "  INVALID: {} requests were not accepted\n",
                thousands(self.not_accepted)
            ));
        }
        text
    }
}

impl TokensReport {
    fn judge(&self) -> String {
        let held = |is_held: bool| if is_held { "held" } else { "MISSED" };
        let highest = |value: fn(&TokensLevel) -> f64| self.levels.iter().map(value).fold(0.0, f64::max);
        let ratio = highest(|level| level.ratio);
        let doubling = highest(|level| level.per_doubling.unwrap_or(0.0));
        let over = |level: &TokensLevel| {
            level.resident_bytes as f64
                - level.idle_bytes as f64
                - MEMORY_FACTOR * self.cache_memory_bytes as f64
        };
        let fits = self.levels.iter().all(|level| over(level) <= 0.0);
        format!(
            "highest ratio {ratio:.2} <= {}: {}; a doubling {doubling:.2} <= {DOUBLING_MAX}: {}; resident <= idle + {MEMORY_FACTOR} x \
             caches: {}\n",
            self.skew.ratio_max(),
            held(ratio <= self.skew.ratio_max()),
            held(doubling <= DOUBLING_MAX),
            held(fits),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(skew: Skew, count: usize) -> Vec<u32> {
        let mut random = Random::new(1, 0);
        let mut counts = vec![0; count];
        (0..100_000).for_each(|_| counts[skew.draw(count, &mut random)] += 1);
        counts.sort_unstable_by(|one, other| other.cmp(one));
        counts
    }

    #[test]
    fn a_uniform_draw_takes_all_alike_and_a_zipf_draw_the_first_ones() {
        let uniform = counts(Skew::Uniform, 100);
        assert!(uniform[0] < 1_200 && uniform[99] > 800, "{uniform:?}");
        let zipf = counts(Skew::Zipf, 100);
        assert!(zipf[0] > 12_000 && zipf[99] > 100 && zipf[99] < 400, "{zipf:?}");
        assert_eq!(counts(Skew::Zipf, 1), [100_000]);
    }

    #[test]
    fn a_request_has_its_token() {
        let tokens = Tokens::new(b"one\ntwo\n".to_vec(), "host.test").expect("two tokens");
        assert_eq!(tokens.len(), 2);
        let text = String::from_utf8(tokens.request(1)).expect("text");
        assert!(text.contains("Authorization: Bearer two\r\n"), "{text}");
    }

    #[test]
    fn a_walk_doubles_up_to_its_end() {
        let args = |tokens, walk, walk_from| TokenArgs {
            tokens,
            walk,
            walk_from,
            skew: Skew::Uniform,
            cache_memory: 256,
        };
        assert_eq!(args(Some(5_000), true, None).levels().ok(), Some(vec![1_000, 2_000, 4_000, 5_000]));
        assert_eq!(args(Some(4_000), true, Some(2_000)).levels().ok(), Some(vec![2_000, 4_000]));
        assert_eq!(args(Some(7), false, None).levels().ok(), Some(vec![7]));
    }
}
