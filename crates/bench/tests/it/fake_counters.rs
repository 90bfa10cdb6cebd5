//! The back end `counters` as far as the bench uses it: tokens, values, and a stream for each watcher.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::http_server::{Answer, Asked, serve};

#[derive(Default)]
pub struct Counters {
    values: Vec<u64>,
    watchers: HashMap<usize, Vec<Sender<Vec<u8>>>>,
    pub users: usize,
    pub increments: usize,
    pub gets: usize,
    pub lists: usize,
    /// Streams get the first value and nothing else.
    pub dead: bool,
    /// Every n-th increment is answered and not made.
    pub lose_every: Option<usize>,
    /// End every stream after the n-th increment.
    pub end_streams_after: Option<usize>,
}

impl Counters {
    pub fn new() -> Arc<Mutex<Counters>> {
        Arc::default()
    }

    fn answer(&mut self, asked: &Asked) -> Answer {
        let body: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        if asked.path != "/rpc/register"
            && asked.header("Authorization").is_none_or(|token| !token.starts_with("Bearer t"))
        {
            return Answer::json(401, json!({ "code": "unauthorized" }));
        }
        let id = body["id"].as_u64().map(|id| id as usize - 1).filter(|id| *id < self.values.len());
        match (asked.path.as_str(), id) {
            ("/rpc/register", _) => {
                self.users += 1;
                value(json!({ "token": format!("t{}", self.users) }))
            }
            ("/rpc/create_counter", _) => {
                self.values.push(0);
                value(self.counter(self.values.len() - 1))
            }
            ("/rpc/list_counters", _) => {
                self.lists += 1;
                value((0..self.values.len().min(20)).map(|id| self.counter(id)).collect())
            }
            ("/rpc/get_counter", Some(id)) => {
                self.gets += 1;
                value(self.counter(id))
            }
            ("/rpc/increment", Some(id)) => self.increment(id),
            ("/live", _) => {
                let (sender, receiver) = channel();
                let query = &body["subscriptions"][0];
                assert_eq!((&query["query"], &query["key"]), (&json!("get_counter"), &json!("c")));
                let id = query["args"]["id"].as_u64().unwrap() as usize - 1;
                let _ = sender.send(b"event: hello\ndata: {\"stream\":\"s\",\"secret\":\"x\"}\n\n".to_vec());
                let _ = sender.send(self.frame(id));
                self.watchers.entry(id).or_default().push(sender);
                Answer::Stream(receiver)
            }
            _ => Answer::json(404, json!({ "code": "not_found" })),
        }
    }

    fn increment(&mut self, id: usize) -> Answer {
        self.increments += 1;
        let is_lost = self.lose_every.is_some_and(|every| self.increments.is_multiple_of(every));
        self.values[id] += u64::from(!is_lost);
        let answer = value(self.counter(id));
        if self.end_streams_after == Some(self.increments) {
            self.watchers.clear();
        }
        if !self.dead && !is_lost {
            let frame = self.frame(id);
            let watchers = self.watchers.entry(id).or_default();
            watchers.retain(|watcher| watcher.send(frame.clone()).is_ok());
        }
        answer
    }

    fn counter(&self, id: usize) -> Value {
        json!({ "id": id + 1, "name": "c", "value": self.values[id] })
    }

    fn frame(&self, id: usize) -> Vec<u8> {
        let data = json!({ "keys": ["c"], "version": "1", "digest": "d", "value": self.counter(id) });
        format!("event: value\nid: 1\ndata: {data}\n\n").into_bytes()
    }
}

fn value(value: Value) -> Answer {
    Answer::json(200, json!({ "value": value, "version": "1" }))
}

/// Serves until the test process ends.
pub fn start(counters: &Arc<Mutex<Counters>>) -> SocketAddr {
    let counters = counters.clone();
    serve(move |asked| counters.lock().unwrap().answer(asked))
}
