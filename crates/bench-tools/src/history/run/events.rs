//! What a stream sends: `text/event-stream` with the events of the protocol.

use crate::history::checker::record::{Event, RowState, Version};
use browser::sse;
use serde::Deserialize;

/// An event of a stream.
#[derive(Debug)]
pub enum Received {
    /// Something for these subscriptions.
    Of(Vec<String>, Event),
    /// These subscriptions have a problem.
    Problem(Vec<String>, String),
    /// The server goes away, or is about to; or a comment.
    Other,
}

#[derive(Deserialize)]
struct ValueData {
    keys: Vec<String>,
    version: Version,
    settled: Option<Version>,
    digest: String,
    value: Vec<RowState>,
}

#[derive(Deserialize)]
struct RowsData {
    keys: Vec<String>,
    version: Version,
    settled: Option<Version>,
    by: String,
    base: Version,
    digest: String,
    set: Vec<(String, RowState)>,
    gone: Vec<String>,
    order: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct SameData {
    keys: Vec<String>,
    settled: Option<Version>,
}

#[derive(Deserialize)]
struct ErrorData {
    keys: Vec<String>,
    problem: serde_json::Value,
}

/// Reads an event.
pub fn read(event: &sse::Event<'_>) -> Result<Received, String> {
    let (id, data) = (event.id.as_deref().map(|id| Version(id.to_owned())), &*event.data);
    let read = match &*event.name {
        "value" => parsed(data).and_then(|data: ValueData| {
            same_id(id.as_ref(), &data.version)?;
            let (version, settled) = (data.version, data.settled);
            let event = Event::Value { version, settled, digest: data.digest, rows: data.value };
            Ok(Received::Of(data.keys, event))
        }),
        "rows" => parsed(data).and_then(rows),
        "same" => parsed(data)
            .map(|SameData { keys, settled }| Received::Of(keys, Event::Same { version: id, settled })),
        "error" => parsed(data).map(|data: ErrorData| Received::Problem(data.keys, data.problem.to_string())),
        "hello" | "bye" | "" => Ok(Received::Other),
        other => Err(format!("there is no event `{other}`")),
    };
    read.map_err(|error| format!("{error}: {event:?}"))
}

fn rows(data: RowsData) -> Result<Received, String> {
    if data.by != "key" {
        return Err(format!("rows are identified by `{}`, not by their key", data.by));
    }
    let number = |key: &String| key.parse::<u32>().map_err(|_| format!("{key} is not a row's key"));
    let mut set = Vec::new();
    for (key, row) in data.set {
        if number(&key)? != row.key {
            return Err(format!("row {} has the key {key}", row.key));
        }
        set.push(row);
    }
    let gone = data.gone.iter().map(number).collect::<Result<_, _>>()?;
    let order = data.order.map(|order| order.iter().map(number).collect::<Result<_, _>>()).transpose()?;
    let RowsData { keys, version, settled, base, digest, .. } = data;
    Ok(Received::Of(keys, Event::Rows { version, settled, base, digest, set, gone, order }))
}

fn same_id(id: Option<&Version>, version: &Version) -> Result<(), String> {
    match id == Some(version) {
        true => Ok(()),
        false => Err("the id of the event is not its version".to_owned()),
    }
}

fn parsed<'d, T: Deserialize<'d>>(data: &'d str) -> Result<T, String> {
    serde_json::from_str(data).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Received, String> {
        super::read(&sse::Event::parse(text))
    }

    #[test]
    fn every_event_of_the_protocol_is_read() {
        let row = r#"{"key":3,"rev":2,"id":"w0-1","value":-4,"team":1}"#;
        let value = format!(
            "event: value\nid: e.2\ndata: {{\"keys\":[\"7\"],\"version\":\"e.2\",\"digest\":\"d\",\"value\":[{row}]}}\n\n"
        );
        let Ok(Received::Of(keys, Event::Value { version, rows, .. })) = read(&value) else {
            panic!("{value}")
        };
        assert_eq!((keys, version.0.as_str(), rows[0].value), (vec!["7".to_owned()], "e.2", -4));
        assert!(read(&value.replace("id: e.2", "id: e.3")).is_err(), "two versions of one event");

        let rows = format!(
            "event: rows\nid: e.3\ndata: {{\"keys\":[\"7\"],\"version\":\"e.3\",\"base\":\"e.2\",\"by\":\"key\",\"digest\":\"d\",\
             \"set\":[[\"3\",{row}]],\"gone\":[\"5\"],\"order\":[\"3\"]}}\n\n"
        );
        let Ok(Received::Of(_, Event::Rows { set, gone, order, .. })) = read(&rows) else { panic!("{rows}") };
        assert_eq!((set[0].key, gone, order), (3, vec![5], Some(vec![3])));
        assert!(read(&rows.replace("[\"3\",{", "[\"4\",{")).is_err(), "a row with another row's key");

        let same = read("event: same\nid: e.4\ndata: {\"keys\":[\"1\",\"2\"]}\n\n");
        assert!(
            matches!(same, Ok(Received::Of(keys, Event::Same { version: Some(_), .. })) if keys.len() == 2)
        );
        let problem = read("event: error\ndata: {\"keys\":[\"1\"],\"problem\":{\"code\":\"x\"}}\n\n");
        assert!(matches!(problem, Ok(Received::Problem(..))));
        for other in [":\n\n", "event: bye\nretry: 5\ndata: {}\n\n", "event: hello\ndata: {}\n\n"] {
            assert!(matches!(read(other), Ok(Received::Other)), "{other}");
        }
        assert!(read("event: surprise\ndata: {}\n\n").is_err());
    }
}
