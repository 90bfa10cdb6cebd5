//! Stands in the place of the crate `webpki` 0.22, which checked certificates before `rustls-webpki` did.
//!
//! The driver of MySQL names two of its error types and nothing else: its certificates are checked by rustls, as
//! everywhere here. The real crate would bring a second cryptographic library (`ring`) into the program, in which no
//! line of it is ever run. `[patch.crates-io]` in the workspace's `Cargo.toml` chooses this one; when the driver no
//! longer asks for `webpki`, both go.

use std::{error, fmt};

/// What a check of a certificate would have found. There is no check here, so there is no value of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {}

impl fmt::Display for Error {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl error::Error for Error {}

/// A host that is neither a name nor an address: nobody can show a certificate for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidDnsNameError;

impl fmt::Display for InvalidDnsNameError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("this host is no name that a certificate can bear")
    }
}

impl error::Error for InvalidDnsNameError {}
