//! The same as HTML: a list, and a request with its forms. They work without JavaScript.

use crate::requests::Logged;
use axum::response::Html;
use live::Problem;
use maud::{Markup, PreEscaped, html};
use serde_json::{Map, Value};

fn page(title: &str, content: Markup) -> Html<String> {
    let head = PreEscaped(include_str!("../page/head.html"));
    Html(html! { (head) title { (title) } h1 { (title) } (content) }.into_string())
}

/// A page of the list.
pub fn list(requests: &[Logged], next: Option<&str>) -> Html<String> {
    let content = html! {
        form method="post" action="/requests" { label { "Note" input name="note"; } button { "Log a request" } }
        table {
            tr { th { "Time" } th { "Address" } th { "Method" } th { "URL" } }
            @for request in requests {
                tr { td { a href={ "/requests/" (request.uid) } { (time(request)) } } td { (request.ip) }
                     td { (request.method) } td.url { (request.url) } }
            }
        }
        @if requests.is_empty() { p { "No requests." } }
        @if let Some(next) = next { p { a rel="next" href={ "/requests?before=" (next) } { "Older requests" } } }
    };
    page("Requests", content)
}

/// A request with the forms that change and delete it. After a refused form: what was sent, and what was wrong with it.
pub fn show(request: &Logged, sent: &Map<String, Value>, error: Option<&str>) -> Html<String> {
    let address = format!("/requests/{}", request.uid);
    let Logged { ip, method, url, parameters, .. } = request;
    let fields = [("Address", "ip", ip), ("Method", "method", method), ("URL", "url", url)];
    let value = |name, own| sent.get(name).and_then(Value::as_str).unwrap_or(own);
    let content = html! {
        p { code { (request.uid) } " at " (time(request)) }
        @if let Some(error) = error { p.error role="alert" { (error) } }
        form method="post" action=(address) {
            @for (label, name, own) in fields { label { (label) input name=(name) value=(value(name, own)) required; } }
            label { "Parameters (a JSON object)" textarea name="parameters" rows="6" { (value("parameters", parameters)) } }
            button { "Save" }
        }
        details {
            summary { "Delete this request" }
            form method="post" action={ (address) "/delete" } { p { "It is gone then. " button { "Delete" } } }
        }
        p { a href="/requests" { "All requests" } }
    };
    page("Request", content)
}

/// What went wrong.
pub fn problem(problem: &Problem) -> String {
    let all = html! { p { a href="/requests" { "All requests" } } };
    page("This did not work", html! { p.error role="alert" { (problem.detail) } (all) }).0
}

fn time(request: &Logged) -> String {
    let time = jiff::Timestamp::from_millisecond(request.logged_at).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}
