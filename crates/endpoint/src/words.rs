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
