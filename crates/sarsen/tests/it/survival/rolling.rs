//! A rolling restart of two instances on one database, under traffic through a balancer: clients see no error, and no
//! acknowledged change is lost.

use super::traffic::{Acknowledged, DeviceClient, Stop, allow, sign_in, wait_until};
use crate::balancer::{Balancer, agent, read};
use crate::browser::Browser;
use crate::support::{Demo, Place, Running};
use serde_json::Value;
use server::testing::{TestPlace, free_port};
use std::sync::Mutex;

/// Restarts of each instance.
const TIMES: usize = 2;
/// Answers of an instance between two restarts, at least.
const ANSWERS: usize = 100;

#[test]
fn no_client_notices_a_rolling_restart() {
    let database = TestPlace::create();
    if !database.is_shared() {
        return;
    }
    let place = Place::new();
    let both = Both::new(&place, &database);
    let mut running = [Some(both.start(0)), Some(both.start(1))];
    let balancer = Balancer::new(&both.instances);
    let terminal = DeviceClient::behind(balancer.clone(), &both.says);
    let mut ada = both.ada(&balancer);
    let (stop, seen) = (Stop::default(), Mutex::new(Acknowledged::default()));
    std::thread::scope(|scope| {
        let _ends = stop.at_the_end();
        let answers = |instance: usize| {
            let before = balancer.answers(instance);
            wait_until("it answers", || balancer.answers(instance) > before + ANSWERS);
        };
        let hold = |instance: usize| {
            let codes = terminal.begin().expect("an answer");
            let (device, code) =
                (DeviceClient::at(&both.instances[instance], &both.says), codes.given("device_code"));
            let held = scope.spawn(move || device.held(&code));
            wait_until("the poll is held", || both.holds_a_poll(instance));
            (codes, held)
        };
        let both_answer = || (0..2).for_each(answers);
        for _ in 0..2 {
            scope.spawn(|| ask_for_codes(&terminal.clone(), &stop, &seen));
            scope.spawn(|| refresh(&terminal.clone(), &mut both.ada(&balancer), &stop, &seen));
            scope.spawn(|| come_and_go(&terminal.clone(), &mut both.ada(&balancer), &stop, &seen));
        }
        for leaving in (0..TIMES).flat_map(|_| [0, 1]) {
            both_answer();
            let (other, stays) = hold(1 - leaving);
            let (codes, ends) = hold(leaving);

            assert_eq!(running[leaving].take().map(Running::stop), Some(0), "a clean shutdown");
            let answer = ends.join().expect("no panic").expect("an answer, not a broken connection");
            assert_eq!((answer.status, &*answer.text("error")), (400, "authorization_pending"), "{answer:?}");
            assert!(both.holds_a_poll(1 - leaving), "the long poll of the other instance goes on");
            [&codes, &other].into_iter().for_each(|codes| allow(&mut ada, &codes.given("user_code")));
            let found = terminal.redeem_patiently(&codes.given("device_code"));
            let other_tokens = stays.join().expect("no panic");
            for (codes, tokens) in [(codes, found), (other, other_tokens)] {
                let token = tokens.expect("an answer").given("refresh_token");
                seen.lock().expect("a lock").redeemed.push((codes.given("device_code"), token));
            }

            answers(1 - leaving);
            running[leaving] = Some(both.start(leaving));
        }
        both_answer();
    });
    let seen = seen.into_inner().expect("a lock");
    println!("{} acknowledged writes went through {} restarts", seen.count(), 2 * TIMES);
    seen.check(&terminal, "after the restarts");
    for instance in running.into_iter().flatten() {
        assert_eq!(instance.stop(), 0);
    }
}

/// Two instances on one database.
struct Both<'p> {
    place: &'p Place,
    database: String,
    key: String,
    issuer: String,
    instances: [String; 2],
    says: Value,
}

impl Both<'_> {
    /// The tenant of a demo, without the demo.
    fn new<'p>(place: &'p Place, database: &TestPlace) -> Both<'p> {
        let database = database.url();
        let demo = Demo::start_at(place, "127.0.0.1:0", Some(&database));
        let says = demo.says.clone();
        assert_eq!(demo.running.stop(), 0);
        let key = std::fs::read_to_string(place.path("demo/demo.key")).expect("a key");
        let instances = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let issuer = "http://localhost:7070".to_owned();
        Both { place, database, key: key.trim().to_owned(), issuer, instances, says }
    }

    fn start(&self, number: usize) -> Running {
        let listen = self.instances[number].trim_start_matches("http://");
        let arguments = ["serve", "--listen", listen, "--issuer", &self.issuer, "--database", &self.database];
        let mut command = self.place.sarsen(&arguments);
        command.env("SARSEN_SECRET_KEY", &self.key);
        let mut running = Running::start(command, self.place.path(&format!("{number}.log")));
        running.wait_for("listening");
        running
    }

    /// Ada, signed in with her own browser.
    fn ada(&self, balancer: &Balancer) -> Browser {
        let mut ada = Browser::behind(balancer.clone(), &self.issuer);
        sign_in(&mut ada, &self.says);
        ada
    }

    fn holds_a_poll(&self, number: usize) -> bool {
        let answer = agent().get(format!("{}/metrics", self.instances[number])).call().and_then(read);
        answer.expect("an answer").body().contains("sarsen_held_polls 1\n")
    }
}

fn ask_for_codes(terminal: &DeviceClient, stop: &Stop, seen: &Mutex<Acknowledged>) {
    while !stop.is_set() {
        let codes = terminal.begin().expect("an answer");
        seen.lock().expect("a lock").codes.push(codes.given("device_code"));
    }
}

fn refresh(terminal: &DeviceClient, ada: &mut Browser, stop: &Stop, seen: &Mutex<Acknowledged>) {
    let mut token = terminal.grant(ada).text("refresh_token");
    while !stop.is_set() {
        token = terminal.refresh(&token).expect("an answer").given("refresh_token");
    }
    seen.lock().expect("a lock").newest_refresh_tokens.push(token);
}

/// Signs devices in, and every other one out again.
fn come_and_go(terminal: &DeviceClient, ada: &mut Browser, stop: &Stop, seen: &Mutex<Acknowledged>) {
    for number in 0.. {
        if stop.is_set() {
            return;
        }
        let code = terminal.allowed(ada);
        let token = terminal.redeem_patiently(&code).expect("an answer").given("refresh_token");
        if number % 2 == 0 {
            seen.lock().expect("a lock").redeemed.push((code, token));
            continue;
        }
        let answer = terminal.revoke(&token).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        seen.lock().expect("a lock").revoked.push(token);
    }
}
