//! `sarsen owner recover`: a way back for an owner who has lost the password, while the server runs and while it does not.

use crate::browser::Browser;
use crate::support::{Place, Running, mode};

const OLD: &str = "the first password of olga";
const NEW: &str = "the second password of olga";
const RECOVER: [&str; 4] = ["owner", "recover", "--email", "olga@sarsen.test"];

/// A server whose owner is olga, and its issuer.
fn start(place: &Place) -> (Running, String) {
    let port = server::testing::free_port();
    let issuer = format!("http://localhost:{port}");
    assert_eq!(place.run(&["init", "--yes", "--issuer", &issuer]).code, 0);
    let listen = format!("127.0.0.1:{port}");
    let mut running = serve(place, &listen);
    running.wait_for("listening");
    let link = std::fs::read_to_string(place.path("setup-link.txt")).expect("a link");
    let mut browser = Browser::new(&issuer);
    let page = browser.open(link.trim());
    let typed = [("email", "olga@sarsen.test"), ("name", "Olga"), ("password", OLD)];
    assert_eq!(browser.submit(&page, "/setup", &typed).status, 200);
    running.wait_for("the file of the set-up link is removed");
    assert!(!place.path("setup-link.txt").exists());
    (running, issuer)
}

fn serve(place: &Place, listen: &str) -> Running {
    Running::start(place.sarsen(&["serve", "--listen", listen]), place.path("log"))
}

/// Whether olga can sign in with this password.
fn signs_in(issuer: &str, password: &str) -> bool {
    let mut browser = Browser::new(issuer);
    let page = browser.open("/login");
    let typed = [("email", "olga@sarsen.test"), ("password", password)];
    browser.submit(&page, "/login", &typed).status == 200
}

fn set_password(issuer: &str, link: &str, password: &str) {
    let mut browser = Browser::new(issuer);
    let page = browser.open(link);
    assert!(page.text.contains("olga@sarsen.test"), "{}", page.text);
    let done = browser.submit(&page, "/password", &[("password", password)]);
    assert!(done.status == 200 && done.text.contains("olga@sarsen.test"), "{}", done.text);
}

#[test]
fn an_owner_comes_back_while_the_server_runs_and_while_it_does_not() {
    let place = Place::new();
    let (running, issuer) = start(&place);
    let socket = place.path("sarsen.db-control");
    assert_eq!(mode(&socket), 0o600);

    let link = place.json(&RECOVER);
    assert_eq!(link["email"], "olga@sarsen.test");
    let url = link["url"].as_str().expect("a link");
    assert!(url.starts_with(&format!("{issuer}/password?token=link_")), "{url}");
    set_password(&issuer, url, NEW);
    assert!(signs_in(&issuer, NEW) && !signs_in(&issuer, OLD));
    let secret = url.split('.').next_back().expect("a secret");
    assert!(!running.log().contains(secret), "no log has the link");

    let stranger = place.run(&["owner", "recover", "--email", "nobody@sarsen.test"]);
    assert_eq!((stranger.code, stranger.stdout.as_str()), (1, ""), "{stranger:?}");
    assert!(stranger.stderr.contains("platform owner with this e-mail address not found"), "{stranger:?}");

    assert_eq!(running.stop(), 0);
    assert!(!socket.exists(), "the socket goes with the server");
    let link = place.json(&RECOVER);
    let listen = issuer.replace("http://localhost", "127.0.0.1");
    let mut again = serve(&place, &listen);
    again.wait_for("listening");
    set_password(&issuer, link["url"].as_str().expect("a link"), OLD);
    assert!(signs_in(&issuer, OLD) && !signs_in(&issuer, NEW));

    // A server that was killed leaves its socket. Neither a command nor the next server stumbles over it.
    drop(again);
    assert!(socket.exists());
    let shown = place.run(&RECOVER);
    assert!(shown.code == 0 && shown.stdout.contains("olga@sarsen.test"), "{shown:?}");
    let mut last = serve(&place, &listen);
    last.wait_for("listening");
    assert_eq!(place.run(&RECOVER).code, 0);
    assert_eq!(last.stop(), 0);
}

#[test]
fn what_stands_in_the_way_is_named() {
    let place = Place::new();
    assert_eq!(place.run(&["init", "--yes"]).code, 0);
    let none = place.run(&RECOVER);
    assert!(none.code == 1 && none.stderr.contains("cannot find the database"), "{none:?}");
    assert!(!place.path("sarsen.db").exists(), "no database is made");

    // Something else under the name of the socket: it stays, and the server serves without one.
    std::fs::write(place.path("sarsen.db-control"), "precious").expect("written");
    let mut running = serve(&place, "127.0.0.1:0");
    let log = running.wait_for("listening");
    assert!(log.contains("is not a socket of this user"), "{log}");
    let refused = place.run(&RECOVER);
    assert!(refused.code == 1 && refused.stderr.contains("in use by process"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(place.path("sarsen.db-control")).expect("a file"), "precious");
    assert_eq!(running.stop(), 0);
}
