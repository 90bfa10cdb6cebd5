//! What anybody can send to the address of a billing connection: a header that is read before anything is verified, and a
//! body. A header that was made without the secret is never valid.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::testing::parsers::{billing_event, billing_signature};

const SECRET: &[u8] = b"whsec_a_secret_that_the_fuzzer_does_not_know";

fuzz_target!(|input: (&[u8], &[u8])| {
    let (header, body) = input;
    if let Some(signature) = billing_signature(header) {
        assert!(!signature(SECRET, body), "nobody guesses a signature");
    }
    // Ids that are read are plain, whatever the body is.
    for id in billing_event(body).into_iter().flatten() {
        assert!((1..=200).contains(&id.len()));
        assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')), "{id}");
    }
});
