//! Rules about the tree itself. A rule that no test checks is a wish.
//!
//! Each file of `tidy/` is one kind of rule: a function from the tree to a list of complaints, a test
//! that the real tree gives none, and a test that a made-up tree gives some.

mod addresses;
mod audit_actions;
mod authorization;
mod circles;
mod dead;
mod docs;
mod errors;
mod imports;
mod keys;
mod layers;
mod lines;
mod links;
mod manifest;
mod migrations;
mod modules;
mod networks;
mod rows;
mod sizes;
mod texts;
mod tree;
mod way_out;

use tree::Tree;

/// Fails with one line for each complaint.
fn assert_none(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}:\n  {}\n", complaints.join("\n  "));
}
