//! A command's side of the control socket.

use super::{Answer, Greeting, PATIENCE, Request, VERSION, receive, send};
use crate::error::{Error, Result};
use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::BufReader;
use tokio::net::UnixStream;

/// Asks the server that listens at `path`, if there is one. The server must belong to `owner` (the owner of the database),
/// to this user or to root. `wait` is the time for the answer.
pub async fn ask(path: &Path, owner: u32, request: &Request, wait: Duration) -> Result<Option<Answer>> {
    let mut stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        // No file, or one of a server that was killed.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::file("connect to", path)(error)),
    };
    let failed = Error::file("talk to the server at", path);
    let uid = match stream.peer_cred() {
        Ok(peer) => peer.uid(),
        Err(error) => return Err(failed(error)),
    };
    if ![owner, 0, rustix::process::geteuid().as_raw()].contains(&uid) {
        return Err(Error::failed(format!(
            "the process at {} belongs to user {uid}, not to the owner of the database; remove the socket and let only \
             the server's user write to its folder",
            path.display()
        )));
    }
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let exchanged = async {
        let greeting = within(PATIENCE, receive(&mut reader)).await?;
        let version =
            serde_json::from_slice::<Greeting>(&greeting).map_or(0, |greeting| greeting.sarsen_control);
        if version != VERSION {
            return Ok(Answer::Refused(format!(
                "the server has version {version} of the control socket, this program {VERSION}; use the program of the \
                 server's version"
            )));
        }
        within(PATIENCE, send(&mut writer, request)).await?;
        let answer = within(wait, receive(&mut reader)).await?;
        Ok::<_, io::Error>(serde_json::from_slice(&answer)?)
    };
    exchanged.await.map(Some).map_err(failed)
}

async fn within<T>(wait: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(wait, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
