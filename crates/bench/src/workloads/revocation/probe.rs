//! One prober of `revocation`: it has a token accepted by one instance, makes a change at another, and polls the first one
//! until the change is in force.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::counts::{Change, Probe, Seen};
use crate::error::Error;
use crate::http::{Connection, RequestDraft, Response, Target};
use crate::json_scan::string_field;
use crate::measure::Cause;
use crate::setup::{Admin, Client, PLANS_SOLD, ProbeAccount, Tokens};

/// A change that is not in force after this counts as one that never is.
pub(super) const EFFECT_TIME_MAX: Duration = Duration::from_secs(5);
/// The pause after an answer that decides nothing.
const PAUSE: Duration = Duration::from_millis(1);
/// Answers before the change: the first one fills the caches, the others come from them.
const ACCEPTED_BEFORE: usize = 3;

pub(super) struct Prober {
    admin: Rc<Admin>,
    probe_account: ProbeAccount,
    /// The instance where changes are made.
    changing: Client,
    /// The instance that is polled.
    polled: Poller,
    /// `None`: the account has to sign in.
    tokens: Option<Tokens>,
    /// The browser of the account is signed in.
    inside: bool,
    /// The current plan. `None`: unknown.
    plan: Option<&'static str>,
    /// Suspensions to end.
    suspensions: VecDeque<String>,
}

/// The answer with the change.
#[derive(Clone, Copy)]
enum Expected {
    Refuses,
    Shows(&'static str),
}

impl Prober {
    /// Prober `number` makes changes at one of `targets` and polls the next one.
    pub fn new(admin: Rc<Admin>, probe_account: ProbeAccount, targets: &[Target], number: usize) -> Prober {
        let target = |number: usize| targets[number % targets.len()].clone();
        Prober {
            admin,
            probe_account,
            changing: Client::new(target(number), number),
            polled: Poller { target: target(number + 1), index: number, connection: None },
            tokens: None,
            inside: false,
            plan: None,
            suspensions: VecDeque::new(),
        }
    }

    /// Signs in if necessary, before the probe, which would do it too.
    pub async fn prepare(&mut self) -> Result<(), Error> {
        let prepared = self.signed_in().await.map(drop);
        if prepared.is_err() {
            self.inside = false;
        }
        prepared
    }

    /// Makes one change and polls until it is in force. After an error the next probe starts with a new sign-in.
    pub async fn probe(&mut self, change: Change) -> Result<Probe, Error> {
        let probe = self.try_probe(change).await;
        // Sessions and tokens survive a suspension of the organization.
        if probe.is_err() || !matches!(change, Change::Plan | Change::Organization) {
            self.tokens = None;
        }
        if probe.is_err() || matches!(change, Change::Sessions | Change::Account) {
            self.inside = false;
        }
        if !matches!(probe, Ok(Probe { seen: Some(_), .. })) {
            self.plan = None;
        }
        probe
    }

    async fn try_probe(&mut self, change: Change) -> Result<Probe, Error> {
        let request = self.signed_in().await?;
        let plan = self.accepted(&request).await?;
        let (expected, plan) = match change {
            Change::Plan => (Expected::Shows(other_plan(plan)), other_plan(plan)),
            _ => (Expected::Refuses, plan),
        };
        self.change(change, plan).await?;
        self.plan = Some(plan);
        Ok(self.polled.until(&request, expected, Instant::now()).await)
    }

    /// Signs in if necessary, and returns the request to poll with.
    async fn signed_in(&mut self) -> Result<Vec<u8>, Error> {
        while let Some(path) = self.suspensions.front() {
            self.admin.send(&mut self.changing, RequestDraft::delete(path)).await?;
            self.suspensions.pop_front();
        }
        let stale = |tokens: &Tokens| tokens.received.elapsed() > tokens.lifetime / 2;
        if self.tokens.as_ref().is_some_and(stale) {
            self.tokens = None;
        }
        let person = &mut self.probe_account.person;
        let tokens = match self.tokens.take() {
            Some(tokens) => tokens,
            None => {
                if !self.inside {
                    person.sign_in_by_link(&self.admin, &mut self.changing).await?;
                    self.inside = true;
                }
                person.sign_in(&mut self.changing).await?
            }
        };
        let question = RequestDraft::get("/api/subscription")
            .header("Authorization", format!("Bearer {}", tokens.access_token))
            .header("X-Forwarded-For", person.address.clone());
        self.tokens = Some(tokens);
        Ok(question.encode(&self.polled.target.host))
    }

    /// Polls until the caches of the polled instance have the current state, and returns the plan.
    async fn accepted(&mut self, request: &[u8]) -> Result<&'static str, Error> {
        let begun = Instant::now();
        let mut accepted = 0;
        loop {
            let answer = self.polled.send(request).await;
            let shown = answer.as_ref().ok().and_then(plan_shown);
            match shown.filter(|plan| self.plan.is_none_or(|expected| expected == *plan)) {
                Some(plan) => {
                    accepted += 1;
                    if accepted == ACCEPTED_BEFORE {
                        return Ok(plan);
                    }
                }
                None if begun.elapsed() > EFFECT_TIME_MAX => {
                    let last = answer.map_or_else(|cause| cause.to_string(), |answer| describe(&answer));
                    return Err(Error::set_up("polling before the change", format!("not accepted: {last}")));
                }
                None => {
                    accepted = 0;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Makes the change and waits for the acknowledgement.
    async fn change(&mut self, change: Change, plan: &str) -> Result<(), Error> {
        let (admin, client, person) = (&self.admin, &mut self.changing, &self.probe_account.person);
        let (organization, user) = (&person.organization, &person.user_id);
        let inside = format!("/api/organizations/{organization}");
        match change {
            Change::Token => {
                let token = self.tokens.as_ref().and_then(|tokens| tokens.refresh_token.as_deref());
                let fields = [("token", token.unwrap_or_default()), ("client_id", &person.client_id)];
                let draft = RequestDraft::post_form("/auth/revoke", &fields);
                client
                    .send(&draft.header("X-Forwarded-For", person.address.clone()))
                    .await?
                    .expect(&[200])?;
            }
            Change::Sessions => {
                admin.send(client, RequestDraft::delete(&format!("{inside}/users/{user}/sessions"))).await?;
            }
            Change::Account | Change::Organization => {
                let path = match change {
                    Change::Account => format!("{inside}/users/{user}/suspension"),
                    _ => format!("/api/platform/organizations/{organization}/suspension"),
                };
                self.suspensions.push_back(path.clone());
                admin.send(client, RequestDraft::json("PUT", &path, &json!({ "reason": "bench" }))).await?;
            }
            Change::Plan => {
                let path = format!("{inside}/subscriptions/{}", self.probe_account.subscription);
                admin.send(client, RequestDraft::json("PATCH", &path, &json!({ "plan": plan }))).await?;
            }
        }
        Ok(())
    }
}

fn other_plan(plan: &str) -> &'static str {
    if plan == PLANS_SOLD[0] { PLANS_SOLD[1] } else { PLANS_SOLD[0] }
}

fn plan_shown(answer: &Response<'_>) -> Option<&'static str> {
    let shown = string_field(answer.body, "plan").filter(|_| answer.status == 200)?;
    PLANS_SOLD.into_iter().find(|plan| plan.as_bytes() == shown)
}

fn describe(answer: &Response<'_>) -> String {
    match plan_shown(answer) {
        Some(plan) => format!("{} with the plan {plan}", answer.status),
        None => Cause::status(answer).to_string(),
    }
}

/// A connection to the polled instance, opened again when it closes.
struct Poller {
    target: Target,
    index: usize,
    connection: Option<Connection>,
}

impl Poller {
    async fn send(&mut self, request: &[u8]) -> Result<Response<'_>, Cause> {
        let usable = |connection: &Connection| {
            !connection.is_closed() && connection.response().is_none_or(|answer| !answer.close)
        };
        let mut connection = match self.connection.take().filter(usable) {
            Some(connection) => connection,
            None => Connection::open(&self.target, self.index, EFFECT_TIME_MAX).await?,
        };
        connection.exchange(request, EFFECT_TIME_MAX).await?;
        self.connection.insert(connection).response().ok_or(Cause::Closed)
    }

    /// Polls without pause until the change is in force.
    async fn until(&mut self, request: &[u8], expected: Expected, acknowledged: Instant) -> Probe {
        let mut probe = Probe { requests: 0, seen: None };
        let mut accepted_until = Duration::ZERO;
        loop {
            probe.requests += 1;
            let sent = acknowledged.elapsed();
            let is_changed = match (self.send(request).await, expected) {
                (Ok(answer), Expected::Refuses) if matches!(answer.status, 401 | 403) => Some(true),
                (Ok(answer), Expected::Shows(plan)) if plan_shown(&answer) == Some(plan) => Some(true),
                (Ok(answer), _) if answer.status == 200 => Some(false),
                _ => None,
            };
            let after = acknowledged.elapsed();
            if after > EFFECT_TIME_MAX {
                return probe;
            }
            match is_changed {
                Some(true) => {
                    probe.seen = Some(Seen { after, accepted_until });
                    return probe;
                }
                Some(false) => accepted_until = sent,
                None => sleep(PAUSE).await,
            }
        }
    }
}
