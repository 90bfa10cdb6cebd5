//! A subscription of a stream: what the client asked for, and what was sent for it.

use crate::Problem;
use crate::frame::{Held, Weight};
use crate::group::Group;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::sync::Arc;
use store::Version;

/// What a client asks for, in `POST /live`.
#[derive(serde::Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// The client's name for it.
    pub(crate) key: String,
    pub(crate) query: String,
    /// As the client wrote them: they are read when their length is known to be allowed.
    #[serde(default)]
    pub(crate) args: Option<Box<RawValue>>,
    /// What the client holds, as `<version>/<digest>`.
    #[serde(default)]
    pub(crate) have: Option<String>,
    /// Whether it understands row changes.
    #[serde(default)]
    pub(crate) rows: bool,
}

impl Wanted {
    /// A subscription of the server itself.
    pub(crate) fn new(query: &str, args: &Value) -> Wanted {
        let args = to_raw_value(args).ok();
        Wanted { key: String::new(), query: query.to_owned(), args, have: None, rows: false }
    }

    /// The length of the arguments as they were sent.
    pub(crate) fn args_bytes(&self) -> usize {
        self.args.as_ref().map_or(0, |args| args.get().len())
    }

    pub(super) fn arguments(&self) -> Result<Value, Problem> {
        let Some(args) = &self.args else { return Ok(Value::Object(serde_json::Map::new())) };
        let wrong = |error| Problem::invalid("args", format!("The arguments are not valid: {error}."));
        serde_json::from_str(args.get()).map_err(wrong)
    }
}

pub(super) struct Subscription {
    pub(super) source: Source,
    pub(super) rows: bool,
    /// The client's key, as JSON.
    pub(super) key: Box<str>,
    pub(super) is_behind: bool,
    /// The client knows that there is no answer yet because the run fails.
    pub(super) is_told: bool,
    /// What the client said that it holds; until the first event.
    pub(super) held: Option<Box<Held>>,
    /// No frame older than this version is sent, which the client holds already, until the group has answered this ask.
    pub(super) not_before: Option<Box<(Version, u64)>>,
    /// Version and digest of what was sent last.
    pub(super) sent: Option<(Version, Arc<str>)>,
}

/// What a client asked for and may not have yet.
pub(super) struct Kept {
    pub(super) wanted: Wanted,
    pub(super) _weight: Weight,
}

/// Where a subscription's frames come from.
pub(super) enum Source {
    /// The group knows the query and its arguments.
    Group(Arc<Group>),
    /// Nowhere, while the caller's claims do not allow what was asked for; whoever calls, if that is not kept.
    Refused(Option<Box<Kept>>),
}

impl Subscription {
    pub(super) fn new(source: Source, rows: bool, key: String) -> Subscription {
        Subscription {
            source,
            rows,
            key: key.into(),
            is_behind: false,
            is_told: false,
            held: None,
            not_before: None,
            sent: None,
        }
    }

    pub(super) fn group(&self) -> Option<&Arc<Group>> {
        match &self.source {
            Source::Group(group) => Some(group),
            Source::Refused(_) => None,
        }
    }

    /// Whether its frames come from this group, or from none.
    pub(super) fn is_of(&self, group: Option<&Arc<Group>>) -> bool {
        match (self.group(), group) {
            (Some(own), Some(group)) => Arc::ptr_eq(own, group),
            (own, group) => own.is_none() && group.is_none(),
        }
    }

    /// What the client asked for, without what it held then.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        Some(match &self.source {
            Source::Refused(kept) => Wanted { have: None, ..kept.as_ref()?.wanted.clone() },
            Source::Group(group) => Wanted {
                key: serde_json::from_str(&self.key).ok()?,
                query: group.key.query.to_owned(),
                args: Some(RawValue::from_string(group.key.args.to_string()).ok()?),
                have: None,
                rows: self.rows,
            },
        })
    }
}
