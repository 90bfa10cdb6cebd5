//! The written rules: what breaks a client of the kept description, each with a change that breaks it.

use std::fmt;

/// What a change does to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    OperationGone,
    ParameterGone,
    StatusGone,
    MediaTypeGone,
    FieldGone,
    InputGone,
    InputRequired,
    InputNarrower,
    InputWordGone,
    OutputNullable,
    OutputOptional,
    OutputWider,
    OutputWordNew,
    ScopeNecessary,
}

/// All of them, in words.
pub(super) const RULES: [(Rule, &str); 14] = [
    (Rule::OperationGone, "an operation is gone"),
    (Rule::ParameterGone, "a parameter is gone: it is refused as unknown"),
    (Rule::StatusGone, "a status of an operation is gone"),
    (Rule::MediaTypeGone, "a media type of a body is gone"),
    (Rule::FieldGone, "a field of a response is gone"),
    (Rule::InputGone, "a field of a request is gone: it is refused as unknown"),
    (Rule::InputRequired, "an input has become required"),
    (Rule::InputNarrower, "an input takes fewer values"),
    (Rule::InputWordGone, "a list of words of an input has lost one"),
    (Rule::OutputNullable, "an output may be null now"),
    (Rule::OutputOptional, "an output may be missing now"),
    (Rule::OutputWider, "an output may have values of another kind now"),
    (Rule::OutputWordNew, "a list of words of an output has got another one and is not marked `x-open`"),
    (Rule::ScopeNecessary, "a credential or a scope has become necessary"),
];

/// A change that breaks clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) rule: Rule,
    /// `GET /api/…`
    pub(super) operation: String,
    /// A named schema with its field, a parameter, a status; empty for the operation itself.
    pub(super) place: String,
}

impl Break {
    /// What CHANGELOG has to name, in backticks: the operation, or the schema with its field.
    pub(super) fn is_named_in(&self, changelog: &str) -> bool {
        let place = self.place.split(':').next().unwrap_or_default();
        [self.operation.as_str(), place]
            .iter()
            .any(|name| !name.is_empty() && changelog.contains(&format!("`{name}`")))
    }
}

impl fmt::Display for Break {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = RULES.iter().find(|(rule, _)| *rule == self.rule).map_or("", |(_, words)| words);
        match self.place.as_str() {
            "" => write!(out, "{}: {words}", self.operation),
            place => write!(out, "{}, {place}: {words}", self.operation),
        }
    }
}
