//! The program itself: its types and its output. Without these tests, which run the program, the tests of the workspace would not
//! build it, and those of the page need it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The types of the page are those of the back end.
#[test]
fn the_types_of_the_page_are_current() {
    let program = env!("CARGO_BIN_EXE_counters");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("types");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let output =
        Command::new(program).arg("--typescript").current_dir(&folder).output().expect("counters runs");
    assert!(output.status.success(), "{output:?}");
    let expected = include_str!("../page/api.d.ts");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        expected,
        "run: cargo run -p counters -- --typescript > examples/counters/page/api.d.ts"
    );
    let files = std::fs::read_dir(&folder).expect("the folder");
    assert_eq!(files.count(), 0, "to print types makes neither a key nor a database");
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status of an answer; `None` if there is none.
fn status(address: &str, request: &str) -> Option<String> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// As with `counters | head -1`, or a full disk below its log.
#[test]
fn a_program_goes_on_when_its_output_cannot_be_written() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("output");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let address = port.to_string();
    let mut program = Command::new(env!("CARGO_BIN_EXE_counters"));
    program.args(["--listen", &address]).current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running(program.spawn().expect("counters starts"));
    // What it writes from now on fails, also the line with its address.
    drop((running.0.stdout.take(), running.0.stderr.take()));
    let began = Instant::now();
    let ask = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    while status(&address, ask).as_deref() != Some("HTTP/1.1 200") {
        assert_eq!(running.0.try_wait().expect("looks"), None, "it has ended");
        assert!(began.elapsed() < Duration::from_secs(20), "it does not answer");
        std::thread::yield_now();
    }
    let body = r#"{"name":"Ada"}"#;
    let register = format!(
        "POST /rpc/register HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(status(&address, &register).as_deref(), Some("HTTP/1.1 200"));
}

#[test]
fn another_ctrl_c_ends_the_program_at_once() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("signals");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut program = Command::new(env!("CARGO_BIN_EXE_counters"));
    program.args(["--listen", "127.0.0.1:0"]).current_dir(&folder);
    let mut running =
        Running(program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("counters starts"));
    let out = BufReader::new(running.0.stdout.take().expect("a pipe")).lines().next();
    let said = out.expect("a line").expect("reads");
    let address = said.strip_prefix("counters answers at http://").expect("its address");
    let mut log = BufReader::new(running.0.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let signal = |running: &Running, name: &str| {
        let mut kill = Command::new("kill");
        assert!(kill.args([name, &running.0.id().to_string()]).status().expect("kill runs").success());
    };
    // A request whose body does not come: a clean stop waits for it.
    let mut socket = TcpStream::connect(address).expect("it listens");
    let head =
        "POST /rpc/register HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n";
    socket.write_all(head.as_bytes()).expect("it reads");
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).expect("it wants the body");
    assert_eq!(&answer, b"HTTP/1.1 100");
    signal(&running, "-TERM");
    assert!(log.any(|line| line.contains("Ctrl-C (SIGINT) from a second on stops at once")));
    assert_eq!(running.0.try_wait().expect("looks"), None, "it waits for the body");
    // Pressed again and again; those of the first second are not counted.
    let ended = loop {
        match running.0.try_wait().expect("looks") {
            Some(ended) => break ended,
            None => signal(&running, "-INT"),
        }
    };
    assert_eq!(ended.code(), Some(1));
    assert!(log.any(|line| line.contains("the next start recovers the database")));
}
