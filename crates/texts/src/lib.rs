//! The texts of pages and mails, in every language that a server has.
//!
//! - `languages.rs`: the languages of a server, and which one a reader gets. `wanted.rs`: what browsers send.
//! - `language.rs`: one language; the texts that it lacks are in English.
//! - `file.rs`: a file of texts, with its lines. `check.rs`: the rules that a file keeps. `message.rs`: placeholders.
//! - `texts/en.toml`, `texts/de.toml`: the languages that are built in. `en.toml` says which texts there are.
//!
//! A text is plain text with placeholders like `{email}`; who shows it on a page escapes it. The plural rules of all
//! languages come from `icu_plurals`, which is of the family of the crate `text`: five more packages, against a rule that
//! every operator would have to write. This crate reads no files: the program hands it their content.

mod check;
mod file;
mod language;
mod languages;
mod message;
mod wanted;

pub use check::Wrong;
pub use file::File;
pub use language::Language;
pub use languages::{Languages, tag_of};
pub use message::Piece;
