//! `sarsen mail test`: sends a mail as the server would, and says at which step that ends.

use super::records;
use crate::api_client;
use crate::commands::findings::{self, Finding, fail, ok};
use crate::config::{Config, ConfigFile};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::{mail_relay, server_process};
use server::outgoing::{Message, Refused, Relay, Step};
use server::{SystemRandom, random_secret};

/// Send a mail with the settings of this configuration, and say what does not work.
#[derive(clap::Args)]
#[command(
    after_help = "Exit code 1 when the relay does not take the mail, or the DKIM key is missing; warnings do not count."
)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Who gets the mail
    #[arg(long, value_name = "ADDRESS")]
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, environment: &Environment) -> Result<()> {
    let config = Config::load(&args.config.flags(), environment)?;
    let Some(relay) = mail_relay::relay(&config, environment)? else {
        return Err(Error::usage(
            "smtp_url is not set, so the server sends no mail; set smtp_url and mail_from",
        ));
    };
    let names = mail_relay::connector(&config, environment)?.text_records();
    let selector = config.mail_dkim_selector.value.as_deref();
    let issuer = config.issuer_at(&config.listen.value);
    let found = server_process::runtime()?.block_on(async {
        let mut found = vec![sent(&relay, &message(&args.to, &issuer)).await];
        found.extend(records::check(&names, relay.sender(), selector).await);
        found
    });
    findings::print(&found, args.json, environment)
}

fn message(to: &str, issuer: &str) -> Message {
    Message {
        id: format!("test-{}", random_secret(&SystemRandom)),
        to: to.to_owned(),
        from_name: None,
        reply_to: None,
        envelope_from: None,
        subject: format!("Test of the mails of {issuer}"),
        text: format!("An administrator of {issuer} has tested its mail settings.\nThey work.\n"),
        html: None,
    }
}

async fn sent(relay: &Relay, message: &Message) -> Finding {
    let sender = relay.sender();
    match relay.send(message, api_client::now().saturating_mul(1000)).await {
        Ok(accepted) => {
            ok("relay", format!("it took a mail from {sender} to {}: {}", message.to, accepted.reply))
        }
        Err(refused) => fail("relay", explained(&refused)),
    }
}

/// What went wrong, what the relay wrote, and what to do.
pub(in crate::commands) fn explained(refused: &Refused) -> String {
    let advice = match refused.step() {
        Step::Message => "check mail_from and the address",
        Step::Resolve => "check the host in smtp_url, and dns_servers",
        Step::Connect => {
            "check host and port in smtp_url, outgoing_allow, and the firewall; many networks block port 25"
        }
        Step::Tls => {
            "use smtps:// where the relay expects TLS at once (port 465) and smtp:// where it offers STARTTLS (port 587); \
             for a certificate of an authority of your own, set SSL_CERT_FILE"
        }
        Step::Greeting => "check that it is a mail relay, and that it accepts the address of this machine",
        Step::Login => "check the user in smtp_url and the password",
        Step::MailFrom => "the relay must accept the address of mail_from for this user",
        Step::RcptTo => "check the address; if it is right, the relay may send only for users who sign in",
        Step::Data => "its text says why",
    };
    match refused.said() {
        Some(said) => format!("{refused}, and writes: {said}; {advice}"),
        None => format!("{refused}; {advice}"),
    }
}
