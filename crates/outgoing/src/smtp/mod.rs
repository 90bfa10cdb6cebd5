//! Hands mails to a relay (RFC 5321), one on each connection.
//!
//! The connection is encrypted before anything else is said: from its first byte, or by STARTTLS, without which the exchange ends. Two
//! exceptions, both for addresses that the owner lists in `outgoing_allow`: to this machine nothing is encrypted, and a relay of the
//! own network that offers no STARTTLS gets mails as they are, but never a password.

mod address;

pub use address::{Encryption, RelayAddress};

use crate::connector::{ConnectError, Connector};
use crate::message::{Message, Sender};
use crate::refused::{Refused, Step};
use crate::relay::Accepted;
use crate::wire::Wire;
use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Auth, Data, Ehlo, Mail, Rcpt, Starttls};
use lettre::transport::smtp::extension::{ClientId, Extension, ServerInfo};
use lettre::transport::smtp::response::Response;
use std::error::Error as _;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// An exchange with a relay has ended by then, whatever the relay does.
pub const SEND_TIME_MAX: Duration = Duration::from_secs(40);
/// A good-bye is not waited for much longer.
const QUIT_TIME_MAX: Duration = Duration::from_secs(1);
/// The ports of relays.
const PORTS: [u16; 4] = [25, 465, 587, 2525];
/// A login has a question for the user and one for the password.
const QUESTIONS_MAX: usize = 3;
/// The letters of an answer that are returned.
const REPLY_MAX: usize = 200;

/// A relay.
pub(crate) struct Smtp {
    connector: Connector,
    address: RelayAddress,
    credentials: Option<Credentials>,
    sender: Sender,
    time_max: Duration,
}

impl fmt::Debug for Smtp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Smtp({})", self.address)
    }
}

/// A connection on which mails may be sent.
struct Session {
    connection: AsyncSmtpConnection,
    server: ServerInfo,
}

impl Smtp {
    pub(crate) fn new(
        connector: Connector,
        address: RelayAddress,
        password: Option<String>,
        sender: Sender,
    ) -> Smtp {
        let user = address.user().map(str::to_owned);
        let credentials = user.zip(password).map(|(user, password)| Credentials::new(user, password));
        Smtp { connector, address, credentials, sender, time_max: SEND_TIME_MAX }
    }

    pub(crate) fn sender(&self) -> &Sender {
        &self.sender
    }

    pub(crate) async fn send(&self, message: &Message, now_ms: i64) -> Result<Accepted, Refused> {
        let mail = message.write(&self.sender, now_ms)?;
        within(self.time_max, async |at: &mut Step| {
            let mut session = self.open(at).await?;
            let sent = session.send(at, &mail.from, mail.to, &mail.bytes).await;
            // What it says to that changes nothing.
            let _ = timeout(QUIT_TIME_MAX, session.connection.quit()).await;
            let reply = sent?;
            let reply = reply.message().next().unwrap_or_default();
            let shown = reply.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
            Ok(Accepted { reply: shown.take(REPLY_MAX).collect() })
        })
        .await
    }

    /// Does all that comes before a recipient.
    pub(crate) async fn check(&self) -> Result<(), Refused> {
        let from = Address::new(self.sender.user(), self.sender.domain())
            .map_err(|_| Refused::at(Step::Message, "the address of mail_from is not valid"))?;
        within(self.time_max, async |at: &mut Step| {
            let mut session = self.open(at).await?;
            let taken = session.name_sender(at, &from).await;
            let _ = timeout(QUIT_TIME_MAX, session.connection.quit()).await;
            taken
        })
        .await
    }

    /// Connects, encrypts and signs in.
    async fn open(&self, at: &mut Step) -> Result<Session, Refused> {
        *at = Step::Resolve;
        let (host, port) = (self.address.host(), self.address.port());
        let opened = self.connector.open(host, port, &PORTS).await.map_err(|error| match error {
            ConnectError::Name(_) => Refused::at(Step::Resolve, error),
            ConnectError::Forbidden(_) | ConnectError::Unreachable(_) => Refused::at(Step::Connect, error),
        })?;
        *at = Step::Tls;
        let is_encrypted = self.address.encryption() == Encryption::Implicit;
        let wire = Wire::new(opened.stream).map_err(|error| Refused::at(Step::Connect, error))?;
        if is_encrypted {
            self.encrypt(&wire).await?;
        }
        *at = Step::Greeting;
        let own = ClientId::Domain(self.sender.domain().to_owned());
        let connection = AsyncSmtpConnection::connect_with_transport(Box::new(wire.clone()), &own).await;
        let connection = connection.map_err(|error| refused(Step::Greeting, &error))?;
        let mut session = Session { server: connection.server_info().clone(), connection };
        if !is_encrypted && !opened.is_local {
            if session.server.supports_feature(Extension::StartTls) {
                *at = Step::Tls;
                session.command(Step::Tls, Starttls).await?;
                self.encrypt(&wire).await?;
                *at = Step::Greeting;
                let hello = session.command(Step::Greeting, Ehlo::new(own)).await?;
                session.server = ServerInfo::from_response(&hello).map_err(|error| refused(*at, &error))?;
            } else if let Some(why) = not_plain(opened.is_listed, self.credentials.is_some()) {
                return Err(Refused::at(Step::Tls, why));
            }
        }
        if let Some(credentials) = &self.credentials {
            *at = Step::Login;
            session.login(credentials).await?;
        }
        Ok(session)
    }

    async fn encrypt(&self, wire: &Wire) -> Result<(), Refused> {
        let encrypted = wire.encrypt(self.connector.trust(), self.address.host()).await;
        encrypted.map_err(|error| {
            Refused::at(Step::Tls, format!("the connection to the relay is not encrypted: {error}"))
        })
    }
}

impl Session {
    async fn command(&mut self, step: Step, command: impl fmt::Display) -> Result<Response, Refused> {
        self.connection.command(command).await.map_err(|error| refused(step, &error))
    }

    async fn login(&mut self, credentials: &Credentials) -> Result<(), Refused> {
        let mechanism = self.server.get_auth_mechanism(&[Mechanism::Plain, Mechanism::Login]);
        let mechanism = mechanism.ok_or_else(|| {
            Refused::at(Step::Login, "the relay takes no password by AUTH PLAIN or AUTH LOGIN")
        })?;
        let strange =
            |_: Error| Refused::at(Step::Login, "the relay asks a question that is not one of a login");
        let first = Auth::new(mechanism, credentials.clone(), None).map_err(strange)?;
        let mut answer = self.command(Step::Login, first).await?;
        for _ in 0..QUESTIONS_MAX {
            if !answer.has_code(334) {
                return Ok(());
            }
            let next = Auth::new_from_response(mechanism, credentials.clone(), &answer).map_err(strange)?;
            answer = self.command(Step::Login, next).await?;
        }
        Err(Refused::at(Step::Login, "the relay asks too many questions"))
    }

    async fn name_sender(&mut self, at: &mut Step, from: &Address) -> Result<(), Refused> {
        *at = Step::MailFrom;
        self.command(Step::MailFrom, Mail::new(Some(from.clone()), Vec::new())).await.map(drop)
    }

    async fn send(
        &mut self,
        at: &mut Step,
        from: &Address,
        to: Address,
        mail: &[u8],
    ) -> Result<Response, Refused> {
        self.name_sender(at, from).await?;
        *at = Step::RcptTo;
        self.command(Step::RcptTo, Rcpt::new(to, Vec::new())).await?;
        *at = Step::Data;
        self.command(Step::Data, Data).await?;
        self.connection.message(mail).await.map_err(|error| refused(Step::Data, &error))
    }
}

/// Why mails must not be sent to another machine that offers no encryption, if they must not.
fn not_plain(is_listed: bool, has_password: bool) -> Option<&'static str> {
    match (is_listed, has_password) {
        (false, _) => Some("the relay offers no STARTTLS; nothing is sent without encryption"),
        (true, true) => Some("the relay offers no STARTTLS; a password is not sent without encryption"),
        (true, false) => None,
    }
}

/// Ends an exchange by its deadline, and names the step that it came to.
async fn within<T>(
    most: Duration,
    exchange: impl AsyncFnOnce(&mut Step) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let mut at = Step::Resolve;
    let done = timeout(most, exchange(&mut at)).await;
    done.unwrap_or_else(|_| {
        Err(Refused::at(at, format!("the exchange with the relay takes longer than {most:?}")))
    })
}

/// In words of our own: the text of an error may repeat what the relay wrote.
fn refused(step: Step, error: &Error) -> Refused {
    if let Some(code) = error.status() {
        let text = error.source().map(ToString::to_string).unwrap_or_default();
        return Refused::answered(step, u16::from(code), &text);
    }
    let io = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    match io {
        Some(error) => Refused::at(step, format!("the connection to the relay broke: {error}")),
        None => Refused::at(step, "the relay does not answer as an SMTP server"),
    }
}

#[cfg(test)]
mod tests;
