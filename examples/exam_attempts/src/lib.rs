//! Students answer exams, and the teacher watches: the routes of the example. `attempts.rs` and `exams.rs` own the tables.

mod attempts;
mod exams;

use attempts::{Attempt, Progress, Save};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::{get, post};
use exams::{Exam, QUESTIONS};
use live::extract::{Answered, Json, Once, OwnSite, Path};
use live::{Anyone, App, Context, Problem, Query, Settings};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use store::{Migration, Options, Snapshot, Store, Tx};

type Answer<T> = Result<Json<T>, Problem>;
type Created = Result<(StatusCode, Answered), Problem>;

static MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "exams", text: include_str!("../migrations/0001_exams.sql") },
    Migration { number: 2, name: "revisions", text: include_str!("../migrations/0002_revisions.sql") },
];
/// Whole numbers up to this are numbers in JavaScript too.
const REVISION_MAX: i64 = (1 << 53) - 1;

/// The back end.
pub fn app() -> App {
    let routes = Router::new()
        .route("/", get(|| async { Html(include_str!("../page/start.html")) }))
        .route("/exams", post(create_exam))
        .route("/exams/{id}", get(|| async { Html(include_str!("../page/progress.html")) }))
        .route("/exams/{id}/about", get(about))
        .route("/exams/{id}/attempts", post(start))
        .route("/attempts/{id}/page", get(|| async { Html(include_str!("../page/attempt.html")) }))
        .route("/attempts/{id}", get(show).patch(save))
        .route("/attempts/{id}/submit", post(submit));
    App::new()
        .query::<ExamProgress>()
        .keyed_routes(routes)
        .migrations(MIGRATIONS)
        .watched(&["exams", "attempts"])
}

/// How far fifty attempts of an exam are: what the teacher's page shows.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ExamProgress {
    exam: i64,
    /// The last attempt of the page before.
    #[serde(default)]
    after: i64,
}

impl Query for ExamProgress {
    const NAME: &'static str = "exam_progress";
    const ROW_KEY: Option<&'static str> = Some("id");
    type Claims = Anyone;
    type Value = Vec<Progress>;

    fn run(&self, snapshot: &mut Snapshot<'_>, _: &Anyone) -> Result<Vec<Progress>, Problem> {
        exams::find(snapshot, self.exam)?;
        attempts::page(snapshot, self.exam, self.after)
    }
}

async fn create_exam(once: Once, Json(exam): Json<Exam>) -> Created {
    let create = move |tx: &mut Tx<'_>| Ok(json!({ "id": exams::create(tx, &exam)? }));
    Ok((StatusCode::CREATED, once.write("exam.create", create).await?))
}

async fn about(State(context): State<Context>, Path(id): Path<i64>) -> Answer<Exam> {
    Ok(Json(context.store().point(move |snapshot| exams::find(snapshot, id)).await?))
}

/// The student who begins an attempt.
#[derive(Deserialize)]
struct New {
    student: String,
}

async fn start(
    once: Once,
    State(context): State<Context>,
    Path(id): Path<i64>,
    Json(by): Json<New>,
) -> Created {
    let now = context.now();
    let start = move |tx: &mut Tx<'_>| attempts::start(tx, id, &by.student, now);
    Ok((StatusCode::CREATED, once.write("attempt.start", start).await?))
}

async fn show(State(context): State<Context>, Path(id): Path<i64>) -> Answer<Attempt> {
    Ok(Json(context.store().point(move |snapshot| attempts::find(snapshot, id)).await?))
}

/// All choices of a student, by number of the question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sheet {
    answers: BTreeMap<i64, Vec<u32>>,
    /// The client counts its saves. Without it the last save that arrives wins.
    revision: Option<i64>,
}

async fn save(
    once: Once,
    State(context): State<Context>,
    Path(id): Path<i64>,
    Json(new): Json<Sheet>,
) -> Result<Answered, Problem> {
    // Not by the questions of this exam, which would cost a read for each save.
    let is_good = new.answers.iter().all(|(number, chosen)| QUESTIONS.contains(number) && chosen.len() <= 20);
    Problem::check(is_good, "answers", "have questions 1 to 500, with up to 20 choices")?;
    let is_good = new.revision.is_none_or(|revision| (1..=REVISION_MAX).contains(&revision));
    Problem::check(is_good, "revision", "be a whole number from 1 on")?;
    let answered = new.answers.values().map(|choices| i64::from(!choices.is_empty())).sum();
    let (now, answers, revision) = (context.now(), json!(new.answers).to_string(), new.revision);
    let new = Save { answers, answered, revision, now };
    let save = move |tx: &mut Tx<'_>| {
        let saved_at = attempts::save(tx, id, &new)?;
        Ok(json!({ "id": id, "answered": answered, "revision": revision, "saved_at": saved_at }))
    };
    once.write_batched("attempt.save", save).await
}

/// It takes no body, so the page of another site could send it.
async fn submit(
    _: OwnSite,
    once: Once,
    State(context): State<Context>,
    Path(id): Path<i64>,
) -> Result<Answered, Problem> {
    let now = context.now();
    once.write("attempt.submit", move |tx| attempts::submit(tx, id, now)).await
}

/// Creates an exam with many attempts, for load tests.
pub async fn seed(settings: &Settings, count: i64) -> Result<(), Problem> {
    let (store, now) = (Store::open(Options::new(&settings.database, MIGRATIONS))?, (settings.clock)());
    let new = Exam { title: "Load test".to_owned(), questions: 40, sheet: None, minutes: None };
    let exam = store.write("seed.exam", move |tx| exams::create(tx, &new)).await?;
    // So many that a command is short also where a database server is some milliseconds away.
    for done in (0..count).step_by(100) {
        let rows = (count - done).min(100);
        store
            .write("seed.attempts", move |tx| attempts::insert(tx, exam, "Student", rows, now, None))
            .await?;
    }
    eprintln!("Exam {exam} has {count} attempts.");
    Ok(())
}
