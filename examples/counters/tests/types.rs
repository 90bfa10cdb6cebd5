//! The types of the page are those of the back end. Without this test, which runs the program, the tests of the workspace
//! would not build it, and those of the page need it.

use std::path::Path;
use std::process::Command;

#[test]
fn the_types_of_the_page_are_current() {
    let program = env!("CARGO_BIN_EXE_counters");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("types");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let output =
        Command::new(program).arg("--typescript").current_dir(&folder).output().expect("counters runs");
    assert!(output.status.success(), "{output:?}");
    let expected = include_str!("../page/api.d.ts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        expected,
        "run: cargo run -p counters -- --typescript > examples/counters/page/api.d.ts"
    );
    let files = std::fs::read_dir(&folder).expect("the folder");
    assert_eq!(files.count(), 0, "to print types makes neither a key nor a database");
}
