//! OAuth parameters and the forms of pages: what was read and is written again reads the same, from a form or JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::testing::parsers::{form, json_parameters};

fuzz_target!(|bytes: &[u8]| {
    for normal in [form(bytes), json_parameters(bytes)].into_iter().flatten() {
        assert_eq!(form(normal.as_bytes()).as_ref(), Some(&normal));
        let names = normal.split('&').map(|pair| pair.split('=').next());
        let mut names: Vec<_> = names.collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a parameter that comes twice is refused");
    }
});
