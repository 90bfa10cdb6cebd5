//! Texts of errors as sentences: the rules of a domain write "use 1 to 200", a client reads "Use 1 to 200."

/// With a capital first letter.
pub fn capitalised(noun: &str) -> String {
    with_first(noun, |first| first.to_uppercase().to_string())
}

/// With a full stop.
pub fn sentence(text: &str) -> String {
    if text.ends_with(['.', '…']) { text.to_owned() } else { format!("{text}.") }
}

/// Inside a sentence, a detail begins in lower case. A quoted value keeps its case.
pub(crate) fn uncapitalised(sentence: &str) -> String {
    with_first(sentence, |first| first.to_lowercase().to_string())
}

fn with_first(text: &str, change: impl Fn(char) -> String) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| [&change(first), letters.as_str()].concat())
}

/// A value of a type of Rust, as serde names it, in words.
pub fn expectation(expected: &str) -> &str {
    match expected {
        "i8" => "a whole number from -128 to 127",
        "i16" => "a whole number from -32768 to 32767",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" | "i128" | "isize" => "a whole number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "u128" | "usize" => "a whole number, 0 or more",
        "a nonzero u32" => "a whole number from 1 to 4294967295",
        "a nonzero u64" => "a whole number, 1 or more",
        "f32" | "f64" => "a number",
        "bool" => "true or false",
        expected => expected,
    }
}
