//! The administrator of the set-up: signs in by the device flow and calls the API.

use std::cell::RefCell;

use browser::{Cookies, KnownValues};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::account::Tokens;
use super::browser::Browser;
use super::client::{Client, Reply};
use super::device_flow::{TokenAnswer, refresh_request, sign_in};
use crate::error::Error;
use crate::http::RequestDraft;

/// The client of the platform for terminals.
pub(crate) const CLIENT_ID: &str = "cli";
const SCOPE: &str = "openid email offline_access platform org:*";
/// The `X-Forwarded-For` of the administrator.
const ADDRESS: &str = "10.255.255.1";

/// E-mail address and password.
#[derive(Clone, Serialize, Deserialize)]
pub struct Credentials {
    pub email: String,
    pub password: String,
}

/// All workers share it, with their own connections.
pub struct Admin {
    tokens: RefCell<Tokens>,
    /// One refresh at a time: a refresh token works once.
    refreshing: Mutex<()>,
}

impl Admin {
    pub async fn sign_in(client: &mut Client, credentials: &Credentials) -> Result<Admin, Error> {
        let mut browser = Browser { client, cookies: &mut Cookies::default(), address: ADDRESS };
        let known = KnownValues { email: &credentials.email, password: &credentials.password, user_code: "" };
        let received = Instant::now();
        let answer = sign_in(&mut browser, CLIENT_ID, SCOPE, known).await?;
        if let Some(scope) = &answer.scope
            && !scope.split(' ').any(|granted| granted == "platform")
        {
            return Err(Error::set_up(
                "sign-in",
                format!("this account is no administrator: granted {scope:?}"),
            ));
        }
        let tokens = RefCell::new(answer.into_tokens(received));
        Ok(Admin { tokens, refreshing: Mutex::new(()) })
    }

    /// Gets a new token, which covers the organizations that exist by now.
    pub async fn refresh(&self, client: &mut Client) -> Result<(), Error> {
        let _turn = self.refreshing.lock().await;
        self.exchange(client).await
    }

    /// The `Authorization` of its requests.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.tokens.borrow().access_token)
    }

    /// `POST path` with a JSON body. Another status than success is an error.
    pub async fn post(&self, client: &mut Client, path: &str, body: &Value) -> Result<Reply, Error> {
        self.send(client, RequestDraft::post_json(path, body)).await
    }

    /// Any other call. Another status than success is an error.
    pub(crate) async fn send(&self, client: &mut Client, draft: RequestDraft) -> Result<Reply, Error> {
        self.stay_fresh(client).await?;
        let draft = draft.header("Authorization", self.bearer()).header("X-Forwarded-For", ADDRESS);
        client.send(&draft).await?.expect(&[200, 201, 204])
    }

    async fn stay_fresh(&self, client: &mut Client) -> Result<(), Error> {
        if !self.is_stale() {
            return Ok(());
        }
        let _turn = self.refreshing.lock().await;
        if self.is_stale() { self.exchange(client).await } else { Ok(()) }
    }

    fn is_stale(&self) -> bool {
        let tokens = self.tokens.borrow();
        tokens.received.elapsed() > tokens.lifetime / 2
    }

    async fn exchange(&self, client: &mut Client) -> Result<(), Error> {
        let token = self.tokens.borrow().refresh_token.clone();
        let token = token
            .ok_or_else(|| Error::set_up("sign-in", "no refresh token came with the administrator's"))?;
        let draft = refresh_request(CLIENT_ID, &token, ADDRESS);
        let received = Instant::now();
        let answer: TokenAnswer = client.send(&draft).await?.expect(&[200])?.json()?;
        let mut tokens = answer.into_tokens(received);
        tokens.refresh_token = tokens.refresh_token.or(Some(token));
        self.tokens.replace(tokens);
        Ok(())
    }
}
