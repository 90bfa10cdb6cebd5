//! The control socket: how a command on the server's machine reaches a server that owns its SQLite file.
//!
//! The server listens on `<database>-control`, a Unix socket of mode 0600 beside the file. One exchange a connection, each
//! message a line of JSON of at most [`LINE_MAX`] bytes:
//!
//! ```text
//! server   {"sarsen_control":1}
//! command  {"command":"owner.recover","email":"…"}
//! server   {"done":{…}} or {"refused":"…"}
//! ```
//!
//! Both sides check which user the other process belongs to before they send anything. The file's mode alone does not
//! protect: other users may have write permission in the folder and put a socket of their own there.

mod client;
mod listener;

pub use client::ask;
pub use listener::ControlSocket;

use crate::files;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The version of the protocol. A command refuses a server with another one.
const VERSION: u32 = 1;
/// The longest message.
const LINE_MAX: u64 = 4096;
/// The time for everything but the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first message of the server.
#[derive(Serialize, Deserialize)]
struct Greeting {
    sarsen_control: u32,
}

/// What a command asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "command", deny_unknown_fields)]
pub enum Request {
    /// A link that sets the password of a platform owner.
    #[serde(rename = "owner.recover")]
    RecoverOwner {
        /// The e-mail address of the owner.
        email: String,
    },
}

/// The answer of the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The result.
    Done(Value),
    /// What was wrong, then what to do.
    Refused(String),
}

/// The path of the socket of a SQLite file.
pub fn path_beside(database: &Path) -> PathBuf {
    files::with_suffix(database, "-control")
}

/// Sends a message.
async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.flush().await
}

/// Receives a message.
async fn receive(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(LINE_MAX).read_until(b'\n', &mut line).await?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the message is incomplete or too long")),
    }
}

#[cfg(test)]
mod tests;
