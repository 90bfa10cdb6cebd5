//! Reads `GET /metrics` of the server.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::http::{Connection, RequestDraft, Target};

/// The metrics of the store: checkpoints, WAL, batches, commands, refusals.
const PREFIX: &str = "sarsen_store_";
const TIMEOUT: Duration = Duration::from_secs(5);
/// The connection number of the bench itself.
const CONNECTION_INDEX: usize = 0;

/// The samples whose names start with `sarsen_store_`, without histogram buckets.
pub fn parse_metrics(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with(PREFIX)) {
        let name_end = line.rfind('}').map_or_else(|| line.find(' '), |brace| Some(brace + 1));
        let Some((name, rest)) = name_end.map(|end| line.split_at(end)) else { continue };
        if name.split('{').next().is_some_and(|base| base.ends_with("_bucket")) {
            continue;
        }
        // After the value there may be a timestamp.
        if let Some(value) = rest.split_whitespace().next().and_then(|value| value.parse().ok()) {
            samples.insert(name.to_owned(), value);
        }
    }
    samples
}

/// Empty if the server does not answer, or does not allow it.
pub async fn scrape(target: &Target) -> BTreeMap<String, f64> {
    let request = RequestDraft::get("/metrics").encode(&target.host);
    let Ok(mut connection) = Connection::open(target, CONNECTION_INDEX, TIMEOUT).await else {
        return BTreeMap::new();
    };
    if connection.exchange(&request, TIMEOUT).await.is_err() {
        return BTreeMap::new();
    }
    match connection.response() {
        Some(response) if response.status == 200 => parse_metrics(&String::from_utf8_lossy(response.body)),
        _ => BTreeMap::new(),
    }
}
