//! The first start on a database that is still empty, by several instances at once; a start with another issuer.

use identity::clients;
use identity::ids::ClientId;
use identity::organizations::{self, PLATFORM};
use server::testing::{Kind, TestPlace};
use server::{App, SecretKey, Settings, Store, SystemClock, SystemRandom, first_start, store_options};
use std::sync::{Arc, Barrier};
use store::{Sql, args, sql};
use tokio::runtime::Handle;

const INSTANCES: usize = 3;

static ROWS: Sql = sql("SELECT (SELECT COUNT(*) FROM sarsen_migrations),
    (SELECT COUNT(*) FROM organizations), (SELECT COUNT(*) FROM clients), (SELECT COUNT(*) FROM signing_keys)");

/// Empty databases that are tried: all of them in a soak.
fn tries() -> usize {
    if std::env::var_os("SARSEN_SOAK").is_some() { 100 } else { 5 }
}

/// What `sarsen serve` does before it listens. Returns the store, or why the instance ends.
fn start(url: String, together: &Barrier, runtime: &Handle) -> Result<Store, String> {
    together.wait();
    let store = Store::open(store_options(url)).map_err(|error| error.to_string())?;
    let settings = Settings::new("http://127.0.0.1:7070");
    let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let app = App::new(store.clone(), settings, SecretKey::new(&[7; 32]), clock, random, None)
        .map_err(|error| error.to_string())?;
    let started = runtime.block_on(async {
        first_start::prepare(&app).await?;
        first_start::link(&app).await
    });
    match started {
        Ok(Some(_)) => Ok(store),
        Ok(None) => Err("the installation has an owner already".to_owned()),
        Err(error) => {
            store.close();
            Err(error.to_string())
        }
    }
}

async fn start_together(kind: Kind) {
    for number in 0..tries() {
        let Some(place) = TestPlace::on(kind) else { return };
        let together = Arc::new(Barrier::new(INSTANCES));
        let starts: Vec<_> = (0..INSTANCES)
            .map(|_| {
                let (url, together, runtime) = (place.url(), together.clone(), Handle::current());
                tokio::task::spawn_blocking(move || start(url, &together, &runtime))
            })
            .collect();
        let mut stores = Vec::new();
        for start in starts {
            let started = start.await.expect("ends");
            stores.push(started.unwrap_or_else(|error| panic!("database {number} on {kind:?}: {error}")));
        }
        let store = &stores[0];
        let rows = store.read(|snapshot| {
            let numbers = |row: &store::Row<'_>| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]);
            snapshot.one(&ROWS, args![], numbers)
        });
        let migrations = identity::schema::MIGRATIONS.len() as i64;
        let rows: [i64; 4] = rows.await.map_err(|error: store::Error| error).expect("reads").expect("a row");
        assert_eq!(rows, [migrations, 1, 2, 1], "migrations, organizations, clients, keys");
        store.point(|snapshot| organizations::find(snapshot, PLATFORM)).await.expect("is there");
        tokio::task::spawn_blocking(move || {
            stores.iter().for_each(Store::close);
            drop(place);
        })
        .await
        .expect("closes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_follows_a_changed_issuer() {
    let place = TestPlace::create();
    let mut seen = Vec::new();
    for issuer in ["http://127.0.0.1:7070", "https://id.example.com", "https://id.example.com"] {
        let store = Store::open(store_options(place.url())).expect("opens");
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let settings = Settings::new(issuer);
        let app =
            App::new(store.clone(), settings, SecretKey::new(&[7; 32]), clock, random, None).expect("made");
        first_start::prepare(&app).await.expect("prepares");
        let console = ClientId::parse("console").expect("an id");
        let found = store.point(move |snapshot| clients::get(snapshot, &console)).await.expect("is there");
        seen.push(found.redirect_uris);
        tokio::task::spawn_blocking(move || store.close()).await.expect("closes");
    }
    let moved = ["https://id.example.com/console"];
    assert_eq!(seen, [["http://127.0.0.1:7070/console"], moved, moved]);
    tokio::task::spawn_blocking(move || drop(place)).await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_instances_start_together_on_an_empty_postgres() {
    start_together(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn soak_instances_start_together_on_an_empty_mariadb() {
    start_together(Kind::Mysql).await;
}
