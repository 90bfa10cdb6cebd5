//! A handler of the API reaches the database only through an argument that says who may do what
//! (`crates/server/src/web/administration.rs`), so it may not name the state that all handlers share.

use super::{Tree, assert_none};

const HANDLERS: &str = "crates/server/src/api/";

#[test]
fn handlers_of_the_api_name_no_shared_state() {
    assert_none("authorization (xtask/src/tidy/authorization.rs)", &complaints(&Tree::real()));
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.starts_with(HANDLERS)) {
        for (index, line) in text.lines().enumerate() {
            if ["State<", "State(", "crate::app", "FromRequestParts"].iter().any(|word| line.contains(word)) {
                found.push(format!(
                    "{path}:{}: take an extractor of web/administration.rs instead",
                    index + 1
                ));
            }
        }
    }
    found
}

#[test]
fn it_bites() {
    let tree = Tree::of(&[
        ("crates/server/src/api/things.rs", "use crate::app::App;\nasync fn list(State(app): State<App>) {}"),
        ("crates/server/src/oauth/things.rs", "async fn post(State(app): State<App>) {}"),
    ]);
    assert_eq!(complaints(&tree).len(), 2);
}
