//! The table `attempts`: a student's answers to an exam.

use crate::exams;
use live::Problem;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;
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
    /// That of the last save that had one.
    revision: i64,
    /// Unix milliseconds, if the exam has a time.
    ends_at: Option<i64>,
}

/// A saved sheet.
pub struct Save {
    pub answers: String,
    pub answered: i64,
    /// The client counts its saves: then an older one that comes late changes nothing.
    pub revision: Option<i64>,
    pub now: Time,
}

/// So long after the end the last save may still arrive.
const GRACE: Duration = Duration::from_secs(10);

statements! {
    static INSERT = store::insert("attempts", &[&["id", "exam_id", "student", "answers", "answered", "saved_at", "ends_at"]]);
    static SAVE = update_if("attempts", "id", &["answers", "answered", "saved_at"],
        "submitted_at IS NULL AND ends_at IS NULL");
    static SAVE_IN_TIME = sql("UPDATE attempts SET answers = ?2, answered = ?3, saved_at = ?4
     WHERE id = ?1 AND submitted_at IS NULL AND (ends_at IS NULL OR ends_at > ?5)");
    static SAVE_NEWER = sql("UPDATE attempts SET answers = ?2, answered = ?3, saved_at = ?4, revision = ?6
     WHERE id = ?1 AND submitted_at IS NULL AND (ends_at IS NULL OR ends_at > ?5) AND revision < ?6");
    static SUBMIT = sql("UPDATE attempts SET submitted_at = ?2 WHERE id = ?1 AND submitted_at IS NULL");
    static FIND = sql("SELECT id, student, answered, saved_at, submitted_at, exam_id, answers, revision, ends_at
     FROM attempts WHERE id = ?1");
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
    let minutes = exams::find(tx.snapshot(), exam)?.minutes;
    let ends_at = minutes.map(|minutes| now + Duration::from_secs(60 * minutes.unsigned_abs()));
    let id = insert(tx, exam, student, 1, now, ends_at)?;
    find(tx.snapshot(), id)
}

/// Inserts attempts without answers and returns the id of the first.
pub fn insert(
    tx: &mut Tx<'_>,
    exam_id: i64,
    student: &str,
    count: i64,
    now: Time,
    ends_at: Option<Time>,
) -> Result<i64, Problem> {
    let first = exams::reserve_ids(tx, "attempts", count)?;
    for id in first..first + count {
        tx.exec(&INSERT, args![id, exam_id, student, "{}", 0, now, ends_at])?;
        tx.changed(row_key(id));
    }
    tx.changed(list_key(exam_id));
    Ok(first)
}

/// Saves all answers of an attempt that is not over, and returns when they were saved. One statement, because all students do
/// this all the time.
pub fn save(tx: &mut Tx<'_>, id: i64, new: &Save) -> Result<i64, Problem> {
    let Save { answers, answered, revision, now } = new;
    tx.changed(row_key(id));
    let latest = Time::from_millis(now.millis() - GRACE.as_millis() as i64);
    let is_saved = match *revision {
        Some(revision) => tx.exec_one(&SAVE_NEWER, args![id, answers, *answered, *now, latest, revision])?,
        None => {
            tx.exec_one(&SAVE, args![id, answers, *answered, *now])?
                || tx.exec_one(&SAVE_IN_TIME, args![id, answers, *answered, *now, latest])?
        }
    };
    if is_saved {
        return Ok(now.millis());
    }
    let found = find(tx.snapshot(), id)?;
    // Sent again because its answer was lost.
    let saved = found.answers.to_string();
    let is_again = *revision == Some(found.revision) && saved == *answers;
    if is_again { Ok(found.progress.saved_at) } else { Err(refusal(&found, *revision)) }
}

/// Ends an attempt. Its answers stay as they are.
pub fn submit(tx: &mut Tx<'_>, id: i64, now: Time) -> Result<Attempt, Problem> {
    let submitted = tx.exec(&SUBMIT, args![id, now])?;
    tx.changed(row_key(id));
    let found = find(tx.snapshot(), id)?;
    if submitted == 0 { Err(refusal(&found, None)) } else { Ok(found) }
}

/// Why no row was changed.
fn refusal(found: &Attempt, revision: Option<i64>) -> Problem {
    if found.progress.submitted_at.is_some() {
        let detail = "The attempt is submitted. It does not change any more.";
        return Problem::conflict("already_submitted", detail);
    }
    if revision.is_none_or(|revision| revision > found.revision) {
        return Problem::conflict("time_over", "The time is over. What was saved until then counts.");
    }
    let detail =
        format!("Revision {} is saved already. Read the attempt, and save a greater one.", found.revision);
    Problem::conflict("stale", detail).with("revision", found.revision)
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
    Ok(Attempt {
        progress: progress(row)?,
        exam_id: row.get(5)?,
        answers,
        revision: row.get(7)?,
        ends_at: row.get(8)?,
    })
}
