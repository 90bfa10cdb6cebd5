//! What the types of a handler say about its operation: who may call it, what it takes, what it answers with and how it
//! may fail. A handler cannot be described otherwise than it is.
//!
//! A new extractor needs an implementation of [`Describe`] here.

use super::operation::Operation;
use crate::app::App;
use crate::web::administration::{
    self, Admin, AdminOrProgram, Administrator, Owner, OwnerOfDeleted, OwnerOrSelf, PlatformOwner,
    PlatformUser,
};
use crate::web::auth::{Address, ServiceUser};
use crate::web::error::Problem;
use crate::web::json::{Body, Created, Json, Page, Params};
use crate::web::path::Path;
use crate::web::service_key::ServiceKey;
use api::callers::Caller;
use axum::extract::{Request, State};
use axum::response::Response;
use endpoint::idempotency::Outcome;
use http::StatusCode;
use identity::programs::Need;
use utoipa::{IntoParams, ToSchema};

/// An argument or the answer of a handler.
#[diagnostic::on_unimplemented(
    message = "the description of the API does not know `{Self}`",
    note = "implement `Describe` for it in server/src/openapi/describe.rs"
)]
pub(crate) trait Describe {
    /// Adds what it knows.
    fn describe(operation: &mut Operation);
}

/// A handler with these arguments.
pub(crate) trait Described<Arguments> {
    /// Adds what its types know.
    fn describe(operation: &mut Operation);
}

impl<H, F> Described<()> for H
where
    H: Fn() -> F,
    F: Future<Output: Describe>,
{
    fn describe(operation: &mut Operation) {
        F::Output::describe(operation);
    }
}

impl<H, F, A> Described<(A,)> for H
where
    H: Fn(A) -> F,
    F: Future<Output: Describe>,
    A: Describe,
{
    fn describe(operation: &mut Operation) {
        A::describe(operation);
        F::Output::describe(operation);
    }
}

impl<H, F, A, B> Described<(A, B)> for H
where
    H: Fn(A, B) -> F,
    F: Future<Output: Describe>,
    A: Describe,
    B: Describe,
{
    fn describe(operation: &mut Operation) {
        A::describe(operation);
        B::describe(operation);
        F::Output::describe(operation);
    }
}

impl<H, F, A, B, C> Described<(A, B, C)> for H
where
    H: Fn(A, B, C) -> F,
    F: Future<Output: Describe>,
    A: Describe,
    B: Describe,
    C: Describe,
{
    fn describe(operation: &mut Operation) {
        A::describe(operation);
        B::describe(operation);
        C::describe(operation);
        F::Output::describe(operation);
    }
}

impl<H, F, A, B, C, D> Described<(A, B, C, D)> for H
where
    H: Fn(A, B, C, D) -> F,
    F: Future<Output: Describe>,
    A: Describe,
    B: Describe,
    C: Describe,
    D: Describe,
{
    fn describe(operation: &mut Operation) {
        A::describe(operation);
        B::describe(operation);
        C::describe(operation);
        D::describe(operation);
        F::Output::describe(operation);
    }
}

// Answers.

impl<T: Describe> Describe for Result<T, Problem> {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

/// A repeated answer is as the first one was.
impl<T: Describe> Describe for Outcome<T> {
    fn describe(operation: &mut Operation) {
        T::describe(operation);
    }
}

impl<T: ToSchema> Describe for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.answers::<T>(200);
    }
}

impl<T: ToSchema> Describe for Created<T> {
    fn describe(operation: &mut Operation) {
        operation.answers::<T>(201);
    }
}

/// Handlers answer with a bare status when there is nothing to say.
impl Describe for StatusCode {
    fn describe(operation: &mut Operation) {
        operation.answers_nothing();
    }
}

/// An answer that is written already. The table says what it is (`answers`).
impl Describe for Response {
    fn describe(_: &mut Operation) {}
}

// Bodies and addresses.

impl<T: ToSchema> Describe for Body<T> {
    fn describe(operation: &mut Operation) {
        operation.body::<T>();
    }
}

/// The route has the names of its parameters.
impl<T> Describe for Path<T> {
    fn describe(_: &mut Operation) {}
}

/// The state of the server.
impl Describe for State<App> {
    fn describe(_: &mut Operation) {}
}

/// The address of the client.
impl Describe for Address {
    fn describe(_: &mut Operation) {}
}

/// A body of another program's making, which its entry describes.
impl Describe for Request {
    fn describe(operation: &mut Operation) {
        operation.fails(&["body_broken", "body_timeout", "body_too_large"]);
    }
}

impl<C> Describe for Page<C> {
    fn describe(operation: &mut Operation) {
        operation.pages();
    }
}

impl<T: IntoParams> Describe for Params<T> {
    fn describe(operation: &mut Operation) {
        operation.query::<T>();
    }
}

// Callers.

impl Describe for Administrator {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::Administrator);
    }
}

impl Describe for Admin {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::Admin);
    }
}

impl Describe for AdminOrProgram {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::Admin);
    }
}

impl Describe for Owner {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::Owner);
    }
}

impl Describe for OwnerOfDeleted {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::OwnerOfDeleted);
    }
}

impl Describe for OwnerOrSelf {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::OwnerOrSelf);
    }
}

/// What a kind of caller says about an operation.
pub(super) fn caller(operation: &mut Operation, caller: Caller) {
    match caller {
        Caller::Administrator => {
            operation.text("For administrators of the organization.");
            in_organization(operation, Some(Need::Read));
        }
        Caller::Admin => {
            operation.text("For admins and owners of the organization.").keyed();
            in_organization(operation, Some(Need::Write));
            operation.fails(&["forbidden", "organization_not_active"]);
        }
        Caller::Owner => {
            operation.text("For owners of the organization.").keyed();
            in_organization(operation, None);
            operation.fails(&["forbidden", "organization_not_active"]);
        }
        Caller::OwnerOfDeleted => {
            operation.text("For owners of the organization.").keyed();
            in_organization(operation, None);
            operation.fails(&["forbidden"]);
        }
        Caller::OwnerOrSelf => {
            operation.text("For owners of the organization, and for the user in the path.").keyed();
            in_organization(operation, None);
            operation.fails(&["forbidden", "organization_not_active"]);
        }
        Caller::PlatformUser => {
            operation.text("For users of the organization `platform`.").access_token(["platform"]);
            if !operation.reads() {
                operation.keyed();
            }
        }
        Caller::PlatformOwner => {
            operation.text("For owners of the server.").access_token(["platform"]).fails(&["forbidden"]);
            if !operation.reads() {
                operation.keyed();
            }
        }
    }
}

/// The credentials for objects of an organization. `need` is what a program needs, if it may at all.
fn in_organization(operation: &mut Operation, need: Option<Need>) {
    operation.access_token(["org:{org}"]).fails(&["not_found"]);
    match need.and_then(|need| administration::program_scopes(operation.path(), need)) {
        Some(scopes) if scopes.is_empty() => operation.api_key(scopes),
        Some(scopes) => operation.access_token(scopes.clone()).api_key(scopes),
        None => operation.fails(&["forbidden"]),
    };
}

impl Describe for PlatformUser {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::PlatformUser);
    }
}

impl Describe for PlatformOwner {
    fn describe(operation: &mut Operation) {
        caller(operation, Caller::PlatformOwner);
    }
}

impl Describe for ServiceUser {
    fn describe(operation: &mut Operation) {
        operation.text("For a service with the access token of one of its users.").access_token([""; 0]);
        operation.fails(&["not_found"]);
    }
}

/// The table says which scope the handler requires.
impl Describe for ServiceKey {
    fn describe(operation: &mut Operation) {
        operation.text("For the back end of a service, with an API key of that service.");
    }
}
