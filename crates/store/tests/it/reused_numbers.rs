//! A server of MySQL that crashed gives numbers of the log again that it had lost. What it does then is done here
//! by hand, for a crash loses something only when it comes at the right moment.

use crate::instances::{NOW, cached, count_changes, keep, rename, soon};
use crate::proxy::Cut;
use crate::remote::open_through_proxy;
use crate::support::{Database, add};
use std::sync::atomic::Ordering;
use store::{Options, Store};

const NEWEST: &str = "SELECT MAX(seq) FROM change_log";

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_commit_is_not_taken_for_the_one_that_has_its_number_now() {
    let Some(test) = Database::mysql().map(Database::open) else { return };
    let (store, proxy) = open_through_proxy(&test);
    add(&store, "calm", "ada", "calm").await.expect("writes");
    let lost = test.mysql().number(NEWEST) + 1;
    proxy.cut_next(Cut::Before);
    proxy.close();
    let own = store.clone();
    let adding = tokio::spawn(async move { add(&own, "n", "ada", "one").await });
    // The row of the lost one is in the way for as long as it is there.
    soon("it is written, and cut", || proxy.has_cut()).await;
    test.mysql().sql(&format!("INSERT INTO change_log (seq, `keys`, mark) VALUES ({lost}, '', 1)"));
    proxy.open();
    assert_eq!(adding.await.expect("ends").expect("is done in the end"), 1);
    assert_eq!(test.body("n").await.as_deref(), Some("one"), "what was acknowledged is there");
    assert_eq!(store.stats().retried, 1);
    store.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_with_a_number_that_was_seen_before_is_heard_of() {
    let Some(test) = Database::mysql().map(Database::open) else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let (other, proxy) = open_through_proxy(&test);
    let cache = other.cache("bodies");
    let heard = count_changes(&other);
    for body in ["two", "three", "four"] {
        rename(&test.store, "n", body).await;
    }
    soon("it has heard of them", || heard.load(Ordering::SeqCst) == 3).await;
    keep(&other, &cache, "n").await;
    proxy.close();
    proxy.cut_all();
    let newest = test.mysql().number(NEWEST);
    test.mysql().sql(&format!("DELETE FROM change_log WHERE seq > {}", newest - 3));
    test.mysql().sql(&format!("ALTER TABLE change_log AUTO_INCREMENT = {}", newest - 2));
    rename(&test.store, "n", "five").await;
    assert!(test.mysql().number(NEWEST) <= newest, "it has a number that was another's");
    proxy.open();
    soon("the entry goes", || cache.get("n", NOW).is_none() && cache.is_empty()).await;
    assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some("five"));
    other.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_were_trimmed_before_they_were_read_empty_the_caches() {
    let Some(test) = Database::mysql().map(Database::open) else { return };
    test.add("n", "ada", "one").await.expect("writes");
    let other = Store::open(test.options()).expect("opens beside the first");
    let cache = other.cache("bodies");
    keep(&other, &cache, "n").await;
    // As if the other instance had been suspended during many commits: their rows come and go between two looks.
    test.mysql().sql(
        "START TRANSACTION;
         UPDATE notes SET body = 'two' WHERE id = 'n';
         INSERT INTO change_log (`keys`, mark) VALUES ('', 1);
         DELETE FROM change_log;
         INSERT INTO change_log (`keys`, mark) VALUES ('', 2);
         COMMIT",
    );
    soon("the entry goes", || cache.get("n", NOW).is_none() && cache.is_empty()).await;
    assert_eq!(cached(&other, &cache, "n").await.as_deref(), Some("two"));
    other.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_replaced_under_open_connections_empties_the_caches() {
    let Some(test) = Database::mysql().map(Database::open) else { return };
    for number in 0..10 {
        test.add(&format!("n{number}"), "ada", &format!("n{number}")).await.expect("writes");
    }
    let other = Store::open(test.options()).expect("opens beside the first");
    let cache = other.cache("bodies");
    keep(&other, &cache, "n1").await;
    // What reading a dump into it leaves: other rows, and a log with smaller numbers.
    test.mysql().sql(
        "TRUNCATE change_log;
         UPDATE notes SET body = 'two' WHERE id = 'n1';
         INSERT INTO change_log (`keys`, mark) VALUES ('', 1)",
    );
    soon("the entry goes", || cache.get("n1", NOW).is_none() && cache.is_empty()).await;
    assert_eq!(cached(&other, &cache, "n1").await.as_deref(), Some("two"));
    keep(&other, &cache, "n1").await;
    rename(&test.store, "n1", "three").await;
    soon("later changes are heard of", || cache.get("n1", NOW).is_none()).await;
    other.close();
}

#[tokio::test]
async fn a_log_of_before_there_were_marks_is_given_them() {
    let Some(test) = Database::mysql().map(Database::open) else { return };
    test.add("n", "ada", "one").await.expect("writes");
    test.mysql().sql("ALTER TABLE change_log DROP COLUMN mark");
    let other = Store::open(Options { writers: 1, ..test.options() }).expect("opens");
    add(&other, "m", "ada", "two").await.expect("writes");
    assert_eq!(test.mysql().number("SELECT COUNT(*) FROM change_log WHERE mark <> 0"), 1);
    other.close();
}
