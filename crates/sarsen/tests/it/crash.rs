//! `kill -9` in the middle of full traffic, again and again: whatever was acknowledged is there afterwards,
//! nothing that was acknowledged as revoked is accepted, and no half of a command shows.

use crate::browser::Browser;
use crate::support::{Place, Running};
use serde_json::Value;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use ureq::Agent;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
const ROUNDS: usize = 20;
/// Grants made before each round: to be refreshed, to be revoked, to be redeemed.
const CHAINS: usize = 3;
const REVOCATIONS: usize = 12;
const REDEMPTIONS: usize = 12;

/// Speaks to the server as programs do.
#[derive(Clone)]
struct Terminal {
    agent: Agent,
    issuer: String,
    client: String,
}

impl Terminal {
    fn new(says: &Value) -> Terminal {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None);
        let config = config.timeout_global(Some(Duration::from_secs(20)));
        let text = |pointer: &str| says.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned();
        Terminal {
            agent: config.build().new_agent(),
            issuer: text("/issuer"),
            client: text("/clients/cli/client_id"),
        }
    }

    /// Status and body; none when the connection broke.
    fn post(&self, path: &str, fields: &[(&str, &str)]) -> Option<(u16, Value)> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("client_id", &self.client).extend_pairs(fields);
        let request = self.agent.post(format!("{}{path}", self.issuer));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = request.send(form.finish()).ok()?;
        let status = response.status().as_u16();
        let body = response.into_body().read_to_string().ok()?;
        Some((status, serde_json::from_str(&body).unwrap_or_default()))
    }

    fn codes(&self) -> Option<(String, String)> {
        let (status, body) = self.post("/auth/device/code", &[])?;
        (status == 200).then(|| (text(&body, "device_code"), text(&body, "user_code")))
    }

    fn redeem(&self, device_code: &str) -> Option<(u16, Value)> {
        self.post("/auth/token", &[("grant_type", DEVICE_GRANT), ("device_code", device_code)])
    }

    fn refresh(&self, token: &str) -> Option<(u16, Value)> {
        self.post("/auth/token", &[("grant_type", "refresh_token"), ("refresh_token", token)])
    }

    /// A device code that ada has allowed.
    fn allowed(&self, ada: &mut Browser) -> String {
        let (device_code, user_code) = self.codes().expect("codes");
        let page = ada.open(&format!("/activate?user_code={user_code}"));
        let done = ada.submit(&page, "/activate", &[("decision", "allow")]);
        assert_eq!(done.status, 200, "{}", done.text);
        device_code
    }

    /// The refresh token of a new grant.
    fn grant(&self, ada: &mut Browser) -> String {
        let (status, body) = self.redeem(&self.allowed(ada)).expect("an answer");
        assert_eq!(status, 200, "{body}");
        text(&body, "refresh_token")
    }
}

fn text(body: &Value, field: &str) -> String {
    body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What the server has acknowledged in a round.
#[derive(Default)]
struct Acknowledged {
    codes: Vec<String>,
    newest_refresh_tokens: Vec<String>,
    revoked: Vec<String>,
    redeemed: Vec<(String, String)>,
    not_redeemed: Vec<String>,
}

#[test]
fn what_was_acknowledged_survives_kill_9_twenty_times() {
    let place = Place::new();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let mut total = 0;
    for round in 0..ROUNDS {
        let (running, says) = start(&place, port);
        let terminal = Terminal::new(&says);
        let mut ada = Browser::new(&terminal.issuer);
        let password = says.pointer("/users/0/password").and_then(Value::as_str).expect("a password");
        let page = ada.open("/o/acme/login");
        ada.submit(&page, "/o/acme/login", &[("email", "ada@acme.test"), ("password", password)]);
        let acknowledged = traffic(&terminal, &mut ada, running, round);
        total += acknowledged.codes.len();

        let (running, says) = start(&place, port);
        check(&Terminal::new(&says), &acknowledged, round);
        assert_eq!(running.stop(), 0, "and it ends cleanly");
    }
    println!("{total} acknowledged device codes were there after {ROUNDS} kills");
    assert!(total > ROUNDS * 20, "there was traffic: {total}");
}

fn start(place: &Place, port: u16) -> (Running, Value) {
    let listen = format!("127.0.0.1:{port}");
    let command = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", &listen]);
    let mut running = Running::start(command, place.path("demo.log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    (running, says)
}

/// Full traffic on all kinds of writes, ended by SIGKILL.
fn traffic(terminal: &Terminal, ada: &mut Browser, running: Running, round: usize) -> Acknowledged {
    let chains: Vec<String> = (0..CHAINS).map(|_| terminal.grant(ada)).collect();
    let to_revoke: Vec<String> = (0..REVOCATIONS).map(|_| terminal.grant(ada)).collect();
    let to_redeem: Vec<String> = (0..REDEMPTIONS).map(|_| terminal.allowed(ada)).collect();
    let killed = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Mutex::new(Acknowledged::default()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (terminal, killed, seen) = (terminal.clone(), killed.clone(), seen.clone());
            scope.spawn(move || {
                while let (false, Some((code, _))) = (killed.load(Ordering::SeqCst), terminal.codes()) {
                    seen.lock().expect("a lock").codes.push(code);
                }
            });
        }
        for mut token in chains {
            let (terminal, killed, seen) = (terminal.clone(), killed.clone(), seen.clone());
            scope.spawn(move || {
                while let (false, Some((status, body))) =
                    (killed.load(Ordering::SeqCst), terminal.refresh(&token))
                {
                    assert_eq!(status, 200, "{body}");
                    token = text(&body, "refresh_token");
                }
                seen.lock().expect("a lock").newest_refresh_tokens.push(token);
            });
        }
        let revoking = (terminal.clone(), seen.clone());
        scope.spawn(move || {
            let (terminal, seen) = revoking;
            for token in to_revoke {
                let Some((status, body)) = terminal.post("/auth/revoke", &[("token", &token)]) else {
                    return;
                };
                assert_eq!(status, 200, "{body}");
                seen.lock().expect("a lock").revoked.push(token);
            }
        });
        let redeeming = (terminal.clone(), seen.clone());
        scope.spawn(move || {
            let (terminal, seen) = redeeming;
            for code in to_redeem {
                match terminal.redeem(&code) {
                    Some((status, body)) => {
                        assert_eq!(status, 200, "{body}");
                        let token = text(&body, "refresh_token");
                        seen.lock().expect("a lock").redeemed.push((code, token));
                    }
                    None => seen.lock().expect("a lock").not_redeemed.push(code),
                }
            }
        });
        // Not a wait for something: the moment of the crash, another one in each round.
        let crash = std::sync::mpsc::channel::<()>();
        let _ = crash.1.recv_timeout(Duration::from_millis(40 + 23 * round as u64));
        // Dropping it is SIGKILL.
        drop(running);
        killed.store(true, Ordering::SeqCst);
    });
    Arc::into_inner(seen).expect("all threads have ended").into_inner().expect("a lock")
}

fn check(terminal: &Terminal, acknowledged: &Acknowledged, round: usize) {
    for code in &acknowledged.codes {
        let (_, body) = terminal.redeem(code).expect("an answer");
        assert_eq!(
            text(&body, "error"),
            "authorization_pending",
            "round {round}: an acknowledged code is gone"
        );
    }
    for token in &acknowledged.newest_refresh_tokens {
        let (status, body) = terminal.refresh(token).expect("an answer");
        assert_eq!(status, 200, "round {round}: an acknowledged refresh token is gone: {body}");
    }
    for token in &acknowledged.revoked {
        let (_, body) = terminal.refresh(token).expect("an answer");
        assert_eq!(
            text(&body, "error"),
            "invalid_grant",
            "round {round}: an acknowledged revocation is gone"
        );
    }
    for (code, token) in &acknowledged.redeemed {
        let (_, body) = terminal.redeem(code).expect("an answer");
        assert_eq!(text(&body, "error"), "invalid_grant", "round {round}: a redeemed code is good again");
        let (status, body) = terminal.refresh(token).expect("an answer");
        assert_eq!(status, 200, "round {round}: what a code gave is gone: {body}");
    }
    for code in &acknowledged.not_redeemed {
        let (status, body) = terminal.redeem(code).expect("an answer");
        let whole = status == 200 || text(&body, "error") == "invalid_grant";
        assert!(whole, "round {round}: half a redemption: {status} {body}");
    }
}
