//! Handlers of the operations of the crate `api`. A handler whose caller, query, body or answer is not that of its operation does
//! not compile, nor does one that leaves out the caller or the body.

use crate::app::App;
use crate::web::administration::{
    Admin, AdminOrProgram, Administrator, Owner, OwnerOfDeleted, OwnerOrSelf, PlatformOwner, PlatformUser,
};
use crate::web::error::Problem;
use crate::web::json::{Body, Created, Json, Page, Params};
use crate::web::path::Path;
use api::{Answer, Operation, Pages, TABLES, callers};
use axum::handler::Handler;
use endpoint::idempotency::Outcome;
use endpoint::routes::{self, Routes};
use http::{Method, StatusCode};

/// Routes by operations.
pub(crate) trait Serve {
    /// Adds the handler of an operation.
    fn serve<O, H, A, T>(self, operation: O, handler: H) -> Self
    where
        O: Operation,
        H: Handles<O, A> + Handler<T, App, Future = routes::Answer>,
        T: 'static;

    /// Panics if an operation has no handler, and names it: this is a defect of the program, and appears at its start.
    fn complete(self) -> Self;
}

impl Serve for Routes<App> {
    fn serve<O, H, A, T>(self, _: O, handler: H) -> Self
    where
        O: Operation,
        H: Handles<O, A> + Handler<T, App, Future = routes::Answer>,
        T: 'static,
    {
        self.on(method(O::METHOD), O::PATH, handler)
    }

    fn complete(self) -> Self {
        let missing = missing(self.listed());
        assert!(missing.is_empty(), "operations without a handler: {}", missing.join(", "));
        self
    }
}

/// The ids of the operations that are not among these routes.
fn missing(listed: &[(Method, &str)]) -> Vec<&'static str> {
    let all = TABLES.iter().flat_map(|table| table.entries);
    let is_missing = |entry: &&api::Entry| {
        !listed.iter().any(|(known, path)| *known == method(entry.method) && *path == entry.path)
    };
    all.filter(is_missing).map(|entry| entry.id).collect()
}

fn method(method: api::Method) -> Method {
    match method {
        api::Method::Get => Method::GET,
        api::Method::Post => Method::POST,
        api::Method::Put => Method::PUT,
        api::Method::Patch => Method::PATCH,
        api::Method::Delete => Method::DELETE,
    }
}

/// A handler with these arguments for the operation `O`: the caller comes first, the body last.
#[diagnostic::on_unimplemented(
    message = "this is no handler of `{O}`: another caller, query, body or answer"
)]
pub(crate) trait Handles<O, Arguments> {}

impl<O, H, F, A> Handles<O, (A,)> for H
where
    H: Fn(A) -> F,
    F: Future<Output: AnswerOf<O>>,
    A: CallerOf<O> + LastOf<O>,
{
}

impl<O, H, F, A, B> Handles<O, (A, B)> for H
where
    H: Fn(A, B) -> F,
    F: Future<Output: AnswerOf<O>>,
    A: CallerOf<O>,
    B: LastOf<O>,
{
}

impl<O, H, F, A, B, C> Handles<O, (A, B, C)> for H
where
    H: Fn(A, B, C) -> F,
    F: Future<Output: AnswerOf<O>>,
    A: CallerOf<O>,
    B: ArgumentOf<O>,
    C: LastOf<O>,
{
}

/// The extractor of the operation's caller.
#[diagnostic::on_unimplemented(message = "`{Self}` is not the caller of `{O}`")]
pub(crate) trait CallerOf<O> {}

macro_rules! callers {
    ($($extractor:ident = $caller:ident)*) => { $(
        impl<O: Operation<By = callers::$caller>> CallerOf<O> for $extractor {}
        impl<O: Operation<Asks = (), Takes = ()>> LastOf<O> for $extractor {}
    )* };
}

callers! {
    Administrator = Administrator
    Admin = Admin
    AdminOrProgram = Admin
    Owner = Owner
    OwnerOfDeleted = OwnerOfDeleted
    OwnerOrSelf = OwnerOrSelf
    PlatformUser = PlatformUser
    PlatformOwner = PlatformOwner
}

/// An argument that the operation has.
#[diagnostic::on_unimplemented(message = "`{Self}` is no argument of `{O}`")]
pub(crate) trait ArgumentOf<O> {}

impl<T, O> ArgumentOf<O> for Path<T> {}
impl<C, O: Operation<Asks = Pages>> ArgumentOf<O> for Page<C> {}
impl<T, O: Operation<Asks = T>> ArgumentOf<O> for Params<T> {}

/// The last argument: the body, the query where there is no body, or the path where there is neither.
#[diagnostic::on_unimplemented(message = "`{Self}` is not the body or the query of `{O}`")]
pub(crate) trait LastOf<O> {}

impl<T, O: Operation<Takes = T>> LastOf<O> for Body<T> {}
impl<C, O: Operation<Asks = Pages, Takes = ()>> LastOf<O> for Page<C> {}
impl<T, O: Operation<Asks = T, Takes = ()>> LastOf<O> for Params<T> {}
impl<T, O: Operation<Asks = (), Takes = ()>> LastOf<O> for Path<T> {}

/// The answer of the operation.
#[diagnostic::on_unimplemented(message = "`{Self}` is not the answer of `{O}`")]
pub(crate) trait AnswerOf<O> {}

impl<T: AnswerOf<O>, O> AnswerOf<O> for Result<T, Problem> {}
impl<T: AnswerOf<O>, O> AnswerOf<O> for Outcome<T> {}
impl<T, O: Operation<Gives = Answer<200, T>>> AnswerOf<O> for Json<T> {}
impl<T, O: Operation<Gives = Answer<201, T>>> AnswerOf<O> for Created<T> {}
impl<O: Operation<Gives = Answer<204, ()>>> AnswerOf<O> for StatusCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_without_a_handler_is_named() {
        let routes = crate::router();
        assert_eq!(missing(routes.listed()), [""; 0]);
        let is_other = |(method, path): &&(Method, &str)| {
            *method != Method::PATCH || *path != "/api/organizations/{org}/users/{user}"
        };
        let others: Vec<_> = routes.listed().iter().filter(is_other).cloned().collect();
        assert_eq!(missing(&others), ["changeUser"]);
    }
}
