//! The same as HTML: a list, and a request with its forms. They work without JavaScript.

use crate::requests::Logged;
use axum::response::Html;
use maud::{Markup, PreEscaped, html};

fn page(title: &str, content: Markup) -> Html<String> {
    let head = PreEscaped(include_str!("../page/head.html"));
    Html(html! { (head) title { (title) } h1 { (title) } (content) }.into_string())
}

/// A page of the list.
pub fn list(requests: &[Logged], next: Option<&str>) -> Html<String> {
    let rows = html! {
        @for request in requests {
            tr { td { a href={ "/requests/" (request.uid) } { (time(request)) } } td { (request.ip) }
                 td { (request.method) } td { (request.url) } }
        }
    };
    page(
        "Requests",
        html! {
            form method="post" action="/requests" { label { "Note" input name="note"; } button { "Log a request" } }
            table { tr { th { "Time" } th { "Address" } th { "Method" } th { "URL" } } (rows) }
            @if requests.is_empty() { p { "No requests." } }
            @if let Some(next) = next { p { a rel="next" href={ "/requests?before=" (next) } { "Older requests" } } }
        },
    )
}

/// A request with the forms that change and delete it, and what was wrong with the form that was sent.
pub fn show(request: &Logged, error: Option<&str>) -> Html<String> {
    let address = format!("/requests/{}", request.uid);
    let Logged { ip, method, url, .. } = request;
    let fields = [("Address", "ip", ip), ("Method", "method", method), ("URL", "url", url)];
    page(
        "Request",
        html! {
            p { code { (request.uid) } " at " (time(request)) }
            @if let Some(error) = error { p.error role="alert" { (error) } }
            form method="post" action=(address) {
                @for (label, name, value) in fields { label { (label) input name=(name) value=(value) required; } }
                label { "Parameters (a JSON object)" textarea name="parameters" rows="6" { (request.parameters) } }
                button { "Save" }
            }
            form method="post" action={ (address) "/delete" } { button { "Delete this request" } }
            p { a href="/requests" { "All requests" } }
        },
    )
}

fn time(request: &Logged) -> String {
    jiff::Timestamp::from_millisecond(request.logged_at).unwrap_or_default().to_string()
}
