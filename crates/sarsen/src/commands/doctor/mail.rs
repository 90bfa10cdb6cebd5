//! Mail: does the relay take mails from this server, and do receivers take them from the relay?

use crate::commands::findings::{Finding, fail, ok};
use crate::commands::mail::{explained, records};
use crate::config::Config;
use crate::environment::Environment;
use crate::error::Result;
use crate::{mail_relay, server_process};

/// All that comes before a recipient.
pub(super) fn relay(config: &Config, environment: &Environment) -> Result<Finding> {
    const CHECK: &str = "mail";
    let (Some(relay), Some(address)) = (mail_relay::relay(config, environment)?, &config.smtp_url.value)
    else {
        return Ok(ok(CHECK, "smtp_url is not set, so the server sends no mail"));
    };
    Ok(match server_process::runtime()?.block_on(relay.check()) {
        Ok(()) => {
            ok(CHECK, format!("{address} takes mails from {}; sarsen mail test sends one", relay.sender()))
        }
        Err(refused) => fail(CHECK, explained(&refused)),
    })
}

/// What the domain of the sender publishes.
pub(super) fn records(config: &Config, environment: &Environment) -> Result<Vec<Finding>> {
    let Some(sender) = &config.mail_from.value else { return Ok(Vec::new()) };
    let names = mail_relay::connector(config, environment)?.text_records();
    let selector = config.mail_dkim_selector.value.as_deref();
    Ok(server_process::runtime()?.block_on(records::check(&names, sender, selector)))
}
