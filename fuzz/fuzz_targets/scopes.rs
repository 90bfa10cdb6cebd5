//! Scopes that a client asks for: what is granted was asked for, and reads back as what it is.
#![no_main]

use identity::scopes::Scope;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, bool)| {
    let (text, first_party) = input;
    let asked = Scope::parse(text);
    assert_eq!(Scope::parse(&asked.to_string()), asked);
    let Ok(granted) = Scope::grant(Some(text), first_party) else { return };
    assert_eq!(Scope::parse(&granted.to_string()), granted);
    assert!(granted.iter().next().is_some());
    assert!(text.trim().is_empty() || granted.is_within(&asked));
});
