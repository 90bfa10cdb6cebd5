//! The text of a PostgreSQL snapshot: what it says has ended lies before what has not, and it reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::testing::parsers::SnapshotText;

fuzz_target!(|input: (&str, u64)| {
    let (text, transaction) = input;
    let Some(seen) = SnapshotText::parse(text) else { return };
    let (horizon, next) = seen.bounds();
    assert!(horizon <= next);
    let running = seen.running();
    let listed = running.trim_matches(['{', '}']);
    let again = SnapshotText::parse(&format!("{horizon}:{next}:{listed}")).expect("its own text");
    assert_eq!((again.bounds(), again.running()), ((horizon, next), running.clone()));
    for transaction in [transaction, horizon, next, next.wrapping_sub(1)] {
        let held = seen.holds(transaction);
        assert_eq!(held, again.holds(transaction));
        assert!(!held || transaction < next);
        assert!(held || transaction >= horizon);
    }
});
