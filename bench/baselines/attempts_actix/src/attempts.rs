//! `PATCH /attempts/{id}`: the student's answers so far replace the stored ones. One statement, one implicit transaction.

use std::time::{SystemTime, UNIX_EPOCH};

use actix_web::{HttpResponse, patch, web};
use serde::Deserialize;
use serde_json::value::RawValue;
use sqlx::PgPool;
use sqlx::types::Json;

#[derive(Deserialize)]
struct Answers {
    /// The numbers of the questions, and the choices of each.
    answers: Box<RawValue>,
}

const UPDATE: &str =
    "UPDATE attempts SET answers = $2, updated_at = $3 WHERE id = $1 AND submitted_at IS NULL";

#[patch("/attempts/{id}")]
pub async fn answer(pool: web::Data<PgPool>, id: web::Path<i64>, body: web::Json<Answers>) -> HttpResponse {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let updated = sqlx::query(UPDATE)
        .bind(id.into_inner())
        .bind(Json(&body.answers))
        .bind(now_s)
        .execute(pool.get_ref())
        .await;
    match updated {
        Ok(done) if done.rows_affected() == 1 => HttpResponse::NoContent().finish(),
        Ok(_) => HttpResponse::NotFound().finish(),
        Err(error) => {
            eprintln!("database: {error}");
            HttpResponse::InternalServerError().finish()
        }
    }
}
