//! Two real instances on PostgreSQL behind a real proxy with the file of `deploy` for several: they are restarted in turn,
//! and one is killed. No request of a client fails but those that were under way at the kill, and none is carried out twice.

use crate::balancer::{agent, read};
use crate::signing_in;
use crate::support::{Demo, Place, Running, is_soak, rest};
use serde_json::{Value, json};
use server::testing::{Kind, TestPlace, free_port, say_skipped};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::{Request, Response};

const RESTARTS: usize = 3;
const SOAK_RESTARTS: usize = 10;
/// From the moment in which the other instance is ready, as an operator's script does it.
const PAUSE: Duration = Duration::from_secs(1);
/// Clients that write, and that read. Each waits between its requests, so that the test measures no speed.
const WRITERS: usize = 3;
const READERS: usize = 2;
const BETWEEN_REQUESTS: Duration = Duration::from_millis(10);
const CLIENTS: &str = "/api/organizations/acme/clients";
const NGINX: &str = "/usr/sbin/nginx";

#[test]
fn soak_restarts_in_turn_behind_nginx_fail_no_request() {
    println!("{:?}", restart_and_kill("nginx", &[PathBuf::from(NGINX)], start_nginx));
}

/// `SARSEN_CADDY`: a Caddy that is new enough, see the file.
#[test]
#[ignore = "needs a Caddy that Debian 12 has not: a soak runs it"]
fn soak_restarts_in_turn_behind_caddy_fail_no_request() {
    let newer = std::env::var_os("SARSEN_CADDY").map(PathBuf::from);
    println!("{:?}", restart_and_kill("caddy", newer.as_slice(), start_caddy));
}

/// `programs`: where it may be; the first that is there.
fn restart_and_kill(name: &str, programs: &[PathBuf], start: fn(&Path, &Both<'_>) -> Child) -> Option<Seen> {
    let database = TestPlace::on(Kind::Postgres)?;
    let Some(program) = programs.iter().find(|program| program.is_file()) else {
        say_skipped(&format!("restarts behind {name}: it is not installed"));
        return None;
    };
    let place = Place::new();
    let both = Both::new(&place, &database);
    let mut running = [0, 1].map(|number| Some(both.start(number)));
    let _proxy = Proxy(start(program, &both));
    both.wait_for_the_proxy();
    let rounds = if is_soak() { SOAK_RESTARTS } else { RESTARTS };
    let load = Load::default();
    let killed_at = std::thread::scope(|scope| {
        let _ends = load.ends_with_this();
        for number in 0..WRITERS {
            let (both, load) = (&both, &load);
            scope.spawn(move || write(both, load, number));
        }
        for _ in 0..READERS {
            scope.spawn(|| look(&both, &load));
        }
        for round in 0..rounds {
            let leaving = round % 2;
            load.goes_on();
            std::thread::park_timeout(PAUSE);
            assert_eq!(running[leaving].take().map(Running::stop), Some(0), "a clean shutdown");
            load.goes_on();
            running[leaving] = Some(both.start(leaving));
        }
        load.goes_on();
        let failed = load.failed().len();
        assert_eq!(failed, 0, "of {}, in {rounds} restarts: {:?}", load.answered(), load.failed());
        std::thread::park_timeout(PAUSE);
        // Dropping it is SIGKILL, and waits for the end.
        drop(running[rounds % 2].take());
        let killed_at = Instant::now();
        load.goes_on();
        running[rounds % 2] = Some(both.start(rounds % 2));
        load.goes_on();
        killed_at
    });
    let failed = load.failed();
    let later: Vec<_> = failed.iter().filter(|failed| failed.began > killed_at).collect();
    assert!(later.is_empty() && failed.len() <= WRITERS + READERS, "not only what was under way: {failed:?}");
    let written = both.clients();
    let twice: Vec<_> = written.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "carried out twice: {twice:?}");
    let lost: Vec<_> = load.names().iter().filter(|name| !written.contains_key(*name)).cloned().collect();
    assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
    for instance in running.into_iter().flatten() {
        assert_eq!(instance.stop(), 0);
    }
    Some(Seen { restarts: rounds, answered: load.answered(), failed_at_kill: failed.len() })
}

/// What a run prints.
#[derive(Debug)]
#[expect(dead_code, reason = "read by a person")]
struct Seen {
    restarts: usize,
    answered: usize,
    failed_at_kill: usize,
}

/// Two instances on one database, for an issuer at the address of the proxy.
struct Both<'p> {
    place: &'p Place,
    database: String,
    secret: String,
    /// Where the proxy listens.
    port: u16,
    ports: [u16; 2],
    /// An API key that may make clients.
    key: String,
}

impl Both<'_> {
    /// The organization of a demo, without the demo.
    fn new<'p>(place: &'p Place, database: &TestPlace) -> Both<'p> {
        let (database, port) = (database.url(), free_port());
        let demo = Demo::start_at(place, &format!("127.0.0.1:{port}"), Some(&database));
        signing_in::sign_in(place, &demo, "/organization/admin");
        let scopes = ["--scope", "clients:write", "--scope", "clients:read"];
        let made = place.json(&[&["key", "create", "Program"], &scopes[..]].concat());
        let key = made["key"].as_str().expect("a key").to_owned();
        assert_eq!(demo.running.stop(), 0);
        let secret = std::fs::read_to_string(place.path("demo/demo.key")).expect("a key").trim().to_owned();
        Both { place, database, secret, port, ports: [free_port(), free_port()], key }
    }

    /// Starts one, and returns when it is ready.
    fn start(&self, number: usize) -> Running {
        let listen = format!("127.0.0.1:{}", self.ports[number]);
        let issuer = format!("http://127.0.0.1:{}", self.port);
        let place = ["--listen", &listen, "--issuer", &issuer, "--trusted-proxies", "127.0.0.1"];
        let mut command = self.place.sarsen(&[&["serve", "--database", &self.database], &place[..]].concat());
        command.env("SARSEN_SECRET_KEY", &self.secret);
        let mut running = Running::start(command, self.place.path(&format!("{number}.log")));
        running.wait_for("listening");
        let ready = || agent().get(format!("http://{listen}/readyz")).call().map(|answer| answer.status());
        wait_until("the instance is ready", || ready().is_ok_and(|status| status == 200));
        running
    }

    fn wait_for_the_proxy(&self) {
        let (agent, address) = (agent(), self.address("/healthz"));
        wait_until("the proxy answers", || {
            agent.get(&address).call().is_ok_and(|answer| answer.status() == 200)
        });
    }

    /// Behind the proxy.
    fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn request(&self, path: &str) -> ureq::http::request::Builder {
        Request::builder().uri(self.address(path)).header("authorization", format!("Bearer {}", self.key))
    }

    /// How often each name is there.
    fn clients(&self) -> BTreeMap<String, usize> {
        let (agent, mut clients, mut cursor) = (agent(), BTreeMap::new(), String::new());
        loop {
            let request = self.request(&format!("{CLIENTS}?limit=200{cursor}")).body(()).expect("a request");
            let page = read(agent.run(request).expect("an answer")).expect("a page");
            assert_eq!(page.status(), 200, "{page:?}");
            let page: Value = serde_json::from_str(page.body()).expect("JSON");
            for client in page["items"].as_array().expect("a list") {
                let name = client["name"].as_str().expect("a name").to_owned();
                *clients.entry(name).or_default() += 1;
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return clients,
            }
        }
    }
}

/// What the clients have seen.
#[derive(Default)]
struct Load {
    ended: AtomicBool,
    answered: AtomicUsize,
    names: Mutex<Vec<String>>,
    failed: Mutex<Vec<Failed>>,
}

#[derive(Debug)]
struct Failed {
    began: Instant,
    #[expect(dead_code, reason = "read by a person")]
    how: String,
}

impl Load {
    fn ends_with_this(&self) -> impl Drop + '_ {
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        Ends(&self.ended)
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::SeqCst)
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, Vec<Failed>> {
        self.failed.lock().expect("a lock")
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.names.lock().expect("a lock")
    }

    /// Waits until each client can have had some answers more.
    fn goes_on(&self) {
        let before = self.answered();
        wait_until("clients are answered", || self.answered() > before + 10 * (WRITERS + READERS));
    }

    /// Notes an answer. Whether it is the one that was wanted.
    fn note(&self, began: Instant, wanted: u16, answer: Result<Response<String>, ureq::Error>) -> bool {
        let how = match answer {
            Ok(answer) if answer.status() == wanted => {
                self.answered.fetch_add(1, Ordering::SeqCst);
                return true;
            }
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{error:?}"),
        };
        self.failed().push(Failed { began, how });
        false
    }
}

/// Makes clients, each with a name of its own. A request that fails is not sent again.
fn write(both: &Both<'_>, load: &Load, number: usize) {
    let agent = agent();
    for count in 0.. {
        if load.ended.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("client {count} of {number}");
        let body = json!({ "service": "sketch", "kind": "device", "name": name }).to_string();
        let request = both.request(CLIENTS).method("POST").header("content-type", "application/json");
        let (request, began) = (request.body(body).expect("a request"), Instant::now());
        if load.note(began, 201, agent.run(request).and_then(read)) {
            load.names().push(name);
        }
        std::thread::park_timeout(BETWEEN_REQUESTS);
    }
}

fn look(both: &Both<'_>, load: &Load) {
    let agent: Agent = agent();
    while !load.ended.load(Ordering::SeqCst) {
        let request = both.request(&format!("{CLIENTS}?limit=1")).body(()).expect("a request");
        let began = Instant::now();
        load.note(began, 200, agent.run(request).and_then(read));
        std::thread::park_timeout(BETWEEN_REQUESTS);
    }
}

/// A proxy that ends with this value.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The file of `deploy` with the addresses of this machine in it.
fn deployed(file: &str, pairs: &[(&str, String)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file);
    let mut text = std::fs::read_to_string(&path).expect("a file of deploy");
    for (old, new) in pairs {
        assert!(text.contains(old), "{file} has no {old:?}");
        text = text.replace(old, new);
    }
    text
}

/// Without TLS, and in one process, which ends at once.
fn start_nginx(program: &Path, both: &Both<'_>) -> Child {
    let folder = both.place.path("nginx");
    std::fs::create_dir(&folder).expect("a folder");
    let site = deployed(
        "nginx-instances.conf",
        &[
            ("10.0.0.11:7070", format!("127.0.0.1:{}", both.ports[0])),
            ("10.0.0.12:7070", format!("127.0.0.1:{}", both.ports[1])),
            ("listen 443 ssl http2;", format!("listen 127.0.0.1:{};", both.port)),
            ("listen [::]:443 ssl http2;", String::new()),
            ("listen 80;", format!("listen 127.0.0.1:{};", free_port())),
            ("listen [::]:80;", String::new()),
            ("id.example.com", "127.0.0.1".to_owned()),
        ],
    );
    let site: String =
        site.lines().filter(|line| !line.contains("ssl_")).map(|line| format!("{line}\n")).collect();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", folder.display()))
        .concat();
    let all = format!(
        "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log {0}/log;\nevents {{}}\nhttp {{\naccess_log off;\n\
         {temporary}{site}}}\n",
        folder.display()
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, all).expect("writes");
    let mut command = Command::new(program);
    command.arg("-c").arg(&file).arg("-p").arg(&folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nginx starts")
}

/// Without TLS.
fn start_caddy(program: &Path, both: &Both<'_>) -> Child {
    let folder = both.place.path("caddy");
    std::fs::create_dir(&folder).expect("a folder");
    let site = deployed(
        "Caddyfile-instances",
        &[
            ("10.0.0.11:7070", format!("127.0.0.1:{}", both.ports[0])),
            ("10.0.0.12:7070", format!("127.0.0.1:{}", both.ports[1])),
            ("{\n\tservers {", "{\n\tadmin off\n\tservers {".to_owned()),
            ("\nid.example.com {", format!("\nhttp://127.0.0.1:{} {{", both.port)),
        ],
    );
    let file = folder.join("Caddyfile");
    std::fs::write(&file, site).expect("writes");
    let mut command = Command::new(program);
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
    command.env("HOME", &folder).env("XDG_DATA_HOME", &folder).env("XDG_CONFIG_HOME", &folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Caddy starts")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not after 60 s: {what}");
        rest();
    }
}
