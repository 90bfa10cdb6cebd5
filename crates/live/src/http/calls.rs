//! `POST /rpc/{name}`: calls a query or a mutation.

use super::{json, version_of};
use crate::account::Counted;
use crate::app::{Context, Given, random};
use crate::backend::ClientAddress;
use crate::extract::Path;
use crate::idempotent;
use crate::query::{MutationEntry, QueryEntry};
use crate::{Caller, Problem};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::time::Instant;
use store::{Read, Snapshot, Tx, Version};

pub(super) async fn call(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    context.0.engine.metrics.calls.fetch_add(1, Ordering::Relaxed);
    let registry = context.0.registry.clone();
    if let Some(query) = registry.queries.get(&*name) {
        let caller = context.caller(&headers).await?;
        return read(&context, query, &caller, json(&body)?, version_of(&headers)?).await;
    }
    if let Some(mutation) = registry.mutations.get(&*name) {
        let caller = context.caller(&headers).await?;
        return write(&context, mutation, &caller, address, &headers, &body).await;
    }
    let detail = format!("There is no query and no mutation {name:?}.");
    Err(Problem::new(StatusCode::NOT_FOUND, "unknown_name", detail))
}

async fn read(
    context: &Context,
    query: &QueryEntry,
    caller: &Caller,
    args: Value,
    version: Option<Version>,
) -> Result<Response, Problem> {
    let bound = (query.bind)(args, caller)?;
    let read = Context::read(query.is_point, version);
    let run = move |snapshot: &mut Snapshot<'_>| (bound.run)(snapshot);
    let answer = context.store().query(read, run).await?;
    Ok(answered(&answer.value.text, answer.version, answer.settled))
}

async fn write(
    context: &Context,
    mutation: &MutationEntry,
    caller: &Caller,
    address: ClientAddress,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let key = match headers.get("idempotency-key") {
        None => None,
        Some(key) => {
            let key = key.to_str().map_err(|_| {
                let detail = "`Idempotency-Key` must be visible ASCII characters, such as a UUID.";
                Problem::new(StatusCode::BAD_REQUEST, "invalid_idempotency_key", detail)
            })?;
            let key = idempotent::Key::new(key, caller.subject.as_deref(), mutation.name, body)?;
            admit(context, caller, address)?;
            Some(key)
        }
    };
    let run = (mutation.bind)(json(body)?, caller)?;
    let (registry, now, random) = (context.0.registry.clone(), context.now(), random());
    let (slow, name) = (context.0.limits.slow_command, mutation.name);
    let (engine, earlier) = (context.0.engine.clone(), key.clone());
    let command = move |tx: &mut Tx<'_>| {
        let started = Instant::now();
        if let Some(key) = &key
            && let Some(answer) = key.answer(tx, now)?
        {
            return Ok((answer, true));
        }
        let answer = run(tx, &Given::new(now, random, &registry))?;
        if let Some(key) = &key {
            key.keep(tx, &answer, now)?;
        }
        if started.elapsed() > slow {
            engine.metrics.slow_commands.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                command = name,
                took_ms = started.elapsed().as_millis() as u64,
                "a command was slow; it holds up others"
            );
        }
        Ok::<_, Problem>((answer, false))
    };
    let written = match mutation.is_batched {
        true => context.store().write_batched(mutation.name, command).await,
        false => context.store().write(mutation.name, command).await,
    };
    match (written, earlier) {
        (Ok((text, false)), _) => {
            let version = context.store().acknowledged();
            Ok(answered(&text, version, version))
        }
        (Ok((text, true)), _) => {
            let version = match context.store().is_shared() {
                // Another instance may have written it: a state that has it is newer than what this one has written.
                true => context.store().query(Read::default(), |_| Ok::<_, Problem>(())).await?.version,
                false => context.store().acknowledged(),
            };
            Ok(answered(&text, version, version))
        }
        // The same request, sent at the same time, may have been done: then this one failed because of it.
        (Err(problem), Some(key)) if problem.status.is_client_error() => {
            let stored = move |snapshot: &mut Snapshot<'_>| key.stored(snapshot, now);
            let answer = context.store().query(Read::default(), stored).await?;
            match answer.value {
                Some(text) => Ok(answered(&text, answer.version, answer.version)),
                None => Err(problem),
            }
        }
        (Err(problem), _) => Err(problem),
    }
}

/// Counts a mutation with a key. It may leave an answer for a day.
fn admit(context: &Context, caller: &Caller, ClientAddress(address): ClientAddress) -> Result<(), Problem> {
    let Counted { name: owner, share } = Counted::of(caller, address);
    let most = share * context.0.limits.keyed_calls_per_caller_max;
    context.0.keyed_calls.admit(&owner, most, context.now().millis()).map_err(|wait| {
        let detail = format!(
            "You have sent {most} calls with an `Idempotency-Key` in a quarter of an hour (`keyed_calls_per_caller_max`). \
             Try again after `Retry-After`, or call without the key."
        );
        Problem { retry_after: Some(wait), ..Problem::limit(detail) }
    })
}

/// `settled` is written where it differs from the version, as in frames.
fn answered(value: &str, version: Version, settled: Version) -> Response {
    let settled = match settled == version {
        true => String::new(),
        false => format!(",\"settled\":\"{settled}\""),
    };
    let version = version.to_string();
    let body = ["{\"value\":", value, ",\"version\":\"", &version, "\"", &settled, "}"].concat();
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(version) = HeaderValue::from_str(&version) {
        headers.insert("sarsen-version", version);
    }
    response
}
