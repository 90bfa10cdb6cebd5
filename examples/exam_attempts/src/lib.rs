//! Students answer exams, and the teacher watches: the routes of the example. `attempts.rs` and `exams.rs` own the tables.

mod attempts;
mod exams;

use attempts::{Attempt, Progress};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::{get, post};
use exams::{Exam, QUESTIONS};
use live::extract::{Json, OwnSite, Path};
use live::{Anyone, App, Context, Problem, Query, Settings};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::{Migration, Options, Snapshot, Store, Tx};

type Answer<T> = Result<Json<T>, Problem>;
type Created<T> = Result<(StatusCode, Json<T>), Problem>;

static MIGRATIONS: &[Migration] =
    &[Migration { number: 1, name: "exams", text: include_str!("../migrations/0001_exams.sql") }];

/// The back end.
pub fn app() -> App {
    let routes = Router::new()
        .route("/", get(|| async { Html(include_str!("../page/start.html")) }))
        .route("/exams", post(create_exam))
        .route("/exams/{id}", get(|| async { Html(include_str!("../page/progress.html")) }))
        .route("/exams/{id}/about", get(about))
        .route("/exams/{id}/attempts", post(start))
        .route("/attempts/{id}", get(show).patch(save))
        .route("/attempts/{id}/submit", post(submit));
    App::new().query::<ExamProgress>().routes(routes).migrations(MIGRATIONS).watched(&["exams", "attempts"])
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

async fn create_exam(State(context): State<Context>, Json(exam): Json<Exam>) -> Created<Value> {
    let id = context.store().write("exam.create", move |tx| exams::create(tx, &exam)).await?;
    Ok((StatusCode::CREATED, Json(json!({ "id": id }))))
}

async fn about(State(context): State<Context>, Path(id): Path<i64>) -> Answer<Exam> {
    Ok(Json(context.store().point(move |snapshot| exams::find(snapshot, id)).await?))
}

/// The student who begins an attempt.
#[derive(Deserialize)]
struct New {
    student: String,
}

async fn start(State(context): State<Context>, Path(id): Path<i64>, Json(by): Json<New>) -> Created<Attempt> {
    let now = context.now();
    let start = move |tx: &mut Tx<'_>| attempts::start(tx, id, &by.student, now);
    Ok((StatusCode::CREATED, Json(context.store().write("attempt.start", start).await?)))
}

async fn show(State(context): State<Context>, Path(id): Path<i64>) -> Answer<Attempt> {
    Ok(Json(context.store().point(move |snapshot| attempts::find(snapshot, id)).await?))
}

/// All choices of a student, by number of the question.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sheet {
    answers: BTreeMap<i64, Vec<u32>>,
}

async fn save(State(context): State<Context>, Path(id): Path<i64>, Json(new): Json<Sheet>) -> Answer<Value> {
    // Not by the questions of this exam, which would cost a read for each save.
    let is_good = new.answers.iter().all(|(number, chosen)| QUESTIONS.contains(number) && chosen.len() <= 20);
    Problem::check(is_good, "answers", "have questions 1 to 500, with up to 20 choices")?;
    let (now, text) = (context.now(), json!(new.answers).to_string());
    let answered = new.answers.values().map(|choices| i64::from(!choices.is_empty())).sum();
    let save = move |tx: &mut Tx<'_>| attempts::save(tx, id, &text, answered, now);
    context.store().write_batched("attempt.save", save).await?;
    Ok(Json(json!({ "id": id, "answered": answered, "saved_at": now.millis() })))
}

/// It takes no body, so the page of another site could send it.
async fn submit(_: OwnSite, State(context): State<Context>, Path(id): Path<i64>) -> Answer<Attempt> {
    let now = context.now();
    Ok(Json(context.store().write("attempt.submit", move |tx| attempts::submit(tx, id, now)).await?))
}

/// Creates an exam with many attempts, for load tests.
pub async fn seed(settings: &Settings, count: i64) -> Result<(), Problem> {
    let (store, now) = (Store::open(Options::new(&settings.database, MIGRATIONS))?, (settings.clock)());
    let new = Exam { title: "Load test".to_owned(), questions: 40 };
    let exam = store.write("seed.exam", move |tx| exams::create(tx, &new)).await?;
    // So many that a command is short also where a database server is some milliseconds away.
    for done in (0..count).step_by(100) {
        let rows = (count - done).min(100);
        store.write("seed.attempts", move |tx| attempts::insert(tx, exam, "Student", rows, now)).await?;
    }
    eprintln!("Exam {exam} has {count} attempts.");
    Ok(())
}
