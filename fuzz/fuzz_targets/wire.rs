//! Bodies, pages and times of the JSON API: only objects, only pages within bounds, times that read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::testing::parsers::{body, page, time};
use std::collections::BTreeMap;

fuzz_target!(|text: &str| {
    if let Some(fields) = body::<BTreeMap<String, String>>(text.as_bytes()) {
        assert!(text.trim_start().starts_with('{'), "{fields:?}");
    }
    if let Some((limit, cursor)) = page(&format!("/api/plans?{text}")) {
        assert!((1..=200).contains(&limit));
        let slug = |cursor: &String| cursor.len() <= 50 && cursor.is_ascii();
        assert!(cursor.as_ref().is_none_or(slug));
    }
    if let Some((moment, shown)) = time(text) {
        assert_eq!(time(&shown), Some((moment, shown)));
    }
});
