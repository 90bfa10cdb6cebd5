//! Any mixture of commands that succeed, fail, panic and run for too long leaves exactly what the
//! succeeding ones did, and each caller hears what became of its own.

use crate::support::{Database, INSERT, TestStore, endless};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Error, Key, Sql, Tx, args, sql, upsert};

#[test]
fn only_what_succeeded_is_there_on_sqlite() {
    any_mixture(Database::Sqlite, 48, 2);
}

#[test]
fn only_what_succeeded_is_there_on_postgres() {
    if let Some(database) = Database::postgres() {
        // A statement that is too slow takes ten times as long there.
        any_mixture(database, 16, 0);
    }
}

#[test]
fn only_what_succeeded_is_there_on_mysql() {
    if let Some(database) = Database::mysql() {
        any_mixture(database, 16, 0);
    }
}

/// One statement of a command. `Append` reads in order to decide what to write.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Append(u8, u8),
    Delete(u8),
}

/// How a command ends, after its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Succeeds,
    Fails,
    Panics,
    Conflicts,
    IsTooSlow,
}

#[derive(Clone, Debug)]
struct Plan {
    steps: Vec<Step>,
    end: End,
}

fn plans(slow: u32) -> impl Strategy<Value = Vec<Plan>> {
    let step = prop_oneof![
        (0..6_u8, any::<u8>()).prop_map(|(row, value)| Step::Put(row, value)),
        (0..6_u8, any::<u8>()).prop_map(|(row, value)| Step::Append(row, value)),
        (0..6_u8).prop_map(Step::Delete),
    ];
    let end = prop_oneof![
        60 => Just(End::Succeeds),
        20 => Just(End::Fails),
        10 => Just(End::Panics),
        10 => Just(End::Conflicts),
        slow => Just(End::IsTooSlow),
    ];
    let plan = (prop::collection::vec(step, 1..5), end).prop_map(|(steps, end)| Plan { steps, end });
    prop::collection::vec(plan, 1..40)
}

fn any_mixture(database: Database, cases: u32, slow: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    // One writing thread: commands run in the order in which they came, which the model needs.
    let test = database.open_with(|options| {
        options.writers = 1;
        options.writer.deadline = Duration::from_secs(60);
        // Some are made to run for longer.
        options.writer.command_time = Duration::from_millis(200);
    });
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&plans(slow), |plans| {
        runtime.block_on(check(&test, plans));
        Ok(())
    });
    result.expect("holds for any mixture");
}

async fn check(test: &TestStore, plans: Vec<Plan>) {
    static CLEAR: Sql = sql("DELETE FROM notes");
    static ALL: Sql = sql("SELECT id, body FROM notes WHERE id <> 'anchor' ORDER BY id");
    let cleared = test.store.write("note.clear", |tx| {
        tx.changed(Key::table("notes"));
        tx.exec(&CLEAR, args![])?;
        tx.exec(&INSERT, args!["anchor", "anchor", "anchor"])
    });
    cleared.await.map_err(|error: Error| error).expect("clears");

    let before = test.store.stats();
    let jobs: Vec<_> =
        plans.iter().cloned().map(|plan| tokio::spawn(submit(test.store.clone(), plan))).collect();
    let mut model = BTreeMap::new();
    let mut kept = 0;
    for (plan, job) in plans.iter().zip(jobs) {
        let result = job.await.expect("joins");
        let as_planned = match plan.end {
            End::Succeeds => result.is_ok(),
            End::Fails => matches!(&result, Err(Error::Database(text)) if text == "on purpose"),
            End::Panics => matches!(result, Err(Error::Panicked { command: "note.plan" })),
            End::Conflicts => matches!(&result, Err(error) if error.conflict() == Some("notes_pkey")),
            End::IsTooSlow => matches!(result, Err(Error::TooSlow { .. })),
        };
        assert!(as_planned, "{:?}: {result:?}", plan.end);
        if plan.end == End::Succeeds {
            plan.steps.iter().for_each(|step| apply(&mut model, step));
            kept += 1;
        }
    }
    let rows = test.store.read(|snapshot| {
        snapshot.all(&ALL, args![], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))
    });
    let rows: BTreeMap<_, _> = rows.await.map_err(|error: Error| error).expect("reads").into_iter().collect();
    assert_eq!(rows, model);
    let after = test.store.stats();
    assert_eq!(after.commands - before.commands, kept, "each is counted once");
    assert_eq!(after.failed - before.failed, plans.len() as u64 - kept);
}

async fn submit(store: store::Store, plan: Plan) -> Result<(), Error> {
    let ran = store.write("note.plan", move |tx| {
        tx.changed(Key::table("notes"));
        plan.steps.iter().try_for_each(|step| run(tx, step))?;
        match plan.end {
            End::Succeeds => Ok(()),
            End::Fails => Err(Error::Database("on purpose".to_owned())),
            End::Panics => std::panic::resume_unwind(Box::new("on purpose")),
            End::Conflicts => tx.exec(&INSERT, args!["anchor", "x", "x"]).map(|_| ()),
            End::IsTooSlow => {
                // Only SQLite is made to, as yet.
                tx.exec(endless(Database::Sqlite), args![]).map(|_| ())
            }
        }
    });
    ran.await
}

fn run(tx: &mut Tx<'_>, step: &Step) -> Result<(), Error> {
    static PUT: Sql = upsert("notes", &["id"], &["owner", "body"]);
    static BODY: Sql = sql("SELECT body FROM notes WHERE id = ?1");
    static DELETE: Sql = sql("DELETE FROM notes WHERE id = ?1");
    match step {
        Step::Put(row, value) => {
            let id = format!("n{row}");
            tx.exec(&PUT, args![&id, &id, format!("{value}")])
        }
        Step::Append(row, value) => {
            let id = format!("n{row}");
            let body: Option<String> = tx.one(&BODY, args![&id], |row| row.get(0))?;
            tx.exec(&PUT, args![&id, &id, format!("{},{value}", body.unwrap_or_default())])
        }
        Step::Delete(row) => tx.exec(&DELETE, args![format!("n{row}")]),
    }?;
    Ok(())
}

/// The same, on a map.
fn apply(model: &mut BTreeMap<String, String>, step: &Step) {
    match step {
        Step::Put(row, value) => {
            model.insert(format!("n{row}"), format!("{value}"));
        }
        Step::Append(row, value) => {
            let body = model.entry(format!("n{row}")).or_default();
            *body = format!("{body},{value}");
        }
        Step::Delete(row) => {
            model.remove(&format!("n{row}"));
        }
    }
}
