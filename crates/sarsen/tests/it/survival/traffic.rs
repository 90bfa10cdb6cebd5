//! A client of the OAuth endpoints, and what the server has acknowledged to it.

use crate::balancer::{Balancer, agent, read};
use crate::browser::Browser;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::{Request, Response};

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// How a client reaches the server.
#[derive(Clone)]
enum Route {
    /// At this address. A broken connection gives no answer.
    Direct(String, Agent),
    /// Through a balancer. There is always an answer.
    Balanced(Balancer),
}

#[derive(Clone)]
pub struct DeviceClient {
    route: Route,
    client: String,
}

/// An answer of one of the OAuth endpoints.
#[derive(Debug)]
pub struct TokenAnswer {
    pub status: u16,
    pub retry_after: Option<String>,
    pub body: Value,
}

impl TokenAnswer {
    fn new(answer: Response<String>) -> TokenAnswer {
        let retry_after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        TokenAnswer {
            status: answer.status().as_u16(),
            retry_after: retry_after.map(str::to_owned),
            body: serde_json::from_str(answer.body()).unwrap_or_default(),
        }
    }

    pub fn text(&self, field: &str) -> String {
        self.body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// A text of a successful answer.
    pub fn given(&self, field: &str) -> String {
        assert_eq!(self.status, 200, "{self:?}");
        self.text(field)
    }
}

impl DeviceClient {
    /// For the demo that printed this.
    pub fn new(says: &Value) -> DeviceClient {
        DeviceClient::at(&text_at(says, "/issuer"), says)
    }

    /// For one instance on the database of the demo.
    pub fn at(instance: &str, says: &Value) -> DeviceClient {
        DeviceClient {
            route: Route::Direct(instance.to_owned(), agent()),
            client: text_at(says, "/clients/cli/client_id"),
        }
    }

    /// For several instances behind a balancer.
    pub fn behind(balancer: Balancer, says: &Value) -> DeviceClient {
        DeviceClient { route: Route::Balanced(balancer), client: text_at(says, "/clients/cli/client_id") }
    }

    /// None when the connection broke.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Option<TokenAnswer> {
        self.post_with(path, fields, None)
    }

    fn post_with(&self, path: &str, fields: &[(&str, &str)], prefer: Option<&str>) -> Option<TokenAnswer> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let form = form.append_pair("client_id", &self.client).extend_pairs(fields).finish();
        let request = |instance: &str| {
            let request = Request::post(format!("{instance}{path}"));
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            let request = match prefer {
                Some(wish) => request.header("prefer", wish),
                None => request,
            };
            request.body(form.clone()).expect("a request")
        };
        let answer = match &self.route {
            Route::Direct(instance, agent) => agent.run(request(instance)).and_then(read).ok()?,
            Route::Balanced(balancer) => balancer.send(request),
        };
        Some(TokenAnswer::new(answer))
    }

    /// Requests a device code and a user code.
    pub fn begin(&self) -> Option<TokenAnswer> {
        self.post("/auth/device/code", &[])
    }

    pub fn redeem(&self, device_code: &str) -> Option<TokenAnswer> {
        self.post("/auth/token", &[("grant_type", DEVICE_GRANT), ("device_code", device_code)])
    }

    /// The same as a client that keeps to RFC 8628 section 3.5: a server that is busy for a moment is asked again.
    pub fn redeem_patiently(&self, device_code: &str) -> Option<TokenAnswer> {
        let mut answer = self.redeem(device_code);
        let began = Instant::now();
        while answer.as_ref().is_some_and(|answer| answer.text("error") == "slow_down") {
            assert!(began.elapsed() < Duration::from_secs(30), "still busy after 30 s: {answer:?}");
            std::thread::park_timeout(Duration::from_millis(100));
            answer = self.redeem(device_code);
        }
        answer
    }

    /// A long poll.
    pub fn held(&self, device_code: &str) -> Option<TokenAnswer> {
        let fields = [("grant_type", DEVICE_GRANT), ("device_code", device_code)];
        self.post_with("/auth/token", &fields, Some("wait=10"))
    }

    pub fn refresh(&self, token: &str) -> Option<TokenAnswer> {
        self.post("/auth/token", &[("grant_type", "refresh_token"), ("refresh_token", token)])
    }

    pub fn revoke(&self, token: &str) -> Option<TokenAnswer> {
        self.post("/auth/revoke", &[("token", token)])
    }

    /// A device code that Ada has allowed.
    pub fn allowed(&self, ada: &mut Browser) -> String {
        let codes = self.begin().expect("an answer");
        allow(ada, &codes.given("user_code"));
        codes.given("device_code")
    }

    /// The tokens of a new grant.
    pub fn grant(&self, ada: &mut Browser) -> TokenAnswer {
        let tokens = self.redeem_patiently(&self.allowed(ada)).expect("an answer");
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

/// Ada allows a device.
pub fn allow(ada: &mut Browser, user_code: &str) {
    let page = ada.open(&format!("/activate?user_code={user_code}"));
    let page = ada.submit(&page, "/activate", &[]);
    let done = ada.submit(&page, "/activate", &[("decision", "allow")]);
    assert_eq!(done.status, 200, "{}", done.text);
}

pub fn text_at(says: &Value, pointer: &str) -> String {
    says.pointer(pointer).and_then(Value::as_str).expect("a text").to_owned()
}

/// Waits until the traffic has brought this about.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "not after 30 s: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Stops the traffic, also when the test fails.
#[derive(Default)]
pub struct Stop(AtomicBool);

impl Stop {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Sets it when the value is dropped.
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
    /// Pending device codes.
    pub codes: Vec<String>,
    pub newest_refresh_tokens: Vec<String>,
    pub revoked: Vec<String>,
    /// Redeemed device codes and their refresh tokens.
    pub redeemed: Vec<(String, String)>,
    /// Allowed device codes whose redemption had no answer.
    pub not_redeemed: Vec<String>,
}

impl Acknowledged {
    pub fn count(&self) -> usize {
        self.codes.len() + self.newest_refresh_tokens.len() + self.revoked.len() + self.redeemed.len()
    }

    /// Checks all of it. `when` is for the message.
    pub fn check(&self, terminal: &DeviceClient, when: &str) {
        // These first: after a lost answer, a token gives the same successor for some seconds only.
        for token in &self.newest_refresh_tokens {
            let answer = terminal.refresh(token).expect("an answer");
            assert_eq!(answer.status, 200, "{when}: an acknowledged refresh token is gone: {answer:?}");
        }
        for code in &self.codes {
            let answer = terminal.redeem_patiently(code).expect("an answer");
            assert_eq!(
                answer.text("error"),
                "authorization_pending",
                "{when}: an acknowledged code is gone: {answer:?}"
            );
        }
        for token in &self.revoked {
            let answer = terminal.refresh(token).expect("an answer");
            assert_eq!(
                answer.text("error"),
                "invalid_grant",
                "{when}: an acknowledged revocation is gone: {answer:?}"
            );
        }
        for (code, token) in &self.redeemed {
            let answer = terminal.redeem_patiently(code).expect("an answer");
            assert_eq!(
                answer.text("error"),
                "invalid_grant",
                "{when}: a redeemed code works again: {answer:?}"
            );
            let answer = terminal.refresh(token).expect("an answer");
            assert_eq!(answer.status, 200, "{when}: a token of a redeemed code is gone: {answer:?}");
        }
        for code in &self.not_redeemed {
            let answer = terminal.redeem_patiently(code).expect("an answer");
            let whole = answer.status == 200 || answer.text("error") == "invalid_grant";
            assert!(whole, "{when}: a redemption is half done: {answer:?}");
        }
    }
}
