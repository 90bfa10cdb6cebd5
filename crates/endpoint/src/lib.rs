//! What serves one operation of an HTTP interface. The platform and the back ends on `live` stand on it, so that both read a
//! request by the same rules.
//!
//! - `fields/`: the fields of bodies and query strings, and everything that is wrong with them.
//! - `words.rs`: texts of errors as sentences.
//!
//! It knows neither the product nor the database. What differs for clients (status, codes, the form of the document) belongs
//! to the crate above, which is why nothing here makes a response of its own accord.

pub mod fields;
pub mod words;
