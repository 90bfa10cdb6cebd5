//! A terminal that speaks to the server as programs do, and what the server has acknowledged, to be looked for later.

use crate::balancer::{Balancer, agent, read};
use crate::browser::Browser;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::{Request, Response};

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// How a terminal comes to the server.
#[derive(Clone)]
enum Way {
    /// At this address; a broken connection is no answer.
    Direct(String, Agent),
    /// To any instance; there is always an answer.
    Balanced(Balancer),
}

#[derive(Clone)]
pub struct Terminal {
    way: Way,
    client: String,
}

/// An answer of one of the OAuth endpoints.
#[derive(Debug)]
pub struct Told {
    pub status: u16,
    pub retry_after: Option<String>,
    pub body: Value,
}

impl Told {
    fn new(answer: Response<String>) -> Told {
        let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        Told {
            status: answer.status().as_u16(),
            retry_after: retry_after.map(str::to_owned),
            body: serde_json::from_str(answer.body()).unwrap_or_default(),
        }
    }

    pub fn text(&self, field: &str) -> String {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A text of an answer that says yes.
    pub fn given(&self, field: &str) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.text(field)
    }
}

impl Terminal {
    /// Before a demo that said this.
    pub fn new(says: &Value) -> Terminal {
        Terminal::at(&text_at(says, "/issuer"), says)
    }

    /// At one instance on the demo's database.
    pub fn at(door: &str, says: &Value) -> Terminal {
        Terminal {
            way: Way::Direct(door.to_owned(), agent()),
            client: text_at(says, "/clients/cli/client_id"),
        }
    }

    /// Before several instances.
    pub fn behind(balancer: Balancer, says: &Value) -> Terminal {
        Terminal { way: Way::Balanced(balancer), client: text_at(says, "/clients/cli/client_id") }
    }

    /// None when the connection broke.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Option<Told> {
        self.post_with(path, fields, None)
    }

    fn post_with(&self, path: &str, fields: &[(&str, &str)], prefer: Option<&str>) -> Option<Told> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let form = form.append_pair("client_id", &self.client).extend_pairs(fields).finish();
        let request = |door: &str| {
            let request = Request::post(format!("{door}{path}"));
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            let request = match prefer {
                Some(wish) => request.header("prefer", wish),
                None => request,
            };
            request.body(form.clone()).expect("a request")
        };
        let answer = match &self.way {
            Way::Direct(door, agent) => agent.run(request(door)).and_then(read).ok()?,
            Way::Balanced(balancer) => balancer.send(request),
        };
        Some(Told::new(answer))
    }

    /// A device code and a user code, asked for once.
    pub fn begin(&self) -> Option<Told> {
        self.post("/auth/device/code", &[])
    }

    pub fn redeem(&self, device_code: &str) -> Option<Told> {
        self.post("/auth/token", &[("grant_type", DEVICE_GRANT), ("device_code", device_code)])
    }

    /// A poll that asks to be held for as long as it may.
    pub fn held(&self, device_code: &str) -> Option<Told> {
        let fields = [("grant_type", DEVICE_GRANT), ("device_code", device_code)];
        self.post_with("/auth/token", &fields, Some("wait=10"))
    }

    pub fn refresh(&self, token: &str) -> Option<Told> {
        self.post("/auth/token", &[("grant_type", "refresh_token"), ("refresh_token", token)])
    }

    pub fn revoke(&self, token: &str) -> Option<Told> {
        self.post("/auth/revoke", &[("token", token)])
    }

    /// A device code that ada has allowed.
    pub fn allowed(&self, ada: &mut Browser) -> String {
        let codes = self.begin().expect("an answer");
        allow(ada, &codes.given("user_code"));
        codes.given("device_code")
    }

    /// What a new grant gives.
    pub fn grant(&self, ada: &mut Browser) -> Told {
        let tokens = self.redeem(&self.allowed(ada)).expect("an answer");
        assert_eq!(tokens.status, 200, "{tokens:?}");
        tokens
    }
}

/// Ada signs in.
pub fn sign_in(ada: &mut Browser, says: &Value) {
    let page = ada.open("/o/acme/login");
    let password = text_at(says, "/users/0/password");
    let page = ada.submit(&page, "/o/acme/login", &[("email", "ada@acme.test"), ("password", &password)]);
    assert_eq!(page.status, 200, "{}", page.text);
}

/// Ada says yes to a device.
pub fn allow(ada: &mut Browser, user_code: &str) {
    let page = ada.open(&format!("/activate?user_code={user_code}"));
    let done = ada.submit(&page, "/activate", &[("decision", "allow")]);
    assert_eq!(done.status, 200, "{}", done.text);
}

pub fn text_at(says: &Value, pointer: &str) -> String {
    says.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned()
}

/// Waits for something that the traffic must bring about.
pub fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "not after 30 s: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Tells the traffic to end, also when the test fails.
#[derive(Default)]
pub struct Stop(AtomicBool);

impl Stop {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Sets it when this value goes.
    pub fn at_the_end(&self) -> impl Drop + '_ {
        struct End<'a>(&'a Stop);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::SeqCst);
            }
        }
        End(self)
    }
}

/// What the server has acknowledged.
#[derive(Default)]
pub struct Acknowledged {
    /// Device codes about which nobody decides.
    pub codes: Vec<String>,
    pub newest_refresh_tokens: Vec<String>,
    pub revoked: Vec<String>,
    /// Device codes, and the refresh tokens that they gave.
    pub redeemed: Vec<(String, String)>,
    /// Allowed device codes whose redemption was not answered.
    pub not_redeemed: Vec<String>,
}

impl Acknowledged {
    pub fn count(&self) -> usize {
        self.codes.len() + self.newest_refresh_tokens.len() + self.revoked.len() + self.redeemed.len()
    }

    /// Looks for all of it. `when` is for the message.
    pub fn check(&self, terminal: &Terminal, when: &str) {
        // First: one whose last answer was lost gives the same successor for some seconds only.
        for token in &self.newest_refresh_tokens {
            let told = terminal.refresh(token).expect("an answer");
            assert_eq!(told.status, 200, "{when}: an acknowledged refresh token is gone: {told:?}");
        }
        for code in &self.codes {
            let told = terminal.redeem(code).expect("an answer");
            assert_eq!(
                told.text("error"),
                "authorization_pending",
                "{when}: an acknowledged code is gone: {told:?}"
            );
        }
        for token in &self.revoked {
            let told = terminal.refresh(token).expect("an answer");
            assert_eq!(
                told.text("error"),
                "invalid_grant",
                "{when}: an acknowledged revocation is gone: {told:?}"
            );
        }
        for (code, token) in &self.redeemed {
            let told = terminal.redeem(code).expect("an answer");
            assert_eq!(
                told.text("error"),
                "invalid_grant",
                "{when}: a redeemed code is good again: {told:?}"
            );
            let told = terminal.refresh(token).expect("an answer");
            assert_eq!(told.status, 200, "{when}: what a code gave is gone: {told:?}");
        }
        for code in &self.not_redeemed {
            let told = terminal.redeem(code).expect("an answer");
            let whole = told.status == 200 || told.text("error") == "invalid_grant";
            assert!(whole, "{when}: half a redemption: {told:?}");
        }
    }
}
