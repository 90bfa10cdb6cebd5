//! Every stable error code of the sources stands in `docs/errors.md`.

use super::{Tree, assert_none};

const PAGE: &str = "docs/errors.md";
/// What a code is handed to, as its first or second argument.
const MADE_BY: [&str; 4] = ["Problem::new(", "Problem::bad_request(", "Error::refused(", "OAuthError::new("];
/// What the code of a field is handed to, as its first argument.
const MADE_OF_FIELDS_BY: [&str; 3] = ["Error::wrong(", "FieldError::new(", "errors.note("];

#[test]
fn the_docs_name_every_error_code() {
    assert_none(PAGE, &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let Some(page) = tree.text(PAGE) else { return vec!["there is none".into()] };
    let is_source =
        |path: &str| path.starts_with("crates/server/src/") || path.starts_with("crates/identity/src/");
    let sources = tree.rust_files().filter(|(path, _)| is_source(path));
    let codes = sources.flat_map(|(path, text)| codes(text).map(move |code| (path, code)));
    let missing = codes.filter(|(_, code)| !page.contains(&format!("`{code}`")));
    missing.map(|(path, code)| format!("{path}: `{code}` is not there")).collect()
}

/// The codes that this source makes errors with. The code is the first or second argument; a variable is none.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    let of_requests = MADE_BY.iter().map(|maker| (maker, 60));
    let of_fields = MADE_OF_FIELDS_BY.iter().map(|maker| (maker, 0));
    let made = of_requests.chain(of_fields);
    let made = made.flat_map(move |(maker, most)| text.split(maker).skip(1).map(move |rest| (rest, most)));
    made.filter_map(|(arguments, most)| {
        let (before, rest) = arguments.split_once('"')?;
        let code = rest.split('"').next()?;
        let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        (is_code && before.trim().len() <= most && !before.contains([';', ')'])).then_some(code)
    })
}

#[test]
fn a_code_that_the_docs_leave_out_is_found() {
    let source = r#"
        Problem::new(StatusCode::CONFLICT, "told", text);
        Error::refused("hidden", "a reason");
        Problem::new(status, code, "no code");
        Error::wrong("too_odd", "field", text);
        Error::wrong(code, "field", text);
    "#;
    let tree = Tree::of(&[(PAGE, "| 409 | `told` |"), ("crates/server/src/error.rs", source)]);
    let missing =
        ["hidden", "too_odd"].map(|code| format!("crates/server/src/error.rs: `{code}` is not there"));
    assert_eq!(complaints(&tree), missing);
}
