//! Finds the forms of a page and fills them in.

mod scan;
#[cfg(test)]
mod tests;

pub use scan::decode;
use scan::{Tag, after_raw_text, next_tag};

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

    /// The form with these values typed in, which also say which button is pressed. The other fields stay as they are.
    pub fn with(&self, typed: &[(&str, &str)]) -> Submission {
        let mut fields: Vec<(String, String)> = Vec::new();
        for field in self.fields.iter().filter(|field| !field.is_button) {
            let value =
                typed.iter().find(|(name, _)| *name == field.name).map_or(&*field.value, |(_, value)| value);
            fields.push((field.name.clone(), value.to_owned()));
        }
        let is_field = |name: &str| self.fields.iter().any(|field| field.name == name && !field.is_button);
        let pressed = typed.iter().filter(|(name, _)| !is_field(name));
        fields.extend(pressed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let decides = fields.iter().any(|(name, value)| name == "decision" && value == "allow");
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
