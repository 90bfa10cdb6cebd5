//! `POST /rpc/{name}`: calls a query or a mutation.

use super::{json, version_of};
use crate::account::Counted;
use crate::backend::ClientAddress;
use crate::context::Context;
use crate::given::{Given, random};
use crate::idempotent::Key;
use crate::query::{MutationEntry, QueryEntry, decided};
use crate::stream::Standing;
use crate::{Caller, Problem};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use endpoint::idempotency::{Outcome, Respond, SentKey, Stored, once};
use endpoint::path::Path;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use store::{Read, Snapshot, Tx, Version};

/// The code of a call whose caller has other rights at its turn than when it was begun.
const RIGHTS_CHANGED: &str = "rights_changed";

pub(super) async fn call(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    Path(name): Path<String>,
    sent: Option<Extension<SentKey>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    context.0.engine.metrics.calls.fetch_add(1, Ordering::Relaxed);
    let registry = context.0.registry.clone();
    let (query, mutation) = (registry.queries.get(&*name), registry.mutations.get(&*name));
    if query.is_none() && mutation.is_none() {
        let detail = format!("There is no query and no mutation {name:?}.");
        return Err(Problem::new(StatusCode::NOT_FOUND, "unknown_name", detail));
    }
    let mut is_last = false;
    loop {
        let caller = match is_last {
            false => {
                let caller = context.caller_with_token(&headers).await?;
                admit_calls(&context, &caller.now, address.0, 1)?;
                caller
            }
            true => context.caller_read_anew(&headers).await?,
        };
        let answer = match (query, mutation) {
            (Some(query), _) => {
                let (args, version) = (json(&body)?, version_of(&headers)?);
                read(&context, query, &caller, address, args, version).await
            }
            (None, Some(mutation)) => {
                version_of(&headers)?;
                let sent = sent.as_ref().map(|Extension(sent)| sent);
                write(&context, mutation, &caller, address, sent, &body).await
            }
            (None, None) => Err(Problem::internal()),
        };
        match answer {
            // A call may wait for its turn. It is begun again once with the rights that the caller has by then.
            Err(problem) if problem.code == RIGHTS_CHANGED && !std::mem::replace(&mut is_last, true) => {}
            answer => return answer,
        }
    }
}

/// Fails unless the caller still has the rights with which the call was begun, as this state of the database has them.
fn judge(context: &Context, caller: &Standing) -> impl Fn(&mut Snapshot<'_>) -> Result<(), Problem> + use<> {
    let authenticator =
        context.0.registry.authenticator.clone().filter(|authenticator| authenticator.has_standing());
    let Standing { authenticated, now } = caller.clone();
    // A call without a token is not judged.
    let authenticator = authenticator.filter(|_| now != Caller::anonymous());
    let time = context.now();
    move |snapshot| match &authenticator {
        None => Ok(()),
        Some(authenticator) => match Caller::read(&**authenticator, snapshot, &authenticated)? {
            None => Err(authenticator.refusal().unwrap_or_else(Context::session_ended)),
            Some(present) if present.has_ended(time) => Err(Context::session_ended()),
            Some(present) if (&present.subject, &present.claims) == (&now.subject, &now.claims) => Ok(()),
            Some(_) => {
                let detail = "Your rights have changed at this moment; nothing was done. Try again.";
                let problem = Problem::unavailable(detail, Duration::from_secs(1));
                Err(Problem { code: RIGHTS_CHANGED.into(), ..problem })
            }
        },
    }
}

async fn read(
    context: &Context,
    query: &QueryEntry,
    caller: &Standing,
    ClientAddress(address): ClientAddress,
    args: Value,
    version: Option<Version>,
) -> Result<Response, Problem> {
    let bound = (query.bind)(args, &caller.now)?;
    // A replica may not have what is known of the caller already.
    let judge = (query.is_point || !context.store().is_shared()).then(|| judge(context, caller));
    let (read, now) = (Context::read(query.is_point, version), context.now());
    let (store, name) = (context.store().clone(), query.name);
    let run = move |snapshot: &mut Snapshot<'_>| {
        snapshot.set_time(now);
        if let Some(judge) = &judge {
            judge(snapshot)?;
        }
        // With the check of a live query: the same query is right or wrong by both ways.
        store.checked(snapshot, name, |snapshot| decided(&bound.run, snapshot))?
    };
    let answer = context.store().query(read, run).await?;
    // One process has the database, and has made all of its versions: this one is from elsewhere.
    if !context.store().is_shared() && version.is_some_and(|version| answer.version < version) {
        return Err(super::invalid_version());
    }
    let text = answered(&answer.value.text, answer.version, answer.settled);
    let body = context.0.unread.hold(context, text, || Counted::of(&caller.now, address), true)?;
    Ok(response(body, answer.version))
}

async fn write(
    context: &Context,
    mutation: &MutationEntry,
    caller: &Standing,
    address: ClientAddress,
    sent: Option<&SentKey>,
    body: &Bytes,
) -> Result<Response, Problem> {
    let subject = caller.now.subject.as_deref();
    let key = sent.map(|sent| Key::of(sent, subject, mutation.name)).transpose()?;
    let run = (mutation.bind)(json(body)?, &caller.now)?;
    let counted = || Counted::of(&caller.now, address.0);
    context.0.unread.check(context, counted)?;
    let registry = context.0.registry.clone();
    let (now, random) = (context.now(), random());
    let run = move |tx: &mut Tx<'_>| run(tx, &Given::new(now, random, &registry));
    let command = Command { name: mutation.name, is_batched: mutation.is_batched };
    let (text, version) = carry_out(context, command, caller, address, key, run).await?;
    let body = context.0.unread.hold(context, answered(&text, version, version), counted, false)?;
    Ok(response(body, version))
}

/// How a command is run.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) is_batched: bool,
}

/// The JSON that a command answers.
struct Text(String);

impl Respond for Text {
    fn respond(&self) -> serde_json::Result<Stored> {
        Ok(Stored { status: StatusCode::OK, body: self.0.clone().into_bytes() })
    }
}

/// Runs a command for a caller, once for each key. Returns its answer, or the first one if the key was sent before, with a
/// version that includes the write.
pub(crate) async fn carry_out(
    context: &Context,
    Command { name, is_batched }: Command,
    caller: &Standing,
    address: ClientAddress,
    key: Option<Key>,
    run: impl Fn(&mut Tx<'_>) -> Result<String, Problem> + Send + 'static,
) -> Result<(String, Version), Problem> {
    let is_keyed = key.is_some();
    if is_keyed {
        // A call that is refused so far leaves nothing, and is not counted.
        admit(context, &caller.now, address)?;
    }
    let (judge, now, slow) = (judge(context, caller), context.now(), context.0.limits.slow_command);
    let engine = context.0.engine.clone();
    let command = move |tx: &mut Tx<'_>| {
        let started = Instant::now();
        tx.snapshot().set_time(now);
        judge(tx.snapshot())?;
        let outcome = once(key.as_ref(), tx, now, |tx| run(tx).map(Text))?;
        if matches!(outcome, Outcome::Done(_)) && started.elapsed() > slow {
            engine.metrics.slow_commands.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                command = name,
                took_ms = started.elapsed().as_millis() as u64,
                "a command was slow; it holds up others"
            );
        }
        Ok::<_, Problem>(outcome)
    };
    let outcome = match is_batched {
        true => context.store().write_batched(name, command).await?,
        false => context.store().write(name, command).await?,
    };
    match outcome {
        Outcome::Done(Text(text)) => {
            if is_keyed {
                let counters = Counted::of(&caller.now, address.0);
                counters.0.iter().for_each(|one| context.0.keyed_calls.charge(&one.name, text.len()));
            }
            Ok((text, context.store().acknowledged()))
        }
        Outcome::Repeated(answer) => {
            let text = String::from_utf8(answer.body).map_err(Problem::defect)?;
            let version = match context.store().is_shared() {
                // Another instance may have written it: a state that has it is newer than what this one has written.
                true => context.store().query(Read::default(), |_| Ok::<_, Problem>(())).await?.version,
                false => context.store().acknowledged(),
            };
            Ok((text, version))
        }
    }
}

/// Counts calls, if they have a limit. Who subscribes to a query learns as much as who calls it.
pub(super) fn admit_calls(
    context: &Context,
    caller: &Caller,
    address: IpAddr,
    calls: usize,
) -> Result<(), Problem> {
    admit_besides(context, caller, address, calls, 0)
}

/// Counts the answers of a poll, which was counted as one call when it began.
pub(super) fn admit_answers(
    context: &Context,
    caller: &Caller,
    address: IpAddr,
    answers: usize,
) -> Result<(), Problem> {
    admit_besides(context, caller, address, answers.saturating_sub(1), 1)
}

/// The same for calls of a request of which some have been counted.
fn admit_besides(
    context: &Context,
    caller: &Caller,
    address: IpAddr,
    calls: usize,
    counted: usize,
) -> Result<(), Problem> {
    let most = context.0.limits.calls_per_caller_max;
    if most == usize::MAX || calls == 0 {
        return Ok(());
    }
    let counters = Counted::of(caller, address);
    // A request may have more subscriptions than calls are allowed: then nothing else is for the rest of the time.
    let calls = calls.min(most.saturating_sub(counted));
    context.0.calls.admit_each(counters.limits(most), calls, context.now().millis()).map_err(|wait| {
        let detail = format!(
            "You may call {most} times in ten seconds (`calls_per_caller_max`); a subscription counts as a call. Try again later."
        );
        Problem { retry_after: Some(wait), ..Problem::limit(detail) }
    })
}

/// Counts a mutation with a key. It may leave an answer for a day.
fn admit(context: &Context, caller: &Caller, ClientAddress(address): ClientAddress) -> Result<(), Problem> {
    let (counters, most) = (Counted::of(caller, address), context.0.limits.keyed_calls_per_caller_max);
    context.0.keyed_calls.admit_each(counters.limits(most), 1, context.now().millis()).map_err(|wait| {
        let detail = format!(
            "You have sent {most} calls with an `Idempotency-Key` in a quarter of an hour (`keyed_calls_per_caller_max`). \
             Try again after `Retry-After`, or call without the key. A long answer counts as one call for each 16 KiB."
        );
        Problem { retry_after: Some(wait), ..Problem::limit(detail) }
    })
}

/// The text of an answer. `settled` is written where it differs from the version, as in frames.
fn answered(value: &str, version: Version, settled: Version) -> String {
    let settled = match settled == version {
        true => String::new(),
        false => format!(",\"settled\":\"{settled}\""),
    };
    ["{\"value\":", value, ",\"version\":\"", &version.to_string(), "\"", &settled, "}"].concat()
}

fn response(body: Body, version: Version) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(version) = HeaderValue::from_str(&version.to_string()) {
        headers.insert("sarsen-version", version);
    }
    response
}
