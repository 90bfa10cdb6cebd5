//! Servers and poolers that do not let a session assign `synchronous_commit` (SQLSTATE 0A000, as Multigres does). A proxy makes a real
//! server such a one: each assignment becomes a statement that fails so. It can also make the server say that it is an old one.

use crate::instances::{NOW, keep, rename, soon};
use crate::support::{MIGRATIONS, add};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use store::testing::postgres::{self, PostgresDatabase};
use store::testing::say_skipped;
use store::{Options, Store};

/// What the server gets in the place of an assignment.
const REFUSAL: &str = "DO $no$ BEGIN RAISE EXCEPTION 'assigning synchronous_commit is not supported' \
     USING ERRCODE = '0A000'; END $no$";

struct Forbidding {
    port: u16,
    refused: Arc<AtomicUsize>,
    is_old: Arc<AtomicBool>,
}

impl Forbidding {
    fn start(host: String, port: u16) -> Forbidding {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own_port = listener.local_addr().expect("an address").port();
        let refused = Arc::new(AtomicUsize::new(0));
        let is_old = Arc::new(AtomicBool::new(false));
        let (counter, ages) = (refused.clone(), is_old.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect((host.as_str(), port)).expect("the server listens");
                let (to_client, from_server) =
                    (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
                let (counter, ages) = (counter.clone(), ages.clone());
                thread::spawn(move || ask(client, server, &counter, &ages));
                thread::spawn(move || answer(from_server, to_client));
            }
        });
        Forbidding { port: own_port, refused, is_old }
    }
}

fn answer(mut from: TcpStream, mut to: TcpStream) {
    // Either side may go away.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Hands on what the client sends, message by message. The first has no type.
fn ask(mut from: TcpStream, mut to: TcpStream, refused: &AtomicUsize, is_old: &AtomicBool) {
    let mut kind = None;
    while let Some(mut text) = message(&mut from) {
        if matches!(kind, Some(b'Q' | b'P')) {
            text = without_assignments(&text, refused);
            if is_old.load(Ordering::SeqCst) {
                let sql = String::from_utf8_lossy(&text);
                text = sql.replace("SHOW server_version_num", "SELECT '130012'").into_bytes();
            }
        }
        let length = u32::try_from(text.len() + 4).expect("a short message").to_be_bytes();
        let whole = [&kind.map_or(vec![], |kind| vec![kind])[..], &length, &text].concat();
        let mut next = [0];
        if to.write_all(&whole).is_err() || from.read_exact(&mut next).is_err() {
            break;
        }
        kind = Some(next[0]);
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn message(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let mut text = vec![0; (u32::from_be_bytes(length) as usize).checked_sub(4)?];
    from.read_exact(&mut text).ok()?;
    Some(text)
}

fn without_assignments(text: &[u8], refused: &AtomicUsize) -> Vec<u8> {
    let mut sql = String::from_utf8_lossy(text).into_owned();
    for begin in ["SET LOCAL synchronous_commit = ", "SET synchronous_commit = "] {
        for value in ["on", "off"] {
            let assignment = format!("{begin}{value}");
            refused.fetch_add(sql.matches(&assignment).count(), Ordering::SeqCst);
            sql = sql.replace(&assignment, REFUSAL);
        }
    }
    sql.into_bytes()
}

/// A database, and URLs of it that lead through the proxy: with sessions, and as behind a pooler.
fn behind() -> Option<(PostgresDatabase, Forbidding, [String; 2])> {
    if postgres::url().is_none() {
        say_skipped("a server that forbids a setting: the environment names no PostgreSQL");
        return None;
    }
    let database = PostgresDatabase::create();
    let (host, port) = database.place();
    let proxy = Forbidding::start(host, port);
    let url = format!("{}?sslmode=disable", database.url_at("127.0.0.1", proxy.port));
    let pooled = format!("{url}&pooler=transaction");
    Some((database, proxy, [url, pooled]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forbids_the_setting_is_used_where_its_own_flushes_commits() {
    let Some((database, proxy, urls)) = behind() else { return };
    for (number, url) in urls.into_iter().enumerate() {
        let options = || {
            let mut options = Options::new(url.clone(), MIGRATIONS);
            options.watched = &["notes"];
            options.following.lag_max = Duration::from_secs(10);
            options
        };
        let (store, other) = (Store::open(options()).expect("opens"), Store::open(options()).expect("opens"));
        let id = format!("n{number}");
        add(&store, &id, "ada", &id).await.expect("writes");
        let cache = other.cache("bodies");
        for time in 0..3 {
            keep(&other, &cache, &id).await;
            rename(&store, &id, &format!("{id} again {time}")).await;
            soon("the other one hears of it", || cache.get(&*id, NOW).is_none()).await;
        }
        store.close();
        other.close();
    }
    assert!(proxy.refused.load(Ordering::SeqCst) > 0);
    drop(database);
}

#[test]
fn a_server_that_forbids_the_setting_and_flushes_late_is_refused() {
    let Some((database, _proxy, urls)) = behind() else { return };
    database.sql(format!("ALTER DATABASE {} SET synchronous_commit = off", database.name));
    for url in urls {
        let refused = Store::open(Options::new(url, MIGRATIONS)).map(drop).expect_err("refused").to_string();
        assert!(refused.contains("set synchronous_commit = on there"), "{refused}");
    }
    // Where a session may ask for it, it does.
    Store::open(Options::new(database.url(), MIGRATIONS)).expect("opens").close();
}

#[test]
fn a_server_that_is_too_old_is_refused() {
    let Some((database, proxy, [url, _])) = behind() else { return };
    proxy.is_old.store(true, Ordering::SeqCst);
    let options = Options::new(url, MIGRATIONS);
    let refused = [Store::open(options.clone()).map(drop), store::rehearse_open(&options).map(drop)];
    for refused in refused {
        let text = refused.expect_err("refused").to_string();
        assert!(text.contains("PostgreSQL 13; 14 or newer is needed"), "{text}");
    }
    drop(database);
}
