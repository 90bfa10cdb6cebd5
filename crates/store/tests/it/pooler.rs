//! Behind a pooler that lends a connection for one transaction.

use crate::instances::{NOW, keep, rename, soon};
use crate::support::{MIGRATIONS, add};
use std::time::Duration;
use store::testing::own_server::OwnServer;
use store::testing::pooler::Pooler;
use store::testing::postgres::with_client;
use store::testing::say_skipped;
use store::{Error, Options, Sql, Store, Value, args, sql};

fn options(url: String) -> Options {
    let mut options = Options::new(url, MIGRATIONS);
    options.watched = &["notes"];
    options.following.lag_max = Duration::from_secs(10);
    options.writer.deadline = Duration::from_secs(30);
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_works_behind_a_pooler_and_nothing_is_left_on_its_sessions() {
    static TYPES: Sql = sql("INSERT INTO samples (number, fraction, text, bytes) VALUES (?1, ?2, ?3, ?4)");
    static COUNT: Sql = sql("SELECT COUNT(*), SUM(number) FROM samples WHERE number > ?1 OR text = ?2");
    let Some(server) = OwnServer::start() else { return };
    let Some(pooler) = Pooler::start(&server) else {
        return say_skipped("behind a pooler: there is no pgbouncer");
    };
    let mut pooled = options(pooler.url(&server));
    pooled.following.direct_url = Some(server.url());
    pooled.following.poll = Duration::from_millis(100);
    // More connections than the pooler has: sessions change hands all the time.
    (pooled.writers, pooled.readers) = (8, 4);
    let store = Store::open(pooled.clone()).expect("opens");
    let other = Store::open(pooled).expect("opens");
    let jobs = (0..200).map(|number| {
        let store = if number % 2 == 0 { store.clone() } else { other.clone() };
        tokio::spawn(async move {
            let id = format!("n{number}");
            add(&store, &id, "ada", &id).await.expect("writes");
            let twice = add(&store, &id, "ada", &id).await.expect_err("it is there");
            assert_eq!(twice.conflict(), Some("notes_pkey"));
            let typed = store.write_batched("sample.add", move |tx| {
                let text = if number % 3 == 0 { Value::Null } else { Value::from("ä") };
                tx.exec_one(&TYPES, &[Value::Int(number), Value::Real(0.5), text, Value::from(&b"\0x"[..])])
            });
            assert!(typed.await.map_err(|error: Error| error).expect("writes"));
        })
    });
    for job in jobs.collect::<Vec<_>>() {
        job.await.expect("joins");
    }
    let sums = store.read(|snapshot| {
        snapshot.one(&COUNT, args![-1, "ä"], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))
    });
    assert_eq!(sums.await.map_err(|error: Error| error).expect("reads"), Some((200, 199 * 100)));
    store.prepare(&COUNT).expect("it can be prepared");
    let cache = other.cache("bodies");
    for number in 0..10 {
        keep(&other, &cache, "n0").await;
        rename(&store, "n0", &format!("again {number}")).await;
        soon("the entry goes", || cache.get("n0", NOW).is_none()).await;
    }
    store.close();
    other.close();
    let direct = server.url().parse().expect("a URL");
    let left = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(with_client(direct, |client| client.query_one(left, &[]).expect("runs").get::<_, i64>(0)), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_of_a_pooler_that_does_not_say_so_is_told_what_to_add() {
    let Some(server) = OwnServer::start() else { return };
    let Some(pooler) = Pooler::start(&server) else {
        return say_skipped("behind a pooler: there is no pgbouncer");
    };
    let url = server.url_at("127.0.0.1", pooler.port);
    let options = Options { writers: 8, ..options(url) };
    let one = Store::open(options.clone());
    // Its connections prepare statements that others have prepared on the same session, and miss their own.
    let other = Store::open(options);
    let mut refused: Vec<String> =
        [&one, &other].iter().filter_map(|opened| opened.as_ref().err()).map(Error::to_string).collect();
    let stores: Vec<Store> = [one, other].into_iter().flatten().collect();
    let mut number = 0;
    while refused.is_empty() && number < 500 {
        let adding = (0..20).map(|_| {
            number += 1;
            let (store, id) = (stores[number % stores.len()].clone(), format!("n{number}"));
            tokio::spawn(async move { add(&store, &id, "ada", &id).await })
        });
        for added in adding.collect::<Vec<_>>() {
            refused.extend(added.await.expect("ends").err().map(|error| error.to_string()));
        }
    }
    assert!(refused.iter().any(|text| text.contains("pooler=transaction")), "{refused:?}");
    stores.iter().for_each(Store::close);
}
