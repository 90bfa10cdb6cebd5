//! Compares two descriptions of the API: what would break a client that was written for the older one.
//!
//! A request goes from an old client to a new server, so everything that the old description allows has to be allowed by the
//! new one. A response goes the other way, so the new description may not allow what the old one does not. Schemas that are
//! compared once are not compared again in the same direction: a break is reported at the first operation that has it.

use super::rules::{Break, Rule};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Marks a list of words in responses that may get more of them.
pub(super) const OPEN: &str = "x-open";
/// Bounds of values: a larger one is narrower, or a smaller one.
const LOWER: [&str; 4] = ["minimum", "minLength", "minItems", "exclusiveMinimum"];
const UPPER: [&str; 4] = ["maximum", "maxLength", "maxItems", "exclusiveMaximum"];
/// What narrows in any other form than the known one.
const EXACT: [&str; 3] = ["pattern", "format", "not"];

/// What breaks between two documents.
pub(super) fn breaks(old: &Value, new: &Value) -> Vec<Break> {
    let mut comparison =
        Comparison { old, new, operation: String::new(), seen: BTreeSet::new(), found: Vec::new() };
    for (path, item) in fields(&old["paths"]) {
        for (method, operation) in fields(item) {
            comparison.operation = format!("{} {path}", method.to_uppercase());
            match new["paths"][path].get(method) {
                Some(now) => comparison.operation(operation, now),
                None => comparison.note(Rule::OperationGone, ""),
            }
        }
    }
    comparison.found
}

/// Which way a schema goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Request,
    Response,
}

struct Comparison<'d> {
    old: &'d Value,
    new: &'d Value,
    /// `GET /api/…`
    operation: String,
    /// Pairs of named schemas.
    seen: BTreeSet<(Way, String, String)>,
    found: Vec<Break>,
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn words(value: &Value) -> BTreeSet<&str> {
    items(value).filter_map(Value::as_str).collect()
}

/// The target of a reference, or the value itself.
fn resolved<'v>(document: &'v Value, value: &'v Value) -> &'v Value {
    let target = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    target.and_then(|target| document.pointer(target)).unwrap_or(value)
}

fn name_of(value: &Value) -> Option<&str> {
    value["$ref"].as_str().and_then(|target| target.rsplit('/').next())
}

impl Comparison<'_> {
    fn note(&mut self, rule: Rule, place: &str) {
        self.found.push(Break { rule, operation: self.operation.clone(), place: place.to_owned() });
    }

    fn operation(&mut self, old: &Value, new: &Value) {
        self.parameters(old, new);
        self.body(&old["requestBody"], &new["requestBody"]);
        for (status, response) in fields(&old["responses"]) {
            let place = format!("response {status}");
            let Some(now) = new["responses"].get(status) else {
                self.note(Rule::StatusGone, &place);
                continue;
            };
            let (response, now) = (resolved(self.old, response).clone(), resolved(self.new, now).clone());
            self.content(Way::Response, &response["content"], &now["content"], &place);
        }
        self.security(&old["security"], &new["security"]);
    }

    fn parameters(&mut self, old: &Value, new: &Value) {
        let listed = |document: &Value, operation: &Value| -> BTreeMap<(String, String), Value> {
            let all = items(&operation["parameters"]).map(|one| resolved(document, one));
            let named = all.map(|one| {
                let text = |field: &str| one[field].as_str().unwrap_or_default().to_ascii_lowercase();
                ((text("in"), text("name")), one.clone())
            });
            named.collect()
        };
        let (known, now) = (listed(self.old, old), listed(self.new, new));
        for ((kind, name), parameter) in &known {
            let place = format!("{kind} parameter {name}");
            match now.get(&(kind.clone(), name.clone())) {
                Some(now) => self.schema(Way::Request, &parameter["schema"], &now["schema"], &place),
                None => self.note(Rule::ParameterGone, &place),
            }
        }
        for ((kind, name), parameter) in &now {
            let was = known.get(&(kind.clone(), name.clone())).is_some_and(|one| one["required"] == true);
            if parameter["required"] == true && !was {
                self.note(Rule::InputRequired, &format!("{kind} parameter {name}"));
            }
        }
    }

    fn body(&mut self, old: &Value, new: &Value) {
        let (old, new) = (resolved(self.old, old).clone(), resolved(self.new, new).clone());
        if new["required"] == true && old["required"] != true {
            self.note(Rule::InputRequired, "the body");
        }
        match (old.is_null(), new.is_null()) {
            (true, _) => {}
            (false, true) => self.note(Rule::InputGone, "the body"),
            (false, false) => self.content(Way::Request, &old["content"], &new["content"], "the body"),
        }
    }

    fn content(&mut self, way: Way, old: &Value, new: &Value, place: &str) {
        for (media_type, content) in fields(old) {
            match new.get(media_type) {
                Some(now) => self.schema(way, &content["schema"], &now["schema"], place),
                None => self.note(Rule::MediaTypeGone, &format!("{place}: {media_type}")),
            }
        }
    }

    /// Each of the old choices has to be enough: one of the new ones wants no more.
    fn security(&mut self, old: &Value, new: &Value) {
        let choices = |value: &Value| -> Vec<BTreeMap<String, BTreeSet<String>>> {
            let scopes = |value: &Value| words(value).into_iter().map(str::to_owned).collect();
            let choice =
                |one: &Value| fields(one).map(|(name, value)| (name.clone(), scopes(value))).collect();
            items(value).map(choice).collect()
        };
        let now = choices(new);
        for choice in choices(old) {
            let is_enough = |wanted: &BTreeMap<String, BTreeSet<String>>| {
                wanted.iter().all(|(name, scopes)| choice.get(name).is_some_and(|has| scopes.is_subset(has)))
            };
            if !now.is_empty() && !now.iter().any(is_enough) {
                let named: Vec<String> = choice
                    .iter()
                    .map(|(name, scopes)| {
                        format!("{name} {}", scopes.iter().cloned().collect::<Vec<_>>().join(" "))
                    })
                    .collect();
                self.note(Rule::ScopeNecessary, &format!("credentials: {}", named.join(", ").trim_end()));
            }
        }
        if choices(old).is_empty() && !now.is_empty() && now.iter().all(|wanted| !wanted.is_empty()) {
            self.note(Rule::ScopeNecessary, "credentials: none");
        }
    }

    fn schema(&mut self, way: Way, old: &Value, new: &Value, place: &str) {
        // A schema with a name is the place where a change is made.
        let place = match (name_of(old), name_of(new)) {
            (Some(one), Some(other)) => {
                if !self.seen.insert((way, one.to_owned(), other.to_owned())) {
                    return;
                }
                one
            }
            _ => place,
        };
        let (old, new) = (flat(self.old, old), flat(self.new, new));
        self.choices(way, &old, &new, place);
        if [&old, &new].iter().any(|one| one.get("oneOf").is_some()) {
            return;
        }
        self.types(way, &old, &new, place);
        self.values(way, &old, &new, place);
        self.properties(way, &old, &new, place);
        for inner in ["items", "additionalProperties"] {
            if old[inner].is_object() && new[inner].is_object() {
                self.schema(way, &old[inner], &new[inner], &format!("{place}[]"));
            }
        }
    }

    fn types(&mut self, way: Way, old: &Value, new: &Value, place: &str) {
        let (was, is) = (types(old), types(new));
        // Without a type, a schema allows all of them.
        let (from, to) = if way == Way::Request { (&was, &is) } else { (&is, &was) };
        if to.is_empty() || (!from.is_empty() && from.iter().all(|name| allows(to, name))) {
            return;
        }
        let only_null = from.iter().all(|name| *name == "null" || allows(to, name)) && !from.is_empty();
        let rule = match (way, only_null) {
            (Way::Response, true) => Rule::OutputNullable,
            (Way::Response, false) => Rule::OutputWider,
            (Way::Request, _) => Rule::InputNarrower,
        };
        self.note(rule, place);
    }

    fn values(&mut self, way: Way, old: &Value, new: &Value, place: &str) {
        let (was, is) = (words(&old["enum"]), words(&new["enum"]));
        match way {
            Way::Request if !is.is_empty() => match was.is_empty() {
                true => self.note(Rule::InputNarrower, place),
                false => {
                    for word in was.difference(&is) {
                        self.note(Rule::InputWordGone, &format!("{place}: {word}"));
                    }
                }
            },
            Way::Response if !was.is_empty() && old[OPEN] != true => match is.is_empty() {
                true => self.note(Rule::OutputWider, place),
                false => {
                    for word in is.difference(&was) {
                        self.note(Rule::OutputWordNew, &format!("{place}: {word}"));
                    }
                }
            },
            _ => {}
        }
        if way == Way::Response {
            if old.get("format").is_some() && old["format"] != new["format"] {
                self.note(Rule::OutputWider, place);
            }
            return;
        }
        let number = |value: &Value| value.as_f64();
        let narrower = LOWER.iter().any(|bound| match (number(&old[*bound]), number(&new[*bound])) {
            (Some(was), Some(is)) => is > was,
            (None, is) => is.is_some(),
            _ => false,
        }) || UPPER.iter().any(|bound| match (number(&old[*bound]), number(&new[*bound])) {
            (Some(was), Some(is)) => is < was,
            (None, is) => is.is_some(),
            _ => false,
        }) || EXACT.iter().any(|word| new.get(*word).is_some() && old[*word] != new[*word])
            || (new["uniqueItems"] == true && old["uniqueItems"] != true)
            || (new["additionalProperties"] == false && old["additionalProperties"] != false);
        if narrower {
            self.note(Rule::InputNarrower, place);
        }
    }

    fn properties(&mut self, way: Way, old: &Value, new: &Value, place: &str) {
        let (was, is) = (words(&old["required"]), words(&new["required"]));
        for (name, schema) in fields(&old["properties"]) {
            let at = format!("{place}.{name}");
            match (new["properties"].get(name), way) {
                (Some(now), _) => self.schema(way, schema, now, &at),
                (None, Way::Request) => self.note(Rule::InputGone, &at),
                (None, Way::Response) => self.note(Rule::FieldGone, &at),
            }
        }
        let (rule, changed) = match way {
            Way::Request => (Rule::InputRequired, is.difference(&was)),
            Way::Response => (Rule::OutputOptional, was.difference(&is)),
        };
        for name in changed {
            // One that is gone is that already.
            if way == Way::Request || new["properties"].get(*name).is_some() {
                self.note(rule, &format!("{place}.{name}"));
            }
        }
    }

    /// Schemas of which one is enough. Whether one fits another is asked without noting what differs.
    fn choices(&mut self, way: Way, old: &Value, new: &Value, place: &str) {
        for word in ["oneOf", "anyOf"] {
            let (was, is): (Vec<_>, Vec<_>) = (items(&old[word]).collect(), items(&new[word]).collect());
            if was.is_empty() && is.is_empty() {
                continue;
            }
            let (was, is) = match (was.is_empty(), is.is_empty()) {
                // A single schema that became a choice, or the other way round.
                (true, _) => (vec![old], is),
                (_, true) => (was, vec![new]),
                _ => (was, is),
            };
            let fits = |one: &Value, other: &Value| {
                let mut trial = Comparison {
                    old: self.old,
                    new: self.new,
                    operation: String::new(),
                    seen: self.seen.clone(),
                    found: Vec::new(),
                };
                trial.schema(way, one, other, "");
                trial.found.is_empty()
            };
            let missing = match way {
                Way::Request => was.iter().find(|one| !is.iter().any(|other| fits(one, other))),
                Way::Response => is.iter().find(|other| !was.iter().any(|one| fits(one, other))),
            };
            let Some(missing) = missing else { continue };
            // The same object with a change in it is reported as that change.
            let pair = name_of(missing).and_then(|name| {
                let find = |all: &[&Value]| {
                    all.iter().find(|one| name_of(one) == Some(name)).map(|one| (*one).clone())
                };
                find(&was).zip(find(&is))
            });
            match (pair, way, missing["type"] == "null") {
                (Some((one, other)), ..) => self.schema(way, &one, &other, place),
                (None, Way::Response, true) => self.note(Rule::OutputNullable, place),
                (None, Way::Response, false) => self.note(Rule::OutputWider, place),
                (None, Way::Request, _) => self.note(Rule::InputNarrower, place),
            }
        }
    }
}

/// A schema without references and with the parts of `allOf` in one object.
fn flat(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if schema.get("allOf").is_none() {
        return schema.clone();
    }
    let (mut properties, mut required, mut whole) = (Map::new(), Vec::new(), Map::new());
    let own = schema.as_object().cloned().unwrap_or_default();
    let own: Value = own.into_iter().filter(|(name, _)| name != "allOf").collect::<Map<_, _>>().into();
    for part in items(&schema["allOf"]).map(|part| flat(document, part)).chain([own]) {
        for (name, value) in fields(&part) {
            match (name.as_str(), value) {
                ("properties", Value::Object(fields)) => properties.extend(fields.clone()),
                ("required", Value::Array(names)) => required.extend(names.clone()),
                _ => drop(whole.insert(name.clone(), value.clone())),
            }
        }
    }
    whole.insert("properties".to_owned(), properties.into());
    whole.insert("required".to_owned(), required.into());
    whole.into()
}

fn types(schema: &Value) -> BTreeSet<&str> {
    match &schema["type"] {
        Value::String(name) => BTreeSet::from([name.as_str()]),
        names => words(names),
    }
}

/// Whether a type is among these. An integer is a number.
fn allows(types: &BTreeSet<&str>, name: &str) -> bool {
    types.contains(name) || (name == "integer" && types.contains("number"))
}
