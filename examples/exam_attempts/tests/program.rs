//! The program itself. Without this test, which runs the program, the tests of the workspace would not build it, and those of the
//! student's page need it.

use std::process::Command;

#[test]
fn the_program_describes_its_query() {
    let output = Command::new(env!("CARGO_BIN_EXE_exam_attempts"))
        .arg("--openapi")
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("exam_attempts runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("exam_progress"), "{output:?}");
}
