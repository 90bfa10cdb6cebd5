//! What is wrong with a body that is not JSON: the line, the column, and what was expected there.

/// The words of the parser, and ours. A test makes each of these errors.
const EXPECTED: &[(&str, &str)] = &[
    ("EOF while parsing a list", "the body ends inside an array; expected `,` or `]`"),
    ("EOF while parsing an object", "the body ends inside an object; expected `,` or `}`"),
    ("EOF while parsing a string", "the body ends inside a string; expected `\"`"),
    ("EOF while parsing a value", "the body ends; expected a value"),
    ("expected `:`", "expected `:` after the name of a field"),
    ("expected `,` or `]`", "expected `,` or `]`"),
    ("expected `,` or `}`", "expected `,` or `}`"),
    ("expected ident", "expected `true`, `false` or `null`"),
    (
        "expected value",
        "expected a value: a string, a number, an object, an array, `true`, `false` or `null`",
    ),
    ("key must be a string", "expected `\"`: names of fields are strings"),
    ("invalid escape", "expected one of `\"`, `\\`, `/`, b, f, n, r, t and u after the backslash"),
    ("invalid number", "expected a number, like 1, -2.5 or 3e8"),
    ("number out of range", "expected a smaller number"),
    ("invalid unicode code point", "expected UTF-8"),
    ("control character", "expected an escape, like `\\n`, in place of the control character"),
    ("lone leading surrogate", "expected the second half of the surrogate pair, like `\\udc00`"),
    ("unexpected end of hex escape", "expected the second half of the surrogate pair, like `\\udc00`"),
    ("trailing comma", "expected a value after the comma"),
    ("trailing characters", "expected the end of the body: it is one JSON object"),
    ("recursion limit exceeded", "expected at most 127 levels of arrays and objects"),
];

/// The problem with a body that the parser refuses.
pub(super) fn problem(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let known = EXPECTED.iter().find(|(theirs, _)| words.starts_with(theirs));
    let expected = known.map_or("expected JSON", |(_, ours)| ours);
    format!("The body is not JSON. Line {}, column {}: {expected}.", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::super::node::Node;
    use super::*;

    #[test]
    fn each_syntax_error_has_words_of_our_own() {
        let deep = "[".repeat(200);
        let cases: [(&str, &[u8]); 20] = [
            ("EOF while parsing a list", b"[1"),
            ("EOF while parsing an object", b"{\"a\": 1"),
            ("EOF while parsing a string", b"{\"a"),
            ("EOF while parsing a value", b"{\"a\":"),
            ("expected `:`", b"{\"a\" 1}"),
            ("expected `,` or `]`", b"[1 2]"),
            ("expected `,` or `}`", b"{\"a\": 1 \"b\": 2}"),
            ("expected ident", b"{\"a\": tru}"),
            ("expected value", b"{\"a\": }"),
            ("key must be a string", b"{a: 1}"),
            ("invalid escape", b"{\"a\": \"\\x\"}"),
            ("invalid number", b"{\"a\": 1.}"),
            ("number out of range", b"{\"a\": 1e999}"),
            ("invalid unicode code point", b"{\"a\": \"\xff\"}"),
            ("control character", b"{\"a\": \"\n\"}"),
            ("lone leading surrogate", b"{\"a\": \"\\ud800\\u0041\"}"),
            ("unexpected end of hex escape", b"{\"a\": \"\\ud800\"}"),
            ("trailing comma", b"{\"a\": 1,}"),
            ("trailing characters", b"{} {}"),
            ("recursion limit exceeded", deep.as_bytes()),
        ];
        for ((theirs, body), (known, ours)) in cases.into_iter().zip(EXPECTED) {
            assert_eq!(theirs, *known, "the cases are in the order of the table");
            let problem = Node::from_json(body).expect_err("not JSON");
            let (place, said) = problem.split_once(": ").expect("a place");
            assert!(place.starts_with("The body is not JSON. Line "), "{problem}");
            assert_eq!(said, format!("{ours}."), "{theirs}");
        }
        let second_line = Node::from_json(b"{\n  \"slug\": acme\n}").expect_err("not JSON");
        assert!(
            second_line.starts_with("The body is not JSON. Line 2, column 11: expected a value"),
            "{second_line}"
        );
    }
}
