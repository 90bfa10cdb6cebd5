//! The pool with its author's settings, and the two tables: exams, and attempts at them.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const DROP: &str = "DROP TABLE IF EXISTS attempts, exams";
const EXAMS: &str = "CREATE TABLE exams (id BIGINT PRIMARY KEY, title TEXT NOT NULL)";
const ATTEMPTS: &str = "CREATE TABLE attempts (
    id BIGINT PRIMARY KEY, exam_id BIGINT NOT NULL REFERENCES exams (id), student TEXT NOT NULL,
    answers JSONB NOT NULL, submitted_at BIGINT, updated_at BIGINT NOT NULL)";
/// A foreign key of an UNLOGGED table may refer to a logged one.
const ATTEMPTS_UNLOGGED: &str = "ALTER TABLE attempts SET UNLOGGED";
const FILL: &str = "INSERT INTO attempts (id, exam_id, student, answers, updated_at)
    SELECT n, 1, 'student-' || n, '{}', 0 FROM generate_series(1, $1) AS n";

/// The defaults of sqlx at the time: 30 s to get a connection, 10 minutes idle, 30 minutes of life.
pub async fn open(url: &str, connections: u32) -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(30))
        .idle_timeout(Duration::from_secs(600))
        .max_lifetime(Duration::from_secs(1800))
        .connect(url)
        .await
}

/// Drops what an earlier run left, and writes `attempts` rows.
pub async fn fill(pool: &PgPool, attempts: i64, unlogged: bool) -> Result<(), sqlx::Error> {
    for statement in [DROP, EXAMS, ATTEMPTS] {
        sqlx::query(statement).execute(pool).await?;
    }
    if unlogged {
        sqlx::query(ATTEMPTS_UNLOGGED).execute(pool).await?;
    }
    sqlx::query("INSERT INTO exams (id, title) VALUES (1, 'Algebra')").execute(pool).await?;
    sqlx::query(FILL).bind(attempts).execute(pool).await?;
    sqlx::query("VACUUM ANALYZE attempts").execute(pool).await?;
    Ok(())
}
