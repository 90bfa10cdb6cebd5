//! The naive server as a server under test: it prints its tokens when it starts, and no account has a browser.

use std::rc::Rc;
use std::time::Duration;

use browser::Cookies;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::Error;
use crate::http::{RequestDraft, Target};
use crate::setup::{Account, AccountParts, Accounts, BodyFormat, Client, CodeRequest, Tokens};

/// Its tokens do not expire.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Accounts from the line that the baseline printed: `tokens`, `client_id`, `org`, `service`.
pub(super) async fn baseline_accounts(target: &Target, said: &Value) -> Result<Accounts, Error> {
    let missing = |what: &str| Error::set_up("baseline", format!("the line that it printed has no {what}"));
    let text =
        |name: &str| said.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| missing(name));
    let code = CodeRequest { client_id: text("client_id")?, org: text("org")?, service: text("service")? };
    let shape = shape_of(target, &code).await?;
    let tokens = said.get("tokens").and_then(Value::as_array).ok_or_else(|| missing("tokens"))?;
    let accounts: Vec<Account> = tokens
        .iter()
        .filter_map(Value::as_str)
        .enumerate()
        .map(|(number, token)| {
            let identity = AccountParts {
                target: target.clone(),
                address: format!("10.128.{}.{}", (number >> 8) & 0xff, number & 0xff),
                code: code.clone(),
                shape,
                plan: None,
                user_id: None,
                cookies: Cookies::default(),
            };
            let tokens = Tokens {
                access_token: token.to_owned(),
                refresh_token: None,
                received: Instant::now(),
                lifetime: FOREVER,
            };
            Account::new(identity, tokens)
        })
        .collect();
    if accounts.is_empty() { Err(missing("tokens")) } else { Ok(Rc::new(accounts)) }
}

/// The naive server reads JSON, other servers read forms. Found out once, before the run.
async fn shape_of(target: &Target, code: &CodeRequest) -> Result<BodyFormat, Error> {
    let CodeRequest { client_id, org, service } = code;
    let mut client = Client::new(target.clone(), 0);
    let object = json!({ "client_id": client_id, "org": org, "service": service });
    let reply = client.send(&RequestDraft::post_json("/auth/device/code", &object)).await?;
    if reply.status == 200 {
        return Ok(BodyFormat::Json);
    }
    let fields = [("client_id", client_id.as_str()), ("org", org), ("service", service)];
    client.send(&RequestDraft::post_form("/auth/device/code", &fields)).await?.expect(&[200])?;
    Ok(BodyFormat::Form)
}
