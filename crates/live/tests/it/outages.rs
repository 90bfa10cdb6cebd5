//! PostgreSQL goes away and comes back under a back end.

use crate::app::{GetCounter, MIGRATIONS, now};
use crate::client::Client;
use live::{App, Settings};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use store::testing::own_server::OwnServer;
use tokio::task::block_in_place;

fn get() -> Value {
    json!([{ "key": "k", "query": "get_counter", "args": { "id": 1 } }])
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_no_stream_gets_a_first_answer_and_then_all_get_its_new_epoch() {
    let Some(database) = OwnServer::start() else { return };
    let mut settings = Settings::new(database.url(), ([127, 0, 0, 1], 0).into());
    settings.clock = Arc::new(now);
    settings.limits.heartbeat = Duration::from_secs(1);
    // Requests are authorized without the database here, so that a stream can begin while the database is away.
    let app = App::new().query::<GetCounter>().migrations(MIGRATIONS).watched(&["counters"]);
    let running = live::serve(app, settings).await.expect("the app is served");
    database.sql("INSERT INTO counters (id, owner, value) VALUES (1, 'ada', 0)");
    let ada = Client::new(running.address, "");
    let mut early = ada.live(get());
    early.expect("hello");
    let first = early.expect("value");
    block_in_place(|| database.stop("fast"));
    let began = Instant::now();
    while !ada.send("GET", "/metrics", &[], "").body.contains("store_fresh 0") {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not notice");
    }
    let mut late = ada.live(get());
    late.expect("hello");
    // The result is cached, and may have changed elsewhere.
    late.expect_comment();
    late.expect_comment();
    let is_back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let value = late.expect("value");
            (value, is_back.load(Ordering::SeqCst))
        });
        is_back.store(true, Ordering::SeqCst);
        database.resume();
        let (value, was_back) = late.join().expect("an answer");
        assert!(was_back && value.value() == first.value(), "{value:?}");
        let epoch = |id: &str| id.split('.').next().map(str::to_owned);
        assert_ne!(epoch(&value.id), epoch(&first.id));
        let confirmed = early.expect("same");
        assert_eq!(epoch(&confirmed.id), epoch(&value.id), "an equal result is confirmed in the new epoch");
    });
    running.stop().await;
}
