//! Our own note in the address of an authorization request: when a new sign-in was asked for, and which session the browser
//! had then. It is signed, and good for the very request that it was made for.
//!
//! The instance that asks and the one that signs in may have different clocks. Therefore a session counts as signed in since
//! then also if it is the one that the note names and its authentication time has changed.

use crate::app::App;
use identity::Time;
use identity::ids::SessionId;
use identity::sessions::Session;
use std::time::Duration;

const PARAMETER: &str = "sarsen_asked=";
/// How long a re-authentication that was asked for may take.
const LIFE: Duration = Duration::from_secs(1800);
/// In place of a session: the browser had none.
const NONE: &str = "none";

pub(super) struct Note {
    asked: Time,
    /// The session of the browser, and when its user had authenticated.
    seen: Option<(SessionId, Time)>,
    /// The note as a parameter.
    text: String,
}

impl Note {
    /// Asks the user of `session` to sign in for a request.
    pub fn new(app: &App, request: &str, session: Option<&Session>) -> Note {
        let (asked, seen) = (app.now(), session.map(|one| (one.id.clone(), one.authentication.at)));
        let millis = asked.millis().to_string();
        let shown = match &seen {
            Some((session, at)) => format!("{session}-{}", at.millis()),
            None => NONE.to_owned(),
        };
        let tag = app.secret_key.derive(&["asked", &millis, &shown, request]);
        Note { asked, seen, text: format!("{PARAMETER}{millis}.{shown}.{tag}") }
    }

    /// Reads the note of a query, if it is good. Returns it and the query without notes.
    pub fn read(app: &App, query: &str) -> (Option<Note>, String) {
        let (notes, request): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|pair| pair.starts_with(PARAMETER));
        let request = request.join("&");
        let note = notes.iter().find_map(|text| {
            let mut parts = text.strip_prefix(PARAMETER)?.splitn(3, '.');
            let (millis, shown, tag) = (parts.next()?, parts.next()?, parts.next()?);
            if !app.secret_key.derives(&["asked", millis, shown, &request], tag) {
                return None;
            }
            let seen = match shown {
                NONE => None,
                shown => {
                    let (session, at) = shown.split_once('-')?;
                    Some((SessionId::parse(session).ok()?, Time::from_millis(at.parse().ok()?)))
                }
            };
            let asked = Time::from_millis(millis.parse().ok()?);
            (app.now().since(asked) <= LIFE).then(|| Note { asked, seen, text: (*text).to_owned() })
        });
        (note, request)
    }

    /// Whether the user of this session has signed in since.
    pub fn is_before(&self, session: &Session) -> bool {
        let changed = |(id, at): &(SessionId, Time)| *id == session.id && *at != session.authentication.at;
        session.authentication.at >= self.asked || self.seen.as_ref().is_some_and(changed)
    }

    /// Whether a sign-in in this session will count.
    pub fn is_for(&self, session: Option<&Session>) -> bool {
        let Some(session) = session else { return true };
        self.is_before(session) || self.seen.as_ref().is_some_and(|(id, _)| *id == session.id)
    }

    /// The note as a parameter.
    pub fn text(&self) -> &str {
        &self.text
    }
}
