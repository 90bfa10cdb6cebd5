//! Internationalized domain names (UTS 46, non-transitional: `ß` stays `ß`).

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use unicode_security::confusable_detection::skeleton;
use unicode_security::{RestrictionLevel, RestrictionLevelDetection as _};

/// The form in which a domain name is stored and asked for: lower case, and `xn--` labels for what is not ASCII. `None` if
/// it is no name of a host: labels have 1 to 63 letters, digits and inner hyphens, all together 253.
pub fn to_ascii(domain: &str) -> Option<String> {
    // Longer than any: what maps to one of 253 characters is not much longer.
    if domain.len() > 1024 {
        return None;
    }
    let deny = AsciiDenyList::STD3;
    let ascii =
        Uts46::new().to_ascii(domain.as_bytes(), deny, Hyphens::CheckFirstLast, DnsLength::Verify).ok()?;
    Some(ascii.into_owned())
}

/// The form for people. An `xn--` label is shown in its own letters unless it could be taken for another name: if it mixes
/// scripts (as [UTS 39](https://www.unicode.org/reports/tr39/) restricts them), or looks like one in ASCII.
pub fn shown(domain: &str) -> String {
    let is_shown = |label: &[char], _: &[char], _: bool| is_unmistakable(&label.iter().collect::<String>());
    let unicode = Uts46::new();
    let (shown, valid) =
        unicode.to_user_interface(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, is_shown);
    if valid.is_ok() { shown.into_owned() } else { domain.to_owned() }
}

fn is_unmistakable(label: &str) -> bool {
    label.check_restriction_level(RestrictionLevel::HighlyRestrictive)
        && (label.is_ascii() || !skeleton(label).all(|letter| letter.is_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn domains_are_stored_as_a_labels() {
        for (typed, stored) in [
            ("Example.COM", "example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("bu\u{308}cher.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("straße.example", "xn--strae-oqa.example"),
            ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
            ("ｅxample.com", "example.com"),
        ] {
            assert_eq!(to_ascii(typed).as_deref(), Some(stored), "{typed}");
        }
        let (long, whole) = (format!("{}.example", "a".repeat(64)), format!("{}a", "a.".repeat(127)));
        for wrong in [
            "",
            ".",
            "a..b",
            ".a",
            "a.",
            "-a.test",
            "a-.test",
            "a_b.test",
            "xn--a.test",
            "a b.test",
            &long,
            &whole,
        ] {
            assert_eq!(to_ascii(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_label_is_shown_in_its_letters_where_it_cannot_be_mistaken() {
        for unicode in
            ["bücher.example", "straße.example", "例え.テスト", "почта.example", "παράδειγμα.example"]
        {
            assert_eq!(shown(&to_ascii(unicode).expect("valid")), unicode);
        }
        // Cyrillic that looks like Latin, wholly and in part; the letter of another script in between; dotless i.
        for deceptive in ["аррӏе.com", "раypal.com", "exαmple.com", "ıstanbul.com"] {
            let ascii = to_ascii(deceptive).expect("valid");
            assert_eq!(shown(&ascii), ascii, "{deceptive}");
        }
        assert_eq!(shown("xn--zz-.test"), "xn--zz-.test", "what cannot be read stays");
        assert_eq!(shown("acme.test"), "acme.test");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_stored_as_the_same(typed in ".{1,20}") {
            if let Some(ascii) = to_ascii(&typed) {
                prop_assert!(ascii.is_ascii());
                prop_assert_eq!(to_ascii(&ascii), Some(ascii.clone()));
                prop_assert_eq!(to_ascii(&shown(&ascii)), Some(ascii));
            }
        }
    }
}
