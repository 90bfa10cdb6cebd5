//! Two instances at two nodes of a Galera cluster, one of which applies nothing for three seconds. An acknowledged change is
//! in every answer of the other instance that was asked for 250 ms later. Late answers and 503 are no fault.

use crate::balancer::{agent, read};
use crate::browser::Browser;
use crate::signing_in;
use crate::support::{Demo, Place, Running, is_soak};
use crate::survival::traffic::{DeviceClient, sign_in, text_at};
use serde_json::{Value, json};
use server::testing::free_port;
use server::testing::galera::{Behind, Cluster};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::{Request, Response};

/// What `docs/operate/scale.md` promises.
const STALE_MAX: Duration = Duration::from_millis(250);
const BEHIND_FOR: Duration = Duration::from_secs(3);
const ROUNDS: u32 = 4;
const SOAK_ROUNDS: u32 = 30;
/// The node of the instance where changes are made, and that of the one that is asked.
const CHANGING: usize = 0;
const ASKED: usize = 1;
/// Answers from before the change, so that what the instance caches is in its caches.
const ANSWERS_BEFORE: usize = 3;
/// Short enough to have answers from the caches.
const PAUSE: Duration = Duration::from_millis(2);
/// For the answer with the change.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
#[ignore = "three nodes, and three seconds for each round: a soak runs it"]
fn soak_no_answer_at_a_node_of_galera_that_is_behind_is_older_than_250_ms() {
    let Some(cluster) = Cluster::start(3) else { return };
    cluster.prepare_to_be_busy(ASKED);
    let place = Place::new();
    let world = World::start(&place, &cluster);
    let mut total: BTreeMap<_, Answers> = BTreeMap::new();
    for round in 0..if is_soak() { SOAK_ROUNDS } else { ROUNDS } {
        let how = if round % 2 == 0 { Behind::Locked } else { Behind::Busy };
        let probes = [world.token(), world.session(), world.stream(round)];
        for (what, answers) in while_behind(&cluster, how, probes) {
            total.entry((what, how)).or_default().add(&answers);
        }
    }
    for ((what, how), answers) in &total {
        println!("{what}, {how:?}: {answers:?}");
    }
    let stale: Vec<_> = total.iter().filter(|(_, answers)| answers.stalest > STALE_MAX).collect();
    assert!(stale.is_empty(), "answers were older than the bound: {stale:#?}");
    assert_eq!(world.asked.stop(), 0, "a clean shutdown");
    assert_eq!(world.demo.running.stop(), 0, "a clean shutdown");
}

/// What an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Before,
    After,
    /// The instance is unavailable.
    Neither,
}

/// A change that is made at one instance, and the question to the other one.
struct Probe<'w> {
    what: &'static str,
    change: Box<dyn FnOnce() + Send + 'w>,
    ask: Box<dyn FnMut() -> Shows + Send + 'w>,
}

#[derive(Debug, Default)]
struct Answers {
    before: u32,
    after: u32,
    unavailable: u32,
    /// How long after the acknowledgement the last answer without the change was asked for.
    stalest: Duration,
    /// The time of the slowest answer.
    slowest: Duration,
}

impl Answers {
    fn add(&mut self, other: &Answers) {
        self.before += other.before;
        self.after += other.after;
        self.unavailable += other.unavailable;
        self.stalest = self.stalest.max(other.stalest);
        self.slowest = self.slowest.max(other.slowest);
    }
}

impl Probe<'_> {
    /// Makes the change, and asks until an answer shows it.
    fn run(mut self) -> (&'static str, Answers) {
        (self.change)();
        let acknowledged = Instant::now();
        let mut answers = Answers::default();
        loop {
            std::thread::park_timeout(PAUSE);
            let asked = acknowledged.elapsed();
            let shows = (self.ask)();
            answers.slowest = answers.slowest.max(acknowledged.elapsed() - asked);
            match shows {
                Shows::Before => (answers.before, answers.stalest) = (answers.before + 1, asked),
                Shows::Neither => answers.unavailable += 1,
                Shows::After => {
                    answers.after += 1;
                    return (self.what, answers);
                }
            }
            assert!(asked < PATIENCE, "{}: the change never arrives: {answers:?}", self.what);
        }
    }
}

/// The changes are made while the node of the asked instance is behind, spread over that time.
fn while_behind<const N: usize>(
    cluster: &Cluster,
    how: Behind,
    mut probes: [Probe<'_>; N],
) -> Vec<(&'static str, Answers)> {
    for probe in &mut probes {
        let mut before = 0;
        while before < ANSWERS_BEFORE {
            before = if (probe.ask)() == Shows::Before { before + 1 } else { 0 };
        }
    }
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        cluster.fall_behind(ASKED, how, BEHIND_FOR, || {
            running.extend((0..).zip(probes).map(|(number, probe)| {
                scope.spawn(move || {
                    std::thread::park_timeout(BEHIND_FOR * number / N as u32);
                    probe.run()
                })
            }));
            assert!(is_behind(cluster), "{how:?}: the node is not behind");
        });
        running.into_iter().map(|probe| probe.join().expect("no panic")).collect()
    })
}

/// Whether a change of another node is not seen at the node of the asked instance.
fn is_behind(cluster: &Cluster) -> bool {
    const NEWEST: &str = "SELECT MAX(seq) FROM sarsen.change_log";
    cluster.node(CHANGING).sql("INSERT INTO sarsen.change_log (`keys`) VALUES ('')");
    let newest: i64 = cluster.node(CHANGING).connect().first(NEWEST);
    cluster.node(ASKED).connect().first::<i64>(NEWEST) < newest
}

/// The two instances, and what is needed to change something.
struct World {
    demo: Demo,
    asked: Running,
    asked_at: String,
    /// A key of the organization.
    key: String,
    /// The path of Ada's account in the API.
    ada: String,
}

impl World {
    fn start(place: &Place, cluster: &Cluster) -> World {
        let demo = Demo::start_at(place, "127.0.0.1:0", Some(&cluster.node(CHANGING).url()));
        let listen = format!("127.0.0.1:{}", free_port());
        let database = cluster.node(ASKED).url();
        let arguments = [
            "serve",
            "--listen",
            &listen,
            "--issuer",
            demo.issuer(),
            "--database",
            &database,
            "--secret-key-file",
        ];
        let mut command = place.sarsen(&arguments);
        command.arg(place.path("demo/demo.key"));
        let mut asked = Running::start(command, place.path("asked.log"));
        asked.wait_for("listening");
        signing_in::sign_in(place, &demo, "/organization/admin");
        let program = place.json(&["key", "create", "Program", "--scope", "users:write"]);
        let users = place.json(&["user", "list"]);
        let mut users = users.as_array().expect("a list").iter();
        let ada = users.find(|user| user["email"] == "ada@acme.test").expect("Ada");
        let ada = format!("/api/organizations/acme/users/{}", text_at(ada, "/id"));
        World { asked, asked_at: format!("http://{listen}"), key: text_at(&program, "/key"), ada, demo }
    }

    /// Where changes are made.
    fn terminal(&self) -> DeviceClient {
        DeviceClient::new(&self.demo.says)
    }

    /// Ada's browser, signed in at the instance where changes are made.
    fn browser(&self) -> Browser {
        let mut ada = Browser::new(self.demo.issuer());
        sign_in(&mut ada, &self.demo.says);
        ada
    }

    /// A change by the organization's key.
    fn change(&self, method: &str, path: &str, body: &Value) {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.demo.issuer()));
        let request = request.header("authorization", format!("Bearer {}", self.key));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = agent().run(request.expect("a request")).and_then(read).expect("an answer");
        assert!(answer.status().is_success(), "{method} {path}: {answer:?}");
    }

    /// A question to the other instance.
    fn question(&self, path: &str, header: (&str, &str)) -> Request<()> {
        Request::get(format!("{}{path}", self.asked_at))
            .header(header.0, header.1)
            .body(())
            .expect("a request")
    }

    /// A grant is revoked; its access token is refused.
    fn token(&self) -> Probe<'_> {
        let tokens = self.terminal().grant(&mut self.browser());
        let (access, refresh) = (tokens.text("access_token"), tokens.text("refresh_token"));
        let agent = agent();
        Probe {
            what: "token",
            change: Box::new(move || {
                let revoked = self.terminal().revoke(&refresh).expect("an answer");
                assert_eq!(revoked.status, 200, "{revoked:?}");
            }),
            ask: Box::new(move || {
                let bearer = format!("Bearer {access}");
                let question = self.question("/api/subscription", ("authorization", &bearer));
                shown(agent.run(question).and_then(read), 200, 401)
            }),
        }
    }

    /// A person signs out; the browser is asked to sign in.
    fn session(&self) -> Probe<'_> {
        let mut ada = self.browser();
        let (cookies, agent) = (ada.cookie_header(), agent());
        Probe {
            what: "session",
            change: Box::new(move || {
                let page = ada.open("/o/acme/logout");
                let page = ada.submit(&page, "/o/acme/logout", &[]);
                assert_eq!(page.status, 200, "{}", page.text);
            }),
            ask: Box::new(move || {
                let question = self.question("/o/acme/account", ("cookie", &cookies));
                shown(agent.run(question).and_then(read), 200, 303)
            }),
        }
    }

    /// Ada gets another name; a stream that is opened begins with it.
    fn stream(&self, round: u32) -> Probe<'_> {
        let access = self.terminal().grant(&mut self.browser()).text("access_token");
        let (agent, name) = (agent(), format!("Ada {round}"));
        let shown = json!({ "name": name });
        Probe {
            what: "stream",
            change: Box::new(move || self.change("PATCH", &self.ada, &shown)),
            ask: Box::new(move || {
                let bearer = format!("Bearer {access}");
                match first_event(&agent, self.question("/api/live", ("authorization", &bearer))) {
                    Some(state) if state["user"]["name"] == *name => Shows::After,
                    Some(_) => Shows::Before,
                    None => Shows::Neither,
                }
            }),
        }
    }
}

fn shown(answer: Result<Response<String>, ureq::Error>, before: u16, after: u16) -> Shows {
    match answer.expect("an answer").status().as_u16() {
        status if status == before => Shows::Before,
        status if status == after => Shows::After,
        503 => Shows::Neither,
        other => panic!("the answer is {other}"),
    }
}

/// The data of the event with which a stream begins.
fn first_event(agent: &Agent, question: Request<()>) -> Option<Value> {
    let answer = agent.run(question).expect("an answer");
    match answer.status().as_u16() {
        200 => {}
        503 => return None,
        other => panic!("the answer is {other}"),
    }
    let lines = BufReader::new(answer.into_body().into_reader()).lines();
    let data = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("data:").map(str::to_owned));
    data.map(|data| serde_json::from_str(&data).expect("JSON"))
}
