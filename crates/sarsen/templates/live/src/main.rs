//! My product: a back end whose answers stay up to date, and its page.
//!
//! - `notes.rs`: a live query and a mutation. `export.rs`: what needs a plan. `settings.rs`: what comes from the environment.
//! - `page/`: the page, whose files become a part of the program.

mod export;
mod notes;
mod settings;

use axum::Router;
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use live::auth::Sarsen;
use live::{App, Context, Error, Problem, Program};
use serde_json::json;
use settings::{SERVICE, Settings};
use std::sync::Arc;
use store::Migration;

static MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "notes",
    text: include_str!("notes.sql"),
}];

const STYLE: &str = include_str!("../page/site.css");
const SCRIPT: &str = include_str!("../page/main.js");
/// It signs users in. npm has put it there.
const LIBRARY: &str =
    include_str!("../node_modules/oidc-client-ts/dist/browser/oidc-client-ts.min.js");

#[tokio::main]
async fn main() -> Result<(), Error> {
    let routes = Router::new()
        .route("/", get(page))
        .route("/settings.json", get(settings_of_page))
        .route("/export", post(export::export))
        .route("/site.css", file("text/css", STYLE))
        .route("/main.js", file("text/javascript", SCRIPT))
        .route("/oidc-client-ts.js", file("text/javascript", LIBRARY));
    let app = App::new()
        .query::<notes::ListNotes>()
        .mutation::<notes::WriteNote>()
        .migrations(MIGRATIONS)
        .watched(&["notes"])
        .routes(routes);
    let program = Program::new("my-product", "My product.", "127.0.0.1:3000")
        .version(env!("CARGO_PKG_VERSION"));
    let complete = |app: App| {
        let settings = Settings::of_environment()?;
        // Verifies the tokens of users, and follows which sessions end.
        let sarsen = Sarsen::new(&settings.issuer, SERVICE, &settings.api_key)?;
        Ok(app.with(Arc::new(settings)).authenticate(Arc::new(sarsen)))
    };
    program.run_with(app, complete).await
}

/// A file of the page.
fn file(kind: &'static str, text: &'static str) -> MethodRouter<Context> {
    let headers = [(CONTENT_TYPE, kind), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    get(move || async move { (headers, text) })
}

/// The page may run our scripts only, and ask us and Sarsen only.
async fn page(State(context): State<Context>) -> Result<Response, Problem> {
    let settings = context.state::<Settings>().ok_or_else(Problem::internal)?;
    let policy = format!(
        "default-src 'none'; connect-src 'self' {}; img-src data:; script-src 'self'; style-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        settings.issuer
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_SECURITY_POLICY, policy),
        (REFERRER_POLICY, "no-referrer".to_owned()),
    ];
    Ok((headers, include_str!("../page/index.html")).into_response())
}

/// What the page must know of Sarsen. None of it is secret.
async fn settings_of_page(State(context): State<Context>) -> Result<Response, Problem> {
    let settings = context.state::<Settings>().ok_or_else(Problem::internal)?;
    let text = json!({ "issuer": settings.issuer, "client_id": settings.client_id }).to_string();
    Ok((
        [
            (CONTENT_TYPE, "application/json"),
            (CACHE_CONTROL, "no-store"),
        ],
        text,
    )
        .into_response())
}
