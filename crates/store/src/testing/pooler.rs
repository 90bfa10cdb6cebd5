//! PgBouncer before a PostgreSQL server of a test's own. There is none where its package is not installed.
#![expect(clippy::expect_used, reason = "a test whose pooler cannot be started has failed")]

use super::own_server::{OwnServer, free_port};
use crate::threads::pause;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

/// PgBouncer with a handful of connections for everybody, each lent for one transaction. It ends with this value.
pub struct Pooler {
    process: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl Pooler {
    /// Starts one and waits until it listens.
    pub fn start(server: &OwnServer) -> Option<Pooler> {
        let program = Path::new("/usr/sbin/pgbouncer");
        if !program.exists() {
            return None;
        }
        let port = free_port();
        let (settings, users) = (server.folder().join("pooler.ini"), server.folder().join("users"));
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\n\
             pool_mode = transaction\ndefault_pool_size = 5\nserver_reset_query =\nserver_login_retry = 1\n",
            server.port,
            users.display()
        );
        fs::write(&settings, text).expect("writes");
        fs::write(&users, format!("\"sarsen\" \"{}\"\n", server.password)).expect("writes");
        server.give(&settings);
        server.give(&users);
        // There the watchdog of the server finds it.
        let mut command = server.command_of(program);
        let process = command.arg(&settings).current_dir(server.folder()).spawn().expect("starts");
        let mut pooler = Pooler { process, port };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(pooler.process.try_wait().expect("can be asked").is_none(), "pgbouncer does not start");
            pause(Duration::from_millis(20));
        }
        Some(pooler)
    }

    /// For [`crate::Options`].
    pub fn url(&self, server: &OwnServer) -> String {
        format!("{}?pooler=transaction", server.url_at("127.0.0.1", self.port))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.process.kill().expect("ends");
        self.process.wait().expect("ends");
    }
}
