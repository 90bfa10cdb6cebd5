//! What people type: user codes, slugs, e-mail addresses, names. What was read reads as itself.
#![no_main]

use identity::{names, user_codes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|typed: &str| {
    if let Some(code) = user_codes::read(typed) {
        assert!(code.len() == 8 && code.bytes().all(|letter| letter.is_ascii_uppercase()));
        assert_eq!(user_codes::read(&user_codes::show(&code)), Some(code));
    }
    if let Ok(slug) = names::slug("slug", typed) {
        assert_eq!(slug, typed);
    }
    if let Ok(address) = names::email(typed) {
        assert_eq!(names::email(&address).ok(), Some(address.clone()));
        assert_eq!(names::known_email(typed).ok(), Some(address.clone()));
        assert_eq!(names::email(&text::mail::shown(&address)).ok(), Some(address.clone()));
        assert!(address.is_ascii() && !address.bytes().any(|letter| letter.is_ascii_uppercase()));
    }
    if let Ok(name) = names::display("name", typed) {
        assert_eq!(names::display("name", &name).ok(), Some(name));
    }
    let remark = names::remark(typed);
    assert_eq!(names::remark(&remark), remark);
});
