//! What mails are given to: an SMTP server, or a mailbox in memory.

use crate::connector::Connector;
use crate::mailbox::Mailbox;
use crate::message::{Message, Sender};
use crate::refused::Refused;
use crate::smtp::{RelayAddress, Smtp};
use std::sync::Arc;

/// Takes mails. Clones share it.
#[derive(Clone, Debug)]
pub struct Relay(Arc<Way>);

#[derive(Debug)]
enum Way {
    Smtp(Smtp),
    Kept(Mailbox, Sender),
}

/// A mail was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What the relay wrote, usually with the name of the mail in its queue.
    pub reply: String,
}

impl Relay {
    /// An SMTP server, which gets the password if its address has a user.
    pub fn smtp(
        connector: Connector,
        address: RelayAddress,
        password: Option<String>,
        sender: Sender,
    ) -> Relay {
        Relay(Arc::new(Way::Smtp(Smtp::new(connector, address, password, sender))))
    }

    /// A mailbox in memory.
    pub fn kept() -> Relay {
        let sender = Sender::local();
        Relay(Arc::new(Way::Kept(Mailbox::default(), sender)))
    }

    /// Hands over a mail, or says why not, within [`crate::SEND_TIME_MAX`]. `now_ms` is its date, in milliseconds since 1970.
    ///
    /// If the connection breaks after the mail was sent, nobody knows whether it was taken: that is no final refusal, and a mail
    /// that is sent again has the same Message-ID.
    pub async fn send(&self, message: &Message, now_ms: i64) -> Result<Accepted, Refused> {
        match &*self.0 {
            Way::Smtp(relay) => relay.send(message, now_ms).await,
            Way::Kept(mailbox, sender) => {
                let number = mailbox.take(sender, message, now_ms)?;
                Ok(Accepted { reply: format!("kept as number {number}") })
            }
        }
    }

    /// Does all that comes before a recipient, and sends nothing.
    pub async fn check(&self) -> Result<(), Refused> {
        match &*self.0 {
            Way::Smtp(relay) => relay.check().await,
            Way::Kept(..) => Ok(()),
        }
    }

    /// Who its mails are from.
    pub fn sender(&self) -> &Sender {
        match &*self.0 {
            Way::Smtp(relay) => relay.sender(),
            Way::Kept(_, sender) => sender,
        }
    }

    /// The mailbox, if it is one.
    pub fn mailbox(&self) -> Option<&Mailbox> {
        match &*self.0 {
            Way::Kept(mailbox, _) => Some(mailbox),
            Way::Smtp(_) => None,
        }
    }
}
