//! The headers by which a browser describes the origin of a request: `Sec-Fetch-Site`, `Sec-Fetch-Mode`,
//! `Sec-Fetch-Dest` (Fetch Metadata) and `Origin`. A page of another site cannot set them. Other clients send none.

use http::HeaderMap;
use http::header::ORIGIN;

/// Whether a page of another site sends this request without navigation: an image, a frame, a script's request.
pub(crate) fn is_embedded_elsewhere(headers: &HeaderMap) -> bool {
    let is_top_level = value(headers, "sec-fetch-mode") == Some("navigate")
        && value(headers, "sec-fetch-dest") == Some("document");
    value(headers, "sec-fetch-site") == Some("cross-site") && !is_top_level
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
    fn only_a_navigation_leaves_another_site() {
        let from = |site, mode, dest| {
            let pairs = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            is_embedded_elsewhere(&headers(&pairs))
        };
        assert!(!from("cross-site", "navigate", "document"));
        assert!(from("cross-site", "navigate", "iframe"));
        assert!(from("cross-site", "no-cors", "image"));
        assert!(from("cross-site", "cors", "empty"));
        assert!(!from("same-origin", "no-cors", "image"));
        assert!(!is_embedded_elsewhere(&headers(&[])), "an old browser, or none");
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
