//! An app: queries, mutations, routes, tasks, and how callers are recognised.

use crate::background::effects::EffectEntry;
use crate::background::repeated::{Every, LOOK, When};
use crate::background::tasks::TaskEntry;
use crate::background::{Effect, State};
use crate::caller::Authenticate;
use crate::context::Context;
use crate::query::{MutationEntry, QueryEntry};
use crate::{Mutation, Problem, Query, Task, once, openapi, typescript};
use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn;
use http::StatusCode;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Log, Migration};

/// The length of the name of a query or a mutation.
const NAME_MAX: usize = 100;
/// What the names of queries begin with that every app has.
const RESERVED: &str = "live.";

/// Gives a router its handler of paths that have no route.
pub(crate) type Fallback = Box<dyn FnOnce(Router<Context>) -> Router<Context> + Send>;

/// A back end in the making.
#[derive(Default)]
#[must_use = "an app does nothing until it is served"]
pub struct App {
    pub(crate) registry: Registry,
    pub(crate) routes: Router<Context>,
    pub(crate) fallback: Option<Fallback>,
    pub(crate) problem_page: Option<fn(&Problem) -> String>,
    pub(crate) migrations: &'static [Migration],
    pub(crate) watched: &'static [&'static str],
    pub(crate) every: Vec<ForContext>,
    pub(crate) effects: Vec<EffectEntry>,
    /// A name that two queries or mutations have, or two tasks, or two kinds of repeated work.
    pub(crate) duplicate: Option<&'static str>,
    /// A name that no query and no mutation may have.
    pub(crate) wrong_name: Option<&'static str>,
}

/// What an app answers, by name.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) queries: BTreeMap<&'static str, QueryEntry>,
    pub(crate) mutations: BTreeMap<&'static str, MutationEntry>,
    pub(crate) tasks: BTreeMap<&'static str, TaskEntry>,
    pub(crate) authenticator: Option<Arc<dyn Authenticate>>,
    pub(crate) state: State,
}

/// Repeated work, once there is a [`Context`] for it.
pub(crate) struct ForContext {
    pub(crate) name: &'static str,
    pub(crate) of: Box<dyn FnOnce(Context) -> Every + Send>,
}

impl Registry {
    pub(crate) fn query(&self, name: &str) -> Result<&QueryEntry, Problem> {
        self.queries.get(name).ok_or_else(|| {
            let detail = match self.mutations.contains_key(name) {
                true => format!("{name:?} is a mutation. Only queries can be subscribed to."),
                false => format!("There is no query {name:?}."),
            };
            Problem::new(StatusCode::NOT_FOUND, "unknown_query", detail)
        })
    }
}

impl App {
    /// An app without anything.
    pub fn new() -> App {
        App::default()
    }

    /// Notes the name of a query or a mutation: both are called at the same path.
    fn note_call(&mut self, name: &'static str) {
        if self.registry.queries.contains_key(name) || self.registry.mutations.contains_key(name) {
            self.duplicate.get_or_insert(name);
        }
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        let is_good = (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_letter);
        if !is_good || name.starts_with('.') || name.starts_with(RESERVED) {
            self.wrong_name.get_or_insert(name);
        }
    }

    /// Adds a query.
    pub fn query<Q: Query>(mut self) -> App {
        self.note_call(Q::NAME);
        self.registry.queries.insert(Q::NAME, QueryEntry::of::<Q>());
        self
    }

    /// Adds a mutation.
    pub fn mutation<M: Mutation>(mut self) -> App {
        self.note_call(M::NAME);
        self.registry.mutations.insert(M::NAME, MutationEntry::of::<M>());
        self
    }

    /// Adds work that [`crate::later`] may plan.
    pub fn task<T: Task>(mut self) -> App {
        if self.registry.tasks.insert(T::NAME, TaskEntry::of::<T>()).is_some() {
            self.duplicate.get_or_insert(T::NAME);
        }
        self
    }

    /// Adds an effect outside of the database that [`crate::queue`] may queue.
    pub fn effect<E: Effect>(mut self) -> App {
        self.effects.push(EffectEntry::of::<E>());
        self
    }

    /// Does work again and again, on one instance at a time. The next turn begins `interval` after the last began; one
    /// that fails is repeated earlier. A turn that a crash or a stop interrupts begins again within a minute, so the work may
    /// happen more than once.
    pub fn every<F, W>(self, name: &'static str, interval: Duration, work: F) -> App
    where
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Problem>> + Send + 'static,
    {
        self.repeated(name, When::Passed(interval), work)
    }

    /// Does work when a log may have new entries, on one instance at a time, and now and then without: it reads what is behind
    /// its place ([`Snapshot::log_page`](store::Snapshot::log_page)) until there is no more. What is appended while it works
    /// begins another turn. After an error, and after a crash or a stop, it begins again as with [`App::every`].
    pub fn on_log<F, W>(self, log: &'static Log, name: &'static str, work: F) -> App
    where
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Problem>> + Send + 'static,
    {
        self.repeated(name, When::Appended(log), work)
    }

    fn repeated<F, W>(mut self, name: &'static str, when: When, work: F) -> App
    where
        F: Fn(Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), Problem>> + Send + 'static,
    {
        if self.every.iter().any(|known| known.name == name) {
            self.duplicate.get_or_insert(name);
        }
        let of =
            Box::new(move |context: Context| Every::new(name, when, LOOK, move || work(context.clone())));
        self.every.push(ForContext { name, of });
        self
    }

    /// Adds plain HTTP routes. Their handlers get the [`Context`] as axum's `State`, and return a [`Problem`] as error. A fallback of
    /// the router is not used: see [`App::fallback`].
    ///
    /// A request that changes something and has an `Idempotency-Key` is refused here: see [`App::keyed_routes`].
    pub fn routes(mut self, routes: Router<Context>) -> App {
        self.routes = self.routes.merge(routes.layer(from_fn(once::refuse_keys)));
        self
    }

    /// Adds plain HTTP routes that take an `Idempotency-Key`. Each handler of a method that changes something takes
    /// [`crate::extract::Once`] and writes with it.
    pub fn keyed_routes(mut self, routes: Router<Context>) -> App {
        self.routes = self.routes.merge(routes.layer(from_fn(once::expect_keys)));
        self
    }

    /// Answers paths that have no route, such as those of an application of one page, instead of `unknown_path` (404).
    pub fn fallback<H, T>(self, handler: H) -> App
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        App { fallback: Some(Box::new(move |routes| routes.fallback(handler))), ..self }
    }

    /// What a browser gets for a [`Problem`] of a plain route: a page, as HTML. Other clients get the document.
    pub fn problem_page(self, page: fn(&Problem) -> String) -> App {
        App { problem_page: Some(page), ..self }
    }

    /// The schema: numbered migrations, one text for all databases.
    pub fn migrations(self, migrations: &'static [Migration]) -> App {
        App { migrations, ..self }
    }

    /// The tables that queries depend on. With [`crate::Settings::check`] a command that changes one of them, and a live query
    /// that reads one, fails if it does not declare that. Tables that are not named are not looked at.
    pub fn watched(self, tables: &'static [&'static str]) -> App {
        App { watched: tables, ..self }
    }

    /// How callers are recognised. Without it every caller is anonymous.
    pub fn authenticate(mut self, authenticator: Arc<dyn Authenticate>) -> App {
        self.registry.authenticator = Some(authenticator);
        self
    }

    /// Keeps a value that mutations ([`Given::state`]) and routes ([`Context::state`]) can read.
    pub fn with<T: Any + Send + Sync>(mut self, value: Arc<T>) -> App {
        let mut state = (*self.registry.state).clone();
        state.insert(TypeId::of::<T>(), value);
        self.registry.state = Arc::new(state);
        self
    }

    /// TypeScript types of all queries and mutations, for `@sarsen/client`. Fails if two types have one name.
    pub fn typescript(&self) -> Result<String, crate::auth::Misconfigured> {
        typescript::types(&self.registry)
    }

    /// OpenAPI 3.1 of all queries and mutations, as JSON: for clients in other languages. Fails if two types have one name.
    pub fn openapi(&self, title: &str, version: &str) -> Result<String, crate::auth::Misconfigured> {
        let document = openapi::document(&self.registry, title, version)?;
        Ok(format!("{document:#}\n"))
    }
}
