//! A server whose disk is really full: a small file system in memory. Mounting one needs root; elsewhere the test says that it is
//! skipped.

use crate::balancer::{agent, read};
use crate::support::{Place, Running, rest};
use server::testing::{free_port, say_skipped};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use ureq::http::Response;

/// A disk of 24 MiB. It goes with this value.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    fn mount(folder: PathBuf) -> Option<SmallDisk> {
        std::fs::create_dir(&folder).expect("a folder");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(&folder).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            say_skipped("readiness on a full disk: a file system cannot be mounted here");
            return None;
        }
        Some(SmallDisk { folder })
    }

    fn fill(&self) {
        let filled = std::fs::write(self.folder.join("filler"), vec![0; 32 << 20]);
        assert!(filled.is_err(), "the disk is full now");
    }

    fn make_room(&self) {
        std::fs::remove_file(self.folder.join("filler")).expect("room again");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What is left is in memory.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

struct Server {
    running: Running,
    url: String,
}

impl Server {
    fn command(place: &Place) -> (Command, String) {
        let listen = format!("127.0.0.1:{}", free_port());
        let args = ["serve", "--database", "sqlite:disk/sarsen.db", "--listen", &listen];
        (place.sarsen(&args), format!("http://localhost:{}", listen.rsplit(':').next().expect("a port")))
    }

    fn start(place: &Place, log: &str) -> Server {
        let (command, url) = Server::command(place);
        let mut running = Running::start(command, place.path(log));
        running.wait_for("listening");
        Server { running, url }
    }

    fn get(&self, path: &str) -> Response<String> {
        agent().get(format!("{}{path}", self.url)).call().and_then(read).expect("an answer")
    }

    /// Asks until the answer has this status.
    fn until_ready_is(&self, status: u16) -> Response<String> {
        let began = Instant::now();
        loop {
            let answer = self.get("/readyz");
            if answer.status() == status {
                return answer;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "never {status}: {answer:?}");
            rest();
        }
    }

    fn stays_unready(&self) {
        for _ in 0..20 {
            let answer = self.get("/readyz");
            assert_eq!(answer.status(), 503, "{answer:?}");
            assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
        }
    }
}

#[test]
fn a_server_on_a_full_disk_is_not_ready_and_reads_go_on() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(place.path("disk")) else { return };
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let server = Server::start(&place, "log");
    assert_eq!(server.get("/readyz").status(), 200);

    disk.fill();
    let answer = server.until_ready_is(503);
    assert!(answer.body().contains("refuses writes: its disk is full"), "{answer:?}");
    server.stays_unready();
    assert_eq!(server.get("/healthz").status(), 200);
    assert_eq!(server.get("/.well-known/openid-configuration").status(), 200);
    disk.make_room();
    server.until_ready_is(200);
    assert_eq!(server.running.stop(), 0);

    // A start there is never ready.
    disk.fill();
    let (command, url) = Server::command(&place);
    let mut running = Running::start(command, place.path("full"));
    while !running.log().contains("listening") && !running.has_ended() {
        rest();
    }
    if running.has_ended() {
        let log = running.log();
        assert!(log.contains("the disk of the database") && log.contains("space"), "{log}");
        disk.make_room();
        let server = Server::start(&place, "room");
        server.until_ready_is(200);
        assert_eq!(server.running.stop(), 0);
    } else {
        let server = Server { running, url };
        server.stays_unready();
        disk.make_room();
        server.until_ready_is(200);
        assert_eq!(server.running.stop(), 0);
    }
}
