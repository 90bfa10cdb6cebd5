//! Counters that users share: five functions, four of them behind a JWT, and a page on which they move live.

mod counters;
mod users;

use axum::Router;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::routing::get;
use live::auth::LocalIssuer;
use live::{App, Context, Problem};
use std::sync::Arc;
use store::Migration;

static MIGRATIONS: &[Migration] =
    &[Migration { number: 1, name: "counters", text: include_str!("../migrations/0001_counters.sql") }];

/// The back end without its issuer: nobody has a token, and nobody can register.
pub fn app() -> App {
    App::new()
        .query::<counters::GetCounter>()
        .query::<counters::ListCounters>()
        .mutation::<counters::CreateCounter>()
        .mutation::<counters::Increment>()
        .mutation::<users::Register>()
        .routes(page())
        .migrations(MIGRATIONS)
        .watched(&["counters"])
}

/// The back end, with the issuer that signs the tokens of its users.
pub fn with_issuer(app: App, issuer: LocalIssuer) -> App {
    let issuer = Arc::new(issuer);
    app.with(issuer.clone()).authenticate(issuer)
}

/// The page: its files are part of the program.
fn page() -> Router<Context> {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let file = |kind, text: &'static str| {
        get(move || async move { ([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY)], text) })
    };
    let client = include_str!("../../../sdk/typescript/dist/sarsen-client.js");
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("../page/index.html")))
        .route("/page/counters.css", file("text/css", include_str!("../page/counters.css")))
        .route("/page/counters.js", file("text/javascript", include_str!("../page/counters.js")))
        .route("/page/sarsen-client.js", file("text/javascript", client))
}

/// A name of a user or a counter.
fn check_name(name: &str) -> Result<(), Problem> {
    let letters = name.chars().count();
    match (1..=64).contains(&letters) && !name.contains(char::is_control) && name.trim() == name {
        true => Ok(()),
        false => {
            Err(Problem::invalid("name", "`name` must have 1 to 64 characters, without spaces around it."))
        }
    }
}
