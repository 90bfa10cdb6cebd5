//! What a back end reads from others: tokens, an issuer's key set, and the server's events. Only what was signed is believed,
//! and events are the same wherever the bytes were cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::auth::LocalIssuer;
use live::auth::testing::{events, key_set};
use serde_json::Map;
use std::sync::LazyLock;
use std::time::Duration;

static SIGNED: LazyLock<(LocalIssuer, String)> = LazyLock::new(|| {
    let issuer = LocalIssuer::temporary("counters").expect("a key");
    let lifetime = Duration::from_secs(7 * 24 * 3600);
    let token = issuer.issue("user-1", lifetime, Map::new()).expect("a token");
    (issuer, token)
});

fuzz_target!(|input: (u16, u16, u8, &[u8])| {
    let (at, gone, cut, bytes) = input;
    let (issuer, token) = &*SIGNED;
    if let Ok(text) = std::str::from_utf8(bytes) {
        let at = usize::from(at) % (token.len() + 1);
        let end = (at + usize::from(gone)).min(token.len());
        for sent in [format!("{}{text}{}", &token[..at], &token[end..]), text.to_owned()] {
            assert_eq!(issuer.verify(&sent).is_ok(), sent == *token, "{sent}");
        }
    }
    let _ = key_set(bytes);
    assert_eq!(events(bytes, usize::from(cut).max(1)), events(bytes, usize::MAX));
});
