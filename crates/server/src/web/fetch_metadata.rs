//! The headers by which a browser describes the origin of a request: `Sec-Fetch-Site`, `Sec-Fetch-Mode`,
//! `Sec-Fetch-Dest` (Fetch Metadata), `Sec-Purpose` and `Origin`. A page of another site cannot set them. Other clients send none.

use http::HeaderMap;
use http::header::ORIGIN;

/// Whether the user opens this address in a tab, now: the request is no image, frame or script's request of any site, and
/// no browser that only prepares for a click. A request without these headers counts as one.
pub(crate) fn is_top_level(headers: &HeaderMap) -> bool {
    let described = ["sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"];
    let is_described = described.iter().any(|name| headers.contains_key(*name));
    let prepares = |name| {
        value(headers, name).is_some_and(|purpose| {
            let purpose = purpose.to_ascii_lowercase();
            ["prefetch", "prerender", "preview"].iter().any(|word| purpose.contains(word))
        })
    };
    let is_prepared = ["sec-purpose", "purpose", "x-purpose", "x-moz"].into_iter().any(prepares);
    (is_document(headers) || !is_described) && !is_prepared
}

fn is_document(headers: &HeaderMap) -> bool {
    value(headers, "sec-fetch-mode") == Some("navigate")
        && value(headers, "sec-fetch-dest") == Some("document")
}

/// Whether one of our pages may have sent the form. Our pages send no referrer, so their `Origin` may be `null`.
pub(crate) fn may_be_own_form(headers: &HeaderMap, issuer: &str) -> bool {
    match (value(headers, "sec-fetch-site"), headers.get(ORIGIN)) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => origin == "null" || origin == issuer,
        (None, None) => true,
    }
}

fn value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("not text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://id.example";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn a_tab_is_opened_by_a_navigation_that_is_shown() {
        let from = |site, mode, dest| {
            vec![("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]
        };
        let with = |name, value| {
            let mut pairs = from("cross-site", "navigate", "document");
            pairs.push((name, value));
            pairs
        };
        for pairs in [
            vec![],
            from("cross-site", "navigate", "document"),
            from("none", "navigate", "document"),
            with("sec-purpose", "something-else"),
        ] {
            assert!(is_top_level(&headers(&pairs)), "{pairs:?}");
        }
        for pairs in [
            from("same-origin", "no-cors", "image"),
            from("same-site", "navigate", "iframe"),
            from("same-origin", "cors", "empty"),
            vec![("sec-fetch-site", "none")],
            with("sec-purpose", "prefetch;prerender"),
            with("purpose", "prefetch"),
            vec![("x-moz", "Prefetch")],
            vec![("x-purpose", "preview")],
        ] {
            assert!(!is_top_level(&headers(&pairs)), "{pairs:?}");
        }
    }

    #[test]
    fn a_form_comes_from_our_own_origin() {
        let good: &[&[(&str, &str)]] = &[
            &[],
            &[("origin", ISSUER)],
            &[("origin", "null")],
            &[("sec-fetch-site", "same-origin"), ("origin", "null")],
            &[("sec-fetch-site", "none")],
        ];
        let wrong: &[&[(&str, &str)]] = &[
            &[("origin", "https://evil.example")],
            &[("origin", "https://id.example.evil.example")],
            &[("origin", "http://id.example")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site"), ("origin", ISSUER)],
            &[("sec-fetch-site", ""), ("origin", ISSUER)],
        ];
        for pairs in good {
            assert!(may_be_own_form(&headers(pairs), ISSUER), "{pairs:?}");
        }
        for pairs in wrong {
            assert!(!may_be_own_form(&headers(pairs), ISSUER), "{pairs:?}");
        }
    }
}
