//! The server's side of the control socket.

use super::{Answer, Greeting, PATIENCE, Request, VERSION, receive, send};
use crate::error::{Error, Result};
use rustix::fs::Mode;
use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

/// Connections at a time. The only peers are this user and root.
const CONNECTIONS_MAX: usize = 4;
/// The pause after a connection could not be accepted, such as for want of file descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// A listening socket. Its file is removed when this value is dropped.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl ControlSocket {
    /// Listens at `path`. The caller owns the database, so a socket that is there already belongs to a process that has
    /// died.
    pub fn bind(path: &Path) -> Result<ControlSocket> {
        remove_stale(path)?;
        // The mode is set by the mask: a change after the fact could hit another file under the same name.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = bound.map_err(Error::file("listen on", path))?;
        let made = fs::symlink_metadata(path).map_err(Error::file("read", path))?;
        if !is_ours(&made) || made.mode() & 0o077 != 0 {
            return Err(Error::failed(format!(
                "{} was replaced while it was created; let only the server's user write to its folder",
                path.display()
            )));
        }
        Ok(ControlSocket { listener, path: path.to_owned(), file: (made.dev(), made.ino()) })
    }

    /// Answers requests until the future is dropped. `answer` gets each request with the user id of its sender.
    pub async fn serve<F, Answering>(self, answer: F)
    where
        F: Fn(Request, u32) -> Answering + Send + Sync + 'static,
        Answering: Future<Output = Answer> + Send + 'static,
    {
        let (places, answer) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Arc::new(answer));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let answer = answer.clone();
                    tokio::spawn(async move {
                        if let Err(error) = exchange(stream, &*answer).await {
                            tracing::warn!(%error, "a request on the control socket failed");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the control socket cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let is_same = fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.file);
        if is_same {
            // The next start removes a socket that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket of a process that has died. Anything else under this name stays, and nobody listens.
fn remove_stale(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if is_ours(&found) => fs::remove_file(path).map_err(Error::file("remove", path)),
        Ok(_) => Err(Error::failed(format!(
            "{} is not a socket of this user; remove it and start the server again",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::file("read", path)(error)),
    }
}

fn is_ours(file: &fs::Metadata) -> bool {
    file.file_type().is_socket() && file.uid() == rustix::process::geteuid().as_raw()
}

/// One request. A peer of another user gets nothing.
async fn exchange<Answering: Future<Output = Answer>>(
    mut stream: UnixStream,
    answer: impl Fn(Request, u32) -> Answering,
) -> io::Result<()> {
    let uid = stream.peer_cred()?.uid();
    if uid != rustix::process::geteuid().as_raw() && uid != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("user {uid} is not allowed")));
    }
    let (reader, mut writer) = stream.split();
    let asked = async {
        send(&mut writer, &Greeting { sarsen_control: VERSION }).await?;
        receive(&mut BufReader::new(reader)).await
    };
    let line = tokio::time::timeout(PATIENCE, asked).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let answer = match serde_json::from_slice(&line) {
        Ok(request) => answer(request, uid).await,
        Err(error) => Answer::Refused(format!(
            "the server cannot read the request ({error}); use the program of the server's version"
        )),
    };
    tokio::time::timeout(PATIENCE, send(&mut writer, &answer)).await.map_err(|_| io::ErrorKind::TimedOut)?
}
