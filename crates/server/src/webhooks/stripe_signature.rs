//! The header `Stripe-Signature`: `t=<Unix seconds>,v1=<hex>,…`. The signature is the HMAC-SHA256 of `<t>.<body>` with the
//! endpoint's secret. While Stripe replaces a secret, there is a `v1` for each of the two. Other schemes are ignored.

use aws_lc_rs::{constant_time, hmac};
use identity::Time;

/// The header of the signature.
pub(crate) const HEADER: &str = "stripe-signature";
/// How far the time of a signature and this server's clock may be apart.
const TOLERANCE_S: u64 = 5 * 60;
const HEADER_LENGTH_MAX: usize = 4096;
/// The most signatures that are compared.
const SIGNATURES_MAX: usize = 8;
/// The bytes of an HMAC-SHA256.
const SIGNATURE_LENGTH: usize = 32;

/// A header that has the form of a signature.
#[derive(Debug)]
pub(crate) struct Signature<'h> {
    /// As it was signed.
    time: &'h str,
    seconds: i64,
    signatures: Vec<[u8; SIGNATURE_LENGTH]>,
}

impl<'h> Signature<'h> {
    /// Reads a header. `None` if it has no time, several, no signature, or more than are compared.
    pub(crate) fn parse(header: &'h [u8]) -> Option<Signature<'h>> {
        let header = std::str::from_utf8(header).ok().filter(|header| header.len() <= HEADER_LENGTH_MAX)?;
        let (mut time, mut signatures) = (None, Vec::new());
        for (name, value) in header.split(',').filter_map(|part| part.trim().split_once('=')) {
            match name {
                "t" if time.is_some() => return None,
                "t" => time = Some((value, seconds(value)?)),
                "v1" if signatures.len() == SIGNATURES_MAX => return None,
                "v1" => signatures.extend(bytes_of_hex(value)),
                _ => {}
            }
        }
        let (time, seconds) = time?;
        (!signatures.is_empty()).then_some(Signature { time, seconds, signatures })
    }

    /// Whether it was made within five minutes of now.
    pub(crate) fn is_recent(&self, now: Time) -> bool {
        (now.millis() / 1000).abs_diff(self.seconds) <= TOLERANCE_S
    }

    /// Whether one of the signatures is that of this body with this secret. All are compared, in constant time.
    pub(crate) fn matches(&self, secret: &[u8], body: &[u8]) -> bool {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
        context.update(self.time.as_bytes());
        context.update(b".");
        context.update(body);
        let expected = context.sign();
        let matching = self.signatures.iter().filter(|signature| {
            constant_time::verify_slices_are_equal(*signature, expected.as_ref()).is_ok()
        });
        matching.count() > 0
    }
}

/// Digits only: a sign or a space would be another text than the one that was signed.
fn seconds(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn bytes_of_hex(text: &str) -> Option<[u8; SIGNATURE_LENGTH]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * SIGNATURE_LENGTH {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let mut bytes = [0; SIGNATURE_LENGTH];
    for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks().0) {
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"whsec_test_secret";
    const BODY: &[u8] = br#"{"id":"evt_1"}"#;
    const SECONDS: i64 = 1_800_000_000;
    const NOW: Time = Time::from_millis(SECONDS * 1000 + 999);

    fn signed(time: &str, secret: &[u8], body: &[u8]) -> String {
        let text = [time.as_bytes(), b".", body].concat();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &text);
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn is_valid(header: &str) -> bool {
        Signature::parse(header.as_bytes())
            .is_some_and(|signature| signature.is_recent(NOW) && signature.matches(SECRET, BODY))
    }

    #[test]
    fn a_known_signature_is_valid() {
        // Computed with `openssl dgst -sha256 -hmac whsec_test_secret`.
        let known = "t=1800000000,v1=8a6563dbee1eccda632491deb091d19e764aadddcd0ace8d9516599526831c89";
        assert!(is_valid(known));
    }

    #[test]
    fn one_good_signature_is_enough() {
        let (good, bad) = (signed("1800000000", SECRET, BODY), "0".repeat(64));
        for header in [
            format!("t=1800000000,v1={good}"),
            format!("v1={good},t=1800000000"),
            format!("t=1800000000, v1={good}"),
            format!("t=1800000000,v1={bad},v1={good},v0={bad}"),
            format!("t=1800000000,v1={good},v1=short,v2"),
            format!("t=1800000000,v1={}", good.to_uppercase()),
        ] {
            assert!(is_valid(&header), "{header}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        let good = signed("1800000000", SECRET, BODY);
        let other_body = signed("1800000000", SECRET, b"{}");
        let other_secret = signed("1800000000", b"whsec_other", BODY);
        for header in [
            String::new(),
            format!("v1={good}"),
            "t=1800000000".to_owned(),
            format!("t=1800000000,v0={good}"),
            format!("t=1800000001,v1={good}"),
            format!("t=01800000000,v1={good}"),
            format!("t=1800000000,t=1800000000,v1={good}"),
            format!("t=1800000000,v1={other_body}"),
            format!("t=1800000000,v1={other_secret}"),
            format!("t=1800000000,v1={}", &good[..62]),
            format!("t=1800000000,v1={}zz", &good[..62]),
            format!("t=-1,v1={good}"),
            format!("t=99999999999999999999,v1={good}"),
            format!("t=1800000000{}", format!(",v1={good}").repeat(SIGNATURES_MAX + 1)),
            format!("t=1800000000,v1={good},x={}", "x".repeat(HEADER_LENGTH_MAX)),
        ] {
            assert!(!is_valid(&header), "{header}");
        }
    }

    #[test]
    fn a_signature_is_valid_for_five_minutes_around_its_time() {
        for (apart, expected) in
            [(0, true), (300, true), (301, false), (-300, true), (-301, false), (SECONDS, false)]
        {
            let time = (SECONDS - apart).to_string();
            let header = format!("t={time},v1={}", signed(&time, SECRET, BODY));
            assert_eq!(is_valid(&header), expected, "{apart} s");
        }
    }
}
