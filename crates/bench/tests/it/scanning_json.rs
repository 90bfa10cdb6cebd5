//! The scanner finds what a parser finds.

use bench::string_field;
use proptest::prelude::*;
use serde_json::{Value, json};

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn finds_what_a_parser_finds(
        members in proptest::collection::btree_map("[a-d]", any_value(), 0..5),
        pretty in any::<bool>(),
    ) {
        let object = Value::Object(members.into_iter().collect());
        let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
        let text = text.unwrap();
        for name in ["a", "b", "c", "d"] {
            let found = string_field(text.as_bytes(), name);
            let unescaped = found.map(|raw| {
                serde_json::from_str::<String>(&format!("\"{}\"", std::str::from_utf8(raw).unwrap())).unwrap()
            });
            prop_assert_eq!(unescaped.as_deref(), object.get(name).and_then(Value::as_str));
        }
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'"'), Just(b'\\'), Just(b':'), Just(b'a'), Just(b','), Just(b'}')], 0..40)) {
        let _ = string_field(&bytes, "a");
    }
}

#[test]
fn looks_at_the_top_level_only() {
    let text =
        json!({ "customer": { "plan": "gold" }, "note": "\"plan\":\"silver\"", "plan": "pro" }).to_string();
    assert_eq!(string_field(text.as_bytes(), "plan"), Some(&b"pro"[..]));
}
