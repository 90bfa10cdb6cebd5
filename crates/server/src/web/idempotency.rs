//! `Idempotency-Key` of the API: what a key counts for, and its row in `idempotent_writes`. The rest is in
//! `endpoint::idempotency`: the middleware reads the key ([`SentKey`]), the extractors of `administration.rs` write with it.

use crate::app::App;
use crate::web::error::Problem;
use endpoint::idempotency::{Found, InvalidKey, Kept, Refused, Row, SentKey, Stored};
use http::request::Parts;
use http::{Method, StatusCode};
use identity::idempotent_writes::{self, KeyedRequest};
use identity::ids::IdempotentWriteId;
use identity::{Error, Time};
use store::Tx;
use web::current_request;

/// Texts that are shown once, in any object of an answer. The stored answer leaves them out.
const SECRETS: &[&str] = &["client_secret", "key", "url"];

/// The key of a request, before its caller is known.
#[derive(Clone)]
pub(crate) struct Key {
    method: Method,
    path: String,
    query: String,
    sent: SentKey,
}

impl Key {
    /// The key that the middleware has found in a request.
    pub(crate) fn of(parts: &Parts) -> Option<Key> {
        let sent = parts.extensions.get::<SentKey>()?.clone();
        let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
        Some(Key { method: parts.method.clone(), path, query, sent })
    }

    /// The row of a write of `caller`. Fails if they have sent too many writes with keys.
    pub(crate) fn row(&self, app: &App, caller: &str, now: Time) -> Result<KeyRow, Problem> {
        app.keyed_writes.admit(caller, 1, app.settings.keyed_writes_max, now.millis()).map_err(|wait| {
            let detail = "You have sent too many writes with an Idempotency-Key. Try again later, or send this one without.";
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_idempotency_keys", detail);
            Problem { retry_after: Some(wait), ..problem }
        })?;
        let id = IdempotentWriteId::new(now, app.random());
        let route = [self.method.as_str(), &self.path, self.sent.key()];
        let request = KeyedRequest::new(id, caller, route, &self.query, self.sent.body());
        Ok(KeyRow { request, app: app.clone() })
    }
}

/// A row of `idempotent_writes`.
pub(crate) struct KeyRow {
    request: KeyedRequest,
    app: App,
}

impl Row for KeyRow {
    type Error = Failure;

    fn insert(&self, tx: &mut Tx<'_>, now: Time) -> Result<bool, Failure> {
        Ok(idempotent_writes::insert(tx, &self.request, now)?)
    }

    fn find(&self, tx: &mut Tx<'_>) -> Result<Option<Found>, Failure> {
        let Some(row) = idempotent_writes::find(tx, &self.request)? else { return Ok(None) };
        let status = row.status.and_then(|status| StatusCode::from_u16(status).ok());
        let answer = match (status, row.answer) {
            (None, None) => Kept::Unfinished,
            (Some(status), Some(sealed)) => {
                let opened = idempotent_writes::open_answer(&row.id, &sealed, &self.app.secret_key);
                opened.map_or(Kept::Gone, |body| Kept::Answer(Stored { status, body }))
            }
            _ => Kept::Gone,
        };
        Ok(Some(Found { is_same: row.is_same, at: row.created_at, answer }))
    }

    fn keep(&self, tx: &mut Tx<'_>, answer: Stored) -> Result<(), Failure> {
        let Stored { status, body } = answer.without(SECRETS);
        let (key, random) = (&self.app.secret_key, self.app.random());
        let answer = (status.as_u16(), body.as_slice());
        Ok(idempotent_writes::set_answer(tx, &self.request, answer, key, random)?)
    }

    fn delete(&self, tx: &mut Tx<'_>) -> Result<(), Failure> {
        Ok(idempotent_writes::delete(tx, &self.request)?)
    }
}

/// Why a write was not done.
pub(crate) enum Failure {
    /// The domain refuses it.
    Domain(Error),
    /// Its key does.
    Key(Refused),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Domain(error)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        Failure::Domain(error.into())
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Failure {
        Failure::Key(refused)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        match failure {
            Failure::Domain(error) => error.into(),
            Failure::Key(refused) => refused.into(),
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        let Some((status, code, detail)) = refused.problem() else {
            tracing::error!(?refused, request_id = current_request::id(), "an answer could not be stored");
            return Problem::internal();
        };
        Problem { retry_after: refused.retry_after(), ..Problem::new(status, code, detail) }
    }
}

impl From<InvalidKey> for Problem {
    fn from(invalid: InvalidKey) -> Problem {
        Problem::bad_request(InvalidKey::CODE, invalid.to_string())
    }
}
