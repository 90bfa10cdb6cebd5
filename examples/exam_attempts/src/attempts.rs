//! The table `attempts`: a student's answers to an exam.

use crate::exams;
use live::Problem;
use serde::Serialize;
use serde_json::Value;
use store::{Error, Key, Row, Snapshot, Time, Tx, args, sql, statements, update_if};
use utoipa::ToSchema;

/// How far an attempt is: what the teacher's page shows.
#[derive(Serialize, ToSchema)]
pub struct Progress {
    id: i64,
    student: String,
    /// The questions with an answer.
    answered: i64,
    /// Unix milliseconds.
    saved_at: i64,
    /// Unix milliseconds, if the attempt is submitted.
    submitted_at: Option<i64>,
}

/// A row.
#[derive(Serialize)]
pub struct Attempt {
    #[serde(flatten)]
    progress: Progress,
    exam_id: i64,
    /// The choices, by number of the question.
    answers: Value,
}

statements! {
    static INSERT = store::insert("attempts", &[&["id", "exam_id", "student", "answers", "answered", "saved_at"]]);
    static SAVE = update_if("attempts", "id", &["answers", "answered", "saved_at"], "submitted_at IS NULL");
    static SUBMIT = sql("UPDATE attempts SET submitted_at = ?2 WHERE id = ?1 AND submitted_at IS NULL");
    static FIND = sql("SELECT id, student, answered, saved_at, submitted_at, exam_id, answers FROM attempts WHERE id = ?1");
    static PAGE_AFTER = sql("SELECT id, student, answered, saved_at, submitted_at
     FROM attempts WHERE exam_id = ?1 AND id > ?2 ORDER BY id LIMIT 50");
}

/// The row of an attempt.
fn row_key(id: i64) -> Key {
    Key::row("attempts", "id", &id.to_string())
}

/// The list of the attempts of an exam: which there are, not how far they are.
fn list_key(exam: i64) -> Key {
    Key::row("attempts", "exam_id", &exam.to_string())
}

/// Starts an attempt.
pub fn start(tx: &mut Tx<'_>, exam: i64, student: &str, now: Time) -> Result<Attempt, Problem> {
    exams::check_name("student", student)?;
    exams::find(tx.snapshot(), exam)?;
    let id = insert(tx, exam, student, 1, now)?;
    find(tx.snapshot(), id)
}

/// Inserts attempts without answers and returns the id of the first.
pub fn insert(tx: &mut Tx<'_>, exam_id: i64, student: &str, count: i64, now: Time) -> Result<i64, Problem> {
    let first = exams::reserve_ids(tx, "attempts", count)?;
    for id in first..first + count {
        tx.exec(&INSERT, args![id, exam_id, student, "{}", 0, now])?;
        tx.changed(row_key(id));
    }
    tx.changed(list_key(exam_id));
    Ok(first)
}

/// Saves all answers of an attempt that is not submitted: one statement, because all students do this all the time.
pub fn save(tx: &mut Tx<'_>, id: i64, answers: &str, answered: i64, now: Time) -> Result<(), Problem> {
    let saved = tx.exec_one(&SAVE, args![id, answers, answered, now])?;
    tx.changed(row_key(id));
    if saved { Ok(()) } else { Err(refusal(tx, id)) }
}

/// Ends an attempt. Its answers stay as they are.
pub fn submit(tx: &mut Tx<'_>, id: i64, now: Time) -> Result<Attempt, Problem> {
    let submitted = tx.exec(&SUBMIT, args![id, now])?;
    tx.changed(row_key(id));
    if submitted == 0 { Err(refusal(tx, id)) } else { find(tx.snapshot(), id) }
}

/// Why no row was changed.
fn refusal(tx: &mut Tx<'_>, id: i64) -> Problem {
    let submitted = "The attempt is submitted. It does not change any more.";
    find(tx.snapshot(), id).err().unwrap_or_else(|| Problem::conflict("already_submitted", submitted))
}

/// The attempt with this id.
pub fn find(snapshot: &mut Snapshot<'_>, id: i64) -> Result<Attempt, Problem> {
    snapshot.one(&FIND, args![id], read)?.ok_or_else(|| Problem::not_found("Attempt"))
}

/// Fifty attempts of an exam after an id. The page depends on its own rows, and on the list because of new ones. A saved
/// answer in an attempt of another page does not concern it.
pub fn page(snapshot: &mut Snapshot<'_>, exam: i64, after: i64) -> Result<Vec<Progress>, Problem> {
    let page = snapshot.all(&PAGE_AFTER, args![exam, after], progress)?;
    snapshot.depends(|| page.iter().map(|attempt| row_key(attempt.id)).chain([list_key(exam)]));
    Ok(page)
}

fn progress(row: &Row<'_>) -> Result<Progress, Error> {
    let (id, student, answered) = (row.get(0)?, row.get(1)?, row.get(2)?);
    Ok(Progress { id, student, answered, saved_at: row.get(3)?, submitted_at: row.get(4)? })
}

fn read(row: &Row<'_>) -> Result<Attempt, Error> {
    let answers = serde_json::from_str(&row.get::<String>(6)?).unwrap_or_default();
    Ok(Attempt { progress: progress(row)?, exam_id: row.get(5)?, answers })
}
