//! A client of HTTP/2 that writes its frames byte by byte, so that it can break every rule.

use std::io::Result;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The fields of a GET, in HPACK: three indexed ones, the path, the host.
pub(crate) fn get_fields(path: &str) -> Vec<u8> {
    let literal = |name: u8, value: &str| [&[name, value.len() as u8][..], value.as_bytes()].concat();
    [&[0x82, 0x86][..], &literal(0x04, path), &literal(0x01, "test")].concat()
}

/// A GET without a body.
pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &get_fields(path))
}

/// A HEAD.
pub(crate) fn head(stream: u32, path: &str) -> Vec<u8> {
    let fields = [&b"\x02\x04HEAD"[..], &get_fields(path)[1..]].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields)
}

/// A frame that was read.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    /// Connects; `settings` are pairs of identifier and value.
    pub(crate) async fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Client {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("set");
        let mut stream = socket.connect(address).await.expect("connects");
        let settings: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &settings)[..]].concat();
        stream.write_all(&preface).await.expect("sent");
        Client(stream)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).await
    }

    /// The next frame that is no SETTINGS, PING or WINDOW_UPDATE; none at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let reads = async {
            loop {
                let mut header = [0; 9];
                self.0.read_exact(&mut header).await.ok()?;
                let [high, middle, low, kind, flags, stream @ ..] = header;
                let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
                self.0.read_exact(&mut payload).await.ok()?;
                if ![SETTINGS, PING, WINDOW_UPDATE].contains(&kind) {
                    return Some(Frame { kind, flags, stream: u32::from_be_bytes(stream), payload });
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reads).await.expect("a frame or the end")
    }

    /// The content of the response on a stream, and whether it has ended well. Other streams are skipped.
    pub(crate) async fn answer(&mut self, stream: u32) -> (Vec<u8>, bool) {
        let mut content = Vec::new();
        while let Some(frame) = self.next().await {
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                HEADERS => {
                    assert_eq!(frame.payload[0] & !0x20, 0x88, ":status 200, perhaps after a size update")
                }
                DATA => content.extend(frame.payload),
                RST_STREAM => return (content, false),
                _ => continue,
            }
            if frame.flags & END_STREAM != 0 {
                return (content, true);
            }
        }
        (content, false)
    }

    /// Sends `bytes` again and again until the server closes. Returns how often they were sent.
    pub(crate) async fn flood(&mut self, bytes: &[u8], most: usize) -> usize {
        let (mut reader, mut writer) = self.0.split();
        let reads = async {
            let mut part = [0; 4096];
            while reader.read(&mut part).await.is_ok_and(|count| count > 0) {}
        };
        let mut sent = 0;
        let writes = async {
            while sent < most && writer.write_all(bytes).await.is_ok() {
                sent += 1;
            }
            if sent == most {
                std::future::pending::<()>().await;
            }
        };
        let floods = async {
            tokio::select! {
                () = reads => {}
                () = writes => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(30), floods).await.expect("the connection is closed");
        sent
    }
}
