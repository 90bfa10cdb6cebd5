//! The texts of pages and mails: none stands in the code, each key that the code names exists, and each that exists is named.

use super::{Tree, assert_none};
use std::collections::BTreeSet;

/// The list of all texts.
const ENGLISH: &str = "crates/texts/texts/en.toml";
const SERVER: &str = "crates/server/src/";
/// Where people's pages are made. What is written here in English is for everybody in English.
const PAGES: &str = "crates/server/src/pages/";
/// Pages that exist in English only, and samples and rules of pages.
const ENGLISH_ONLY: [(&str, &str); 7] = [
    ("crates/server/src/pages/agent.rs", "names of browsers and systems"),
    ("crates/server/src/pages/views/api_docs.rs", "it shows the document of the API, which is in English"),
    ("crates/server/src/pages/views/demo_home.rs", "`sarsen demo` is for developers"),
    ("crates/server/src/pages/views/dev_mail.rs", "`/dev/mail` is for developers"),
    ("crates/server/src/pages/views/product.rs", "a sample product of `sarsen demo`"),
    ("crates/server/src/pages/views/samples.rs", "names of made-up people and products"),
    ("crates/server/src/pages/views/tests.rs", "tests"),
];
/// Sentences of our protocols, which programs get.
const FOR_PROGRAMS: [&str; 1] = ["The user said no."];
/// The sentences of the domain's errors and of problem documents, which no page shows.
const OF_OTHERS: [&str; 2] = ["error.to_string()", "problem.detail"];
/// What takes a key of a text, after the value that it is called on.
const TAKERS: [&str; 6] = [".text(\"", ".fill(\"", ".count(\"", ".html(\"", "Sentence::new(\"", "of_form(\""];
/// What an error page takes from the section that `section!` names.
const SECTION: [&str; 3] = ["title", "what", "advice"];
/// Read by the crate `texts` itself.
const OF_THE_CRATE: &str = "language.direction";

#[test]
fn pages_have_their_words_from_the_texts() {
    assert_none(
        "sentences in the code of pages (use a text of crates/texts/texts)",
        &sentences(&Tree::real()),
    );
}

#[test]
fn each_text_is_there_and_used() {
    assert_none("texts (crates/texts/texts/en.toml)", &keys(&Tree::real()));
}

fn sentences(tree: &Tree) -> Vec<String> {
    let is_ours =
        |path: &str| path.starts_with(PAGES) && ENGLISH_ONLY.iter().all(|(known, _)| *known != path);
    let mut found = Vec::new();
    for (path, text) in tree.rust_files().filter(|(path, _)| is_ours(path)) {
        let literals = literals(code(text));
        let is_wrong = |literal: &String| is_sentence(literal) && !FOR_PROGRAMS.contains(&literal.as_str());
        let wrong = literals.into_iter().filter(is_wrong);
        found.extend(wrong.map(|literal| format!("{path}: {literal:?}")));
        let shown = OF_OTHERS.iter().filter(|of_others| code(text).contains(*of_others));
        found.extend(shown.map(|of_others| format!("{path}: `{of_others}` is a sentence for programs")));
    }
    found
}

/// Whether it has words for people: three, or one with a large letter at the beginning. Commands, policies and our own name
/// are no sentences.
fn is_sentence(literal: &str) -> bool {
    if literal.starts_with("sarsen ") || literal == "Sarsen" || literal.contains("'none'") {
        return false;
    }
    let is_word = |word: &&str| word.len() > 1 && word.chars().all(char::is_alphabetic);
    let words: Vec<&str> = literal.split([' ', ',', '.', '!', '?', ':']).filter(is_word).collect();
    let first =
        words.first().filter(|word| literal.starts_with(**word) && !literal.contains(['/', '-', '=']));
    let is_large = first.is_some_and(|word| {
        let mut letters = word.chars();
        letters.next().is_some_and(char::is_uppercase) && letters.all(char::is_lowercase)
    });
    is_large || (words.len() > 2 && literal.contains(' '))
}

fn keys(tree: &Tree) -> Vec<String> {
    let Some(english) = tree.text(ENGLISH) else { return vec!["there are none".into()] };
    let known = known(english);
    let sections: BTreeSet<&str> =
        known.iter().filter_map(|key| key.split_once('.')).map(|(first, _)| first).collect();
    let (mut found, mut used) = (Vec::new(), BTreeSet::from([OF_THE_CRATE.to_owned()]));
    for (path, text) in tree.rust_files().filter(|(path, _)| path.starts_with(SERVER)) {
        let code = code(text);
        for literal in literals(code) {
            if known.contains(&literal) {
                used.insert(literal);
            } else if code.contains(&format!("section!(\"{literal}\")")) {
                used.extend(SECTION.map(|part| format!("{literal}.{part}")));
            } else if path.starts_with(PAGES) && is_passed_on(code, &literal) && is_of(&sections, &literal) {
                found.push(format!("{path}: there is no text {literal}"));
            }
        }
        for taker in TAKERS {
            for rest in code.split(taker).skip(1) {
                let key = rest.split('"').next().unwrap_or_default();
                if is_like_a_key(key) && !known.contains(key) {
                    found.push(format!("{path}: there is no text {key}"));
                }
            }
        }
    }
    found.extend(known.iter().filter(|key| !used.contains(*key)).map(|key| format!("nothing uses {key}")));
    found.sort();
    found.dedup();
    found
}

/// Whether it looks like a text of one of these pages.
fn is_of(sections: &BTreeSet<&str>, literal: &str) -> bool {
    is_like_a_key(literal) && literal.split('.').next().is_some_and(|first| sections.contains(first))
}

/// Whether it is the value of a match or of a field, or the last argument: commands have names like keys, and are first ones.
fn is_passed_on(code: &str, literal: &str) -> bool {
    let places = [format!("=> \"{literal}\""), format!(": \"{literal}\""), format!("\"{literal}\")")];
    places.iter().any(|place| code.contains(place))
}

/// `sign_in.title`, and no file or host of that form.
fn is_like_a_key(literal: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_')
    };
    literal.contains('.') && literal.split('.').all(is_part)
}

/// The keys of a file of texts.
fn known(file: &str) -> BTreeSet<String> {
    let mut section = String::new();
    let mut keys = BTreeSet::new();
    for line in file.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys.insert(format!("{section}.{name}"));
        }
    }
    keys
}

/// The code without its tests.
fn code(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The texts in quotes. Comments have none.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut rest = code.as_str();
    while let Some(at) = rest.find('"') {
        let before = &rest[..at];
        rest = &rest[at + 1..];
        if before.ends_with('\'') && rest.starts_with('\'') {
            continue;
        }
        let mut literal = String::new();
        let mut letters = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => literal
                    .extend(letters.next().map(|(_, escaped)| if escaped == '\n' { ' ' } else { escaped })),
                '"' => {
                    end = at + 1;
                    break;
                }
                letter => literal.push(letter),
            }
        }
        rest = &rest[end.min(rest.len())..];
        found.push(literal);
    }
    found
}

#[test]
fn a_sentence_in_the_code_of_a_page_is_found() {
    let source = r#"
        // "A comment is no text."
        h1 { "Welcome" }
        p { "to continue to " strong { (client) } }
        p { (language.text("page.sign_in")) " · " }
        terminal("sarsen org create acme --name Acme");
        form.stack method="post" action="/o/acme/login" { "Sign in" }
        const POLICY: &str = "default-src 'none'; style-src 'self'";
        let name = "_known";
        show(&error.to_string());
    "#;
    let tree = Tree::of(&[("crates/server/src/pages/views/new.rs", source)]);
    let found = sentences(&tree).join("\n");
    for expected in ["\"Welcome\"", "\"to continue to \"", "\"Sign in\"", "error.to_string()"] {
        assert!(found.contains(expected), "{expected} is not in:\n{found}");
    }
    assert_eq!(found.lines().count(), 4, "{found}");
}

#[test]
fn a_missing_and_an_unused_text_are_found() {
    let english = "[page]\nused = \"x\"\nlost = \"y\"\n[problem.gone]\ntitle = \"a\"\nadvice = \"b\"\n";
    let source = r#"language.text("page.used"); language.fill("page.absent", &[]); section!("problem.gone"); "index.html";
        Error::Wrong => "page.away"; app.store.write("page.hide", move |tx| ())"#;
    let tree = Tree::of(&[(ENGLISH, english), ("crates/server/src/pages/new.rs", source)]);
    let missing = ["page.absent", "page.away"]
        .map(|key| format!("crates/server/src/pages/new.rs: there is no text {key}"));
    let expected = [&*missing[0], &*missing[1], "nothing uses page.lost"];
    assert_eq!(keys(&tree), expected);
}
