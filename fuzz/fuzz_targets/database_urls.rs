//! Database URLs: no message and nothing that is shown holds a part of the password.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::Options;
use store::testing::parsers::database_url;

/// The program's own view of a URL, for what it shows of one.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/sarsen/src/config/database.rs"]
mod database;

const SECRET: &str = "hunter2";

fuzz_target!(|input: (&str, &str, u8)| {
    let (password, place, scheme) = input;
    if password.contains(SECRET) || place.contains(SECRET) {
        return;
    }
    let scheme = ["postgres", "mysql", "mariadb", "sqlite", "oracle"][usize::from(scheme % 5)];
    for url in [
        format!("{scheme}://ada:{SECRET}{password}@db.test/{place}"),
        format!("{scheme}://ada:{password}{SECRET}@db.test/sarsen?{place}"),
        format!("{scheme}://db.test/sarsen?password={SECRET}&{place}"),
    ] {
        if let Err(refused) = database_url(&url) {
            assert!(!refused.to_string().contains(SECRET), "{refused}");
        }
        let shown = database::Database::parse(&url).filter(|database| database.path().is_none());
        assert!(shown.is_none_or(|shown| !shown.to_string().contains(SECRET)), "{url}");
        let is_file = url.starts_with("sqlite");
        assert!(is_file || !format!("{:?}", Options::new(&*url, &[])).contains(SECRET), "{url}");
    }
    let _ = database_url(place);
});
