//! How an answer is written down: status and headers in a line, bodies as they came, with line breaks where JSON is long,
//! and pages as their texts and forms. The whole HTML of pages is in the snapshots of `pages.rs`.

use super::masks::Masks;
use browser::{decode, forms};
use serde_json::Value;
use server::testing::Answer;

/// Longer JSON gets line breaks.
const LINE_MAX: usize = 160;
/// Headers that the connection has, not the answer.
const OF_CONNECTION: [&str; 5] = ["date", "content-length", "connection", "transfer-encoding", "keep-alive"];
/// Long ones that many answers have.
const LONG: [(&str, &str); 3] = [
    ("content-security-policy", "csp"),
    ("permissions-policy", "permissions"),
    ("access-control-expose-headers", "exposed"),
];
/// Those with a line of their own.
const APART: [&str; 4] = ["location", "set-cookie", "www-authenticate", "link"];
/// Fields of JSON whose texts have no form of their own.
const LEARNED: [(&str, &str); 4] =
    [("user_code", "user_code"), ("last_event_id", "cursor"), ("stream", "stream"), ("digest", "digest")];

/// What can be learned from an answer before it is masked.
pub fn learn(masks: &mut Masks, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let ("hint", Some(text)) = (name.as_str(), value.as_str()) {
                    // The end of a key: alone it is too short to be looked for anywhere.
                    masks.learn(&format!("\"hint\":\"{text}\""), "\"hint\":\"<hint>\"");
                }
                let kind = LEARNED.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
                match (kind, value.as_str()) {
                    (Some(kind), Some(text)) => {
                        masks.learn_next(text, kind);
                        if kind == "user_code" {
                            let letters: Vec<String> =
                                text.chars().filter(|letter| *letter != '-').map(String::from).collect();
                            masks.learn_next(&letters.concat(), "user_code_without_dash");
                            masks.learn_next(&letters.join(" "), "user_code_spelled");
                        }
                    }
                    _ => learn(masks, value),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| learn(masks, item)),
        _ => {}
    }
}

/// Status and headers.
pub fn head(masks: &mut Masks, answer: &Answer) -> String {
    let (mut line, mut apart) = (format!("< {}", answer.status), String::new());
    for (name, value) in answer.headers.iter().filter(|(name, _)| !OF_CONNECTION.contains(&&**name)) {
        let value = match name.as_str() {
            // Our own is a number with a tag; what the client has sent comes back.
            "x-request-id" if is_own_request_id(value) => "<request>".to_owned(),
            // A hash of a document that has a snapshot of its own.
            "etag" => "<hash>".to_owned(),
            name if LONG.iter().any(|(long, _)| *long == name) => {
                let kind = LONG.iter().find(|(long, _)| *long == name).map_or("", |(_, kind)| kind);
                masks.short(kind, value)
            }
            _ => masks.mask(value),
        };
        match APART.contains(&&**name) {
            true => apart.push_str(&format!("< {name}: {value}\n")),
            false => line.push_str(&format!("; {name}: {value}")),
        }
    }
    format!("{line}\n{apart}")
}

fn is_own_request_id(value: &str) -> bool {
    value.len() == 16 && value.bytes().all(|letter| letter.is_ascii_hexdigit())
}

/// The body.
pub fn body(masks: &mut Masks, answer: &Answer) -> String {
    let media_type = answer.header("content-type").split(';').next().unwrap_or_default();
    let text = match media_type {
        _ if answer.body.is_empty() => return String::new(),
        "text/html" => page(&answer.body),
        _ => answer.body.clone(),
    };
    let text = masks.mask(&text);
    match media_type.ends_with("json") {
        true => broken(&text) + "\n",
        false => text.trim_end().to_owned() + "\n",
    }
}

/// JSON with a line for each field of the outermost object and each item of its lists.
pub fn broken(json: &str) -> String {
    if json.chars().count() <= LINE_MAX {
        return json.to_owned();
    }
    let (mut text, mut depth, mut is_quoted, mut is_escaped) = (String::new(), 0_usize, false, false);
    let mut before = ' ';
    for letter in json.chars() {
        text.push(letter);
        match letter {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '{' | '[' if !is_quoted => depth += 1,
            '}' | ']' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 1 => text.push('\n'),
            ',' if !is_quoted && depth == 2 && before == '}' => text.push_str("\n "),
            _ => {}
        }
        is_escaped = is_quoted && letter == '\\' && !is_escaped;
        before = letter;
    }
    text
}

/// The texts of a page, and what its forms send.
fn page(html: &str) -> String {
    let mut lines: Vec<String> = texts(html);
    for form in forms(html) {
        let method = if form.is_post { "POST" } else { "GET" };
        let fields = form.fields.iter().map(|field| match (field.is_button, field.value.as_str()) {
            (true, value) => format!("[{}={value}]", field.name),
            (false, "") => field.name.clone(),
            (false, value) => format!("{}={value}", field.name),
        });
        let fields: Vec<String> = fields.collect();
        lines.push(format!("form {method} {}: {}", form.action, fields.join(" ")));
    }
    lines.join("\n")
}

/// What a reader sees, wrapped, and where links lead.
fn texts(html: &str) -> Vec<String> {
    let body = html.split_once("<body").map_or(html, |(_, body)| body);
    let title = html.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let mut lines = vec![format!("title {}", title.map_or("", |(title, _)| title))];
    let mut line = String::new();
    let mut hidden = 0_usize;
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        match tag.split([' ', '/']).next().unwrap_or_default() {
            "script" | "style" | "svg" => hidden += 1,
            _ => {}
        }
        if ["/script", "/style", "/svg"].contains(&tag) {
            hidden = hidden.saturating_sub(1);
        }
        let link = tag.strip_prefix("a ").and_then(|rest| rest.split_once("href=\"")?.1.split_once('"'));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = match (hidden, link, words.is_empty()) {
            (0, Some((target, _)), _) => format!("({}) {words}", decode(target)),
            (0, None, false) => decode(&words),
            _ => continue,
        };
        if line.len() + shown.len() > LINE_MAX {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push_str(" | ");
        }
        line.push_str(&shown);
    }
    lines.push(line);
    lines
}
