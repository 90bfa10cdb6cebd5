//! A back end that is written with `live`: calls, subscriptions, routes of its own.

#![allow(clippy::disallowed_methods, reason = "tests connect to their own server")]

use super::notes::serve;
use super::streams::Stream;
use super::{Call, Recording, call, get, is_recorded, post};
use serde_json::{Value, json};
use server::testing::{Answer, TestPlace};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A back end that is recorded.
struct BackEnd {
    address: SocketAddr,
    to: Recording,
}

impl BackEnd {
    async fn send(&mut self, what: &str, call: Call) -> Answer {
        let answer = self.silently(&call).await;
        self.to.record(what, &call, &answer);
        answer
    }

    async fn silently(&self, call: &Call) -> Answer {
        let mut socket = TcpStream::connect(self.address).await.expect("connects");
        // The answer may come before all is read.
        let _ = socket.write_all(&call.to_bytes()).await;
        let mut bytes = Vec::new();
        let _ = socket.read_to_end(&mut bytes).await;
        Answer::parse(&bytes)
    }

    /// A call by name.
    async fn call(&mut self, what: &str, user: &str, name: &str, args: &Value) -> Answer {
        self.send(what, by(user, post(format!("/rpc/{name}")).json(args))).await
    }

    /// Opens a stream of Ada.
    async fn live(&mut self, what: &str, subscriptions: &Value) -> Stream {
        let body = json!({ "subscriptions": subscriptions }).to_string();
        let stream = Stream::open(self.address, "POST /live", "authorization: Bearer ada\r\n", &body).await;
        self.to.record(what, &by("ada", post("/live").body("application/json", body)), &stream.head);
        stream
    }
}

fn by(user: &str, call: Call) -> Call {
    if user.is_empty() { call } else { call.by(user, user) }
}

#[tokio::test(flavor = "multi_thread")]
async fn back_end() {
    if !is_recorded() {
        return;
    }
    let place = TestPlace::create();
    let running = serve(&place).await;
    let mut end = BackEnd { address: running.address, to: Recording::bare() };
    calls(&mut end).await;
    keyed(&mut end).await;
    routes(&mut end).await;
    subscriptions(&mut end).await;
    let mut stream = end.live("a stream", &json!([])).await;
    let hello = stream.blocks(1).await;
    end.to.add_stream("its first event", &hello);
    let rest = tokio::spawn(async move { stream.rest().await });
    running.stop().await;
    end.to.add_stream("the back end stops, to the end", &rest.await.expect("ends"));
    insta::assert_snapshot!("back_end", end.to.finish());
}

async fn calls(end: &mut BackEnd) {
    end.to.section("Calls");
    end.call("a mutation", "ada", "write_note", &json!({ "id": 1, "text": "one" })).await;
    let read = end.call("a query", "", "get_note", &json!({ "id": 1 })).await;
    end.call("without arguments", "ada", "own_notes", &json!({})).await;
    end.send("without a body", by("ada", post("/rpc/own_notes"))).await;
    end.call("the same id", "ada", "write_note", &json!({ "id": 1, "text": "two" })).await;
    end.call("not found", "", "get_note", &json!({ "id": 7 })).await;
    end.call("a rule is broken", "ada", "write_note", &json!({ "id": 2, "text": "" })).await;
    end.call("a wrong type", "", "get_note", &json!({ "id": "x" })).await;
    end.call("a missing field", "", "get_note", &json!({})).await;
    end.call("an unknown field", "", "get_note", &json!({ "id": 1, "x": 2 })).await;
    end.call("an unknown name", "ada", "nothing", &json!({})).await;
    end.call("nobody", "", "own_notes", &json!({})).await;
    end.call("a token that is none", "bad", "own_notes", &json!({})).await;
    end.call("not allowed", "ada", "drafts", &json!({})).await;
    end.call("a conflict of the app", "ada", "delete_note", &json!({ "id": 9 })).await;
    end.call("not now", "ada", "fail", &json!({})).await;
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let many = format!("[{}]", vec!["0"; 16_385].join(","));
    for (what, body) in [
        ("a list", "[1]"),
        ("cut off", "{\"id\":"),
        ("no JSON", "{'id': 1}"),
        ("a field twice", "{\"id\":1,\"id\":2}"),
        ("a NUL", "{\"id\":1,\"text\":\"\\u0000\"}"),
        ("too deep", &*deep),
        ("too many values", &*many),
    ] {
        end.send(what, by("ada", post("/rpc/write_note").body("application/json", body))).await;
    }
    let large = vec![b' '; 256 * 1024 + 1];
    end.send("too large", by("ada", post("/rpc/write_note").body("application/json", large))).await;
    end.send("a wrong method", get("/rpc/get_note")).await;
    let seen = read.header("sarsen-version").to_owned();
    let asking = || post("/rpc/get_note").json(&json!({ "id": 1 }));
    end.send("a version that is sent back", asking().header("sarsen-version", &seen)).await;
    end.send("a version that is none", asking().header("sarsen-version", "7")).await;
    let two = asking().header("authorization", "Bearer a").header("authorization", "Bearer b");
    end.send("two tokens", two).await;
    let origin = ("origin", "https://app.example");
    end.send("of another origin", by("ada", asking().header(origin.0, origin.1))).await;
    let asks = call("OPTIONS", "/rpc/get_note").header(origin.0, origin.1);
    end.send("a preflight", asks.header("access-control-request-method", "POST")).await;
    end.send("for another host", asking().header("host", "evil.example")).await;
    let long = "x".repeat(20 * 1024);
    end.send("a head that is too large", asking().header("x-long", &long)).await;
    end.send("a NUL in the address", post("/rpc/%00")).await;
}

async fn keyed(end: &mut BackEnd) {
    end.to.section("Calls that are sent again");
    let write = |id: i64, key: &str| {
        by(
            "ada",
            post("/rpc/write_note")
                .json(&json!({ "id": id, "text": "keyed" }))
                .header("idempotency-key", key),
        )
    };
    end.send("first", write(3, "k1")).await;
    end.send("again", write(3, "k1")).await;
    end.send("with other arguments", write(4, "k1")).await;
    end.send("what failed is not kept", write(3, "k2")).await;
    end.send("so another may have its key", write(5, "k2")).await;
    end.send("a key that is none", write(6, "two words")).await;
    let read = post("/rpc/get_note").json(&json!({ "id": 1 })).header("idempotency-key", "two words");
    end.send("a key that is none, of a query", by("ada", read)).await;
    let plain = |path: &str, key: &str, text: &str| {
        by("ada", post(path).json(&json!({ "text": text })).header("idempotency-key", key))
    };
    end.send("a route, first", plain("/once", "k3", "x")).await;
    end.send("a route, again", plain("/once", "k3", "x")).await;
    end.send("a route, with another body", plain("/once", "k3", "y")).await;
    end.send("a route that takes none", plain("/echo", "k3", "x")).await;
    let nobody = post("/once").json(&json!({ "text": "x" })).header("idempotency-key", "short");
    end.send("a key of nobody that is easily guessed", nobody).await;
}

async fn routes(end: &mut BackEnd) {
    end.to.section("Routes");
    for path in ["/healthz", "/readyz", "/echo", "/nothing", "/panics", "/live/nothing"] {
        end.send("a route", get(path)).await;
    }
    let metrics = Answer { body: "(counters)".to_owned(), ..end.silently(&get("/metrics")).await };
    end.to.record("counters", &get("/metrics"), &metrics);
    end.send("for operators", get("/metrics").header("x-forwarded-for", "203.0.113.9")).await;
    end.send("for operators", get("/live/explain").header("x-forwarded-for", "203.0.113.9")).await;
    let explained = Answer { body: "(what runs)".to_owned(), ..end.silently(&get("/live/explain")).await };
    end.to.record("what runs", &get("/live/explain"), &explained);
    for (what, body) in [
        ("what was sent", "{\"text\":\"x\",\"count\":7}"),
        ("two wrong fields", "{\"text\":1,\"count\":\"x\"}"),
        ("out of range", "{\"text\":\"x\",\"count\":256}"),
        ("an unknown field", "{\"text\":\"x\",\"more\":1}"),
        ("a missing field", "{}"),
        ("empty", ""),
    ] {
        end.send(what, post("/echo").body("application/json", body)).await;
    }
    end.send("a wrong media type", post("/echo").body("text/plain", "{}")).await;
    end.send("a wrong method", call("PUT", "/echo")).await;
    end.send("a part of the path", get("/numbers/7?text=x")).await;
    end.send("a part of the path that is wrong", get("/numbers/x?text=x")).await;
    end.send("a parameter that is missing", get("/numbers/7")).await;
    end.send(
        "a page of another site",
        post("/rpc/get_note")
            .json(&json!({ "id": 1 }))
            .header("sec-fetch-site", "cross-site")
            .header("origin", "https://evil.example"),
    )
    .await;
}

async fn subscriptions(end: &mut BackEnd) {
    end.to.section("Streams");
    let one = json!({ "key": "one", "query": "get_note", "args": { "id": 1 } });
    let mut stream = end.live("a subscription", &json!([one])).await;
    let first = stream.blocks(2).await;
    end.to.add_stream("its first events", &first);
    end.call("a change", "ada", "change_note", &json!({ "id": 1, "text": "first" })).await;
    let changed = stream.blocks(1).await;
    end.to.add_stream("what it leads to", &changed);
    let data = |name: &str| {
        first.lines().find_map(|line| {
            line.strip_prefix("data: ")?
                .split(&format!("\"{name}\":\""))
                .nth(1)?
                .split('"')
                .next()
                .map(str::to_owned)
        })
    };
    let (name, secret) = (data("stream").unwrap_or_default(), data("secret").unwrap_or_default());
    end.to.learn(&secret, "<secret_of_the_stream>");
    let path = format!("/live/{name}");
    let add = json!({ "secret": secret, "add": [{ "key": "list", "query": "own_notes", "args": {}, "rows": true }] });
    end.send("one more", by("ada", post(&path).json(&add))).await;
    let list = stream.blocks(1).await;
    end.to.add_stream("its first event", &list);
    end.call("a change", "ada", "change_note", &json!({ "id": 3, "text": "third" })).await;
    let rows = stream.blocks(1).await;
    end.to.add_stream("the row that changed", &rows);
    end.call("a deletion", "ada", "delete_note", &json!({ "id": 3 })).await;
    let gone = stream.blocks(1).await;
    end.to.add_stream("the row that has gone", &gone);
    let lost =
        json!({ "secret": secret, "add": [{ "key": "lost", "query": "get_note", "args": { "id": 70 } }] });
    end.send("one that is not there", by("ada", post(&path).json(&lost))).await;
    let lost = stream.blocks(1).await;
    end.to.add_stream("its error", &lost);
    end.send(
        "removed",
        by("ada", post(&path).json(&json!({ "secret": secret, "remove": ["lost", "list"] }))),
    )
    .await;
    end.send("a wrong secret", by("ada", post(&path).json(&json!({ "secret": "x" })))).await;
    end.send("another stream", by("ada", post("/live/nothing").json(&json!({ "secret": "x" })))).await;
    end.send("a key twice", by("ada", post(&path).json(&json!({ "secret": secret, "add": [one] })))).await;
    let many: Vec<Value> =
        (0..5).map(|number| json!({ "key": format!("k{number}"), "query": "own_notes" })).collect();
    end.send("too many", by("ada", post("/live").json(&json!({ "subscriptions": many })))).await;
    end.send("an unknown field", by("ada", post("/live").json(&json!({ "subscription": [] })))).await;
    end.send("a token that is none", by("bad", post("/live").json(&json!({ "subscriptions": [] })))).await;
    end.send("HEAD", call("HEAD", "/live")).await;
    end.send("without a ticket", get("/live")).await;
    end.send("a ticket that is none", get("/live?ticket=x")).await;
    let ticket = end.send("a ticket", by("ada", post("/live/ticket"))).await.text("ticket");
    let sub = form_urlencoded::byte_serialize(one.to_string().as_bytes()).collect::<String>();
    let opened = format!("GET /live?ticket={ticket}&sub={sub}");
    let mut by_ticket = Stream::open(end.address, &opened, "", "").await;
    let first = by_ticket.blocks(2).await;
    end.to.record("opened with it", &get(&opened["GET ".len()..]), &by_ticket.head);
    end.to.add_stream("its first events", &first);
    end.send("a poll", by("ada", get(format!("/live/poll?sub={sub}")))).await;
    end.send("a poll by POST", by("ada", post("/live/poll").json(&json!({ "subscriptions": [one] })))).await;
    end.send("a poll of no query", by("ada", get("/live/poll?sub=x"))).await;
}
