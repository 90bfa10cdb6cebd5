//! How a store is opened.

use crate::Migration;
use std::path::PathBuf;
use std::time::Duration;

/// Where the data is and how the store may use the machine.
#[derive(Clone, Debug)]
pub struct Options {
    /// `sqlite:PATH` or `postgres://…`.
    pub url: String,
    /// The schema, in order.
    pub migrations: &'static [Migration],
    /// Tables whose changes some cache or live query depends on: commands must declare keys of them.
    pub watched: &'static [&'static str],
    /// Check declarations at run time (tests and development; costs a look-up a statement).
    pub check: bool,
    /// Bounds of the writer.
    pub writer: WriterLimits,
    /// Threads for scans and lists.
    pub readers: usize,
}

/// Bounds of the writer. The defaults are meant for everybody; tests and the bench change them.
#[derive(Clone, Debug)]
pub struct WriterLimits {
    /// Commands in one commit, at most.
    pub batch_max: usize,
    /// Time spent running the commands of one commit, at most.
    pub batch_time: Duration,
    /// How long a command may wait before it starts.
    pub deadline: Duration,
    /// Fault injection: every commit takes this much longer.
    pub commit_delay: Duration,
}

impl Default for WriterLimits {
    fn default() -> Self {
        WriterLimits {
            batch_max: 1024,
            batch_time: Duration::from_millis(5),
            deadline: Duration::from_secs(1),
            commit_delay: Duration::ZERO,
        }
    }
}

impl Options {
    /// Options with defaults for everything but the place and the schema.
    pub fn new(url: impl Into<String>, migrations: &'static [Migration]) -> Options {
        Options {
            url: url.into(),
            migrations,
            watched: &[],
            check: false,
            writer: WriterLimits::default(),
            readers: 2,
        }
    }

    /// The file of a `sqlite:` URL.
    pub(crate) fn sqlite_path(&self) -> Option<PathBuf> {
        self.url.strip_prefix("sqlite:").map(PathBuf::from)
    }
}
