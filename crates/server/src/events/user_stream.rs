//! The stream of a user's access token: first the whole state, then each part of it that changes.
//!
//! It is a query that runs again when one of its keys changes ([`store::Store::watch`]), so it shows each state in which it
//! could look, and never an older one. Whether the session, the grant, the user and the organization are good is part of
//! the query: a state of a time after their end is not sent. The stream ends with its token too, at most ten minutes later;
//! the client opens the next one with a new token and gets the whole state again.

use super::bodies::{AdministersBody, administers};
use super::frame;
use super::streams::{Caller, Ended, Stream};
use crate::api::subscription_answers::SubscriptionBody;
use crate::api::users;
use crate::app::App;
use crate::web::auth::ServiceUser;
use crate::web::error::{Problem, Result};
use crate::web::json::rfc3339;
use axum::response::Response;
use identity::Error;
use identity::events::{self, OfToken};
use identity::ids::{GrantId, OrganizationId, ServiceId, SessionId, UserId};
use identity::sessions;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Answer, Snapshot, Time};
use tokio::sync::Notify;

/// The token of a stream.
struct Token {
    user: UserId,
    organization: OrganizationId,
    grant: GrantId,
    service: ServiceId,
    session: String,
    expires_at: Time,
}

/// Opens the stream, or refuses it.
pub(super) async fn open(app: App, caller: ServiceUser) -> Result<Response> {
    let invalid = || Problem::invalid_token("The access token is not valid. Sign in again.");
    let access = &caller.access;
    let token = Token {
        user: caller.user.clone(),
        organization: access.terms.organization.clone(),
        grant: access.grant().ok_or_else(invalid)?,
        service: caller.service.clone(),
        session: access.session().map_or_else(String::new, |session| session.to_string()),
        expires_at: access.expires_at(),
    };
    let organization = token.organization.to_string();
    let caller = Caller { id: token.user.to_string(), organization, is_program: false };
    let settings = &app.settings;
    let (stream, response) =
        app.streams.open(caller, settings.streams_max, settings.streams_per_caller_max)?;
    let first = read(&app, &token).await?;
    first.value.as_ref().ok_or_else(invalid)?;
    tokio::spawn(async move {
        // The client has gone, or was told.
        let _ = run(&app, &token, stream, first).await;
    });
    Ok(response)
}

async fn read(app: &App, token: &Token) -> identity::Result<Answer<Option<OfToken>>> {
    let (grant, service, now) = (token.grant.clone(), token.service.clone(), app.now());
    let state = move |snapshot: &mut Snapshot<'_>| events::of_token(snapshot, &grant, &service, now);
    app.streams.reads.query(&app.store, &token.organization, state).await
}

/// Whether all that the session gave has ended, not this grant alone. One of which nothing can be read counts as ended.
async fn is_session_over(app: &App, token: &Token) -> bool {
    let Ok(session) = token.session.parse::<SessionId>() else { return true };
    let now = app.now();
    let live = move |snapshot: &mut Snapshot<'_>| sessions::live(snapshot, &session, now);
    let answer = app.streams.reads.query(&app.store, &token.organization, live).await;
    answer.map_or(true, |answer| answer.value.is_none())
}

async fn run(
    app: &App,
    token: &Token,
    mut stream: Stream,
    first: Answer<Option<OfToken>>,
) -> std::result::Result<(), Ended> {
    let (mut answer, mut shown) = (first, None);
    let wake = Arc::new(Notify::new());
    loop {
        let Some(state) = &answer.value else {
            let sessions = if is_session_over(app, token).await { vec![&*token.session] } else { Vec::new() };
            let revoked = RevokedBody { user: token.user.as_str(), sessions, grants: [token.grant.as_str()] };
            let version = answer.version.to_string();
            let text = frame::event("session.revoked", Some(&version), &revoked).unwrap_or_default();
            return stream.send(text).await;
        };
        let Ok(next) = Shown::new(state) else {
            stream.bye("unavailable");
            return Err(Ended);
        };
        let text = next.since(shown.as_ref(), &answer.version.to_string()).unwrap_or_default();
        // Nothing new, and the state was read just now: that is a sign of life.
        let frame = if text.is_empty() { frame::heartbeat(None) } else { text.into() };
        stream.send(frame).await?;
        shown = Some(next);
        let ends_at = state.entitlement.ends_at.unwrap_or(Time::NEVER).min(state.session_expires_at);
        let woken = wake.clone();
        // Without a watch something has changed since the read.
        if let Some(_watch) = app.store.watch(&answer.keys, answer.seen, move || woken.notify_one()) {
            wait(app, token, &mut stream, &wake, ends_at).await?;
        }
        let read = tokio::select! {
            read = read(app, token) => read,
            ended = stream.ended() => return Err(ended),
        };
        answer = match read {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "a stream could not read its state");
                stream.bye("unavailable");
                return Err(Ended);
            }
        };
    }
}

/// Waits until the state may have changed, with heartbeats.
async fn wait(
    app: &App,
    token: &Token,
    stream: &mut Stream,
    wake: &Notify,
    ends_at: Time,
) -> std::result::Result<(), Ended> {
    loop {
        let now = app.now();
        if token.expires_at <= now {
            stream.bye("token_expired");
            return Err(Ended);
        }
        if ends_at <= now {
            return Ok(());
        }
        let until_end = ends_at.min(token.expires_at).since(now);
        let pause = app.settings.stream_heartbeat;
        tokio::select! {
            ended = stream.ended() => return Err(ended),
            () = wake.notified() => return Ok(()),
            () = tokio::time::sleep(pause.min(until_end)) => {}
        }
        if app.store.is_fresh() {
            stream.send(frame::heartbeat(None)).await?;
        } else {
            // Reads from the database, or ends the stream.
            return Ok(());
        }
    }
}

/// `session.revoked`, the last event.
#[derive(Serialize)]
struct RevokedBody<'a> {
    user: &'a str,
    sessions: Vec<&'a str>,
    grants: [&'a str; 1],
}

#[derive(Serialize)]
struct SessionBody<'a> {
    id: &'a str,
    authenticated_at: String,
    expires_at: String,
}

#[derive(Serialize)]
struct NamedService<'a> {
    service: &'a str,
    name: &'a str,
}

/// What the client has, part by part. A part that changes is sent with the event of its name.
struct Shown(Vec<Part>);

struct Part {
    event: &'static str,
    field: &'static str,
    value: Box<RawValue>,
}

/// Parts of which no event of its own tells: then the whole state is sent again.
const WHOLE: &str = "state";

impl Shown {
    fn new(state: &OfToken) -> identity::Result<Shown> {
        let subscription = SubscriptionBody::new(&state.service.slug, &state.entitlement);
        let administers: Vec<AdministersBody> = administers(&state.administers);
        let service = NamedService { service: &state.service.slug, name: &state.service.name };
        let session = SessionBody {
            id: state.session.as_str(),
            authenticated_at: rfc3339(state.authenticated_at),
            expires_at: rfc3339(state.session_expires_at),
        };
        Ok(Shown(vec![
            part("user.changed", "user", &users::account(&state.user))?,
            part("subscription.changed", "subscription", &subscription)?,
            part("member.changed", "administers", &administers)?,
            part("service.changed", "service", &service)?,
            part(WHOLE, "session", &session)?,
        ]))
    }

    /// The events that lead here from what was shown before.
    fn since(&self, before: Option<&Shown>, version: &str) -> identity::Result<String> {
        let whole = || self.0.iter().map(|part| (part.field, &part.value)).collect::<BTreeMap<_, _>>();
        let Some(before) = before else { return frame::event(WHOLE, Some(&version), &whole()) };
        let changed = self.0.iter().zip(&before.0).filter(|(new, old)| new.value.get() != old.value.get());
        let changed: Vec<&Part> = changed.map(|(new, _)| new).collect();
        if changed.iter().any(|part| part.event == WHOLE) {
            return frame::event(WHOLE, Some(&version), &whole());
        }
        let mut text = String::new();
        for part in changed {
            text += &frame::event(part.event, Some(&version), &BTreeMap::from([(part.field, &part.value)]))?;
        }
        Ok(text)
    }
}

fn part(event: &'static str, field: &'static str, value: &impl Serialize) -> identity::Result<Part> {
    let value = serde_json::value::to_raw_value(value);
    let value = value.map_err(|error| Error::Internal(format!("an event: {error}")))?;
    Ok(Part { event, field, value })
}
