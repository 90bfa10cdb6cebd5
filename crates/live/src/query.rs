//! Queries and mutations: what a back end consists of.
//!
//! Both are types whose fields are the arguments, as serde reads them from a JSON object. The app keeps them without
//! their types ([`QueryEntry`], [`MutationEntry`]), by name.

use crate::caller::{Caller, Claims};
use crate::described::{Described, describe};
use crate::{Given, Problem};
use endpoint::fields::{FieldErrors, read_arguments};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use store::{Snapshot, Time, Tx};
use utoipa::ToSchema;

/// A query: reads the database, as an RPC and as a live query.
pub trait Query: DeserializeOwned + ToSchema + Send + Sync + 'static {
    /// The name in `POST /rpc/{name}` and in subscriptions; snake_case.
    const NAME: &'static str;
    /// The query is one or two look-ups by a unique key. With SQLite it runs where it is called, without a thread's hop.
    const POINT: bool = false;
    /// For a list: the field of its rows that identifies a row. Streams then receive the rows that changed. The value must
    /// be an array of objects.
    const ROW_KEY: Option<&'static str> = None;
    /// For an answer that depends on the time ([`now`]) too: while somebody watches it, the query runs again so long after its
    /// last run, or up to a second later, though nothing has changed. An equal answer is not sent.
    const REFRESH: Option<Duration> = None;
    /// What it reads of its caller.
    type Claims: Claims;
    /// The answer.
    type Value: Serialize + ToSchema;

    /// Checks the arguments beyond their types. An argument that could not be read holds a placeholder here, and what is said of
    /// it is ignored: the caller gets all that is wrong at once. `errors.finish()?` of [`crate::FieldErrors`] names several.
    fn validate(&self) -> Result<(), Problem> {
        Ok(())
    }

    /// Reads. Declares with [`Snapshot::depends`] what the answer depends on. It may run more than once.
    fn run(&self, snapshot: &mut Snapshot<'_>, claims: &Self::Claims) -> Result<Self::Value, Problem>;
}

/// A mutation: changes the database, in one transaction.
pub trait Mutation: DeserializeOwned + ToSchema + Send + Sync + 'static {
    /// The name in `POST /rpc/{name}`; snake_case.
    const NAME: &'static str;
    /// It is short, rarely fails and waits for no lock: queued ones share a transaction. Then a statement that writes one
    /// row is best run by [`Tx::exec_one`].
    const BATCHED: bool = false;
    /// What it reads of its caller.
    type Claims: Claims;
    /// The answer.
    type Value: Serialize + ToSchema;

    /// Checks the arguments beyond their types, as [`Query::validate`] does.
    fn validate(&self) -> Result<(), Problem> {
        Ok(())
    }

    /// Changes. Declares with [`Tx::changed`] what it changed. It may run more than once, so it has no effects but through
    /// `tx`; time and randomness are in `given`.
    fn run(&self, tx: &mut Tx<'_>, claims: &Self::Claims, given: &Given) -> Result<Self::Value, Problem>;
}

/// The time for a query: that of [`crate::Settings::clock`] when its run began. In a snapshot of a plain route, the time of the machine.
pub fn now(snapshot: &Snapshot<'_>) -> Time {
    snapshot.time().unwrap_or_else(crate::serve::now)
}

/// A query with its arguments and claims, ready to run.
pub(crate) struct BoundQuery {
    /// The claims as text. Callers with the same text may share a group.
    pub(crate) claims: String,
    pub(crate) run: RunQuery,
}

/// Runs a query and returns its answer as JSON.
pub(crate) type RunQuery = Arc<dyn Fn(&mut Snapshot<'_>) -> Result<Output, Problem> + Send + Sync>;

/// Runs a query. The error is one that may pass; what the query itself decides, such as "not found", is a result.
pub(crate) fn decided(
    run: &RunQuery,
    snapshot: &mut Snapshot<'_>,
) -> Result<Result<Output, Problem>, Problem> {
    match run(snapshot) {
        Err(problem) if problem.is_passing() => Err(problem),
        decided => Ok(decided),
    }
}

/// Runs a mutation and returns its answer as JSON.
pub(crate) type RunMutation = Box<dyn Fn(&mut Tx<'_>, &Given) -> Result<String, Problem> + Send + Sync>;

/// A query's answer as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) text: String,
    /// The rows of a list with a row key.
    pub(crate) rows: Option<Rows>,
}

/// The rows of a list, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    /// The field that identifies a row.
    pub(crate) by: &'static str,
    pub(crate) all: Vec<Row>,
}

/// A row of a list, as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) text: String,
}

type Bind<T> = Box<dyn Fn(Value, &Caller) -> Result<T, Problem> + Send + Sync>;

/// A registered query.
pub(crate) struct QueryEntry {
    pub(crate) name: &'static str,
    pub(crate) is_point: bool,
    pub(crate) refresh: Option<Duration>,
    pub(crate) bind: Bind<BoundQuery>,
    /// Made when it is asked for: the schema of a type that contains itself needs an attribute, and serving does not.
    pub(crate) described: fn() -> Described,
}

/// A registered mutation.
pub(crate) struct MutationEntry {
    pub(crate) name: &'static str,
    pub(crate) is_batched: bool,
    pub(crate) bind: Bind<RunMutation>,
    /// Made when it is asked for: the schema of a type that contains itself needs an attribute, and serving does not.
    pub(crate) described: fn() -> Described,
}

impl QueryEntry {
    pub(crate) fn of<Q: Query>() -> QueryEntry {
        let bind = |args: Value, caller: &Caller| {
            let (query, claims, text) = guarded(Q::NAME, || {
                // Before the arguments: a caller without the right must learn nothing about them.
                let claims = Q::Claims::of(caller)?;
                let query: Q = parse(&args, Q::validate)?;
                let text = text(&claims)?;
                Ok((query, claims, text))
            })?;
            let run: RunQuery = Arc::new(move |snapshot: &mut Snapshot<'_>| {
                let value = query.run(snapshot, &claims)?;
                match Q::ROW_KEY {
                    None => Ok(Output { text: self::text(&value)?, rows: None }),
                    Some(key) => rows(Q::NAME, key, &value),
                }
            });
            Ok(BoundQuery { claims: text, run })
        };
        QueryEntry {
            name: Q::NAME,
            is_point: Q::POINT,
            refresh: Q::REFRESH,
            bind: Box::new(bind),
            described: describe::<Q, Q::Value, Q::Claims>,
        }
    }
}

impl MutationEntry {
    pub(crate) fn of<M: Mutation>() -> MutationEntry {
        let bind = |args: Value, caller: &Caller| {
            let (mutation, claims) = guarded(M::NAME, || {
                let claims = M::Claims::of(caller)?;
                let mutation: M = parse(&args, M::validate)?;
                Ok((mutation, claims))
            })?;
            let run: RunMutation =
                Box::new(move |tx: &mut Tx<'_>, given: &Given| text(&mutation.run(tx, &claims, given)?));
            Ok(run)
        };
        MutationEntry {
            name: M::NAME,
            is_batched: M::BATCHED,
            bind: Box::new(bind),
            described: describe::<M, M::Value, M::Claims>,
        }
    }
}

/// Runs code of the app that is not run by the store, which catches panics itself.
fn guarded<T>(name: &str, code: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    web::panics::caught(code).unwrap_or_else(|_| {
        tracing::error!(
            name,
            "the arguments or the claims of a call could not be read, because the app panicked"
        );
        Err(Problem::internal())
    })
}

/// Reads arguments. The error names every wrong one. One that the query does not have is wrong too: it is mistyped, and with any
/// number of other names each would make a live query of its own.
fn parse<T: DeserializeOwned>(
    args: &Value,
    validate: impl FnOnce(&T) -> Result<(), Problem>,
) -> Result<T, Problem> {
    if !args.is_object() {
        return Err(Problem::invalid("", "The arguments must be a JSON object."));
    }
    let mut refusal = None;
    let rules = |value: &T, errors: &mut FieldErrors| {
        let Err(problem) = validate(value) else { return };
        if errors.is_empty() {
            // All that is wrong is what the app says, which it says best itself.
            refusal = Some(problem);
            return;
        }
        for error in &problem.errors {
            errors.note(error.code, error.field.clone(), &error.detail);
        }
    };
    let read = read_arguments(args, rules);
    match refusal {
        Some(problem) => Err(problem),
        None => read.map_err(Problem::from),
    }
}

fn text<T: Serialize>(value: &T) -> Result<String, Problem> {
    serde_json::to_string(value).map_err(|error| {
        tracing::error!(%error, "an answer cannot be written as JSON");
        Problem::internal()
    })
}

/// The answer of a list, with its rows.
fn rows<T: Serialize>(query: &str, by: &'static str, value: &T) -> Result<Output, Problem> {
    let value = serde_json::to_value(value).map_err(Problem::defect)?;
    let row = |item: &Value| {
        let key = match item.get(by)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(Row { key, text: item.to_string() })
    };
    let all: Option<Vec<Row>> = value.as_array().and_then(|items| items.iter().map(row).collect());
    let Some(all) = all else {
        tracing::error!(query, by, "the answer is not an array of objects with the row key");
        return Err(Problem::internal());
    };
    Ok(Output { text: value.to_string(), rows: Some(Rows { by, all }) })
}
