//! Keys in the logs of changes: whatever they hold, they come back as they went in, one by one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::Key;
use store::testing::parsers::KEY_TEXTS;

fuzz_target!(|values: Vec<&str>| {
    let keys: Vec<Key> = values.iter().map(|value| Key::row("users", "email", value)).collect();
    for (key, value) in keys.iter().zip(&values) {
        assert_eq!(key.value_of("users", "email"), Some(*value));
        assert!(key.concerns(key) && !key.is_table() && !key.is_everything());
        assert!(Key::table("users").concerns(key) && !Key::table("user").concerns(key));
    }
    for (write, read) in KEY_TEXTS {
        assert_eq!(read(&write(&keys)), keys);
        // Text that nobody wrote is read as well as it can be.
        let _ = read(&values.join("\n"));
    }
});
