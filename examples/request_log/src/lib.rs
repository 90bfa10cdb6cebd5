//! Stores each request that it gets: the routes of the example. `requests.rs` owns the table, `pages.rs` draws HTML.

mod pages;
pub mod requests;

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use live::extract::{Fields, Json, OwnSite, Path, Query, negotiated, prefers_html, url_of};
use live::{App, ClientAddress, Context, Problem};
use requests::{Before, Logged};
use serde_json::{Map, Value, json};
use store::Migration;

type Answer = Result<Response, Problem>;

/// The tables.
pub static MIGRATIONS: &[Migration] =
    &[Migration { number: 1, name: "requests", text: include_str!("../migrations/0001_requests.sql") }];

/// The back end.
pub fn app() -> App {
    let request = get(show).patch(change).put(change).post(change).delete(delete);
    let routes = Router::new()
        .route("/", get(|| async { Redirect::to("/requests") }))
        .route("/requests", get(list).post(create))
        .route("/requests/{uid}", request)
        .route("/requests/{uid}/delete", post(delete));
    App::new().migrations(MIGRATIONS).routes(routes).problem_page(pages::problem)
}

async fn create(
    State(context): State<Context>,
    Extension(ClientAddress(ip)): Extension<ClientAddress>,
    (method, uri, headers): (Method, Uri, HeaderMap),
    Fields(fields): Fields,
) -> Answer {
    let new = Logged {
        uid: context.given().id("request"),
        ip: ip.to_canonical().to_string(),
        method: method.to_string(),
        url: url_of(&uri, &headers),
        parameters: Value::Object(fields).to_string(),
        logged_at: context.now().millis(),
    };
    let (row, address) = (new.clone(), format!("/requests/{}", new.uid));
    context.store().write_batched("request.log", move |tx| requests::create(tx, &row)).await?;
    Ok(done(&headers, &address, (StatusCode::CREATED, [(LOCATION, &address)], Json(new))))
}

async fn list(State(context): State<Context>, Query(asked): Query<Before>, headers: HeaderMap) -> Answer {
    let (found, next) = context.store().list(move |snapshot| requests::page(snapshot, &asked)).await?;
    let page = pages::list(&found, next.as_deref());
    Ok(negotiated(&headers, page, json!({ "items": found, "next": next })))
}

async fn show(State(context): State<Context>, Path(uid): Path<String>, headers: HeaderMap) -> Answer {
    let found = context.store().point(move |snapshot| requests::find(snapshot, &uid)).await?;
    Ok(negotiated(&headers, pages::show(&found, &Map::new(), None), &found))
}

/// From JSON or from the form of the page. A wrong field of the form shows the page again.
async fn change(
    State(context): State<Context>,
    Path(uid): Path<String>,
    headers: HeaderMap,
    Fields(mut fields): Fields,
) -> Answer {
    let (id, sent) = (uid.clone(), fields.clone());
    // A form has the parameters as text.
    let parsed = fields.get("parameters").and_then(|text| serde_json::from_str(text.as_str()?).ok());
    fields.extend(parsed.map(|parameters| ("parameters".to_owned(), parameters)));
    let changed = context.store().write("request.change", move |tx| requests::change(tx, &id, &fields)).await;
    let found = context.store().point(move |snapshot| requests::find(snapshot, &uid)).await?;
    if let Some(problem) = changed.as_ref().err().filter(|_| prefers_html(&headers)) {
        return Ok((problem.status, pages::show(&found, &sent, Some(&problem.detail))).into_response());
    }
    changed.map(|()| done(&headers, &format!("/requests/{}", found.uid), Json(&found)))
}

async fn delete(State(context): State<Context>, Path(uid): Path<String>, by: (OwnSite, HeaderMap)) -> Answer {
    context.store().write("request.delete", move |tx| requests::delete(tx, &uid)).await?;
    Ok(done(&by.1, "/requests", StatusCode::NO_CONTENT))
}

/// The answer to a change: for a browser the page to show next.
fn done(headers: &HeaderMap, next: &str, answer: impl IntoResponse) -> Response {
    if prefers_html(headers) { Redirect::to(next).into_response() } else { answer.into_response() }
}
