//! `X-Request-Id`: identifies a request in its response and in the log. An id from a client or a proxy is kept.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The header.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is accepted.
const LENGTH_MAX: usize = 128;
/// An odd number: its multiples repeat after 2^64 of them only.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The source of ids: 16 hexadecimal digits, unique within a process and, by chance, between processes.
/// They are not secrets.
pub struct RequestIds(AtomicU64);

impl RequestIds {
    /// Ids that begin at a random number, which another process does not have.
    pub fn new(seed: [u8; 8]) -> RequestIds {
        RequestIds(AtomicU64::new(u64::from_le_bytes(seed)))
    }

    /// The id of a request.
    pub fn id(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(X_REQUEST_ID) {
            Some(sent) if is_well_formed(sent.as_bytes()) => sent.clone(),
            _ => self.next(),
        }
    }

    fn next(&self) -> HeaderValue {
        let number = self.0.fetch_add(STEP, Relaxed);
        // The finalizer of SplitMix64 hides the number of requests.
        let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let number = number ^ (number >> 31);
        let digits = number.to_be_bytes().map(|byte| HEXADECIMAL[usize::from(byte)]);
        HeaderValue::from_bytes(digits.as_flattened()).unwrap_or_else(|_| HeaderValue::from_static("0"))
    }
}

/// The two digits of each byte.
static HEXADECIMAL: [[u8; 2]; 256] = {
    let (digits, mut all, mut number) = (b"0123456789abcdef", [[0; 2]; 256], 0);
    while number < 256 {
        all[number] = [digits[number / 16], digits[number % 16]];
        number += 1;
    }
    all
};

/// Characters that the log and other programs take unchanged.
fn is_well_formed(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/".contains(byte);
    (1..=LENGTH_MAX).contains(&id.len()) && id.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_good_id_is_kept_and_others_are_replaced_by_one_that_no_other_request_has() {
        let ids = RequestIds::new([1; 8]);
        let mut seen = HashSet::new();
        let mut of = |sent: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(sent.as_bytes()).expect("a value"));
            let id = ids.id(&headers).to_str().expect("text").to_owned();
            assert!(seen.insert(id.clone()), "{id}");
            id
        };
        let long = "a".repeat(LENGTH_MAX);
        for good in ["1", "0af7651916cd43dd8448eb211c80319c", "Root=1-67891233-abc:+/._", &long] {
            assert_eq!(of(good), good);
        }
        for wrong in ["", "a b", "a\"b", "a;b", "<b>", "é", &format!("{long}a")] {
            let id = of(wrong);
            assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
        let made: HashSet<HeaderValue> = (0..10_000).map(|_| ids.id(&HeaderMap::new())).collect();
        assert_eq!(made.len(), 10_000);
    }
}
