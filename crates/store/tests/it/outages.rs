//! The server itself ends in the middle of the work, and comes back.

use crate::instances::{NOW, keep, rename, soon};
use crate::support::{MIGRATIONS, add};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use store::testing::own_server::OwnServer;
use store::{Error, Options, Sql, Store, args, sql};

#[derive(Default)]
struct Tally {
    done: HashSet<String>,
    not_done: HashSet<String>,
    unknown: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_under_load_costs_clean_errors_and_nothing_else() {
    static IDS: Sql = sql("SELECT id FROM notes");
    let Some(server) = OwnServer::start() else { return };
    let open =
        || Store::open(Options { watched: &["notes"], writers: 8, ..Options::new(server.url(), MIGRATIONS) });
    let (store, other) = (open().expect("opens"), open().expect("opens"));
    let cache = other.cache("bodies");
    add(&store, "n", "ada", "one").await.expect("writes");
    let (stop, commits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let jobs = (0..16).map(|writer| {
        let (store, stop, commits) = (store.clone(), stop.clone(), commits.clone());
        tokio::spawn(async move {
            let mut tally = Tally::default();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let id = format!("n{writer}-{number}");
                match add(&store, &id, "ada", &id).await {
                    Ok(_) => {
                        commits.fetch_add(1, Ordering::Relaxed);
                        tally.done.insert(id);
                    }
                    Err(Error::OutcomeUnknown) => tally.unknown += 1,
                    Err(error) => {
                        assert!(error.is_temporary(), "{error:?}");
                        tally.not_done.insert(id);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
            tally
        })
    });
    let jobs: Vec<_> = jobs.collect();
    // A crash is likely to lose transactions whose ids it then gives to others, but not sure to.
    for how in ["fast", "immediate", "immediate", "immediate"] {
        let before = commits.load(Ordering::Relaxed);
        soon("work is done", || commits.load(Ordering::Relaxed) > before + 50).await;
        tokio::task::block_in_place(|| server.restart(how));
        let after = commits.load(Ordering::Relaxed);
        soon("service returns", || commits.load(Ordering::Relaxed) > after + 50).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = Tally::default();
    for job in jobs {
        let tally = job.await.expect("clean errors only");
        all.done.extend(tally.done);
        all.not_done.extend(tally.not_done);
        all.unknown += tally.unknown;
    }
    let there = store.read(|snapshot| snapshot.all(&IDS, args![], |row| row.get::<String>(0)));
    let there: HashSet<String> =
        there.await.map_err(|error: Error| error).expect("reads").into_iter().collect();
    eprintln!("{} done, {} refused, {} unknown", all.done.len(), all.not_done.len(), all.unknown);
    let lost: Vec<_> = all.done.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and not there: {lost:?}");
    let too_many: Vec<_> = all.not_done.intersection(&there).collect();
    assert!(too_many.is_empty(), "refused and there: {too_many:?}");
    // And the instances hear of each other again.
    keep(&other, &cache, "n").await;
    rename(&store, "n", "two").await;
    soon("the entry goes", || cache.get("n", NOW).as_deref() != Some("one")).await;
    store.close();
    other.close();
}
