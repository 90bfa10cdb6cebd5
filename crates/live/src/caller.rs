//! Who calls, and what a query or mutation may read of that.
//!
//! A query names the part of its caller that it reads as a type ([`Claims`]). It receives nothing else, so two callers
//! with equal claims share the query's runs, and nobody receives an answer that was made for other claims.

use crate::Problem;
use crate::context::Context;
use serde::Serialize;
use serde_json::{Map, Value};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use store::{Snapshot, Time, Weigh, allocated};

/// Who calls: what the authenticator found out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caller {
    /// The user (`sub` of a token); none for a caller without a token.
    pub subject: Option<String>,
    /// Everything that the token says. Clones of the caller share it.
    pub claims: Arc<Map<String, Value>>,
    /// When the token expires. Streams end then, unless the client sends a new token.
    pub expires: Option<Time>,
}

impl Caller {
    /// A caller without a token.
    pub fn anonymous() -> Caller {
        Caller::default()
    }

    /// The same caller with another value of a claim.
    #[must_use]
    pub fn with_claim(mut self, name: &str, value: impl Into<Value>) -> Caller {
        Arc::make_mut(&mut self.claims).insert(name.to_owned(), value.into());
        self
    }

    /// The caller as the database sees them in this state, with the end that rows have; `None` if their session has ended by now.
    pub(crate) fn read(
        authenticator: &dyn Authenticate,
        snapshot: &mut Snapshot<'_>,
        caller: &Caller,
    ) -> Result<Option<Caller>, Problem> {
        // One answer serves all tokens with the same claims.
        let read = authenticator.standing(snapshot, &Caller { expires: None, ..caller.clone() })?;
        let now = crate::now(snapshot);
        Ok(read.filter(|caller| !caller.has_ended(now)))
    }

    /// Whether rows say that it has ended by now.
    pub(crate) fn has_ended(&self, now: Time) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// The user, or 401.
    pub fn user(&self) -> Result<&str, Problem> {
        self.subject.as_deref().ok_or_else(Problem::unauthenticated)
    }
}

/// The end of the token or that of the rows, whichever is earlier.
pub(crate) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}

impl Weigh for Caller {
    fn heap_bytes(&self) -> usize {
        self.subject.heap_bytes() + members_bytes(&self.claims)
    }
}

/// What the members of an object take on the heap.
fn members_bytes(members: &Map<String, Value>) -> usize {
    let member = |(name, value): (&String, &Value)| {
        size_of::<(String, Value)>() + name.heap_bytes() + value_bytes(value)
    };
    allocated(members.iter().map(member).sum())
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.heap_bytes(),
        Value::Array(items) => {
            allocated(items.len() * size_of::<Value>()) + items.iter().map(value_bytes).sum::<usize>()
        }
        Value::Object(members) => members_bytes(members),
    }
}

/// The part of its caller that a query or mutation reads, and the decision whether this caller may call it. The same
/// function decides for RPC, for subscriptions and each time that a live query runs again for another standing.
pub trait Claims: Serialize + Clone + Send + Sync + 'static {
    /// Reads the claims, or refuses the caller (401, 403).
    fn of(caller: &Caller) -> Result<Self, Problem>;
}

/// Everybody may call, also without a token.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Anyone;

/// Every caller with a valid token may call. Nothing else of the caller is read, so all callers share.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SignedIn;

/// The caller's user id. Each user has answers of their own.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, Hash)]
pub struct Subject(pub String);

impl Claims for Anyone {
    fn of(_caller: &Caller) -> Result<Anyone, Problem> {
        Ok(Anyone)
    }
}

impl Claims for SignedIn {
    fn of(caller: &Caller) -> Result<SignedIn, Problem> {
        caller.user().map(|_| SignedIn)
    }
}

impl Claims for Subject {
    fn of(caller: &Caller) -> Result<Subject, Problem> {
        caller.user().map(|user| Subject(user.to_owned()))
    }
}

/// The future of [`Authenticate::authenticate`].
pub type Authenticating<'a> = Pin<Box<dyn Future<Output = Result<Caller, Problem>> + Send + 'a>>;

/// The future of [`Authenticate::follow`].
pub type Following = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Finds out who calls.
pub trait Authenticate: Send + Sync {
    /// The caller of a request with this bearer token, or 401.
    fn authenticate<'a>(&'a self, token: &'a str) -> Authenticating<'a>;

    /// Whether the right to go on depends on rows (sessions, roles). If so, [`Authenticate::standing`] runs for each
    /// request and when a stream begins, and again whenever one of the keys changes that it declared; answers are cached.
    fn has_standing(&self) -> bool {
        false
    }

    /// The caller as the database sees them now: with their present roles, or `None` if their session has ended. Then
    /// their streams end, and no frame of a later version is sent. Declares the keys of the rows that it reads.
    /// `caller` has no `expires`. Set it if a row says when the session or key ends, whatever the token says: nobody has to
    /// change the row at that time.
    fn standing(&self, _snapshot: &mut Snapshot<'_>, caller: &Caller) -> Result<Option<Caller>, Problem> {
        Ok(Some(caller.clone()))
    }

    /// Why no caller with a token is accepted at the moment, although their sessions may live (503). A call whose turn comes then is
    /// answered with it, and not with 401, after which clients sign their users out.
    fn refusal(&self) -> Option<Problem> {
        None
    }

    /// Whether callers with a token can be answered at all since the start. `/readyz` is 503 until then, so that a deploy
    /// with a wrong key does not take the place of one that works.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether it is known which sessions have ended. For `/metrics`.
    fn is_fresh(&self) -> bool {
        true
    }

    /// Work in the background while the app is served, such as following the sessions of another server. It is dropped
    /// when the app stops.
    fn follow(&self, _context: &Context) -> Option<Following> {
        None
    }
}
