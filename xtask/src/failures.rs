//! Which tests failed, and what they said: taken from what cargo's, node's and pytest's runners print, so that a run can say
//! it again at its end, where a reader of a long output looks first.

/// So much of one test's output is said again, in lines: the reason, without a whole backtrace.
const LINES: usize = 20;

/// `---- it::name stdout ----` begins what a test printed, which `failures:` ends, and the names stand below.
pub fn of_cargo(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().collect();
    let mut failures = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            let ends = |line: &&&str| line.starts_with("---- ") || **line == "failures:";
            let said: Vec<&str> = lines[at + 1..].iter().take_while(|line| !ends(line)).copied().collect();
            failures.push(told(name, &said));
        }
    }
    failures
}

/// The names below `✖ failing tests:`, each with the error below it.
pub fn of_node(output: &str) -> Vec<String> {
    let Some((_, summary)) = output.split_once("failing tests:\n") else { return Vec::new() };
    let lines: Vec<&str> = summary.lines().collect();
    let mut failures = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = line.trim_start().strip_prefix("✖ ") {
            let ends = |line: &&&str| line.trim_start().starts_with("✖ ") || line.starts_with("test at ");
            let said: Vec<&str> = lines[at + 1..].iter().take_while(|line| !ends(line)).copied().collect();
            failures.push(told(name, &said));
        }
    }
    failures
}

/// The lines of the short summary: `FAILED test_device.py::name - AssertionError: …`, and `ERROR …`.
pub fn of_pytest(output: &str) -> Vec<String> {
    let Some((_, summary)) = output.rsplit_once(" short test summary info ") else { return Vec::new() };
    let told = |line: &&str| line.starts_with("FAILED ") || line.starts_with("ERROR ");
    summary.lines().filter(told).map(str::to_owned).collect()
}

/// A name, and the first lines of what was said that are not empty.
fn told(name: &str, said: &[&str]) -> String {
    let said: Vec<&str> = said.iter().filter(|line| !line.trim().is_empty()).copied().collect();
    // A test prints what it did before it says what is wrong.
    let reason = said.iter().position(|line| line.contains("panicked at")).unwrap_or(0);
    let is_trace = |line: &&&str| line.trim_start().starts_with("stack backtrace:");
    let mut text = name.to_owned();
    for line in said.iter().skip(reason).take_while(|line| !is_trace(line)).take(LINES) {
        text.push_str("\n    ");
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_of_cargo_is_named_with_its_reason() {
        let output = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nbegins\n\nthread 'a::b' (7) panicked at x.rs:1:2:\n\
                      left is not right\nstack backtrace:\n   0: x\n\n---- c stdout ----\nError: gone\n\n\nfailures:\n    a::b\n    c\n\n\
                      test result: FAILED. 3 passed; 2 failed";
        let expected = [
            "a::b\n    thread 'a::b' (7) panicked at x.rs:1:2:\n    left is not right",
            "c\n    Error: gone",
        ];
        assert_eq!(of_cargo(output), expected);
        assert_eq!(of_cargo("test a ... ok\n\ntest result: ok. 1 passed"), Vec::<String>::new());
    }

    #[test]
    fn a_failed_test_of_node_is_named_with_its_reason() {
        let output = "✖ a page opens (3.1ms)\nℹ fail 1\n\n✖ failing tests:\n\ntest at node/a.test.mjs:3:1\n\
                      ✖ a page opens (3.1ms)\n  AssertionError: 1 !== 2\n";
        assert_eq!(of_node(output), ["a page opens (3.1ms)\n      AssertionError: 1 !== 2"]);
    }

    #[test]
    fn a_failed_test_of_pytest_is_named_with_its_reason() {
        let output = "==== FAILURES ====\nx\n==== short test summary info ====\nFAILED a.py::b - assert 1 == 2\n\
                      ERROR a.py::c - gone\n==== 1 failed, 1 error in 0.5s ====";
        assert_eq!(of_pytest(output), ["FAILED a.py::b - assert 1 == 2", "ERROR a.py::c - gone"]);
    }
}
