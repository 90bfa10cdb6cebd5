//! Stands between a store and its server, and cuts the connection at the worst moment.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;

use parking_lot::{Condvar, Mutex};

/// What happens to the next COMMIT of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It does not arrive.
    Before,
    /// It arrives, its answer does not.
    After,
}

#[derive(Default)]
struct Plan {
    next: Mutex<Option<Cut>>,
    closed: AtomicBool,
    /// Where new connections lead to.
    port: AtomicU16,
    silent: Mutex<bool>,
    speaks: Condvar,
    /// A connection that says this …
    word: Mutex<Option<&'static [u8]>>,
    /// … is cut, once; else it waits.
    cuts_word: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

pub struct Proxy {
    pub port: u16,
    plan: Arc<Plan>,
}

impl Proxy {
    pub fn start(host: String, port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own_port = listener.local_addr().expect("an address").port();
        let plan = Arc::new(Plan { port: AtomicU16::new(port), ..Plan::default() });
        let shared = plan.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let port = shared.port.load(Ordering::SeqCst);
                let server = TcpStream::connect((host.as_str(), port)).expect("the server listens");
                let mut open = shared.open.lock();
                // Looked at with the lock held: who closes and then cuts all leaves none.
                if shared.closed.load(Ordering::SeqCst) {
                    continue; // Dropped: refused.
                }
                open.push(client.try_clone().expect("a socket"));
                drop(open);
                serve(client, server, shared.clone());
            }
        });
        Proxy { port: own_port, plan }
    }

    /// Cuts at the next COMMIT of a command.
    pub fn cut_next(&self, cut: Cut) {
        *self.plan.next.lock() = Some(cut);
    }

    /// Whether the COMMIT of [`Proxy::cut_next`] has come.
    pub fn has_cut(&self) -> bool {
        self.plan.next.lock().is_none()
    }

    /// Takes no more connections, until [`Proxy::open`].
    pub fn close(&self) {
        self.plan.closed.store(true, Ordering::SeqCst);
    }

    /// New connections lead to another server.
    pub fn lead_to(&self, port: u16) {
        self.plan.port.store(port, Ordering::SeqCst);
    }

    pub fn open(&self) {
        self.plan.closed.store(false, Ordering::SeqCst);
    }

    /// Passes nothing on that a client says, and says nothing, until it is told otherwise: as a network that drops everything.
    pub fn be_silent(&self, silent: bool) {
        *self.plan.silent.lock() = silent;
        self.plan.speaks.notify_all();
    }

    /// Cuts the next connection that says this, and no other.
    pub fn cut_who_says(&self, word: &'static str) {
        self.plan.cuts_word.store(true, Ordering::SeqCst);
        *self.plan.word.lock() = Some(word.as_bytes());
    }

    /// From now on passes nothing on of a connection that says this, until it is called with nothing.
    pub fn hold_who_says(&self, word: Option<&'static str>) {
        self.plan.cuts_word.store(false, Ordering::SeqCst);
        *self.plan.word.lock() = word.map(str::as_bytes);
        self.plan.speaks.notify_all();
    }

    /// Cuts all connections that are open now.
    pub fn cut_all(&self) {
        for client in self.plan.open.lock().drain(..) {
            client.shutdown(Shutdown::Both).ok();
        }
    }
}

fn serve(client: TcpStream, server: TcpStream, plan: Arc<Plan>) {
    client.set_nodelay(true).expect("a socket");
    server.set_nodelay(true).expect("a socket");
    let (mut from_server, mut to_client) =
        (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
    thread::spawn(move || {
        std::io::copy(&mut from_server, &mut to_client).ok();
        to_client.shutdown(Shutdown::Both).ok();
    });
    thread::spawn(move || forward(client, server, &plan));
}

/// Client to server, with an eye on what it says.
fn forward(mut client: TcpStream, mut server: TcpStream, plan: &Plan) {
    let mut buffer = [0_u8; 65536];
    let mut runs_commands = false;
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let said = &buffer[..length];
        plan.speaks.wait_while(&mut plan.silent.lock(), |silent| *silent);
        let mut word = plan.word.lock();
        let is_meant = |word: &Option<&'static [u8]>| word.is_some_and(|word| holds(said, word));
        if is_meant(&word) && plan.cuts_word.load(Ordering::SeqCst) {
            *word = None;
            client.shutdown(Shutdown::Both).ok();
            break;
        }
        plan.speaks.wait_while(&mut word, |word| is_meant(word));
        drop(word);
        // PostgreSQL's words, or a limit of time on MySQL: who follows its log begins in the same words.
        runs_commands |= holds(said, b"SERIALIZABLE") || holds(said, b"_time = 1");
        let commits = holds(said, b"COMMIT\0") || holds(said, b"\x03COMMIT");
        let cut = if runs_commands && commits { plan.next.lock().take() } else { None };
        if cut.is_some() {
            client.shutdown(Shutdown::Both).ok();
        }
        if cut == Some(Cut::Before) || server.write_all(said).is_err() || cut.is_some() {
            break;
        }
    }
    server.shutdown(Shutdown::Write).ok();
}

fn holds(said: &[u8], word: &[u8]) -> bool {
    said.windows(word.len()).any(|window| window == word)
}
