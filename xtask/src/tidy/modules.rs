//! Which file of a crate names which, read from `use` and from paths that begin with `crate`, `super`, `self` or a module
//! of the file. A name that a module passes on (`pub use`) counts as one of the file that defines it.

use super::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// File → the files that it names, both relative to the sources. The crate's root is left out: it only lists the modules.
/// So are tests, and what a module passes on of its own children.
pub type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// How often a name may be passed on before its file is found.
const PASSED_ON_MAX: usize = 5;

struct Module<'a> {
    file: &'a str,
    paths: Vec<Named>,
}

/// A path as it stands in a file.
struct Named {
    path: Vec<String>,
    /// Whether a `pub use` passes it on.
    is_passed_on: bool,
}

/// The arrows between the files under `sources` (`crates/store/src/`).
pub fn arrows<'a>(tree: &'a Tree, sources: &str) -> Arrows<'a> {
    let mut modules: BTreeMap<Vec<String>, Module<'a>> = BTreeMap::new();
    for (path, text) in tree.rust_files() {
        if let Some(file) = path.strip_prefix(sources).filter(|file| !is_test(file)) {
            let paths = paths(&tokens(&code(without_tests(text))));
            modules.insert(module_of(file), Module { file, paths });
        }
    }
    let mut found = Arrows::new();
    for (name, module) in modules.iter().filter(|(name, _)| !name.is_empty()) {
        for named in &module.paths {
            let Some(target) =
                absolute(&modules, name, &named.path).and_then(|path| resolve(&modules, path, 0))
            else {
                continue;
            };
            let is_child = target.len() > name.len() && target.starts_with(name);
            if target != *name && !target.is_empty() && !(named.is_passed_on && is_child) {
                found.entry(module.file).or_default().insert(modules[&target].file);
            }
        }
    }
    found
}

fn is_test(file: &str) -> bool {
    let stems = file.strip_suffix(".rs").unwrap_or(file).split('/');
    stems.into_iter().any(|stem| stem == "tests" || stem == "testing" || stem.ends_with("_tests"))
}

/// Tests stand at the end of a file.
fn without_tests(text: &str) -> &str {
    text.find("\nmod tests {").and_then(|end| text.get(..end)).unwrap_or(text)
}

/// `billing/events.rs` is `billing::events`, and `billing/mod.rs` or `billing.rs` is `billing`.
fn module_of(file: &str) -> Vec<String> {
    let mut words: Vec<&str> = file.strip_suffix(".rs").unwrap_or(file).split('/').collect();
    if matches!(words.as_slice(), [.., "mod"] | ["lib" | "main"]) {
        words.pop();
    }
    words.into_iter().map(str::to_owned).collect()
}

/// The path from the crate's root, if it leads to something of this crate.
fn absolute(
    modules: &BTreeMap<Vec<String>, Module<'_>>,
    from: &[String],
    path: &[String],
) -> Option<Vec<String>> {
    let mut base = from.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|word| word == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let child: Vec<String> = [from, &[first.to_owned()]].concat();
            if !modules.contains_key(&child) {
                return None;
            }
        }
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The module that a path leads to, through what others pass on.
fn resolve(
    modules: &BTreeMap<Vec<String>, Module<'_>>,
    path: Vec<String>,
    depth: usize,
) -> Option<Vec<String>> {
    let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
    let (name, rest) = path.split_at(length);
    let passed_on = modules[name].paths.iter().filter(|named| named.is_passed_on);
    let mut passed_on = passed_on.filter(|named| !rest.is_empty() && named.path.last() == rest.first());
    if let Some(named) = passed_on.next().filter(|_| depth < PASSED_ON_MAX)
        && let Some(mut target) = absolute(modules, name, &named.path)
    {
        target.extend_from_slice(&rest[1..]);
        return resolve(modules, target, depth + 1);
    }
    Some(name.to_vec())
}

/// Words, `::`, and every other character alone.
fn tokens(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ':' if rest.starts_with("::") => 2,
            _ if is_word(first) => rest.find(|letter| !is_word(letter)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, next) = rest.split_at(length);
        if !first.is_whitespace() {
            found.push(token);
        }
        rest = next;
    }
    found
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// All paths of a file: those of `use`, and those that stand in its code.
fn paths(tokens: &[&str]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut place = 0;
    while place < tokens.len() {
        let before = place.checked_sub(1).and_then(|before| tokens.get(before)).copied().unwrap_or_default();
        if tokens[place] == "use" && tokens.get(place + 1) != Some(&"<") {
            let is_passed_on = before == "pub" || before == ")";
            let mut add = |path| found.push(Named { path, is_passed_on });
            place = used(tokens, place + 1, &[], &mut add);
        } else if tokens[place].starts_with(is_word) && tokens.get(place + 1) == Some(&"::") && before != "::"
        {
            let mut path = vec![tokens[place].to_owned()];
            while tokens.get(place + 1) == Some(&"::")
                && let Some(word) = tokens.get(place + 2).filter(|word| word.starts_with(is_word))
            {
                path.push((*word).to_owned());
                place += 2;
            }
            found.push(Named { path, is_passed_on: false });
            place += 1;
        } else {
            place += 1;
        }
    }
    found
}

/// Adds the paths of a tree of `use` that begins at `place`. Returns the place of what follows it.
fn used(tokens: &[&str], mut place: usize, prefix: &[String], add: &mut impl FnMut(Vec<String>)) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(place) {
        match *token {
            "{" => {
                while !matches!(tokens.get(place), None | Some(&"}")) {
                    place = used(tokens, place + 1, &path, add);
                }
                return place + 1;
            }
            "::" => {}
            "as" => place += 1,
            "self" if !path.is_empty() => {}
            word if word.starts_with(is_word) => path.push(word.to_owned()),
            "*" => {}
            _ => break,
        }
        place += 1;
    }
    if path.len() > prefix.len() || tokens.get(place.wrapping_sub(1)) == Some(&"self") {
        add(path);
    }
    place
}

/// The text without comments and without what stands in literals.
pub fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            'r' if !code.ends_with(is_word) && is_raw(rest) => raw_length(rest),
            '"' => quoted_length(rest, '"'),
            '\'' if rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'') => {
                quoted_length(rest, '\'')
            }
            _ => {
                code.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    code
}

fn is_raw(text: &str) -> bool {
    text[1..].trim_start_matches('#').starts_with('"')
}

/// The length of `r##"…"##`.
fn raw_length(text: &str) -> usize {
    let hashes = text[1..].len() - text[1..].trim_start_matches('#').len();
    let (start, end) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
    text[start..].find(&end).map_or(text.len(), |found| start + found + end.len())
}

/// The length of a literal between two quotes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((place, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            _ if letter == quote => return place + 1,
            _ => {}
        }
    }
    text.len()
}
