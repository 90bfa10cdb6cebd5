//! The users of the run: registered at the back end, each with a stream on which it watches a counter.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::board::Board;
use crate::error::Error;
use crate::http::{EventStream, RequestDraft, Target};
use crate::report::{progress, thousands};
use crate::setup::Client;

/// Connections of the set-up.
const WORKERS: usize = 32;
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// All new streams have a value within this time.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const RECONNECT_AFTER: Duration = Duration::from_millis(500);
/// New streams a second.
const STREAMS_PER_SECOND: f64 = 4_000.0;

/// A registered user with prebuilt requests for its counter.
pub struct User {
    /// The place of its counter.
    pub counter: usize,
    pub get: Vec<u8>,
    pub list: Vec<u8>,
    pub increment: Vec<u8>,
    /// `POST /live` with the subscription.
    watch: Vec<u8>,
}

pub struct Crowd {
    targets: Vec<Target>,
    pub counters: Vec<Value>,
    token: String,
    /// Names of users and counters are unique for each run.
    run: String,
    pub users: Vec<Rc<User>>,
    pub board: Rc<Board>,
    streams: JoinSet<()>,
    /// The numbers of streams come after those of the connections for calls.
    stream_index_from: usize,
}

#[derive(Deserialize)]
struct Registered {
    value: RegisteredUser,
}

#[derive(Deserialize)]
struct RegisteredUser {
    token: String,
}

impl Crowd {
    /// Registers a user and creates the counters.
    pub async fn open(targets: &[Target], counters: usize, connections: usize) -> Result<Crowd, Error> {
        let run = format!("{:08x}", RandomState::new().hash_one(0) as u32);
        progress(&format!("set-up: creating {} counters", thousands(counters as u64)));
        let target = targets.first().ok_or_else(|| Error::Usage("no server".to_owned()))?.clone();
        let mut client = Client::new(target, 0);
        let token = register(&mut client, &format!("bench-{run}")).await?;
        let (mut ids, mut at_start) = (Vec::new(), Vec::new());
        for number in 0..counters {
            let name = json!({ "name": format!("bench-{run}-{number}") });
            let created = call(&mut client, "create_counter", &name, Some(&token)).await?;
            ids.push(created["value"]["id"].clone());
            at_start.push(created["value"]["value"].as_u64().unwrap_or(0));
        }
        if ids.iter().any(Value::is_null) {
            return Err(Error::set_up("POST /rpc/create_counter", "the answer has no id"));
        }
        Ok(Crowd {
            targets: targets.to_vec(),
            counters: ids,
            token,
            run,
            users: Vec::new(),
            board: Rc::new(Board::new(&at_start)),
            streams: JoinSet::new(),
            stream_index_from: connections,
        })
    }

    /// Registers users and opens their streams until there are `count`, then waits until each has a value.
    pub async fn grow_to(&mut self, count: usize) -> Result<(), Error> {
        let from = self.users.len();
        if count <= from {
            return Ok(());
        }
        progress(&format!("{} users arrive", thousands((count - from) as u64)));
        let tokens = self.register_users(from, count).await?;
        let begun = Instant::now();
        for (offset, token) in tokens.iter().enumerate() {
            let number = from + offset;
            let user = Rc::new(self.user(number, token));
            let watcher = self.board.add_watcher(user.counter);
            let target = self.stream_target(number).clone();
            let arrival = begun + Duration::from_secs_f64(offset as f64 / STREAMS_PER_SECOND);
            let stream = Stream {
                board: self.board.clone(),
                user: user.clone(),
                watcher,
                target,
                index: self.stream_index_from + number,
            };
            self.streams.spawn_local(stream.watch(arrival));
            self.users.push(user);
        }
        while self.board.without_value() > 0 {
            if begun.elapsed() > SETTLE_TIME_MAX {
                let failures = self.board.take_counts().failures;
                let detail = format!(
                    "{} of {count} streams have no value after {SETTLE_TIME_MAX:?}; failures: {failures:?}",
                    self.board.without_value()
                );
                return Err(Error::set_up("POST /live", detail));
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// The value of a counter at each server.
    pub async fn values(&self, clients: &mut [Client], counter: usize) -> Result<Vec<u64>, Error> {
        let mut values = Vec::new();
        for client in clients {
            let args = json!({ "id": self.counters[counter] });
            let answer = call(client, "get_counter", &args, Some(&self.token)).await?;
            let value = answer["value"]["value"].as_u64();
            values.push(value.ok_or_else(|| Error::set_up("get_counter", "the answer has no value"))?);
        }
        Ok(values)
    }

    /// One connection to each server.
    pub fn clients(&self) -> Vec<Client> {
        self.targets.iter().map(|target| Client::new(target.clone(), 0)).collect()
    }

    async fn register_users(&self, from: usize, to: usize) -> Result<Vec<String>, Error> {
        let next = Rc::new(Cell::new(from));
        let tokens = Rc::new(RefCell::new(vec![String::new(); to - from]));
        let mut workers = JoinSet::new();
        for worker in 0..WORKERS.min(to - from) {
            let (next, tokens, run) = (next.clone(), tokens.clone(), self.run.clone());
            let mut client = Client::new(self.targets[worker % self.targets.len()].clone(), worker);
            workers.spawn_local(async move {
                loop {
                    let number = next.replace(next.get() + 1);
                    if number >= to {
                        return Ok::<(), Error>(());
                    }
                    let token = register(&mut client, &format!("bench-{run}-{number}")).await?;
                    tokens.borrow_mut()[number - from] = token;
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.map_err(|error| Error::set_up("POST /rpc/register", error.to_string()))??;
        }
        Ok(tokens.take())
    }

    /// Half of the watchers of a counter are at another server than its writers.
    fn stream_target(&self, number: usize) -> &Target {
        &self.targets[(number + number / self.counters.len()) % self.targets.len()]
    }

    fn user(&self, number: usize, token: &str) -> User {
        let counter = number % self.counters.len();
        let args = json!({ "id": self.counters[counter] });
        // A virtual user connects to the target of its number.
        let host = &self.targets[number % self.targets.len()].host;
        let encode = |name: &str, args: &Value| rpc(name, args, Some(token)).encode(host);
        let watch = json!({ "subscriptions": [{ "key": "c", "query": "get_counter", "args": args }] });
        let watch = RequestDraft::post_json("/live", &watch)
            .header("Authorization", format!("Bearer {token}"))
            .header("Accept", "text/event-stream");
        User {
            counter,
            get: encode("get_counter", &args),
            list: encode("list_counters", &json!({})),
            increment: encode("increment", &args),
            watch: watch.encode(&self.stream_target(number).host),
        }
    }
}

/// One user's stream, opened again when it ends.
struct Stream {
    board: Rc<Board>,
    user: Rc<User>,
    watcher: usize,
    target: Target,
    index: usize,
}

impl Stream {
    async fn watch(self, arrival: Instant) {
        tokio::time::sleep_until(arrival).await;
        loop {
            let Stream { board, user, watcher, target, index } = &self;
            let cause = match EventStream::open(target, *index, &user.watch, OPEN_TIMEOUT).await {
                Err(cause) => cause,
                Ok(mut stream) => loop {
                    match stream.receive(|event| board.event(*watcher, event)).await {
                        Ok(bytes) => board.received(bytes),
                        Err(cause) => break cause,
                    }
                },
            };
            board.ended(&cause);
            sleep(RECONNECT_AFTER).await;
        }
    }
}

async fn register(client: &mut Client, name: &str) -> Result<String, Error> {
    let reply = client.send(&rpc("register", &json!({ "name": name }), None)).await?.expect(&[200])?;
    Ok(reply.json::<Registered>()?.value.token)
}

async fn call(client: &mut Client, name: &str, args: &Value, token: Option<&str>) -> Result<Value, Error> {
    client.send(&rpc(name, args, token)).await?.expect(&[200])?.json()
}

fn rpc(name: &str, args: &Value, token: Option<&str>) -> RequestDraft {
    let draft = RequestDraft::post_json(format!("/rpc/{name}"), args);
    match token {
        Some(token) => draft.header("Authorization", format!("Bearer {token}")),
        None => draft,
    }
}
