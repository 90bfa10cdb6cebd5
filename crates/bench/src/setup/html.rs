//! Finds the forms of a page and fills them in. It is a scanner of tags, not a parser of HTML: it reads comments, scripts,
//! attributes and character references, and builds no tree.

use crate::http::{RequestDraft, form_body};

/// A form of a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    /// Empty: the address of the page itself.
    pub action: String,
    pub is_post: bool,
    pub fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub value: String,
    pub is_button: bool,
}

/// The values that a form may ask for. Empty: unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownValues<'a> {
    pub email: &'a str,
    pub password: &'a str,
    pub user_code: &'a str,
}

/// A filled-in form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub action: String,
    pub is_post: bool,
    pub fields: Vec<(String, String)>,
    /// It has `decision=allow`.
    pub decides: bool,
}

impl Submission {
    /// The request of a browser.
    pub fn draft(&self, path: &str, origin: &str) -> RequestDraft {
        let fields: Vec<(&str, &str)> =
            self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        if self.is_post {
            return RequestDraft::post_form(path, &fields)
                .header("Origin", origin)
                .header("Sec-Fetch-Site", "same-origin");
        }
        let bare = path.split('?').next().unwrap_or_default();
        RequestDraft::get(format!("{bare}?{}", form_body(&fields)))
    }
}

impl Form {
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    fn allows(&self) -> bool {
        self.fields.iter().any(|field| field.name == "decision" && field.value == "allow")
    }

    /// Fills in the known values, leaves the others as they are, and presses `decision=allow` or else the first button.
    pub fn fill(&self, known: &KnownValues<'_>) -> Submission {
        let decides = self.allows();
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut pressed = false;
        for field in &self.fields {
            let value = match field.name.as_str() {
                "email" if !field.is_button && !known.email.is_empty() => known.email,
                "password" if !known.password.is_empty() => known.password,
                "user_code" if field.value.is_empty() => known.user_code,
                _ => &field.value,
            };
            if field.is_button {
                let wanted = if decides { field.name == "decision" && value == "allow" } else { !pressed };
                if !wanted || field.name.is_empty() {
                    continue;
                }
                pressed = true;
            }
            fields.push((field.name.clone(), value.to_owned()));
        }
        Submission { action: self.action.clone(), is_post: self.is_post, fields, decides }
    }

    /// The form to submit next: the one that decides, else one that asks for a known value, else the first one that posts.
    pub fn next<'f>(forms: &'f [Form], known: &KnownValues<'_>) -> Option<&'f Form> {
        let posts = || forms.iter().filter(|form| form.is_post);
        let asks = |name: &'static str, value: &str| {
            if value.is_empty() { None } else { posts().find(|form| form.has(name)) }
        };
        posts()
            .find(|form| form.allows())
            .or_else(|| asks("password", known.password))
            .or_else(|| asks("email", known.email))
            .or_else(|| forms.iter().find(|form| !known.user_code.is_empty() && form.has("user_code")))
            .or_else(|| posts().next())
    }
}

/// All forms of `page`, in order.
pub fn forms(page: &str) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    let mut open: Option<Form> = None;
    let mut select: Option<String> = None;
    let mut rest = page;
    while let Some((tag, after)) = next_tag(rest) {
        rest = after;
        match tag.name.as_str() {
            "form" => {
                forms.extend(open.take());
                let is_post =
                    tag.attribute("method").is_some_and(|method| method.eq_ignore_ascii_case("post"));
                let action = tag.attribute("action").unwrap_or_default().to_owned();
                open = Some(Form { action, is_post, fields: Vec::new() });
            }
            "/form" => forms.extend(open.take()),
            "script" | "style" => rest = after_raw_text(rest, &tag.name),
            "select" => select = tag.attribute("name").map(str::to_owned),
            "/select" => select = None,
            name => {
                let Some(form) = &mut open else { continue };
                match name {
                    "input" => form.fields.extend(input_field(&tag)),
                    "button" => form.fields.extend(button_field(&tag)),
                    "textarea" => form.fields.extend(textarea_field(&tag, rest)),
                    "option" => choose(form, select.as_deref(), &tag),
                    _ => {}
                }
            }
        }
    }
    forms.extend(open);
    forms
}

fn input_field(tag: &Tag) -> Option<Field> {
    let kind = tag.attribute("type").unwrap_or("text").to_ascii_lowercase();
    let is_button = kind == "submit";
    let is_box = kind == "checkbox" || kind == "radio";
    if matches!(kind.as_str(), "button" | "reset" | "image" | "file") || (is_box && !tag.has("checked")) {
        return None;
    }
    let value = tag.attribute("value").unwrap_or(if is_box { "on" } else { "" });
    tag.field(value, is_button)
}

fn button_field(tag: &Tag) -> Option<Field> {
    let submits = tag.attribute("type").is_none_or(|kind| kind.eq_ignore_ascii_case("submit"));
    submits.then(|| tag.field(tag.attribute("value").unwrap_or_default(), true)).flatten()
}

fn textarea_field(tag: &Tag, rest: &str) -> Option<Field> {
    let text = rest.split('<').next().unwrap_or_default();
    tag.field(&decode(text), false)
}

/// The value of a select is its selected option, or the first one.
fn choose(form: &mut Form, select: Option<&str>, tag: &Tag) {
    let Some(name) = select else { return };
    let value = tag.attribute("value").unwrap_or_default().to_owned();
    match form.fields.iter_mut().find(|field| field.name == name) {
        Some(field) if tag.has("selected") => field.value = value,
        Some(_) => {}
        None => form.fields.push(Field { name: name.to_owned(), value, is_button: false }),
    }
}

struct Tag {
    /// In lower case; with its slash when it closes.
    name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// A control without a name is not sent; a button without a name may still be pressed.
    fn field(&self, value: &str, is_button: bool) -> Option<Field> {
        let name = self.attribute("name").unwrap_or_default();
        if (name.is_empty() && !is_button) || self.has("disabled") {
            return None;
        }
        Some(Field { name: name.to_owned(), value: value.to_owned(), is_button })
    }
}

/// The next tag and the text after it. Comments and declarations are skipped.
fn next_tag(page: &str) -> Option<(Tag, &str)> {
    let mut rest = page;
    loop {
        rest = &rest[rest.find('<')? + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = &comment[comment.find("-->")? + 3..];
            continue;
        }
        let name_length =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '/' && c != '-').unwrap_or(rest.len());
        let starts = rest.trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic());
        if name_length == 0 || !starts {
            continue;
        }
        let (name, after_name) = rest.split_at(name_length);
        // `<br/>`: the slash at the end is not part of the name.
        let name = name.trim_end_matches('/').to_ascii_lowercase();
        let (attributes, after) = attributes(after_name);
        return Some((Tag { name, attributes }, after));
    }
}

fn attributes(text: &str) -> (Vec<(String, String)>, &str) {
    let mut attributes = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if let Some(after) = rest.strip_prefix('>') {
            return (attributes, after);
        }
        if rest.is_empty() {
            return (attributes, rest);
        }
        let end = rest
            .char_indices()
            .skip(1)
            .find(|(_, c)| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/'))
            .map_or(rest.len(), |(at, _)| at);
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start();
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix('=') {
            (value, rest) = attribute_value(after.trim_start());
        }
        attributes.push((name, value));
    }
}

fn attribute_value(text: &str) -> (String, &str) {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let end = quoted.find(quote).unwrap_or(quoted.len());
            let after = quoted.get(end + 1..).unwrap_or_default();
            return (decode(&quoted[..end]), after);
        }
    }
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(text.len());
    (decode(&text[..end]), &text[end..])
}

fn after_raw_text<'p>(rest: &'p str, name: &str) -> &'p str {
    let end = format!("</{name}");
    let found =
        rest.as_bytes().windows(end.len()).position(|window| window.eq_ignore_ascii_case(end.as_bytes()));
    found.map_or("", |at| &rest[at..])
}

/// Decodes character references.
fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        match reference(rest) {
            Some((character, length)) => {
                decoded.push(character);
                rest = &rest[length..];
            }
            None => {
                decoded.push('&');
                rest = &rest[1..];
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

/// The character at the start of `text` (which begins with `&`) and the length of its reference in bytes.
fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let name = &text[1..end];
    let character = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((character, end + 1))
}
