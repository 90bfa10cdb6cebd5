//! A signed-in account with its prebuilt requests. Its token is refreshed before it expires.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use browser::{Cookies, Request};
use tokio::time::{Instant, sleep_until};

use super::device_flow::{DEVICE_CODE_GRANT, TokenAnswer, refresh_request};
use crate::http::{RequestDraft, Response, Target, form_body};
use crate::load::{Random, Run, VirtualUser};
use crate::measure::{RequestKind, Verdict};

/// Connections that refresh tokens.
const REFRESHERS: usize = 4;
/// A failed refresh is retried after this.
const RETRY: Duration = Duration::from_secs(5);

/// All accounts of a run.
pub type Accounts = Rc<Vec<Account>>;

/// The format of the bodies of `/auth/device/code` and `/auth/token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    Form,
    Json,
}

/// The fields of `POST /auth/device/code`.
#[derive(Debug, Clone, Default)]
pub struct CodeRequest {
    pub client_id: String,
    /// Sent when not empty.
    pub org: String,
    pub service: String,
}

/// No `Debug`, so that no message has them.
pub struct Tokens {
    pub access_token: String,
    pub refresh_token: Option<String>,
    pub received: Instant,
    pub lifetime: Duration,
}

pub struct Account {
    target: Target,
    /// Its `X-Forwarded-For`.
    address: String,
    code: CodeRequest,
    shape: BodyFormat,
    /// The expected plan of `/api/subscription`. `None`: any.
    pub plan: Option<String>,
    /// The expected id of `/api/user`. `None`: any.
    pub user_id: Option<String>,
    /// Of the browser that signed in. Empty without a browser.
    pub cookies: Cookies,
    tokens: RefCell<Tokens>,
    requests: RefCell<Rc<Requests>>,
}

/// Requests as bytes.
pub struct Requests {
    pub subscription: Vec<u8>,
    pub user: Vec<u8>,
    pub device_code: Vec<u8>,
}

/// The parts of an [`Account`].
pub struct AccountParts {
    pub target: Target,
    pub address: String,
    pub code: CodeRequest,
    pub shape: BodyFormat,
    pub plan: Option<String>,
    pub user_id: Option<String>,
    pub cookies: Cookies,
}

impl Account {
    pub fn new(identity: AccountParts, tokens: Tokens) -> Account {
        let AccountParts { target, address, code, shape, plan, user_id, cookies } = identity;
        let requests = Requests::new(&target.host, &address, &code, shape, &tokens.access_token);
        Account {
            target,
            address,
            code,
            shape,
            plan,
            user_id,
            cookies,
            tokens: RefCell::new(tokens),
            requests: RefCell::new(Rc::new(requests)),
        }
    }

    pub fn requests(&self) -> Rc<Requests> {
        self.requests.borrow().clone()
    }

    /// Whether it can approve a device code.
    pub fn has_browser(&self) -> bool {
        self.cookies.header().is_some()
    }

    /// One poll for `device_code`.
    pub fn poll(&self, device_code: &str) -> Vec<u8> {
        let fields = [
            ("grant_type", DEVICE_CODE_GRANT),
            ("device_code", device_code),
            ("client_id", &self.code.client_id),
        ];
        post(self.shape, "/auth/token", &fields, &self.target.host, &self.address)
    }

    /// What a browser on its pages sends as `Origin`.
    pub fn origin(&self) -> &str {
        &self.target.origin
    }

    /// A request of this account's browser.
    pub fn in_browser(&self, request: Request, cookies: &Cookies) -> Vec<u8> {
        RequestDraft::in_browser(request, cookies, &self.address).encode(&self.target.host)
    }

    /// When to refresh the token: at a random time between 40 % and 70 % of its life, so that accounts do not refresh
    /// together. `None`: there is no refresh token.
    fn refresh_due(&self, random: &mut Random) -> Option<Instant> {
        let tokens = self.tokens.borrow();
        tokens.refresh_token.as_ref()?;
        let share = 0.4 + 0.3 * f64::from(random.below(1_000)) / 1_000.0;
        Some(tokens.received + tokens.lifetime.mul_f64(share))
    }

    async fn refresh(&self, user: &mut VirtualUser) -> bool {
        let Some(token) = self.tokens.borrow().refresh_token.clone() else { return false };
        let request = refresh_request(&self.code.client_id, &token, &self.address).encode(&self.target.host);
        let started = Instant::now();
        let by_status = |response: &Response<'_>| Verdict::by_status(response, 200);
        let verdict = user.send(RequestKind::Refresh, &request, started, by_status).await;
        let Ok(answer) = serde_json::from_slice::<TokenAnswer>(user.body()) else { return false };
        if verdict != Verdict::Accepted {
            return false;
        }
        let mut next = answer.into_tokens(started);
        next.refresh_token = next.refresh_token.or(Some(token));
        let requests =
            Requests::new(&self.target.host, &self.address, &self.code, self.shape, &next.access_token);
        self.requests.replace(Rc::new(requests));
        self.tokens.replace(next);
        true
    }
}

impl Requests {
    fn new(host: &str, address: &str, code: &CodeRequest, shape: BodyFormat, access_token: &str) -> Requests {
        let get = |path: &str| {
            RequestDraft::get(path)
                .header("Authorization", format!("Bearer {access_token}"))
                .header("X-Forwarded-For", address)
                .encode(host)
        };
        let fields = [
            ("client_id", code.client_id.as_str()),
            ("org", code.org.as_str()),
            ("service", code.service.as_str()),
        ];
        let fields: Vec<(&str, &str)> = fields.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        Requests {
            subscription: get("/api/subscription"),
            user: get("/api/user"),
            device_code: post(shape, "/auth/device/code", &fields, host, address),
        }
    }
}

fn post(shape: BodyFormat, path: &str, fields: &[(&str, &str)], host: &str, address: &str) -> Vec<u8> {
    let (content_type, body) = match shape {
        BodyFormat::Form => ("application/x-www-form-urlencoded", form_body(fields)),
        BodyFormat::Json => {
            let object: serde_json::Map<String, serde_json::Value> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            ("application/json", serde_json::Value::Object(object).to_string())
        }
    };
    RequestDraft::post(path, content_type, body.into_bytes()).header("X-Forwarded-For", address).encode(host)
}

/// Refreshes each token before it expires, until it is dropped. Refreshes are counted outside the mix.
pub async fn refresh_tokens(accounts: Accounts, run: Rc<Run>) {
    let mut refreshers = tokio::task::JoinSet::new();
    for number in 0..REFRESHERS {
        refreshers.spawn_local(keep_some_fresh(accounts.clone(), run.clone(), number));
    }
    refreshers.join_all().await;
}

/// Refreshes account `number` of every [`REFRESHERS`] accounts.
async fn keep_some_fresh(accounts: Accounts, run: Rc<Run>, number: usize) {
    let mut user = VirtualUser::new(&run, number);
    let mut random = Random::new(run.seed, u64::MAX - number as u64);
    let own = accounts.iter().skip(number).step_by(REFRESHERS);
    let mut due: Vec<(Instant, &Account)> =
        own.filter_map(|account| Some((account.refresh_due(&mut random)?, account))).collect();
    while let Some(next) = due.iter_mut().min_by_key(|(at, _)| *at) {
        sleep_until(next.0).await;
        let fresh = next.1.refresh(&mut user).await;
        let again = if fresh { next.1.refresh_due(&mut random) } else { None };
        next.0 = again.unwrap_or_else(|| Instant::now() + RETRY);
    }
}
