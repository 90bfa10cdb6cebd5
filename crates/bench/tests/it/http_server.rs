//! A threaded server on a free port: a closure answers each request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub struct Asked {
    pub method: String,
    /// With the query.
    pub path: String,
    pub head: String,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// A field of a form body or of the query.
    pub fn field(&self, name: &str) -> Option<String> {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        [self.body.as_str(), query].into_iter().find_map(|text| {
            let pairs = form_urlencoded::parse(text.as_bytes());
            pairs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
        })
    }
}

pub enum Answer {
    /// Raw bytes.
    Raw(Vec<u8>),
    /// Close without an answer.
    HangUp,
    /// Wait, then answer.
    After(Duration, Box<Answer>),
    /// A head, then pieces of a body as they come, in chunks.
    Stream(std::sync::mpsc::Receiver<Vec<u8>>),
    /// Never answer.
    Silence,
}

impl Answer {
    pub fn new(status: u16, headers: &str, body: &str) -> Answer {
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        Answer::Raw([head.as_bytes(), body.as_bytes()].concat())
    }

    pub fn json(status: u16, body: serde_json::Value) -> Answer {
        Answer::new(status, "Content-Type: application/json\r\n", &body.to_string())
    }
}

/// Serves until the test process ends.
pub fn serve(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || serve_connection(stream, &*answer));
        }
    });
    address
}

fn serve_connection(mut stream: TcpStream, answer: &dyn Fn(&Asked) -> Answer) {
    stream.set_nodelay(true).unwrap();
    let mut received = Vec::new();
    while let Some(asked) = read_request(&mut stream, &mut received) {
        let mut said = answer(&asked);
        while let Answer::After(pause, next) = said {
            pass_time(pause);
            said = *next;
        }
        match said {
            Answer::Raw(bytes) => {
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
            Answer::HangUp => return,
            Answer::Stream(pieces) => return stream_body(stream, &pieces),
            Answer::Silence => loop {
                pass_time(Duration::from_secs(3600));
            },
            Answer::After(..) => unreachable!("unwrapped above"),
        }
    }
}

fn stream_body(mut stream: TcpStream, pieces: &std::sync::mpsc::Receiver<Vec<u8>>) {
    let head = b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    if stream.write_all(head).is_err() {
        return;
    }
    while let Ok(piece) = pieces.recv() {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
        if stream.write_all(&chunk).is_err() {
            return;
        }
    }
}

pub fn pass_time(pause: Duration) {
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(pause);
}

fn read_request(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<Asked> {
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.parse().unwrap());
            if received.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&received[end + 4..end + 4 + length]).into_owned();
                received.drain(..end + 4 + length);
                let mut words = head.split(' ');
                let method = words.next().unwrap().to_owned();
                let path = words.next().unwrap().to_owned();
                return Some(Asked { method, path, head, body });
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(count) => received.extend_from_slice(&piece[..count]),
        }
    }
}
