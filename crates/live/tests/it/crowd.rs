//! Thousands of streams: restarts, an instance that is killed behind nginx, and what an idle stream costs.

use crate::app::{serve_with, start};
use crate::client::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::testing::{Kind, TestPlace, own_server::free_port, say_skipped};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Subscriptions of a stream.
const SUBSCRIPTIONS: i64 = 5;
/// Before a client comes back that was not asked to wait.
const RETRY: Duration = Duration::from_millis(200);
/// Longer than everything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a client has seen.
#[derive(Default)]
struct Seen {
    /// By counter: what the next stream says that it holds, its digest, and the value.
    held: BTreeMap<i64, (String, String, i64)>,
    /// Counters of which the newest stream has said nothing yet.
    missing: BTreeSet<i64>,
    /// The events of the newest stream.
    events: Vec<String>,
    ended_at: Option<Instant>,
    /// From the end of a stream until the next one has said something of each counter.
    back_after: Option<Duration>,
}

impl Seen {
    fn take(&mut self, name: &str, id: &str, data: &Value) {
        assert_ne!(name, "error", "{data}");
        let keys = data["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for counter in keys.filter_map(|key| key.parse().ok()) {
            let (digest, value) = match name {
                "value" => (text(&data["digest"]), data["value"]["value"].as_i64().expect("a value")),
                _ => {
                    self.held.get(&counter).map(|(_, digest, value)| (digest.clone(), *value)).expect("held")
                }
            };
            self.held.insert(counter, (format!("{id}/{digest}"), digest, value));
            self.missing.remove(&counter);
        }
        if matches!(name, "value" | "same") {
            self.events.push(name.to_owned());
        }
        if self.missing.is_empty() && !self.held.is_empty() {
            self.back_after = self.ended_at.take().map(|at| at.elapsed()).or(self.back_after);
        }
    }

    fn value(&self, counter: i64) -> Option<i64> {
        self.held.get(&counter).map(|(_, _, value)| *value)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A client that follows the protocol: it comes back after the pause that it was asked for, with what it holds.
struct Watcher {
    address: SocketAddr,
    user: String,
    counters: Vec<i64>,
    seen: Arc<Mutex<Seen>>,
}

impl Watcher {
    async fn run(self) {
        loop {
            let pause = self.follow().await.unwrap_or(RETRY);
            {
                let mut seen = self.seen.lock();
                seen.ended_at = seen.ended_at.or_else(|| Some(Instant::now()));
            }
            tokio::time::sleep(pause).await;
        }
    }

    fn opening(&self) -> String {
        let seen = self.seen.lock();
        let wanted = self.counters.iter().map(|id| {
            let have = seen.held.get(id).map(|(have, ..)| have);
            json!({ "key": id.to_string(), "query": "get_counter", "args": { "id": id }, "have": have })
        });
        json!({ "subscriptions": wanted.collect::<Vec<_>>() }).to_string()
    }

    /// Reads a stream to its end. Returns the pause that the server asked for.
    async fn follow(&self) -> std::io::Result<Duration> {
        let mut socket = TcpStream::connect(self.address).await?;
        let body = self.opening();
        let head = format!(
            "POST /live HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            self.user,
            body.len()
        );
        socket.write_all((head + &body).as_bytes()).await?;
        let mut lines = tokio::io::BufReader::new(socket).lines();
        let status = lines.next_line().await?.unwrap_or_default();
        if !status.starts_with("HTTP/1.1 200") {
            return Err(std::io::Error::other(status));
        }
        {
            let mut seen = self.seen.lock();
            seen.events.clear();
            seen.missing = self.counters.iter().copied().collect();
        }
        let (mut name, mut id, mut pause) = (String::new(), String::new(), None);
        // Lines of other kinds are those of HTTP.
        while let Some(line) = lines.next_line().await? {
            match line.split_once(": ") {
                Some(("event", text)) => text.clone_into(&mut name),
                Some(("id", text)) => text.clone_into(&mut id),
                Some(("retry", text)) => pause = text.parse().ok().map(Duration::from_millis),
                Some(("data", text)) => {
                    let data = serde_json::from_str(text).expect("JSON");
                    self.seen.lock().take(&name, &id, &data);
                }
                _ => {}
            }
        }
        pause.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
    }
}

/// Clients that run until this is dropped.
struct Crowd {
    seen: Vec<Arc<Mutex<Seen>>>,
    _tasks: JoinSet<()>,
}

impl Crowd {
    /// A user may have a hundred streams.
    fn gather(address: SocketAddr, numbers: Range<i64>, counters: i64) -> Crowd {
        let mut crowd = Crowd { seen: Vec::new(), _tasks: JoinSet::new() };
        for number in numbers {
            let seen = Arc::new(Mutex::new(Seen::default()));
            crowd.seen.push(seen.clone());
            let first = number * SUBSCRIPTIONS;
            let counters = (first..first + SUBSCRIPTIONS).map(|id| id % counters).collect();
            let user = format!("user{}", number / 100);
            crowd._tasks.spawn(Watcher { address, user, counters, seen }.run());
        }
        crowd
    }

    async fn until(&self, what: &str, is_there: impl Fn(&Seen) -> bool) {
        let began = Instant::now();
        while let Some(late) = self.seen.iter().position(|seen| !is_there(&seen.lock())) {
            assert!(began.elapsed() < PATIENCE, "{what}: client {late} is late");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn until_all_hold(&self, expected: &BTreeMap<i64, i64>) {
        let is_right = |seen: &Seen| {
            let mut held = seen.held.iter();
            held.len() > 0 && held.all(|(id, (_, _, value))| expected.get(id) == Some(value))
        };
        self.until("the last values", is_right).await;
    }
}

fn metric(client: &Client<'_>, name: &str) -> u64 {
    let metrics = client.send("GET", "/metrics", &[], "").body;
    let line =
        metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("the metric");
    line.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two thousand streams, and as long as they may take to come back"]
async fn soak_after_a_restart_two_thousand_streams_are_back_and_miss_nothing() {
    const STREAMS: i64 = 2_000;
    const COUNTERS: i64 = 100;
    const CHANGED: i64 = 10;
    let crate::app::Server { running, database } = start().await;
    let address = running.address;
    let admin = Client::new(address, "admin");
    (0..COUNTERS).for_each(|id| drop(admin.value("create", json!({ "id": id }))));
    let crowd = Crowd::gather(address, 0..STREAMS, COUNTERS);
    crowd.until("the first values", |seen| seen.held.len() as i64 == SUBSCRIPTIONS).await;

    running.stop().await;
    let stopped_at = Instant::now();
    let window = live::Limits::default().return_time;
    let running = serve_with(database.url(), |settings| settings.listen = address).await;
    // Most clients are away.
    (0..CHANGED).for_each(|id| drop(admin.value("increment", json!({ "id": id }))));
    crowd.until("the streams after the restart", |seen| seen.back_after.is_some()).await;
    let all_after = stopped_at.elapsed();
    let mut delays: Vec<Duration> = crowd.seen.iter().filter_map(|seen| seen.lock().back_after).collect();
    delays.sort_unstable();
    let at_95 = delays[delays.len() * 95 / 100];
    let expected = (0..COUNTERS).map(|id| (id, i64::from(id < CHANGED))).collect();
    crowd.until_all_hold(&expected).await;
    let runs = metric(&admin, "live_runs_total");
    let users = STREAMS / 100;
    println!(
        "95 % back after {at_95:?}, all after {all_after:?}, {runs} runs for {COUNTERS} counters, of which {CHANGED} changed, and \
         {users} users"
    );
    assert!(at_95 < window * 2, "{at_95:?}");
    for seen in &crowd.seen {
        let seen = seen.lock();
        let changed = seen.held.keys().filter(|id| **id < CHANGED).count();
        let values = seen.events.iter().filter(|name| *name == "value").count();
        assert!(values <= changed, "what is unchanged is not sent again: {:?}", seen.events);
        assert!(seen.events.len() as i64 <= SUBSCRIPTIONS + changed as i64, "{:?}", seen.events);
    }
    // One for each group, one more for each that has changed, one for the standing of each user. On a server a run may
    // begin before a change counts as published; then it is repeated.
    let runs_max = COUNTERS + CHANGED + users + if database.is_shared() { COUNTERS } else { 10 };
    assert!(runs as i64 <= runs_max, "{runs} runs");
    running.stop().await;
}

/// Not a test of its own: an instance in a process of its own, for the tests below.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "not a test: other tests start it"]
async fn instance() {
    let Some(database) = std::env::var_os("LIVE_TEST_INSTANCE") else { return };
    let database = database.into_string().expect("a URL");
    let running = serve_with(database, |_| {}).await;
    println!("\nlistening at {}", running.address);
    running.until_signal().await;
}

struct Instance {
    process: Child,
    address: SocketAddr,
}

impl Instance {
    fn start(database: &str) -> Instance {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "crowd::instance", "--ignored", "--nocapture"]);
        let mut process =
            command.env("LIVE_TEST_INSTANCE", database).stdout(Stdio::piped()).spawn().expect("starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening at ")?.parse().ok());
        // What it prints later must have room.
        std::thread::spawn(move || lines.for_each(drop));
        Instance { process, address: address.expect("it listens") }
    }

    /// Resident memory, in KiB.
    fn resident(&self) -> i64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection that has had one answer, and waits.
async fn idle_connection(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("connects");
    socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sends");
    socket.readable().await.expect("an answer");
    socket
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "four thousand connections"]
async fn soak_an_idle_stream_costs_at_most_4_kib_more_than_an_idle_connection() {
    const COUNT: i64 = 2_000;
    const COUNTERS: i64 = 128;
    let mut costs = Vec::new();
    for with_streams in [false, true] {
        let database = TestPlace::create();
        let instance = Instance::start(&database.url());
        let admin = Client::new(instance.address, "admin");
        (0..COUNTERS).for_each(|id| drop(admin.value("create", json!({ "id": id }))));
        let (mut crowds, mut connections) = (Vec::new(), Vec::new());
        let mut resident = Vec::new();
        // The first ones fill what all share.
        for numbers in [0..COUNT / 10, COUNT / 10..COUNT / 10 + COUNT] {
            if with_streams {
                let crowd = Crowd::gather(instance.address, numbers, COUNTERS);
                crowd.until("the values", |seen| seen.held.len() as i64 == SUBSCRIPTIONS).await;
                crowds.push(crowd);
            } else {
                for _ in numbers {
                    connections.push(idle_connection(instance.address).await);
                }
            }
            resident.push(instance.resident());
        }
        costs.push((resident[1] - resident[0]) as f64 / COUNT as f64);
    }
    let more = costs[1] - costs[0];
    println!("a connection {:.2} KiB, a stream {:.2} KiB: {more:.2} KiB more", costs[0], costs[1]);
    assert!(more <= 4.0, "{costs:?}");
}

/// nginx in front of instances, with the lines of docs/operate/proxy.md.
struct Proxy {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Proxy {
    /// None: there is no nginx here.
    async fn start(instances: &[SocketAddr]) -> Option<Proxy> {
        let folder = tempfile::tempdir().expect("a folder");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let servers: String = instances.iter().map(|one| format!("server {one}; ")).collect();
        let here = folder.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {here}/{name}; "))
            .concat();
        let text = format!(
            "daemon off; pid {here}/nginx.pid; events {{ worker_connections 4096; }}
             http {{ access_log off; {temporary}
               upstream back_end {{ {servers} }}
               server {{ listen {address};
                 location / {{
                   proxy_pass http://back_end;
                   proxy_http_version 1.1;
                   proxy_set_header Host $host;
                   proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                 }} }} }}"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, text).expect("writes");
        let mut command = Command::new("nginx");
        command
            .arg("-p")
            .arg(folder.path())
            .arg("-e")
            .arg(folder.path().join("error.log"))
            .arg("-c")
            .arg(&file);
        let process = command.spawn().ok()?;
        let began = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            assert!(began.elapsed() < PATIENCE, "nginx listens");
            tokio::task::yield_now().await;
        }
        Some(Proxy { process, address, _folder: folder })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // SIGTERM ends its workers too.
        let _ = Command::new("kill").arg(self.process.id().to_string()).status();
        let _ = self.process.wait();
    }
}

/// Increments counters one after another, each exactly once, whatever the proxy answers meanwhile.
fn write(address: SocketAddr, counters: i64, rounds: i64) {
    for number in 0..counters * rounds {
        let key = format!("write-{number}");
        let body = json!({ "id": number % counters }).to_string();
        let send = || {
            let headers = [("Idempotency-Key", &*key)];
            Client::new(address, "writer").send("POST", "/rpc/increment", &headers, &body).status
        };
        let began = Instant::now();
        while send() != 200 {
            assert!(began.elapsed() < PATIENCE, "{key} is accepted");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nginx, and processes that are killed"]
async fn soak_an_instance_that_is_killed_behind_nginx_takes_no_change_with_it() {
    const COUNTERS: i64 = 50;
    const ROUNDS: i64 = 40;
    let places = [Kind::Postgres, Kind::Mysql].into_iter().filter_map(TestPlace::on);
    for database in places {
        let mut instances = [Instance::start(&database.url()), Instance::start(&database.url())];
        let addresses = instances.each_ref().map(|instance| instance.address);
        let Some(proxy) = Proxy::start(&addresses).await else {
            return say_skipped("live queries behind nginx: there is no nginx");
        };
        let admin = Client::new(addresses[0], "admin");
        (0..COUNTERS).for_each(|id| drop(admin.value("create", json!({ "id": id }))));
        let crowd = Crowd::gather(proxy.address, 0..300, COUNTERS);
        crowd.until("the first values", |seen| seen.held.len() as i64 == SUBSCRIPTIONS).await;
        let address = proxy.address;
        let writer = tokio::task::spawn_blocking(move || write(address, COUNTERS, ROUNDS));
        // In the middle of the writes.
        let half = |seen: &Seen| seen.held.keys().all(|id| seen.value(*id) >= Some(ROUNDS / 2));
        crowd.until("half of the writes", half).await;
        instances[0].process.kill().expect("kills");
        writer.await.expect("writes");
        crowd.until_all_hold(&(0..COUNTERS).map(|id| (id, ROUNDS)).collect()).await;
        let ended = crowd.seen.iter().filter(|seen| seen.lock().back_after.is_some()).count();
        println!("{ended} of {} streams were at the instance", crowd.seen.len());
        assert!(ended > 0);
    }
}
