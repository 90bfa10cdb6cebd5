//! Tests of the control socket: who may connect, and what its protocol refuses.

use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener as PlainListener;
use std::sync::Mutex;
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

/// The mask of the process is changed while a socket is bound.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn bind(path: &Path) -> crate::error::Result<ControlSocket> {
    let _one = ONE_AT_A_TIME.lock().expect("no test failed here");
    ControlSocket::bind(path)
}

fn request() -> Request {
    Request::RecoverOwner { email: "olga@sarsen.test".to_owned() }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A server that repeats what it was asked and by whom.
fn echo(socket: ControlSocket) -> JoinHandle<()> {
    tokio::spawn(socket.serve(|request, uid| async move {
        let Request::RecoverOwner { email } = request;
        Answer::Done(serde_json::json!({ "email": email, "uid": uid }))
    }))
}

async fn asked(path: &Path) -> crate::error::Result<Option<Answer>> {
    ask(path, uid(), &request(), PATIENCE).await
}

/// The text of an error.
fn refused<T: std::fmt::Debug>(result: crate::error::Result<T>) -> String {
    result.expect_err("refused").to_string()
}

#[tokio::test]
async fn a_request_is_answered_and_the_socket_goes_with_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sarsen.db-control");
    assert!(asked(&path).await.expect("asks").is_none(), "nobody listens");
    let socket = bind(&path).expect("listens");
    let mode = std::fs::symlink_metadata(&path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let server = echo(socket);
    let Some(Answer::Done(value)) = asked(&path).await.expect("asks") else { panic!("no answer") };
    assert_eq!(value, serde_json::json!({ "email": "olga@sarsen.test", "uid": uid() }));
    server.abort();
    assert!(server.await.expect_err("ended").is_cancelled());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_of_a_dead_server_is_replaced_and_anything_else_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sarsen.db-control");
    drop(PlainListener::bind(&path).expect("a socket"));
    assert!(asked(&path).await.expect("asks").is_none(), "nobody listens any more");
    drop(bind(&path).expect("takes its place"));

    std::fs::write(&path, "precious").expect("written");
    assert!(refused(bind(&path).map(|_| ())).contains("is not a socket of this user"));
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "precious");
    std::fs::remove_file(&path).expect("removed");

    // A link to a socket is no socket: what it points to stays.
    let elsewhere = folder.path().join("elsewhere");
    let _other = PlainListener::bind(&elsewhere).expect("a socket");
    symlink(&elsewhere, &path).expect("a link");
    assert!(refused(bind(&path).map(|_| ())).contains("is not a socket of this user"));
    assert!(elsewhere.exists());

    // A server does not remove the socket of another one.
    std::fs::remove_file(&path).expect("removed");
    let socket = bind(&path).expect("listens");
    std::fs::remove_file(&path).expect("removed");
    let _other = PlainListener::bind(&path).expect("another");
    drop(socket);
    assert!(path.exists());
}

#[tokio::test]
async fn requests_that_are_broken_or_too_long_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sarsen.db-control");
    let server = echo(bind(&path).expect("listens"));
    let send_raw = async |bytes: Vec<u8>| {
        let mut stream = BufReader::new(UnixStream::connect(&path).await.expect("connects"));
        assert_eq!(receive(&mut stream).await.expect("a greeting"), b"{\"sarsen_control\":1}");
        // The server may close before it has read all.
        let _ = stream.write_all(&bytes).await;
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    };
    for wrong in [
        "{}\n",
        "[]\n",
        "{\"command\":\"rm\"}\n",
        "{\"command\":\"owner.recover\",\"email\":\"x\",\"more\":1}\n",
    ] {
        let answer = send_raw(wrong.into()).await;
        assert!(answer.starts_with("{\"refused\":\"the server cannot read the request"), "{wrong}: {answer}");
    }
    let long = [b"{\"command\":\"".to_vec(), vec![b'x'; 1 << 20], b"\"}\n".to_vec()].concat();
    assert_eq!(send_raw(long).await, "", "closed without an answer");
    assert!(asked(&path).await.expect("asks").is_some(), "the next one is served");
    server.abort();
}

#[tokio::test]
async fn a_command_trusts_no_server_of_another_user_and_no_other_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sarsen.db-control");
    let listener = tokio::net::UnixListener::bind(&path).expect("listens");
    let greet = async |greeting: &'static [u8]| {
        let (mut stream, _) = listener.accept().await.expect("accepts");
        stream.write_all(greeting).await.expect("sent");
        let mut sent = Vec::new();
        stream.read_to_end(&mut sent).await.expect("read");
        sent
    };
    for greeting in [&b"{\"sarsen_control\":2}\n"[..], b"{}\n", b"220 mail.example ESMTP\n"] {
        let (sent, answer) = tokio::join!(greet(greeting), asked(&path));
        assert!(sent.is_empty(), "nothing was sent to it: {sent:?}");
        let Ok(Some(Answer::Refused(text))) = answer else { panic!("{answer:?}") };
        assert!(text.contains("use the program of the server's version"), "{text}");
    }
}
