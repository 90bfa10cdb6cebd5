//! A row is read by the names of its columns: a struct with `store::FromRow` has the one list of them. A number in
//! `row.get(7)` means the eighth column of a list that stands elsewhere. The modules of the domain that still have such numbers
//! stand here; the list only gets shorter.

use super::{Tree, assert_none};

const DOMAIN: &str = "crates/identity/src/";

/// The modules whose rows have numbers.
const BY_NUMBER: [&str; 25] = [
    "api_keys.rs",
    "audit.rs",
    "audit_trail.rs",
    "authorization_codes.rs",
    "billing/connections.rs",
    "billing/customers.rs",
    "billing/events.rs",
    "billing/prices.rs",
    "billing/subscriptions.rs",
    "billing/walks.rs",
    "consents.rs",
    "customers.rs",
    "devices.rs",
    "entitlements.rs",
    "events/revoked.rs",
    "idempotent_writes.rs",
    "invitations.rs",
    "keys.rs",
    "links.rs",
    "mail/decisions.rs",
    "mail/mod.rs",
    "mail/requests.rs",
    "plans/mod.rs",
    "sealed_column.rs",
    "subscriptions.rs",
];

#[test]
fn rows_are_read_by_the_names_of_their_columns() {
    assert_none("rows (xtask/src/tidy/rows.rs)", &complaints(&Tree::real(), &BY_NUMBER));
}

fn complaints(tree: &Tree, by_number: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.rust_files() {
        let Some(module) = path.strip_prefix(DOMAIN) else { continue };
        match (reads_by_number(text), by_number.contains(&module)) {
            (true, false) => found.push(format!(
                "{path}: reads a column by its number; derive `store::FromRow` for a struct with these columns"
            )),
            (false, true) => found.push(format!("{path}: reads no column by its number; remove it from BY_NUMBER")),
            _ => {}
        }
    }
    let is_gone = |module: &&&str| tree.text(&format!("{DOMAIN}{module}")).is_none();
    found
        .extend(by_number.iter().filter(is_gone).map(|module| format!("{module}: is in BY_NUMBER and gone")));
    found
}

/// Whether it reads another column than the first: the only one of a row may be read as `row.get(0)`.
fn reads_by_number(text: &str) -> bool {
    text.split("row.get").skip(1).any(|rest| {
        let arguments = match rest.strip_prefix("::<") {
            Some(typed) => typed.split_once(">(").map(|(_, arguments)| arguments),
            None => rest.strip_prefix('('),
        };
        arguments.is_some_and(|arguments| !arguments.starts_with("0)"))
    })
}

#[test]
fn a_number_and_a_module_that_has_none_any_more_are_found() {
    let tree = Tree::of(&[
        ("crates/identity/src/users.rs", "row.get(0)? row.get::<Option<String>>(0)?"),
        ("crates/identity/src/plans.rs", "(row.get(0)?, row.get(1)?)"),
        ("crates/identity/src/links.rs", "row.get::<Option<Time>>(2)?"),
        ("crates/identity/src/keys.rs", "row.get(0)?"),
        ("crates/identity/src/audit.rs", "row.get(column)?"),
        ("crates/store/src/tx.rs", "row.get(3)?"),
    ]);
    let found = complaints(&tree, &["keys.rs", "links.rs", "gone.rs"]);
    let words: Vec<&str> =
        found.iter().map(|line| line.split([':', ';']).next().unwrap_or_default()).collect();
    let expected = ["audit.rs", "keys.rs", "plans.rs"].map(|file| format!("{DOMAIN}{file}"));
    let mut sorted = words.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [&expected[0], &expected[1], &expected[2], "gone.rs"], "{found:#?}");
}
