//! Keys in the change log: whatever they contain, they are read as they were written, one by one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::Key;
use store::testing::parsers::{key_text, keys_of};

fuzz_target!(|values: Vec<&str>| {
    let keys: Vec<Key> = values.iter().map(|value| Key::row("users", "email", value)).collect();
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(key.as_str().strip_prefix("users.email="), Some(*value));
        assert_eq!(key.table_name(), "users");
        assert!(key.concerns(key) && !key.is_table() && !key.is_everything());
        assert!(Key::table("users").concerns(key) && !Key::table("user").concerns(key));
    }
    assert_eq!(keys_of(&key_text(&keys)), keys);
    // Text that the store did not write is read as well as it can be.
    let _ = keys_of(&values.join("\n"));
});
