//! Typing errors: the known name that a wrong one is most like.

/// The most similar name, if one is similar.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|name| (distance(wrong, name), name));
    scored.min().filter(|(distance, name)| *distance * 3 <= name.len()).map(|(_, name)| name)
}

/// The edit distance: letters to change, add or remove.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut line: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.chars().enumerate() {
        let mut diagonal = row;
        line[0] = row + 1;
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = line[column + 1];
            line[column + 1] = changed.min(line[column] + 1).min(diagonal + 1);
        }
    }
    line[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_the_name() {
        let known = ["listen", "trusted_proxies", "log"];
        assert_eq!(nearest("listn", known), Some("listen"));
        assert_eq!(nearest("trusted_proxy", known), Some("trusted_proxies"));
        assert_eq!(nearest("colour", known), None);
    }
}
