//! The stylesheet and the mark. They change with the binary only.

use axum::response::IntoResponse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

const CACHED: &str = "public, max-age=3600";

pub(crate) async fn stylesheet() -> impl IntoResponse {
    let css = include_str!("../../assets/sarsen.css");
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, CACHED)], css)
}

pub(crate) async fn logo() -> impl IntoResponse {
    let svg = include_str!("../../assets/logo.svg");
    ([(CONTENT_TYPE, "image/svg+xml"), (CACHE_CONTROL, CACHED)], svg)
}
