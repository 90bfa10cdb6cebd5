//! Placeholders for what differs from run to run. Ids, secrets and tokens are numbered in the order in which they appear,
//! so that a diff of a recording shows changes only: `<user_1>`, `<random_2>`, `<jwt_1>`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::BTreeMap;

/// An id, after its prefix and `_`.
const ID_LENGTH: usize = 26;
/// A longer word of mixed letters is no word of ours.
const WORD_MAX: usize = 40;

/// The placeholders of one recording.
#[derive(Default)]
pub struct Masks {
    /// Texts that are replaced wherever they are, the longest first.
    learned: Vec<(String, String)>,
    numbered: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
    /// What is explained at the end: long headers and the content of tokens.
    glossary: Vec<(String, String)>,
}

impl Masks {
    /// Replaces a text that has no form of its own, such as a password.
    pub fn learn(&mut self, text: &str, placeholder: &str) {
        if !text.is_empty() && !self.learned.iter().any(|(known, _)| known == text) {
            self.learned.push((text.to_owned(), placeholder.to_owned()));
            self.learned.sort_by_key(|(known, _)| std::cmp::Reverse(known.len()));
        }
    }

    /// Replaces a text by the next placeholder of its kind.
    pub fn learn_next(&mut self, text: &str, kind: &str) {
        if !text.is_empty() && !self.learned.iter().any(|(known, _)| known == text) {
            let placeholder = self.next(kind);
            self.learn(text, &placeholder);
        }
    }

    /// A text that is long and often the same: a placeholder, which the glossary explains.
    pub fn short(&mut self, kind: &str, text: &str) -> String {
        let text = self.mask(text);
        if let Some((placeholder, _)) = self.glossary.iter().find(|(_, known)| *known == text) {
            return placeholder.clone();
        }
        let placeholder = self.next(kind);
        self.glossary.push((placeholder.clone(), text));
        placeholder
    }

    /// The end of a recording.
    pub fn glossary(&self) -> String {
        self.glossary.iter().map(|(placeholder, text)| format!("{placeholder} = {text}\n")).collect()
    }

    /// The text with its placeholders.
    pub fn mask(&mut self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (taken, placeholder) = self.at_start(rest, first);
            masked.push_str(placeholder.as_deref().unwrap_or(&rest[..taken]));
            rest = &rest[taken..];
        }
        masked
    }

    /// How many bytes belong together at the start of a text, and what stands for them.
    fn at_start(&mut self, rest: &str, first: char) -> (usize, Option<String>) {
        if let Some((known, placeholder)) = self.learned.iter().find(|(known, _)| rest.starts_with(known)) {
            return (known.len(), Some(placeholder.clone()));
        }
        if let Some(length) = escape(rest) {
            return (length, None);
        }
        if !is_of_word(first) {
            return (first.len_utf8(), None);
        }
        let word = &rest[..rest.find(|letter: char| !is_of_word(letter)).unwrap_or(rest.len())];
        if let Some(token) = jwt(rest) {
            return (token.len(), Some(self.token(token)));
        }
        if let Some(version) = version(rest) {
            return (version, Some("<version>".to_owned()));
        }
        // Ours are also followed by a dash, and the part behind a grant's in `jti` has no prefix.
        let first = word.split('-').next().unwrap_or_default();
        let word =
            if first.rsplit_once('_').is_some_and(|(prefix, id)| is_id(prefix, id)) { first } else { word };
        if word.starts_with('0') && is_id("id", word) {
            return (word.len(), Some(self.numbered(word, "id")));
        }
        // A word may end in one that was learned.
        let inside = self.learned.iter().filter_map(|(known, _)| word.find(known.as_str()));
        let word = inside.min().map_or(word, |at| &word[..at]);
        if let Some((prefix, id)) = word.rsplit_once('_').filter(|(prefix, id)| is_id(prefix, id)) {
            // One that the test has made up.
            let made_up = id.bytes().all(|digit| digit == b'0');
            return (word.len(), (!made_up).then(|| self.numbered(word, prefix)));
        }
        match word.strip_prefix("sarsen_sk_").filter(|secret| is_random(secret)) {
            Some(secret) => (word.len(), Some(format!("sarsen_sk_{}", self.numbered(secret, "random")))),
            None => (word.len(), is_random(word).then(|| self.numbered(word, "random"))),
        }
    }

    fn next(&mut self, kind: &str) -> String {
        let count = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        format!("<{kind}_{count}>")
    }

    fn numbered(&mut self, text: &str, kind: &str) -> String {
        if let Some(known) = self.numbered.get(text) {
            return known.clone();
        }
        let placeholder = self.next(kind);
        self.numbered.insert(text.to_owned(), placeholder.clone());
        placeholder
    }

    /// A signed token, whose content the glossary has.
    fn token(&mut self, token: &str) -> String {
        if let Some(known) = self.numbered.get(token) {
            return known.clone();
        }
        let placeholder = self.numbered(token, "jwt");
        let parts = token.split('.').take(2).map(|part| URL_SAFE_NO_PAD.decode(part).unwrap_or_default());
        let parts: Vec<String> = parts.map(|part| String::from_utf8_lossy(&part).into_owned()).collect();
        let content = self.mask(&parts.join(" "));
        self.glossary.push((placeholder.clone(), content));
        placeholder
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// The length of a percent-encoded letter, however often it is encoded.
fn escape(rest: &str) -> Option<usize> {
    let is_hex = |at: usize| rest.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    if !rest.starts_with('%') || !is_hex(1) || !is_hex(2) {
        return None;
    }
    let mut end = 3;
    while rest[..end].ends_with("25") && is_hex(end) && is_hex(end + 1) {
        end += 2;
    }
    Some(end)
}

fn is_id(prefix: &str, id: &str) -> bool {
    let is_digit = |letter: u8| letter.is_ascii_digit() || letter.is_ascii_lowercase();
    id.len() == ID_LENGTH
        && id.bytes().all(is_digit)
        && !prefix.is_empty()
        && prefix.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_')
}

fn is_random(word: &str) -> bool {
    word.len() >= WORD_MAX
        && word.bytes().any(|letter| letter.is_ascii_uppercase())
        && word.bytes().any(|letter| letter.is_ascii_lowercase())
}

/// A JWT at the start of a text.
fn jwt(rest: &str) -> Option<&str> {
    let end = rest.find(|letter: char| !is_of_word(letter) && letter != '.').unwrap_or(rest.len());
    let token = rest[..end].trim_end_matches('.');
    (token.starts_with("eyJ") && token.split('.').count() == 3).then_some(token)
}

/// The length of a version at the start of a text.
fn version(rest: &str) -> Option<usize> {
    let is_hex = |part: &str| part.len() == 16 && part.bytes().all(|letter| letter.is_ascii_hexdigit());
    let ends = rest.as_bytes().get(33).is_none_or(|next| !is_of_word(char::from(*next)));
    (ends && is_hex(rest.get(..16)?) && rest.get(16..17)? == "." && is_hex(rest.get(17..33)?)).then_some(33)
}

#[test]
fn the_same_text_gets_the_same_placeholder() {
    let (user, other) = ("user_01mcc5rm00ev9b6w18ee750n68", "user_01mcc5rm00ev9b6w18ee750n69");
    let secret = "3fKd".repeat(10) + "abc";
    let mut masks = Masks::default();
    masks.learn("abcd-efgh", "<password>");
    let text =
        format!("{other} {user}.{secret}?next=%2Fo%253D{other}&p=abcd-efgh {user} user_{}", "0".repeat(26));
    let masked = "<user_1> <user_2>.<random_1>?next=%2Fo%253D<user_1>&p=<password> <user_2> user_";
    assert_eq!(masks.mask(&text), format!("{masked}{}", "0".repeat(26)));
    assert_eq!(masks.mask("0123456789abcdef.0123456789abcdef/x"), "<version>/x");
    assert_eq!(
        masks.mask("a-verifier-that-is-long-enough-for-rfc-7636-and-more"),
        "a-verifier-that-is-long-enough-for-rfc-7636-and-more"
    );
    let token = format!(
        "{}.{}.x-y",
        URL_SAFE_NO_PAD.encode("{\"alg\":1}"),
        URL_SAFE_NO_PAD.encode(format!("{{\"sub\":\"{user}\"}}"))
    );
    assert_eq!(masks.mask(&format!("Bearer {token}")), "Bearer <jwt_1>");
    assert_eq!(masks.glossary(), "<jwt_1> = {\"alg\":1} {\"sub\":\"<user_2>\"}\n");
}
