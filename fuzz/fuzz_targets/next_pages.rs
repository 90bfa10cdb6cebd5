//! Where a sign-in leads: never to another origin, whatever a browser makes of the address.
#![no_main]

use libfuzzer_sys::fuzz_target;
use server::testing::parsers::next_page;
use url::Url;

fuzz_target!(|sent: &str| {
    let chosen = next_page(sent, "/home");
    let ours = Url::parse("https://id.test/sign-in").expect("a URL");
    let led = ours.join(chosen).expect("a browser can go there");
    assert_eq!(led.origin(), ours.origin(), "{chosen}");
    assert!(led.username().is_empty());
});
