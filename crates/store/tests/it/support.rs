//! A small schema and a store on a throw-away database.

use std::path::PathBuf;
use store::{Error, Migration, Options, Sql, Store, args, sql};

const NOTES: &str = "
CREATE TABLE notes (id TEXT PRIMARY KEY, owner TEXT NOT NULL, body TEXT NOT NULL, used_at BIGINT);
CREATE UNIQUE INDEX notes_body ON notes (owner, body);
";

pub static MIGRATIONS: &[Migration] =
    &[Migration { number: 1, name: "notes", sqlite: NOTES, postgres: NOTES }];

pub static INSERT: Sql = sql("INSERT INTO notes (id, owner, body) VALUES (?1, ?2, ?3)");
pub static BODY: Sql = sql("SELECT body FROM notes WHERE id = ?1");
pub static COUNT: Sql = sql("SELECT COUNT(*) FROM notes");

pub struct TestStore {
    pub store: Store,
    pub folder: tempfile::TempDir,
}

impl TestStore {
    pub fn open() -> TestStore {
        TestStore::open_with(|_| {})
    }

    pub fn open_with(change: impl FnOnce(&mut Options)) -> TestStore {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = Options::new(url(&folder), MIGRATIONS);
        options.check = true;
        options.watched = &["notes"];
        change(&mut options);
        TestStore { store: Store::open(options).expect("opens"), folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("test.db")
    }

    /// The same file again, as after a restart.
    pub fn reopen(self) -> TestStore {
        self.store.close();
        let mut options = Options::new(url(&self.folder), MIGRATIONS);
        options.check = true;
        TestStore { store: Store::open(options).expect("opens again"), folder: self.folder }
    }

    pub async fn add(&self, id: &str, owner: &str, body: &str) -> Result<u64, Error> {
        let (id, owner, body) = (id.to_owned(), owner.to_owned(), body.to_owned());
        self.store
            .write("note.add", move |tx| {
                tx.changed(store::Key::row("notes", "id", &id));
                tx.exec(&INSERT, args![&id, &owner, &body])
            })
            .await
    }

    pub async fn body(&self, id: &str) -> Option<String> {
        let id = id.to_owned();
        let read = self.store.point(move |snapshot| snapshot.one(&BODY, args![&id], |row| row.get(0)));
        read.await.map_err(|error: Error| error).expect("reads")
    }

    pub async fn count(&self) -> i64 {
        let read = self.store.read(|snapshot| snapshot.one(&COUNT, args![], |row| row.get(0)));
        read.await.map_err(|error: Error| error).expect("reads").expect("a count")
    }
}

fn url(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("test.db").display())
}
