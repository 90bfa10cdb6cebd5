//! The tables `exams` and `last_ids`.

use live::Problem;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use store::{Error, Key, Row, Snapshot, Tx, args, insert, sql, statements};

/// How many questions an exam has, and their numbers.
pub const QUESTIONS: RangeInclusive<i64> = 1..=500;

const MINUTES: RangeInclusive<i64> = 1..=1_440;
const SHEET_BYTES_MAX: usize = 100_000;

/// What a teacher sends, and sees.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exam {
    pub title: String,
    pub questions: i64,
    /// The text of the questions, for the student's page: a paragraph each, whose lines after the first are the choices.
    pub sheet: Option<String>,
    /// How long an attempt takes.
    pub minutes: Option<i64>,
}

statements! {
    static INSERT = insert("exams", &[&["id", "title", "questions", "sheet", "minutes"]]);
    static FIND = sql("SELECT title, questions, sheet, minutes FROM exams WHERE id = ?1");
    static ADVANCE = sql("UPDATE last_ids SET id = id + ?2 WHERE table_name = ?1");
    static LAST = sql("SELECT id FROM last_ids WHERE table_name = ?1");
}

/// Creates an exam and returns its id.
pub fn create(tx: &mut Tx<'_>, exam: &Exam) -> Result<i64, Problem> {
    check_name("title", &exam.title)?;
    Problem::check(QUESTIONS.contains(&exam.questions), "questions", "be 1 to 500")?;
    let letters = exam.sheet.as_ref().map_or(0, |sheet| sheet.len());
    Problem::check(letters <= SHEET_BYTES_MAX, "sheet", "have 100,000 bytes at most")?;
    Problem::check(exam.minutes.is_none_or(|time| MINUTES.contains(&time)), "minutes", "be 1 to 1,440")?;
    let id = reserve_ids(tx, "exams", 1)?;
    let Exam { title, questions, sheet, minutes } = exam;
    tx.exec(&INSERT, args![id, title, *questions, sheet.as_deref(), *minutes])?;
    tx.changed(Key::row("exams", "id", &id.to_string()));
    Ok(id)
}

/// The exam with this id. A page that was opened too early depends on its row too.
pub fn find(snapshot: &mut Snapshot<'_>, id: i64) -> Result<Exam, Problem> {
    snapshot.depends(|| [Key::row("exams", "id", &id.to_string())]);
    let read = |row: &Row<'_>| {
        Ok(Exam { title: row.get(0)?, questions: row.get(1)?, sheet: row.get(2)?, minutes: row.get(3)? })
    };
    snapshot.one(&FIND, args![id], read)?.ok_or_else(|| Problem::not_found("Exam"))
}

/// Checks a text that people see, by the rule for all names: on one line, and nothing in it is invisible.
pub fn check_name(field: &str, text: &str) -> Result<(), Problem> {
    let rule = "have 1 to 200 visible characters on one line";
    Problem::check(text::name(text, 200).is_ok(), field, rule)
}

/// Reserves `count` ids of a table and returns the first. The update locks the row until the commit, so no two commands
/// get the same id.
pub fn reserve_ids(tx: &mut Tx<'_>, table: &str, count: i64) -> Result<i64, Error> {
    tx.exec(&ADVANCE, args![table, count])?;
    Ok(tx.one(&LAST, args![table], |row| row.get::<i64>(0))?.unwrap_or_default() - count + 1)
}
