//! What streams send: events of `text/event-stream`, encoded once for all streams that receive them.
//!
//! Only the keys that a client gave its subscriptions differ between streams; they stand at the beginning of an event's
//! data, and the rest is shared.

use crate::Problem;
use crate::planted::{Bug, is_planted};
use crate::query::{Output, Row, Rows};
use aws_lc_rs::digest;
use axum::body::Bytes;
use endpoint::sse::{self, Id};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use store::Version;

/// The result of a group's run, encoded.
pub(crate) struct Frame {
    /// The version of the snapshot.
    pub(crate) version: Version,
    /// The result has every commit before this version.
    pub(crate) settled: Version,
    /// When the snapshot had been taken.
    pub(crate) taken: Duration,
    /// Stands for the result: equal results have equal digests.
    pub(crate) digest: Arc<str>,
    /// Whether it is a problem, such as "not found".
    is_problem: bool,
    /// The rows of a list with a row key, for the difference to the next frame.
    list: Option<Rows>,
    /// The end of the event `value`, or of `error`.
    tail: Bytes,
    /// The end of the event `rows`, for streams that hold the frame before this one.
    rows: Option<RowsTail>,
    bytes: usize,
    /// Of what is not counted by its text.
    _weight: Weight,
}

/// What something takes in memory, counted as long as it lasts.
pub(crate) struct Weight {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Weight {
    pub(crate) fn new(bytes: usize, all: &Arc<AtomicUsize>) -> Weight {
        all.fetch_add(bytes, Relaxed);
        Weight { bytes, all: all.clone() }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

/// A text that counts until the last stream has sent its part of it: a slow reader holds one that the group has replaced.
/// Short ones are copied, and count as long as the frame.
fn counted(text: String, all: &Arc<AtomicUsize>) -> Bytes {
    struct Counted {
        text: String,
        _weight: Weight,
    }
    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            self.text.as_bytes()
        }
    }
    match text.len() < Pieces::SHORT {
        true => text.into(),
        false => Bytes::from_owner(Counted { _weight: Weight::new(text.len(), all), text }),
    }
}

struct RowsTail {
    /// The digest of the frame that it changes. A version does not identify a frame on servers, where a commit may appear
    /// late; and two streams may hold the same answer with different versions.
    base: Arc<str>,
    text: Bytes,
}

impl Frame {
    /// Encodes a result. `before` is the group's last frame. `settled` is written where it differs from the version: the
    /// result has every commit before it. `all` counts the bytes of all frames.
    pub(crate) fn new(
        (version, settled, taken): (Version, Version, Duration),
        outcome: Result<Output, Problem>,
        before: Option<&Frame>,
        bytes_max: usize,
        all: &Arc<AtomicUsize>,
    ) -> Frame {
        let outcome = outcome.and_then(|mut output| match output.text.len() > bytes_max {
            true => Err(too_large(output.text.len(), bytes_max)),
            false => {
                // A line of an event ends at a line break. JSON has them only where a space does as well.
                if output.text.contains(['\n', '\r']) {
                    output.text = output.text.replace(['\n', '\r'], " ");
                }
                Ok(output)
            }
        });
        let digest = digest_of(&outcome);
        let settled_text = settled_before(settled, version);
        let tail = match &outcome {
            Ok(output) => {
                format!(
                    "\"version\":\"{version}\",{settled_text}\"digest\":\"{digest}\",\"value\":{}}}\n\n",
                    output.text
                )
            }
            Err(problem) => format!("\"digest\":\"{digest}\",\"problem\":{}}}\n\n", problem.document()),
        };
        let rows = before.and_then(|before| {
            let old = before.list.as_ref()?;
            let new = outcome.as_ref().ok()?.rows.as_ref()?;
            let by = quoted(new.by);
            let changes = changes(&old.all, &new.all)?;
            let text = format!(
                "\"version\":\"{version}\",{settled_text}\"by\":{by},\"digest\":\"{digest}\",{changes}}}\n\n"
            );
            // Where most rows have changed, the whole value is shorter.
            (text.len() < tail.len())
                .then(|| RowsTail { base: before.digest.clone(), text: counted(text, all) })
        });
        let is_problem = outcome.is_err();
        let list = outcome.ok().and_then(|output| output.rows);
        let row = |row: &Row| row.key.len() + row.text.len() + size_of::<Row>();
        let of_rows = list.iter().flat_map(|rows| &rows.all).map(row).sum::<usize>();
        let bytes = tail.len() + of_rows;
        let own = if tail.len() < Pieces::SHORT { bytes } else { of_rows };
        Frame {
            version,
            settled,
            taken,
            digest: digest.into(),
            is_problem,
            list,
            tail: counted(tail, all),
            rows,
            bytes,
            _weight: Weight::new(own, all),
        }
    }

    /// What it takes in memory, about: its event, and the rows of a list once more.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the event for a subscription to which `sent` was sent last, and which takes row changes if `takes_rows`.
    pub(crate) fn write(
        &self,
        keys: &str,
        sent: Option<&(Version, Arc<str>)>,
        takes_rows: bool,
        out: &mut Pieces,
    ) {
        let is_base = |rows: &RowsTail, digest: &Arc<str>| *digest == rows.base || is_planted(Bug::AnyBase);
        let rows = self.rows.as_ref().filter(|_| takes_rows).zip(sent);
        let rows = rows.filter(|(rows, (_, digest))| is_base(rows, digest));
        let (name, base, tail) = match (self.is_problem, rows) {
            (false, Some((rows, (base, _)))) => ("rows", format!("\"base\":\"{base}\","), &rows.text),
            (false, None) => ("value", String::new(), &self.tail),
            (true, _) => ("error", String::new(), &self.tail),
        };
        let mut head = sse::head(name, Id::Of(&self.version));
        let _ = write!(head, "{{\"keys\":[{keys}],{base}");
        out.push(&head);
        out.push_shared(tail);
        out.answers += 1;
    }
}

/// What a stream sends next: short texts are put together, long ones are shared with other streams.
#[derive(Default)]
pub(crate) struct Pieces {
    done: VecDeque<Bytes>,
    text: String,
    /// Their length.
    pub(crate) bytes: usize,
    /// The length of what no other stream has.
    pub(crate) own_bytes: usize,
    /// Values, changes of rows and problems among them.
    pub(crate) answers: usize,
}

impl Pieces {
    /// Bytes that a connection takes at once.
    const PIECE: usize = 32 * 1024;
    /// A text of this length costs less to copy than to keep apart.
    const SHORT: usize = 4 * 1024;

    pub(crate) fn push(&mut self, text: &str) {
        self.bytes += text.len();
        self.own_bytes += text.len();
        self.text.push_str(text);
    }

    fn push_shared(&mut self, tail: &Bytes) {
        if tail.len() < Pieces::SHORT
            && let Ok(text) = std::str::from_utf8(tail)
        {
            return self.push(text);
        }
        self.end_text();
        self.bytes += tail.len();
        let starts = (0..tail.len()).step_by(Pieces::PIECE);
        self.done.extend(starts.map(|at| tail.slice(at..tail.len().min(at + Pieces::PIECE))));
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.done.push_back(std::mem::take(&mut self.text).into());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes, in order.
    pub(crate) fn finish(mut self) -> VecDeque<Bytes> {
        self.end_text();
        self.done
    }
}

/// The event `same` for subscriptions whose value has not changed.
pub(crate) fn same(keys: &str, version: Version, settled: Version) -> String {
    let settled_text = settled_before(settled, version);
    sse::event("same", Id::Of(&version), &format_args!("{{{settled_text}\"keys\":[{keys}]}}"))
}

/// The version before which nothing is missing, where that is not the version itself.
fn settled_before(settled: Version, version: Version) -> String {
    match settled == version {
        true => String::new(),
        false => format!("\"settled\":\"{settled}\","),
    }
}

/// The event `error` for a subscription that has no answer.
pub(crate) fn error(keys: &str, problem: &Problem) -> String {
    let problem = problem.document();
    sse::event("error", Id::Unchanged, &format_args!("{{\"keys\":[{keys}],\"problem\":{problem}}}"))
}

/// The first event of a stream: how the client changes it later.
pub(crate) fn hello(stream: &str, secret: &str) -> String {
    let data = format!("{{\"stream\":\"{stream}\",\"secret\":\"{secret}\"}}");
    sse::event("hello", Id::Unchanged, &data)
}

/// The last event of a stream.
pub(crate) fn bye(retry_ms: u64) -> String {
    sse::bye(Duration::from_millis(retry_ms), &"{}")
}

/// What a client writes to say what it holds: `<version>/<digest>`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) version: Version,
    pub(crate) digest: String,
}

/// In place of a digest, if the client holds no answer, only a version that the first one must not be older than.
const NO_DIGEST: &str = "-";

impl Held {
    /// Reads it. What cannot be read counts as nothing: the client then receives the whole value.
    pub(crate) fn parse(text: &str) -> Option<Held> {
        let (version, digest) = text.split_once('/')?;
        Some(Held { version: version.parse().ok()?, digest: digest.to_owned() })
    }

    /// Whether it is only a version that the answer must not be older than: then the client shows no answer yet.
    pub(crate) fn is_a_version_only(&self) -> bool {
        self.digest.is_empty() || self.digest == NO_DIGEST
    }
}

/// 24 hexadecimal digits of SHA-256: no user can make another result look unchanged, nor a value look like a problem.
fn digest_of(outcome: &Result<Output, Problem>) -> String {
    let mut hash = digest::Context::new(&digest::SHA256);
    match outcome {
        Ok(output) => hash.update(output.text.as_bytes()),
        Err(problem) => {
            // No JSON begins like this.
            hash.update(b"problem ");
            hash.update(problem.document().to_string().as_bytes());
        }
    }
    let hash = hash.finish();
    let mut text = String::with_capacity(24);
    for byte in hash.as_ref().iter().take(12) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn too_large(bytes: usize, bytes_max: usize) -> Problem {
    let detail = format!(
        "The answer has {bytes} bytes; a live query may have {bytes_max} (`frame_bytes_max`). Read it in pages, or with POST /rpc."
    );
    Problem::new(http::StatusCode::PAYLOAD_TOO_LARGE, "frame_too_large", detail)
}

/// The rows that differ, as members of a JSON object; `None` if two rows have one key.
///
/// A client that applies it removes `gone`, replaces or appends `set`, and then sorts by `order`, if that is there.
fn changes(old: &[Row], new: &[Row]) -> Option<String> {
    let texts: HashMap<&str, &str> = old.iter().map(|row| (&*row.key, &*row.text)).collect();
    let present: HashSet<&str> = new.iter().map(|row| &*row.key).collect();
    if texts.len() != old.len() || present.len() != new.len() {
        return None;
    }
    let mut text = String::from("\"set\":[");
    for row in new.iter().filter(|row| texts.get(&*row.key) != Some(&&*row.text)) {
        let comma = if text.ends_with('[') { "" } else { "," };
        let _ = write!(text, "{comma}[{},{}]", quoted(&row.key), row.text);
    }
    let gone: Vec<String> =
        old.iter().filter(|row| !present.contains(&*row.key)).map(|row| quoted(&row.key)).collect();
    let _ = write!(text, "],\"gone\":[{}]", gone.join(","));
    let kept = old.iter().filter(|row| present.contains(&*row.key));
    let added = new.iter().filter(|row| !texts.contains_key(&*row.key));
    let expected: Vec<&str> = kept.chain(added).map(|row| &*row.key).collect();
    if !expected.iter().eq(new.iter().map(|row| &*row.key).collect::<Vec<_>>().iter()) {
        let order: Vec<String> = new.iter().map(|row| quoted(&row.key)).collect();
        let _ = write!(text, ",\"order\":[{}]", order.join(","));
    }
    Some(text)
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A frame that several streams and the group share.
pub(crate) type Shared = Arc<Frame>;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, value: i64) -> Row {
        Row { key: key.to_owned(), text: format!("{{\"id\":\"{key}\",\"value\":{value}}}") }
    }

    #[test]
    fn a_line_break_between_the_words_of_an_answer_ends_no_event() {
        let output = Output { text: "{\n \"a\":\r\n1}".to_owned(), rows: None };
        let version: Version = "0000000000000001.0000000000000001".parse().expect("a version");
        let frame = Frame::new((version, version, Duration::ZERO), Ok(output), None, 1000, &Arc::default());
        let mut pieces = Pieces::default();
        frame.write("\"k\"", None, false, &mut pieces);
        let text: Vec<u8> = pieces.finish().iter().flat_map(|piece| piece.to_vec()).collect();
        let text = String::from_utf8(text).expect("UTF-8");
        assert_eq!(text.lines().count(), 4, "event, id, data and the end: {text}");
        assert!(text.ends_with("\"value\":{  \"a\":  1}}\n\n"), "{text}");
    }

    #[test]
    fn only_what_differs_is_sent() {
        let old = [row("a", 1), row("b", 1), row("c", 1)];
        let same_order = [row("a", 1), row("b", 2), row("c", 1), row("d", 1)];
        assert_eq!(
            changes(&old, &same_order).as_deref(),
            Some(
                "\"set\":[[\"b\",{\"id\":\"b\",\"value\":2}],[\"d\",{\"id\":\"d\",\"value\":1}]],\"gone\":[]"
            )
        );
        let other_order = [row("c", 1), row("a", 1)];
        assert_eq!(
            changes(&old, &other_order).as_deref(),
            Some("\"set\":[],\"gone\":[\"b\"],\"order\":[\"c\",\"a\"]")
        );
        assert_eq!(changes(&old, &[row("a", 1), row("a", 2)]), None, "two rows with one key");
    }

    #[test]
    fn an_answer_counts_until_the_last_reader_has_it() {
        let all = Arc::default();
        let version: Version = "0000000000000001.0000000000000001".parse().expect("a version");
        let frame = |length: usize| {
            let output = Output { text: format!("\"{}\"", "x".repeat(length)), rows: None };
            Frame::new((version, version, Duration::ZERO), Ok(output), None, 1 << 20, &all)
        };
        for (length, kept) in [(100, false), (100_000, true)] {
            let (frame, mut pieces) = (frame(length), Pieces::default());
            assert!(all.load(Relaxed) >= length);
            frame.write("\"k\"", None, false, &mut pieces);
            let mut unsent = pieces.finish();
            drop(frame);
            assert_eq!(all.load(Relaxed) >= length, kept, "{length}: a short one was copied");
            while unsent.pop_front().is_some() {}
            assert_eq!(all.load(Relaxed), 0);
        }
    }

    #[test]
    fn streams_share_the_bytes_of_a_long_answer() {
        let tail = Bytes::from("x".repeat(3 * Pieces::PIECE / 2));
        let pieces = || {
            let mut pieces = Pieces::default();
            pieces.push("head");
            pieces.push_shared(&tail);
            pieces.push("end");
            assert_eq!(pieces.bytes, tail.len() + 7);
            pieces.finish()
        };
        let (one, other) = (pieces(), pieces());
        assert_eq!(one.iter().map(Bytes::len).collect::<Vec<_>>(), [4, Pieces::PIECE, Pieces::PIECE / 2, 3]);
        assert_eq!(one[1].as_ptr(), other[1].as_ptr());
        assert_ne!(one[0].as_ptr(), other[0].as_ptr());
    }

    #[test]
    fn short_pieces_are_put_together() {
        let mut pieces = Pieces::default();
        (0..3).for_each(|_| pieces.push_shared(&Bytes::from_static(b"short")));
        assert_eq!(pieces.finish(), ["shortshortshort"]);
    }
}
