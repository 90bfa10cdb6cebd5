//! Ids from outside: one that is taken is written in the one way that it has.
#![no_main]

use identity::ids::{ClientId, OrganizationId, UserId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(id) = UserId::parse(text) {
        assert_eq!(id.as_str(), text);
        assert_eq!(id.plus(0), id, "its number is written like this and in no other way");
        assert!(OrganizationId::parse(text).is_err(), "no id is of two kinds");
    }
    if let Ok(id) = ClientId::parse(text) {
        assert!(id.as_str() == text && UserId::parse(text).is_err());
    }
});
