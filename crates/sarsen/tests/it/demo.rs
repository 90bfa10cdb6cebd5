//! `sarsen demo`: the same data from the same folder, and no data of others.

use crate::browser::Browser;
use crate::support::{Demo, Place, Running, mode};
use serde_json::Value;
use server::testing::say_skipped;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

#[test]
fn the_same_folder_gives_the_same_demo() {
    let place = Place::new();
    let first = Demo::start(&place);
    for pointer in [
        "/owner/password",
        "/organization/slug",
        "/clients/web/client_secret",
        "/users/0/plan",
        "/services/cli",
        "/api_key",
    ] {
        assert!(!first.text(pointer).is_empty(), "{pointer}");
    }
    let port = first.issuer().strip_prefix("http://localhost:").expect("the name localhost").to_owned();
    assert_eq!(first.text("/console"), format!("http://localhost:{port}/console"));
    for host in ["localhost", "127.0.0.1"] {
        let answer = ureq::get(format!("http://{host}:{port}/readyz")).call().expect("ready");
        assert_eq!(answer.status(), 200);
    }
    assert_eq!(mode(&place.path("demo/demo.json")), 0o600);
    assert_eq!(mode(&place.path("demo/demo.key")), 0o600);
    assert_eq!(mode(&place.path("demo")), 0o700);

    let busy = place.run(&["demo", "--data", "demo", "--listen", "127.0.0.1:0"]);
    assert_eq!(busy.code, 1);
    assert!(busy.stderr.contains(&format!("in use by process {}", first.running.pid())), "{}", busy.stderr);
    let store = place.run(&["demo", "--data", "other", "--database", "sqlite:demo/demo.db"]);
    assert!(store.stderr.contains("is not a database that a demo in other made"), "{}", store.stderr);

    let said = first.says.clone();
    assert_eq!(first.running.stop(), 0);
    // The same folder by another name, from another folder.
    let mut command = place.sarsen(&["demo", "--json", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(place.path("demo")).current_dir("/");
    let mut running = Running::start(command, place.path("second.log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    let second = Demo { running, says };
    for name in ["owner", "organization", "users", "services", "api_key"] {
        assert_eq!(second.says[name], said[name], "{name}");
    }
    for client in ["web", "spa", "cli", "machine"] {
        assert_eq!(second.says["clients"][client], said["clients"][client], "{client}");
    }
    assert!(second.text("/products/0/url").starts_with(second.issuer()), "the products have the new address");
}

#[test]
fn a_demo_behind_a_tunnel_sees_the_addresses_of_its_users() {
    let place = Place::new();
    let demo = |proxies: &str| {
        let mut command = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", "127.0.0.1:0"]);
        command.env("SARSEN_LOG", "warn,request=info").env("SARSEN_REQUEST_LOG", "true");
        command.env("SARSEN_TRUSTED_PROXIES", proxies);
        command
    };
    let mut running = Running::start(demo("127.0.0.1, ::1"), place.path("log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    let shown = Demo { running, says };
    let request = ureq::get(format!("{}/readyz", shown.issuer())).header("x-forwarded-for", "203.0.113.9");
    assert_eq!(request.call().expect("ready").status(), 200);
    assert_eq!(shown.running.stop(), 0);
    let log = std::fs::read_to_string(place.path("log")).expect("a log");
    assert!(log.contains("address=203.0.113.9"), "{log}");

    let refused = demo("127.0.0.1,tunnel").output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("SARSEN_TRUSTED_PROXIES") && told.contains("\"tunnel\""), "{told}");
}

/// A demo whose page people read.
fn with_page(place: &Place) -> (Running, String) {
    let command = place.sarsen(&["demo", "--data", "demo", "--listen", "127.0.0.1:0"]);
    let mut demo = Running::start(command, place.path("log"));
    let mut page = String::new();
    while !page.contains("--data") {
        page.push_str(&demo.line());
    }
    (demo, page)
}

#[test]
fn a_demo_prints_what_to_try() {
    let place = Place::new();
    let (demo, page) = with_page(&place);
    for expected in [
        "http://localhost:",
        "ada@acme.test",
        "Sign this terminal in as admin@acme.test",
        "sarsen login --server",
        "sarsen subscription change --org acme --user ada@acme.test --plan starter",
    ] {
        assert!(page.contains(expected), "{expected} is not in:\n{page}");
    }
    assert_eq!(demo.stop(), 0);
}

#[test]
fn the_printed_lines_work_as_they_are_one_after_another() {
    if Command::new("curl").arg("--version").output().is_err() {
        return say_skipped("the lines that a demo prints: there is no curl");
    }
    let place = Place::new();
    let (demo, page) = with_page(&place);
    let password =
        page.split_whitespace().skip_while(|word| *word != "ada@acme.test").nth(1).expect("a password");
    let issuer = page.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
    let is_for_curl = |line: &&str| line.starts_with("field()") || line.contains("curl ");
    let lines: Vec<&str> = page.lines().map(str::trim).filter(is_for_curl).collect();
    let [field, begin, redeem, ask] = lines[..] else { panic!("four lines in:\n{page}") };
    let mut shell = Shell::start(&place);
    let code: Value = serde_json::from_str(&shell.type_in(&[field, begin])).expect("a device code");
    let mut ada = Browser::new(issuer);
    let login = ada.open("/o/acme/login");
    ada.submit(&login, "/o/acme/login", &[("email", "ada@acme.test"), ("password", password)]);
    // The link shows the code to compare; then the user decides.
    let compare = ada.open(code["verification_uri_complete"].as_str().expect("an address"));
    let confirm = ada.submit(&compare, "/activate", &[]);
    assert_eq!(ada.submit(&confirm, "/activate", &[("decision", "allow")]).status, 200);
    let tokens: Value = serde_json::from_str(&shell.type_in(&[redeem])).expect("tokens");
    assert_eq!(tokens["token_type"], "Bearer");
    let subscription: Value = serde_json::from_str(&shell.type_in(&[ask])).expect("a subscription");
    assert_eq!(subscription["plan"], "pro");
    assert_eq!(demo.stop(), 0);
}

/// A shell into which lines are typed.
struct Shell {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(place: &Place) -> Shell {
        let mut command = Command::new("sh");
        command.current_dir(place.root()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a shell");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe"));
        Shell { process, input, output }
    }

    /// The next line that it prints after these.
    fn type_in(&mut self, lines: &[&str]) -> String {
        for line in lines {
            writeln!(self.input, "{line}").expect("is typed");
        }
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("text");
        answer
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_demo_is_for_this_machine_and_its_own_data() {
    let place = Place::new();
    let open = place.run(&["demo", "--data", "demo", "--listen", "0.0.0.0:7070"]);
    assert_eq!(open.code, 2);
    assert!(open.stderr.contains("on this machine only"), "{}", open.stderr);
    assert!(!place.path("demo").exists());

    std::fs::create_dir(place.path("demo")).expect("made");
    std::fs::write(place.path("demo/demo.db"), "other data").expect("written");
    let foreign = place.run(&["demo", "--data", "demo"]);
    assert_eq!(foreign.code, 1);
    assert!(foreign.stderr.contains("not a database that a demo"), "{}", foreign.stderr);
    assert_eq!(std::fs::read_to_string(place.path("demo/demo.db")).expect("there"), "other data");
}

#[test]
fn a_port_that_was_given_is_not_replaced() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let refused = place.run(&["demo", "--data", "demo", "--listen", &address]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("without --listen a free port is used"), "{}", refused.stderr);
}
