//! `sarsen dev`: a server for a product that is being developed, and the product with it.

use crate::signing_in::sign_in;
use crate::support::{Demo, Ended, Place, Running, mode, rest};
use browser::Cookies;
use serde_json::Value;
use server::testing::say_skipped;
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use ureq::Agent;

const YAML: &str = "\
organization: {slug: example, name: Example}
services:
  - {slug: notes, name: Notes}
plans:
  - {slug: pro, name: Pro, services: [notes], price_cents: 900, currency: EUR, features: [export]}
clients:
  web:
    service: notes
    kind: web
    name: Notes
    redirect_uris: [http://localhost:3000/callback]
  phone-app: {service: notes, kind: native, name: Phone, redirect_uris: ['com.example.notes:/callback']}
users:
  - {email: ada@example.test, name: Ada, plan: pro}
  - {email: grace@example.test, name: Grace, plan: free, password: correct horse battery}
";

/// The folder of a product.
fn product(yaml: &str) -> Place {
    let place = Place::new();
    std::fs::write(place.path("sarsen.yaml"), yaml).expect("written");
    place
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs `sarsen dev` with a product that is a script of the shell.
fn with_script(place: &Place, script: &str) -> Ended {
    place.run(&["dev", "--", "sh", "-c", script])
}

/// The server without a product, and what it printed.
fn server(place: &Place, flags: &[&str]) -> (Running, Value) {
    let args = [&["dev", "--json"], flags].concat();
    let mut running = Running::start(place.sarsen(&args), place.path("log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    (running, says)
}

fn text<'a>(says: &'a Value, pointer: &str) -> &'a str {
    says.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer}: {says}"))
}

fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).proxy(None);
    config.build().new_agent()
}

fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// Whether the plan of a user has the feature, as the back end of the product sees it.
fn may_export(says: &Value, user: usize) -> bool {
    let (issuer, key) = (text(says, "/issuer"), text(says, "/api_key"));
    let id = text(says, &format!("/users/{user}/id"));
    let body = format!("{{\"checks\": [{{\"user\": \"{id}\", \"feature\": \"export\"}}]}}");
    let mut answer = agent()
        .post(format!("{issuer}/api/service/check"))
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .send(body)
        .expect("an answer");
    let answer: Value =
        serde_json::from_str(&answer.body_mut().read_to_string().expect("text")).expect("JSON");
    answer.pointer("/results/0/allowed").and_then(Value::as_bool).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_product_gets_what_it_needs_and_its_exit_code_counts() {
    let place = product(YAML);
    std::fs::write(place.path(".env.local"), "MINE=1\n").expect("written");
    let script = "env | grep -E '^(OIDC|SERVICE)' | sort; exec 3<>/dev/null; exit 7";
    let first = with_script(&place, script);
    assert_eq!(first.code, 7, "{}", first.stderr);
    let names: Vec<&str> = first.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let all = [
        "OIDC_CLIENT_ID",
        "OIDC_CLIENT_SECRET",
        "OIDC_ISSUER",
        "OIDC_PHONE_APP_CLIENT_ID",
        "SERVICE_API_KEY",
    ];
    assert_eq!(names, all);

    let file = read(&place.path(".env.local"));
    assert!(file.starts_with("MINE=1\n"), "{file}");
    for line in first.stdout.lines() {
        assert!(file.lines().any(|other| other == line), "{line} is not in:\n{file}");
        let (name, value) = line.split_once('=').expect("a value");
        let is_secret = name.contains("SECRET") || name.contains("KEY");
        assert!(
            !is_secret || !first.stderr.contains(value),
            "the secret {name} was printed:\n{}",
            first.stderr
        );
    }
    assert_eq!(mode(&place.path(".env.local")), 0o600);
    assert_eq!(mode(&place.path(".sarsen")), 0o700);
    assert_eq!(read(&place.path(".sarsen/.gitignore")), "*\n");

    let second = with_script(&place, script);
    assert_eq!(second.stdout, first.stdout, "the same port, ids and secrets");
    assert_eq!(read(&place.path(".env.local")), file, "byte for byte");
    let umask = with_script(&place, "umask");
    let own = Command::new("sh").args(["-c", "umask"]).output().expect("a shell");
    assert_eq!(umask.stdout.as_bytes(), own.stdout, "the product's files are as without sarsen dev");
}

#[test]
fn a_test_user_signs_in_by_a_link_without_a_page() {
    let place = product(YAML);
    let (running, says) = server(&place, &[]);
    let issuer = text(&says, "/issuer");
    let link = text(&says, "/users/0/sign_in_link");
    let agent = agent();
    let mut cookies = Cookies::default();
    let opened = agent.get(link).call().expect("an answer");
    assert_eq!(opened.status(), 303);
    let headers = opened.headers().iter();
    cookies.take_from(headers.map(|(name, value)| (name.as_str(), value)));

    let id = text(&says, "/clients/web/client_id");
    let query = form(&[
        ("response_type", "code"),
        ("client_id", id),
        ("redirect_uri", "http://localhost:3000/callback"),
        ("scope", "openid profile email"),
        ("state", "s"),
    ]);
    let authorize = agent
        .get(format!("{issuer}/auth/authorize?{query}"))
        .header("cookie", cookies.header().unwrap_or_default());
    let location = authorize.call().expect("an answer");
    let location = location.headers().get("location").expect("a redirect").to_str().expect("text").to_owned();
    let code = location.strip_prefix("http://localhost:3000/callback?code=").expect("a code, without a page");
    let code = code.split('&').next().expect("a code");
    let body = form(&[
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", "http://localhost:3000/callback"),
        ("client_id", id),
        ("client_secret", text(&says, "/clients/web/client_secret")),
    ]);
    let token = agent.post(format!("{issuer}/auth/token"));
    let mut token =
        token.header("content-type", "application/x-www-form-urlencoded").send(body).expect("an answer");
    let token: Value = serde_json::from_str(&token.body_mut().read_to_string().expect("text")).expect("JSON");
    assert_eq!(token["token_type"], "Bearer", "{token}");

    // Again and again, but by nobody without the link.
    assert_eq!(agent.get(link).call().expect("an answer").status(), 303);
    let grace = text(&says, "/users/1/id");
    let (address, token) = link.split_once("&token=").expect("a token");
    let address = address.split_once("user=").expect("a user").0;
    let forged = format!("{address}user={grace}&token={token}");
    assert_eq!(agent.get(&forged).call().expect("an answer").status(), 404);
    let owner = agent.get(text(&says, "/owner/sign_in_link")).call().expect("an answer");
    assert_eq!(owner.headers().get("location").expect("a redirect"), "/console");
    assert_eq!(running.stop(), 0);
}

#[test]
fn only_sarsen_dev_has_sign_in_links_at_once() {
    let place = product(YAML);
    let (running, says) = server(&place, &[]);
    let link =
        text(&says, "/users/0/sign_in_link").strip_prefix(text(&says, "/issuer")).expect("ours").to_owned();
    assert_eq!(running.stop(), 0);
    // The same data and key, served as any other server is.
    std::fs::write(
        place.path("sarsen.toml"),
        "listen = \"127.0.0.1:0\"\nissuer = \"http://localhost:1\"\ndatabase = \"sqlite:.sarsen/dev.db\"\n\
         secret_key_file = \".sarsen/dev.key\"\nlog = \"info\"\nlog_format = \"json\"\n",
    )
    .expect("written");
    let mut served = Running::start(place.sarsen(&["serve"]), place.path("serve.log"));
    let log = served.wait_for("\"listening\"");
    let address =
        log.split("\"address\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an address");
    let request = agent().get(format!("http://{address}{link}")).header("host", "localhost:1");
    assert_eq!(request.call().expect("an answer").status(), 404);
    assert_eq!(served.stop(), 0);
}

#[test]
fn a_saved_file_is_applied_while_the_server_runs() {
    let place = product(YAML);
    let (mut running, says) = server(&place, &[]);
    assert_eq!((may_export(&says, 0), may_export(&says, 1)), (true, false));
    let swapped = YAML.replace("name: Ada, plan: pro", "name: Ada, plan: free");
    let swapped = swapped.replace("name: Grace, plan: free", "name: Grace, plan: pro");
    std::fs::write(place.path("sarsen.yaml"), &swapped).expect("written");
    while (may_export(&says, 0), may_export(&says, 1)) != (false, true) {
        assert!(!running.has_ended(), "{}", running.log());
        rest();
    }

    // What is wrong is said, and the server goes on. What is removed stays, and that is said too.
    std::fs::write(place.path("sarsen.yaml"), YAML.replace("kind: web", "kind: wbe")).expect("written");
    let log = running.wait_for("was not applied");
    assert!(log.contains("sarsen.yaml:9:5: clients.web.kind: \"wbe\" is not a client kind"), "{log}");
    let fewer = swapped.lines().filter(|line| !line.contains("phone-app")).collect::<Vec<_>>().join("\n");
    std::fs::write(place.path("sarsen.yaml"), fewer).expect("written");
    let log = running.wait_for("no longer declared");
    assert!(log.contains("still on the server: client phone-app"), "{log}");
    assert!(may_export(&says, 1), "the file before is still in force");
    assert_eq!(running.stop(), 0);
}

#[test]
fn an_ephemeral_server_leaves_nothing() {
    let place = product(YAML);
    let (running, says) = server(&place, &["--ephemeral"]);
    let folder = text(&says, "/folder").to_owned();
    assert!(Path::new(&folder).exists() && !place.path(".sarsen").exists());
    assert!(may_export(&says, 0));
    assert_eq!(running.stop(), 0);
    assert!(!Path::new(&folder).exists() && !place.path(".env.local").exists());

    let tested = place.run(&["dev", "--ephemeral", "--", "sh", "-c", "echo $OIDC_ISSUER; exit 3"]);
    assert_eq!(tested.code, 3, "{}", tested.stderr);
    assert!(tested.stdout.starts_with("http://localhost:"), "{}", tested.stdout);
}

#[test]
fn a_lost_database_comes_again_with_the_same_ids_and_secrets() {
    let place = product(YAML);
    let script = "env | grep -E '^(OIDC|SERVICE)' | sort";
    let first = with_script(&place, script);
    // As after a start that was killed before it wrote to the database.
    std::fs::remove_file(place.path(".sarsen/dev.db")).expect("there");
    let second = with_script(&place, script);
    assert_eq!((second.code, &second.stdout), (0, &first.stdout), "{}", second.stderr);
}

#[test]
fn the_owner_administers_from_a_terminal() {
    let place = product(YAML);
    let (running, says) = server(&place, &[]);
    let server = Demo { running, says };
    sign_in(&place, &server, "/owner");
    let plans = place.run(&["plan", "list", "--org", "example", "--json"]);
    assert!(plans.code == 0 && plans.stdout.contains("\"pro\""), "{plans:?}");
    assert_eq!(server.running.stop(), 0);
}

#[test]
fn the_file_of_the_guide_is_good() {
    let guide = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/dev.md"));
    let yaml = guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file");
    let place = product(yaml);
    let done = place.run(&["dev", "--ephemeral", "--", "true"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
}

#[test]
fn git_is_told_to_ignore_the_secrets() {
    let place = product(YAML);
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(place.root()).env("HOME", place.root());
        command.output().is_ok_and(|output| output.status.success())
    };
    if !git(&["init", "--quiet"]) {
        return say_skipped("the warning about git: there is no git");
    }
    assert!(with_script(&place, "true").stderr.contains("git does not ignore"));
    assert!(git(&["add", "--force", ".env.local"]));
    assert!(with_script(&place, "true").stderr.contains("git tracks"));
    assert!(git(&["rm", "--quiet", "--cached", ".env.local"]));
    std::fs::write(place.path(".gitignore"), ".env.local\n").expect("written");
    let quiet = with_script(&place, "git status --short --untracked-files=all");
    assert!(!quiet.stderr.contains("git "), "{}", quiet.stderr);
    assert_eq!(quiet.stdout, "?? .gitignore\n?? sarsen.yaml\n", "git sees nothing of .sarsen");
}

/// Waits until a process has ended. One that nobody has asked for the exit code of has ended too.
fn wait_for_end(pid: &str) {
    let is_there = || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = state.rsplit(") ").next().unwrap_or_default().chars().next();
        state.is_some_and(|state| state != 'Z')
    };
    while is_there() {
        rest();
    }
}

#[test]
fn server_and_product_end_together_with_what_the_product_has_started() {
    let place = product(YAML);
    // The product ends, and leaves a process.
    let ended = with_script(&place, "sleep 1000 & echo $!");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    wait_for_end(ended.stdout.trim());

    // The server is told to end.
    let script = "trap 'echo asked; exit 5' TERM; sleep 1000 & echo $!; wait";
    let command = place.sarsen(&["dev", "--", "sh", "-c", script]);
    let mut running = Running::start(command, place.path("log"));
    let child = running.line();
    running.terminate();
    let (code, rest) = running.finish();
    assert_eq!((code, rest.as_str()), (5, "asked\n"));
    wait_for_end(child.trim());

    // The product is ended by a signal.
    assert_eq!(with_script(&place, "kill -KILL $$").code, 128 + 9);
}

/// Reads until the terminal has shown a text.
fn wait_for_text(terminal: &mut impl Read, shown: &mut String, text: &str) {
    let mut bytes = [0; 4096];
    while !shown.contains(text) {
        let length = terminal.read(&mut bytes).expect("readable");
        assert!(length > 0, "{text:?} is not in:\n{shown}");
        shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
}

#[test]
fn a_product_has_the_terminal_while_it_runs() {
    let place = product(YAML);
    // A terminal of its own. What comes after the product needs the terminal too.
    let product = "read x; echo \"got $x\"; read y";
    let line =
        format!("'{}' dev -- sh -c '{product}'; echo \"ended $?\"; read z; echo \"then $z\"", crate::PROGRAM);
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(place.root());
    command.env("HOME", place.root()).env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut script) = command.spawn() else {
        return say_skipped("a product at a terminal: there is no script (util-linux)");
    };
    let mut keys = script.stdin.take().expect("a pipe");
    let mut terminal = script.stdout.take().expect("a pipe");
    let mut shown = String::new();
    wait_for_text(&mut terminal, &mut shown, "Console");
    keys.write_all(b"hello\n").expect("typed");
    wait_for_text(&mut terminal, &mut shown, "got hello");
    keys.write_all(b"\x03").expect("typed");
    wait_for_text(&mut terminal, &mut shown, "ended 130");
    keys.write_all(b"again\n").expect("typed");
    wait_for_text(&mut terminal, &mut shown, "then again");
    assert_eq!(script.wait().expect("it ends").code(), Some(0));
}

#[test]
fn mistakes_say_what_to_do() {
    let place = Place::new();
    let none = place.run(&["dev"]);
    assert_eq!(none.code, 2);
    assert!(
        none.stderr.contains("there is no sarsen.yaml") && none.stderr.contains("--init"),
        "{}",
        none.stderr
    );
    assert!(!place.path(".sarsen").exists());
    let made = place.run(&["dev", "--init", "--", "true"]);
    assert_eq!(made.code, 0, "{}", made.stderr);

    let place = product(YAML);
    let unknown = with_script_named(&place, "no-such-program");
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("\"no-such-program\" was not found"), "{}", unknown.stderr);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let refused = place.run(&["dev", "--port", &port, "--", "true"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains(&format!("port {port} is taken")), "{}", refused.stderr);

    std::fs::remove_file(place.path(".env.local")).expect("there");
    std::os::unix::fs::symlink(place.path("sarsen.yaml"), place.path(".env.local")).expect("a link");
    let linked = with_script(&place, "true");
    assert_eq!(linked.code, 1);
    assert!(linked.stderr.contains("is a symbolic link"), "{}", linked.stderr);
    assert_eq!(read(&place.path("sarsen.yaml")), YAML);

    let place = product(&YAML.replace("kind: web", "colour: red\n    kind: web"));
    let wrong = with_script(&place, "true");
    assert_eq!(wrong.code, 2);
    let expected = "sarsen.yaml:9:5: clients.web.colour: Unknown; use";
    assert!(wrong.stderr.contains(expected), "{}", wrong.stderr);

    let place = product(YAML);
    std::fs::create_dir(place.path(".sarsen")).expect("made");
    std::fs::write(place.path(".sarsen/sarsen.db"), "another server's").expect("written");
    let foreign = with_script(&place, "true");
    assert_eq!(foreign.code, 1);
    assert!(foreign.stderr.contains("not from sarsen dev"), "{}", foreign.stderr);
}

fn with_script_named(place: &Place, program: &str) -> Ended {
    place.run(&["dev", "--", program])
}

#[test]
fn what_cannot_be_changed_is_said_by_its_place() {
    let place = product(YAML);
    assert_eq!(with_script(&place, "true").code, 0);
    let refused = YAML.replace("currency: EUR", "currency: USD") + "  - {email: nobody@example.test}\n";
    std::fs::write(place.path("sarsen.yaml"), refused).expect("written");
    assert_eq!(with_script(&place, "true").code, 2);
    for (from, to, expected) in [
        ("kind: native", "kind: spa", "12:31: clients.phone-app.kind: this cannot be changed, and is native"),
        ("currency: EUR", "currency: USD", "5:65: plans[0].currency: this cannot be changed, and is EUR"),
    ] {
        let yaml = YAML.replace(from, to).replace("'com.example.notes:/callback'", "http://localhost/cb");
        std::fs::write(place.path("sarsen.yaml"), yaml).expect("written");
        let refused = with_script(&place, "true");
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("sarsen.yaml:{expected}")), "{}", refused.stderr);
    }
    std::fs::write(place.path("sarsen.yaml"), YAML.replace("slug: example", "slug: other")).expect("written");
    let moved = with_script(&place, "true");
    let kept = "still on the server: organization example. ";
    assert!(moved.stderr.contains(kept), "what was refused was never there:\n{}", moved.stderr);
}
