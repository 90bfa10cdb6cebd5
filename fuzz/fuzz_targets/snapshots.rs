//! The text of a PostgreSQL snapshot: what it says has ended lies before what has not, and it reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::testing::parsers::SnapshotText;

fuzz_target!(|input: (&str, u64)| {
    let (text, transaction) = input;
    let Some(snapshot) = SnapshotText::parse(text) else { return };
    let (xmin, xmax) = snapshot.bounds();
    assert!(xmin <= xmax);
    let running = snapshot.xip_array();
    let listed = running.trim_matches(['{', '}']);
    let again = SnapshotText::parse(&format!("{xmin}:{xmax}:{listed}")).expect("its own text");
    assert_eq!((again.bounds(), again.xip_array()), ((xmin, xmax), running.clone()));
    for transaction in [transaction, xmin, xmax, xmax.wrapping_sub(1)] {
        let held = snapshot.includes(transaction);
        assert_eq!(held, again.includes(transaction));
        assert!(!held || transaction < xmax);
        assert!(held || transaction >= xmin);
    }
});
