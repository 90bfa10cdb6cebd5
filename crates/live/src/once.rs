//! `Idempotency-Key` on plain routes: the extractor that carries out a command once, and the refusal where a route has none.

use crate::backend::ClientAddress;
use crate::context::Context;
use crate::extract::Json;
use crate::http::{Command, carry_out};
use crate::idempotent::Key;
use crate::stream::Standing;
use crate::{Caller, Problem};
use axum::extract::{FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use endpoint::idempotency::SentKey;
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::Tx;

/// The caller of a plain route, and the `Idempotency-Key` that they sent, if they did. For routes that are added with
/// [`crate::App::keyed_routes`].
///
/// [`Once::write`] runs a command as that of a mutation is run: its transaction judges whether the caller's session still
/// lives, and stores the answer with the key. The same request sent again gets that answer, and nothing is done.
pub struct Once {
    context: Context,
    caller: Standing,
    address: ClientAddress,
    key: Option<Key>,
}

/// What [`Once::write`] answers: the JSON of the first answer.
pub type Answered = Json<Box<RawValue>>;

impl Once {
    /// The caller, as the database sees them now.
    pub fn caller(&self) -> &Caller {
        &self.caller.now
    }

    /// Runs a command. It may run more than once, and has no effects but through `tx`.
    pub async fn write<T: Serialize>(
        self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Answered, Problem> {
        self.run(Command { name, is_batched: false }, command).await
    }

    /// The same for a command that is short, rarely fails and waits for no lock: queued ones share a transaction.
    pub async fn write_batched<T: Serialize>(
        self,
        name: &'static str,
        command: impl Fn(&mut Tx<'_>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Answered, Problem> {
        self.run(Command { name, is_batched: true }, command).await
    }

    async fn run<T: Serialize>(
        self,
        how: Command,
        command: impl Fn(&mut Tx<'_>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<Answered, Problem> {
        let Once { context, caller, address, key } = self;
        let run = move |tx: &mut Tx<'_>| serde_json::to_string(&command(tx)?).map_err(Problem::defect);
        let (text, _) = carry_out(&context, how, &caller, address, key, run).await?;
        RawValue::from_string(text).map(Json).map_err(Problem::defect)
    }
}

/// Whether the handler of a request with a key has taken it.
#[derive(Clone, Default)]
struct Taken(Arc<AtomicBool>);

impl FromRequestParts<Context> for Once {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, context: &Context) -> Result<Once, Problem> {
        let caller = context.caller_with_token(&parts.headers).await?;
        let address = parts.extensions.get::<ClientAddress>().copied().ok_or_else(Problem::internal)?;
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let route = format!("{} {path}", parts.method);
        let sent = parts.extensions.get::<SentKey>();
        let key = sent.map(|sent| Key::of(sent, caller.now.subject.as_deref(), &route)).transpose()?;
        if let Some(Taken(taken)) = parts.extensions.get() {
            taken.store(true, Relaxed);
        }
        Ok(Once { context: context.clone(), caller, address, key })
    }
}

fn is_keyed(request: &Request) -> bool {
    request.extensions().get::<SentKey>().is_some()
}

/// Routes whose handlers do not look at a key: a client that relies on one must not learn so from a thing done twice.
pub(crate) async fn refuse_keys(request: Request, next: Next) -> Response {
    if !is_keyed(&request) {
        return next.run(request).await;
    }
    let detail = "This route does not take an `Idempotency-Key`. Leave it out, and read the state before you send the request again.";
    Problem::new(StatusCode::BAD_REQUEST, "idempotency_key_unsupported", detail).into_response()
}

/// Routes whose handlers take [`Once`]. One that does not is a defect of the app.
pub(crate) async fn expect_keys(mut request: Request, next: Next) -> Response {
    if !is_keyed(&request) {
        return next.run(request).await;
    }
    let taken = Taken::default();
    request.extensions_mut().insert(taken.clone());
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    if response.status().is_success() && !taken.0.load(Relaxed) {
        let what =
            format!("{path} is one of `App::keyed_routes`, but its handler does not take `extract::Once`");
        return Problem::defect(what).into_response();
    }
    response
}
