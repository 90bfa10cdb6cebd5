//! `GET /live/explain`, for operators: which live queries there are, what each depends on, and why it ran last.

use crate::Problem;
use crate::backend::IsLocal;
use crate::context::Context;
use crate::group::{Phase, Work};
use axum::Extension;
use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

/// Only the machine itself, without a proxy in between, or who has the token of the settings.
pub(super) fn is_operator(context: &Context, local: IsLocal, headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()?.split_once(' '));
    let given =
        given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    let is_allowed = match &context.0.operator_token {
        Some(token) => given.is_some_and(|given| {
            let (given, token) =
                (crate::given::sha256(given.as_bytes()), crate::given::sha256(token.as_bytes()));
            aws_lc_rs::constant_time::verify_slices_are_equal(&given, &token).is_ok()
        }),
        None => local.0,
    };
    let how = match &context.0.operator_token {
        Some(_) => "send the operator's token: Authorization: Bearer …",
        None => "ask from the server's own machine without a proxy, or set `Settings::operator_token`",
    };
    if is_allowed {
        Ok(())
    } else {
        Err(Problem::forbidden(format!("This is for operators of the server; {how}.")))
    }
}

pub(super) async fn explain(
    State(context): State<Context>,
    Extension(local): Extension<IsLocal>,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    is_operator(&context, local, &headers)?;
    let groups = context.0.engine.groups();
    let groups: Vec<Value> = groups
        .iter()
        .filter(|group| matches!(group.work, Work::Query(..)))
        .map(|group| {
            let state = group.state.lock();
            let phase = match state.phase {
                Phase::Idle => "current",
                Phase::Queued => "queued",
                Phase::Running => "running",
            };
            json!({
                "query": group.key.query,
                "args": *group.key.args,
                "claims": *group.key.claims,
                "state": phase,
                "subscribers": state.members.len(),
                "keys": state.keys.iter().map(|key| key.as_str()).collect::<Vec<_>>(),
                "version": state.checked.map(|version| version.to_string()),
                "runs": state.runs,
                "failures": state.failures,
                "last_run_us": state.last_run.as_micros() as u64,
                "command": state.cause,
                "changed_ago_ms": state.touched.elapsed().as_millis() as u64,
            })
        })
        .collect();
    Ok(Json(json!({ "groups": groups })))
}
