//! The operations of `auth` and their shares.

use std::rc::Rc;

use browser::{Cookies, Form, KnownValues, Request, forms};
use serde_json::json;
use tokio::time::Instant;

use crate::error::Error;
use crate::http::{RequestDraft, Response};
use crate::load::{VirtualUser, Workload};
use crate::measure::{Cause, RequestKind, Verdict};
use crate::setup::{ADDRESSES_APART, PASSWORD, Registrations, address_of};

/// Share of approvals in all operations.
const APPROVALS: f64 = 0.1;
/// Share of registrations in the operations that hash.
const REGISTRATIONS: f64 = 0.2;
/// The first number of the addresses of users who register.
const ADDRESSES_FROM: usize = 4_000_000;

/// Shares of the operations. An operation has two requests, but one of the audit trail has one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    /// Registrations and sign-ins, in all operations.
    hashing: f64,
}

impl Shares {
    /// So that a share `of_requests` of the requests hash: with `h` operations that hash, `h / (1 + h + APPROVALS)` do.
    pub fn with_hashing(of_requests: f64) -> Shares {
        Shares { hashing: of_requests * (1.0 + APPROVALS) / (1.0 - of_requests) }
    }

    pub fn requests_per_operation(self) -> f64 {
        1.0 + self.hashing + APPROVALS
    }
}

pub(super) struct AuthLoad {
    accounts: Rc<Registrations>,
    shares: Shares,
    /// The `Authorization` of the owner of the server.
    owner: String,
    sign_up_pages: Vec<String>,
    /// One request for each organization.
    audits: Vec<Vec<u8>>,
}

impl AuthLoad {
    pub async fn new(accounts: Rc<Registrations>, shares: Shares) -> Result<AuthLoad, Error> {
        let owner = accounts.owner().await?;
        let audit = |slug: &String| {
            RequestDraft::get(format!("/api/organizations/{slug}/audit?limit=20"))
                .header("Authorization", owner.clone())
                .encode(&accounts.target.host)
        };
        let audits = accounts.organizations.iter().map(audit).collect();
        let sign_up_pages = accounts.organizations.iter().map(|slug| format!("/o/{slug}/signup")).collect();
        Ok(AuthLoad { accounts, shares, owner, sign_up_pages, audits })
    }

    async fn register(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let number = self.accounts.number();
        let target = &self.accounts.target;
        let path = &self.sign_up_pages[number % self.sign_up_pages.len()];
        let address = address_of(ADDRESSES_FROM + number * ADDRESSES_APART);
        let mut cookies = Cookies::default();
        let page = RequestDraft::in_browser(Request::get(path), &cookies, &address).encode(&target.host);
        let by_status = |response: &Response<'_>| Verdict::by_status(response, 200);
        let verdict = user.send(RequestKind::SignUpPage, &page, intended, by_status).await;
        if verdict != Verdict::Accepted {
            return verdict;
        }
        let found = forms(&String::from_utf8_lossy(user.body()));
        let known = KnownValues { password: PASSWORD, ..KnownValues::default() };
        // Without a form the empty one is sent, and refused.
        let form = Form::next(&found, &known).cloned().unwrap_or_default();
        if let Some(response) = user.response() {
            cookies.take_from(response.headers());
        }
        let email = format!("new-{number}@sign-ups.test");
        let typed = [("name", "New User"), ("email", &email), ("password", PASSWORD)];
        let request = Request::submit(path, &target.origin, &form.with(&typed));
        let request = RequestDraft::in_browser(request, &cookies, &address).encode(&target.host);
        user.send(RequestKind::SignUp, &request, Instant::now(), is_redirect).await
    }

    async fn sign_in(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let sign_ins = &self.accounts.sign_ins;
        let sign_in = &sign_ins[self.accounts.number() % sign_ins.len()];
        let by_status = |response: &Response<'_>| Verdict::by_status(response, 200);
        let verdict = user.send(RequestKind::SignInPage, &sign_in.page, intended, by_status).await;
        if verdict != Verdict::Accepted {
            return verdict;
        }
        user.send(RequestKind::SignIn, &sign_in.form, Instant::now(), is_redirect).await
    }

    async fn approve(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let (number, host) = (self.accounts.number(), &self.accounts.target.host);
        let registrants = &self.accounts.registrants;
        let slug = format!("registered-{number}");
        let body = json!({ "slug": &slug, "name": format!("Registered {number}") });
        let request = RequestDraft::post_json("/api/organizations", &body)
            .header("Authorization", registrants[number % registrants.len()].clone())
            .encode(host);
        let is_pending = |response: &Response<'_>| match Verdict::by_status(response, 201) {
            Verdict::Accepted if !contains(response.body, b"\"pending\"") => {
                Verdict::Failed(Cause::BadBody("a new organization that does not wait for its review"))
            }
            verdict => verdict,
        };
        let verdict = user.send(RequestKind::NewOrganization, &request, intended, is_pending).await;
        if verdict != Verdict::Accepted {
            return verdict;
        }
        let path = format!("/api/platform/organizations/{slug}/review");
        let request = RequestDraft::post_json(path, &json!({ "decision": "approved" }))
            .header("Authorization", self.owner.clone())
            .encode(host);
        let is_active = |response: &Response<'_>| match Verdict::by_status(response, 200) {
            Verdict::Accepted if !contains(response.body, b"\"active\"") => {
                Verdict::Failed(Cause::BadBody("an approved organization that is not active"))
            }
            verdict => verdict,
        };
        user.send(RequestKind::Review, &request, Instant::now(), is_active).await
    }

    async fn audit(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let request = &self.audits[user.random.below(self.audits.len() as u32) as usize];
        let judge = |response: &Response<'_>| match Verdict::by_status(response, 200) {
            Verdict::Accepted if !contains(response.body, b"\"action\"") => {
                Verdict::Failed(Cause::BadBody("an empty audit trail"))
            }
            verdict => verdict,
        };
        user.send(RequestKind::Audit, request, intended, judge).await
    }
}

impl Workload for AuthLoad {
    async fn operation(&self, user: &mut VirtualUser, intended: Instant) -> Verdict {
        let drawn = user.random.unit();
        let Shares { hashing } = self.shares;
        if drawn < hashing * REGISTRATIONS {
            self.register(user, intended).await
        } else if drawn < hashing {
            self.sign_in(user, intended).await
        } else if drawn < hashing + APPROVALS {
            self.approve(user, intended).await
        } else {
            self.audit(user, intended).await
        }
    }
}

/// A form that was not accepted is the page again.
fn is_redirect(response: &Response<'_>) -> Verdict {
    Verdict::by_statuses(response, &[302, 303])
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_operations_give_the_share_of_requests() {
        for of_requests in [0.0, 0.05, 0.25, 0.44] {
            let shares = Shares::with_hashing(of_requests);
            let audits = 1.0 - shares.hashing - APPROVALS;
            assert!(audits >= 0.0, "{of_requests}");
            let requests = 2.0 * (shares.hashing + APPROVALS) + audits;
            assert!((shares.requests_per_operation() - requests).abs() < 1e-12);
            assert!((shares.hashing / requests - of_requests).abs() < 1e-12);
        }
    }
}
