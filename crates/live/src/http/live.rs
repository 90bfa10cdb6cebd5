//! `/live`: opens a stream, changes it, and polls where streams do not get through.

use super::calls::{admit_answers, admit_calls};
use super::streams::TICK;
use super::unread::Charged;
use super::{json, refuse_nul};
use crate::Problem;
use crate::account::Counted;
use crate::backend::ClientAddress;
use crate::context::Context;
use crate::frame;
use crate::given::sha256;
use crate::stream::{Standing, StreamBody, Wanted};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use endpoint::path::Path;
use endpoint::sse;
use http::header::ALLOW;
use http::{HeaderMap, StatusCode};
use http_body::{Body as HttpBody, Frame as BodyFrame, SizeHint};
use serde::Deserialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

/// A poll is answered with about so much at once; the client asks for the rest with the next one.
const POLL_BYTES_MAX: usize = 256 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    #[serde(default)]
    subscriptions: Vec<Wanted>,
}

/// `POST /live`.
pub(super) async fn open(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let caller = context.caller_with_token(&headers).await?;
    let opening: Opening = json(&body)?;
    admit_calls(&context, &caller.now, address.0, opening.subscriptions.len())?;
    let body = context.0.streams.open(&context, caller, address.0, opening.subscriptions, false)?;
    Ok(stream(Body::new(body)))
}

/// `HEAD` of `/live` and `/live/poll`. As `GET` it would be a stream or a poll whose body is left out, and would only take a
/// place.
pub(super) async fn head() -> Response {
    ([(ALLOW, "GET, POST")], super::wrong_method()).into_response()
}

/// `GET /live?ticket=…&sub=…`: for the browser's own EventSource. Each `sub` is a subscription as JSON.
pub(super) async fn open_with_ticket(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref().unwrap_or_default())?;
    let Some(ticket) = query.ticket else {
        return Err(Problem::invalid("ticket", "`ticket` is missing. Get one with POST /live/ticket."));
    };
    let tickets = &context.0.streams.tickets;
    let authenticated = tickets.caller(&ticket, &query.subscriptions, context.now())?;
    // 401 ends the browser's attempts; a stream that ends at once would be opened again and again.
    let now = context.standing(authenticated.clone()).await?;
    match admit_calls(&context, &now, address.0, query.wanted.len()) {
        // The browser opens it again by itself, and would give up for good if it was refused: it is told when to come back.
        Err(Problem { retry_after: Some(wait), .. }) if !tickets.is_new(&ticket) => {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            return Ok(stream(Body::from(frame::bye(wait_ms))));
        }
        admitted => admitted?,
    }
    let caller = Standing { authenticated, now };
    let body = context.0.streams.open(&context, caller, address.0, query.wanted, true)?;
    let opened = Arc::downgrade(&body.stream);
    tickets.opened(&ticket, query.subscriptions, opened, context.now())?;
    Ok(stream(Body::new(body)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changing {
    secret: String,
    #[serde(default)]
    add: Vec<Wanted>,
    #[serde(default)]
    remove: Vec<String>,
}

/// `POST /live/{stream}`: adds and removes subscriptions. With a token, it also renews the stream's right to last.
pub(super) async fn change(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Problem> {
    let caller = context.caller_with_token(&headers).await?;
    let changing: Changing = json(&body)?;
    let Changing { secret, add, remove } = changing;
    context.0.streams.change(&context, (&name, &secret), caller, address.0, add, &remove)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /live/poll?sub=…`: answers with events as soon as there is one that is not `same`.
pub(super) async fn poll_query(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref().unwrap_or_default())?;
    held(context, address, headers, query.wanted).await
}

/// `POST /live/poll`: the same with a body as for `POST /live`, for more subscriptions than fit into a URL.
pub(super) async fn poll(
    State(context): State<Context>,
    Extension(address): Extension<ClientAddress>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let opening: Opening = json(&body)?;
    held(context, address, headers, opening.subscriptions).await
}

async fn held(
    context: Context,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
    wanted: Vec<Wanted>,
) -> Result<Response, Problem> {
    let caller = context.caller_with_token(&headers).await?;
    let (counted, asking) = (Counted::of(&caller.now, address), caller.now.clone());
    admit_calls(&context, &caller.now, address, 1)?;
    let left = caller.now.expires.map_or(Duration::MAX, |expires| expires.since(context.now()));
    let body = context.0.streams.once(&context, caller, address, wanted)?;
    let (mut events, mut bytes, mut own_bytes, mut answers) = (VecDeque::new(), 0, 0, 0);
    let collect = async {
        // Values that the client holds already are no reason to answer. With an answer comes what is there besides: one that
        // changes all the time must not keep the others away.
        while answers == 0 || bytes < POLL_BYTES_MAX {
            let next = poll_fn(|task| match body.stream.poll_events(task) {
                Poll::Pending if answers > 0 => Poll::Ready(None),
                polled => polled,
            });
            let Some(pieces) = next.await else { break };
            answers += pieces.answers;
            bytes += pieces.bytes;
            own_bytes += pieces.own_bytes;
            events.extend(pieces.finish());
        }
    };
    // A row may say that the caller's session ends sooner than it was known when the poll began.
    let ended = async {
        while !body.stream.has_expired(context.now()) {
            tokio::time::sleep(TICK).await;
        }
    };
    let mut stopped = context.0.streams_stopped.clone();
    let is_stopping = tokio::select! {
        () = collect => false,
        () = tokio::time::sleep(context.0.limits.poll_time.min(left)) => false,
        () = ended => false,
        _ = stopped.wait_for(|stopped| *stopped) => true,
    };
    // What was collected counts until it is written: a client may take its time to read it.
    // What has changed since the last poll is an answer of a call; what has not, costs nothing.
    admit_answers(&context, &asking, address, answers)?;
    let charged = context.0.unread.hold_poll(&context, (bytes, own_bytes), counted)?;
    body.stream.leave();
    // A stop sends all polls away at one moment: each gets a pause of its own, also after other events.
    if is_stopping || events.is_empty() {
        let pause = if is_stopping { super::streams::pause(context.0.limits.return_time) } else { 0 };
        events.push_back(frame::bye(pause).into());
    }
    Ok(stream(Body::new(Pieced { events, _charged: charged, _place: body })))
}

/// The answer of a poll.
struct Pieced {
    events: VecDeque<Bytes>,
    _charged: Option<Charged>,
    /// The place of the poll among the streams of its caller.
    _place: StreamBody,
}

impl HttpBody for Pieced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        Poll::Ready(self.events.pop_front().map(|piece| Ok(BodyFrame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.events.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// A stream that no proxy keeps or changes.
fn stream(body: Body) -> Response {
    sse::response(body, "no-store, no-transform")
}

/// The query string of GET requests.
struct Query {
    ticket: Option<String>,
    wanted: Vec<Wanted>,
    /// A hash of `wanted` as it was sent.
    subscriptions: [u8; 32],
}

impl Query {
    fn parse(text: &str) -> Result<Query, Problem> {
        let mut query = Query { ticket: None, wanted: Vec::new(), subscriptions: [0; 32] };
        let mut sent = String::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "ticket" => query.ticket = Some(value.into_owned()),
                "sub" => {
                    let text = value.as_bytes();
                    let wanted = refuse_nul(text).and_then(|()| json(text)).map_err(|problem| {
                        let detail = format!("`sub` is not a subscription as JSON. {}", problem.detail);
                        Problem::invalid("sub", detail)
                    });
                    query.wanted.push(wanted?);
                    // Each is one JSON object, so that no two lists look the same.
                    sent.push_str(&value);
                }
                other => {
                    let detail = format!("There is no parameter {other:?}. Use `ticket` and `sub`.");
                    return Err(Problem::invalid(other, detail));
                }
            }
        }
        query.subscriptions = sha256(sent.as_bytes());
        Ok(query)
    }
}
