//! The servers of a test end with the process that started them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use store::testing::own_mariadb::OwnMariaDb;
use store::testing::own_server::OwnServer;

const HOLDING: &str = "STORE_TEST_HOLDING_SERVERS";
const ALL: &str = "these are all";

#[test]
fn the_servers_of_a_process_that_is_killed_end_and_leave_nothing() {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "own_servers::holds_servers", "--ignored", "--nocapture"]);
    // It ends by itself when this process does.
    program.env(HOLDING, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = program.spawn().expect("starts");
    let lines = BufReader::new(holder.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let servers: Vec<(String, String)> = lines
        .take_while(|line| line != ALL)
        .filter_map(|line| {
            let (address, folder) = line.split_once(" in ")?;
            Some((address.to_owned(), folder.to_owned()))
        })
        .collect();
    for (address, _) in &servers {
        TcpStream::connect(address).expect("it runs");
    }
    holder.kill().expect("is killed");
    holder.wait().expect("ends");
    let killed = Instant::now();
    for (address, folder) in servers {
        while TcpStream::connect(&address).is_ok() || Path::new(&folder).exists() {
            assert!(killed.elapsed() < Duration::from_secs(30), "it goes on: {address} in {folder}");
            std::thread::yield_now();
        }
    }
}

#[test]
#[ignore = "not a test: the program that the test above kills"]
fn holds_servers() {
    if std::env::vars().all(|(name, _)| name != HOLDING) {
        return;
    }
    let (postgres, mariadb) = (OwnServer::start(), OwnMariaDb::start());
    for (port, folder) in [
        postgres.as_ref().map(|server| (server.port, server.folder())),
        mariadb.as_ref().map(|server| (server.port, server.folder())),
    ]
    .into_iter()
    .flatten()
    {
        println!("127.0.0.1:{port} in {}", folder.display());
    }
    println!("{ALL}");
    let _ = std::io::stdin().read(&mut [0]);
}
