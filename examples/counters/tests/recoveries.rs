//! Open pages while PostgreSQL loses what it has promised to nobody: its disk is put back, its machine loses power, one of its
//! processes is killed. It gives ids again then, and a page must not take what is true for something old.
//!
//! Two instances on one server, through PgBouncer, and a page at each of them with the client of this checkout.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::testing::own_server::{OwnServer, free_port};
use store::testing::pooler::Pooler;
use store::testing::say_skipped;

/// Faults of a kind; the soak has more.
const ROUNDS: usize = 1;
const SOAK_ROUNDS: usize = 20;
/// From `/readyz` on, or after a `bye`, whose pause spreads pages over some seconds, from the page's stream on. Judged in the soak
/// alone, where a test has the machine for itself.
const RIGHT_WITHIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(90);

fn rounds() -> usize {
    if std::env::var_os("SARSEN_SOAK").is_some() { SOAK_ROUNDS } else { ROUNDS }
}

#[test]
fn soak_pages_are_right_after_a_disk_was_put_back() {
    let Some(mut site) = Site::start() else { return };
    let backup = site.server.copy(false);
    let took = (0..rounds()).map(|round| {
        (0..20).for_each(|_| site.increment_and_see());
        site.stop_instances("-TERM");
        site.server.stop("fast");
        site.server.put_back(&backup);
        site.server.resume();
        site.start_instances();
        site.see_what_is_true(round)
    });
    println!("{}", summary(took.collect()));
}

#[test]
fn soak_pages_are_right_after_a_power_failure() {
    let Some(mut site) = Site::start() else { return };
    let took = (0..rounds()).map(|round| {
        site.increment_and_see();
        waste_ids(&site.server);
        site.stop_instances("-KILL");
        site.server.restart("immediate");
        site.start_instances();
        site.see_what_is_true(round)
    });
    println!("{}", summary(took.collect()));
}

#[test]
fn soak_pages_are_right_after_a_process_of_the_database_was_killed() {
    let Some(mut site) = Site::start() else { return };
    let took = (0..rounds()).map(|round| {
        site.increment_and_see();
        waste_ids(&site.server);
        site.server.kill_session();
        site.see_what_is_true(round)
    });
    println!("{}", summary(took.collect()));
}

#[test]
fn soak_pages_are_right_after_a_clean_restart_of_the_database() {
    let Some(mut site) = Site::start() else { return };
    let took = (0..rounds()).map(|round| {
        site.increment_and_see();
        site.server.restart("fast");
        site.see_what_is_true(round)
    });
    println!("{}", summary(took.collect()));
}

/// Assigns ids to transactions that are rolled back: the next ones after a crash get them again.
fn waste_ids(server: &OwnServer) {
    server.sql(
        "DO $$ BEGIN FOR i IN 1..30 LOOP BEGIN PERFORM pg_current_xact_id(); CREATE TABLE t (); RAISE 'no';
         EXCEPTION WHEN OTHERS THEN END; END LOOP; END $$",
    );
}

fn summary(mut took: Vec<Duration>) -> String {
    took.sort();
    let at =
        |part: usize| took.get((took.len() * part / 100).min(took.len() - 1)).copied().unwrap_or_default();
    format!("{} rounds, right after {:?} (median), {:?} (longest)", took.len(), at(50), at(100))
}

/// A database, its pooler, two instances and two pages.
struct Site {
    // The first to end.
    pages: Pages,
    instances: Vec<Running>,
    addresses: [String; 2],
    database: String,
    folder: tempfile::TempDir,
    token: String,
    counter: i64,
    /// Whether the instances have told their pages when to come back.
    said_bye: bool,
    _pooler: Pooler,
    server: OwnServer,
}

impl Site {
    fn start() -> Option<Site> {
        let server = OwnServer::start()?;
        let Some(pooler) = Pooler::start(&server) else {
            say_skipped("pages behind a pooler: there is no pgbouncer");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let addresses = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let database = pooler.url(&server);
        let instances =
            addresses.iter().map(|address| start_instance(address, &database, folder.path())).collect();
        addresses.iter().for_each(|address| _ = until_ready(address));
        let registered = call(&addresses[0], "", "register", &json!({ "name": "Ada" })).expect("registers");
        let token = registered["token"].as_str().expect("a token").to_owned();
        let made =
            call(&addresses[0], &token, "create_counter", &json!({ "name": "apples" })).expect("makes one");
        let counter = made["id"].as_i64().expect("an id");
        let Some(pages) = Pages::open(&token, counter, &addresses) else {
            say_skipped("open pages: there is no Node.js");
            return None;
        };
        let mut site = Site {
            pages,
            instances,
            addresses,
            database,
            folder,
            token,
            counter,
            said_bye: false,
            _pooler: pooler,
            server,
        };
        site.increment_and_see();
        Some(site)
    }

    fn stop_instances(&mut self, signal: &str) {
        self.said_bye = signal == "-TERM";
        for instance in self.instances.drain(..) {
            instance.end(signal);
        }
    }

    fn start_instances(&mut self) {
        let start = |address: &String| start_instance(address, &self.database, self.folder.path());
        self.instances = self.addresses.iter().map(start).collect();
    }

    /// Increments by either instance until that is acknowledged. The new value.
    fn increment(&self) -> i64 {
        let began = Instant::now();
        loop {
            for address in &self.addresses {
                if let Some(counter) = call(address, &self.token, "increment", &json!({ "id": self.counter }))
                {
                    return counter["value"].as_i64().expect("a number");
                }
            }
            assert!(began.elapsed() < PATIENCE, "nothing can be incremented");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn increment_and_see(&mut self) {
        let value = self.increment();
        self.pages.until_shown(value);
    }

    /// Waits until the site is ready, writes, and returns how long after it was ready the pages showed what is true.
    fn see_what_is_true(&mut self, round: usize) -> Duration {
        // A server that has not noticed yet is ready: the first write that succeeds is after the recovery.
        self.increment();
        let ready = self.addresses.iter().map(|address| until_ready(address)).max().expect("two");
        let value = self.increment();
        let (shown, opened) = self.pages.until_shown(value);
        let from = if self.said_bye { ready.max(opened) } else { ready };
        let took = shown.saturating_duration_since(from);
        let is_judged = rounds() == SOAK_ROUNDS;
        assert!(!is_judged || took <= RIGHT_WITHIN, "round {round}: right after {took:?}");
        self.increment_and_see();
        assert_eq!(self.pages.versions_back(), Vec::<String>::new(), "round {round}");
        took
    }
}

/// Two pages, and what they have shown.
struct Pages {
    _node: Running,
    seen: Arc<Mutex<[Seen; 2]>>,
}

/// What one page has seen.
#[derive(Default)]
struct Seen {
    shown: Option<(i64, Instant)>,
    stream_opened: Option<Instant>,
    /// The greatest number of each epoch.
    numbers: HashMap<String, String>,
    back: Vec<String>,
}

impl Pages {
    fn open(token: &str, counter: i64, addresses: &[String; 2]) -> Option<Pages> {
        let node = std::env::var_os("SARSEN_NODE").unwrap_or_else(|| "node".into());
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages.mjs");
        let mut command = Command::new(node);
        command.arg(script).args([token, &counter.to_string()]);
        command.args(addresses.iter().map(|address| format!("http://{address}")));
        let mut node = Running(command.stdout(Stdio::piped()).spawn().ok()?);
        let lines = BufReader::new(node.0.stdout.take().expect("a pipe")).lines();
        let seen = Arc::new(Mutex::new([Seen::default(), Seen::default()]));
        let noted = seen.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let line: Value = serde_json::from_str(&line).expect("JSON");
                let page = usize::from(line["page"] == 1);
                noted.lock().expect("a lock")[page].note(&line);
            }
        });
        Some(Pages { _node: node, seen })
    }

    /// Waits until both show this: when the later one did, and when its stream was opened.
    fn until_shown(&self, value: i64) -> (Instant, Instant) {
        let began = Instant::now();
        loop {
            let seen = self.seen.lock().expect("a lock");
            let times = seen.each_ref().map(|page| {
                page.shown.filter(|(shown, _)| *shown == value).map(|(_, at)| at).zip(page.stream_opened)
            });
            if let [Some(one), Some(other)] = times {
                return one.max(other);
            }
            let shown = seen.each_ref().map(|page| page.shown.map(|(value, _)| value));
            drop(seen);
            assert!(began.elapsed() < PATIENCE, "the pages show {shown:?}, and {value} is true");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn versions_back(&self) -> Vec<String> {
        self.seen.lock().expect("a lock").iter().flat_map(|page| page.back.clone()).collect()
    }
}

impl Seen {
    fn note(&mut self, line: &Value) {
        if let Some(value) = line["value"].as_i64() {
            self.shown = Some((value, Instant::now()));
        }
        if line["stream"] == 200 {
            self.stream_opened = Some(Instant::now());
        }
        if let Some((epoch, number)) = line["version"].as_str().and_then(|version| version.split_once('.')) {
            let greatest = self.numbers.entry(epoch.to_owned()).or_default();
            if *number < **greatest {
                self.back.push(format!("{epoch}: {number} after {greatest}"));
            }
            *greatest = number.to_owned();
        }
    }
}

/// A process that ends with this value.
struct Running(Child);

impl Running {
    fn end(mut self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(kill.expect("kill runs").success());
        self.0.wait().expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_instance(address: &str, database: &str, folder: &Path) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counters"));
    command.args(["--listen", address, "--database", database]).current_dir(folder);
    let mut running =
        Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("counters starts"));
    let said = BufReader::new(running.0.stdout.take().expect("a pipe")).lines().next();
    said.expect("it says where it answers").expect("reads");
    running
}

/// When it was first seen to be ready.
fn until_ready(address: &str) -> Instant {
    let began = Instant::now();
    loop {
        if exchange(address, "GET /readyz HTTP/1.1\r\n", "").is_some_and(|(status, _)| status == 200) {
            return Instant::now();
        }
        assert!(began.elapsed() < PATIENCE, "{address} is not ready");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The value of an answer, if the call has succeeded.
fn call(address: &str, token: &str, name: &str, arguments: &Value) -> Option<Value> {
    let head = match token {
        "" => format!("POST /rpc/{name} HTTP/1.1\r\n"),
        token => format!("POST /rpc/{name} HTTP/1.1\r\nauthorization: Bearer {token}\r\n"),
    };
    let (status, body) = exchange(address, &head, &arguments.to_string())?;
    (status == 200).then(|| serde_json::from_str::<Value>(&body).expect("JSON")["value"].clone())
}

/// Status and body.
fn exchange(address: &str, head: &str, body: &str) -> Option<(u16, String)> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let length = body.len();
    let rest = format!("host: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    socket.write_all(format!("{head}{rest}").as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}
