//! `exam_attempts`: students answer exams, and the teacher watches.

use live::{Error, Program, Settings};

/// With many connections at once, glibc's allocator would take a third of the CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let about = "Students answer exams, and the teacher watches.";
    let seed = |settings: Settings| async move { exam_attempts::seed(&settings, 100_000).await };
    let program = Program::new("exam_attempts", about, "127.0.0.1:8000");
    program.command("seed", "Creates an exam with 100,000 attempts", seed).run(exam_attempts::app()).await
}
