//! When a certificate ends (RFC 5280 section 4.1.2.5). Nothing else of it is read here; rustls does the rest.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of a certificate in DER, in Unix seconds. None for anything else.
pub(crate) fn not_after(der: &[u8]) -> Option<i64> {
    let mut certificate = Elements(der).next(SEQUENCE)?;
    let mut signed = certificate.next(SEQUENCE)?;
    if signed.0.first() == Some(&VERSION) {
        signed.skip()?;
    }
    // The number, the algorithm of the signature, the issuer.
    (0..3).try_for_each(|_| signed.skip())?;
    let mut validity = signed.next(SEQUENCE)?;
    validity.skip()?;
    let (kind, text) = validity.take()?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let whole = match kind {
        // Two digits of a year between 1950 and 2049.
        UTC_TIME if text.len() == 12 => {
            let century = if text < "50" { "20" } else { "19" };
            [century, text].concat()
        }
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", whole).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(time.timestamp().as_second())
}

/// Elements of DER, one after the other: a tag, a length and the content.
struct Elements<'d>(&'d [u8]);

impl<'d> Elements<'d> {
    fn take(&mut self) -> Option<(u8, &'d [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    fn skip(&mut self) -> Option<()> {
        self.take().map(drop)
    }

    fn next(&mut self, wanted: u8) -> Option<Elements<'d>> {
        self.take().filter(|(tag, _)| *tag == wanted).map(|(_, content)| Elements(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A certificate in DER that ends after so many days, and the end that openssl reads in it.
    fn after(days: u32) -> (Vec<u8>, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let openssl = |arguments: &str| {
            let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder.path()).output();
            let made = made.expect("openssl runs");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            String::from_utf8(made.stdout).expect("text")
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key";
        openssl(&format!("req -x509 {key} -subj /CN=localhost -days {days} -outform DER -out der"));
        let read = openssl("x509 -inform DER -in der -noout -enddate -dateopt iso_8601");
        (std::fs::read(folder.path().join("der")).expect("made"), read)
    }

    #[test]
    fn the_end_is_read_in_both_forms_of_a_time() {
        // From 2050 on it is a GeneralizedTime.
        for days in [2, 20_000] {
            let (der, read) = after(days);
            let end = jiff::Timestamp::from_second(not_after(&der).expect("an end")).expect("a time");
            assert_eq!(
                read.trim(),
                format!("notAfter={}", end.strftime("%Y-%m-%d %H:%M:%SZ")),
                "{days} days"
            );
            for length in 0..der.len() {
                assert_eq!(not_after(&der[..length]), None, "{length} bytes");
            }
        }
        assert_eq!(not_after(&[0xff; 64]), None);
    }
}
