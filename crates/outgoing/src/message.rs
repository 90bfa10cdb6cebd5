//! A mail, and its form on the wire (RFC 5322, MIME).
//!
//! What comes from people cannot add a header or a recipient: a line end or another control character in a field is refused, and
//! invisible characters in a name or subject are left out. Nothing in a mail is loaded from elsewhere: there are two texts, and no
//! attachment.

use crate::refused::{Refused, Step};
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::{Address, address::Envelope};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};
use text::{domain, hidden};

/// The letters of a name or subject, and the bytes of both texts.
const FIELD_MAX: usize = 200;
const TEXTS_MAX: usize = 256 * 1024;

/// What is sent to one person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Letters, digits, `-` and `_`: the same when it is sent again. It becomes the Message-ID.
    pub id: String,
    /// The recipient's address.
    pub to: String,
    /// The name that the sender is shown with; none: that of the setting `mail_from`.
    pub from_name: Option<String>,
    /// Where answers go.
    pub reply_to: Option<String>,
    /// Where reports of failure go; none: to the address of `mail_from`.
    pub envelope_from: Option<String>,
    /// The subject.
    pub subject: String,
    /// The mail as text.
    pub text: String,
    /// The same as HTML.
    pub html: Option<String>,
}

/// The sender of all mails: the setting `mail_from`, like `Example <mail@example.com>` or an address alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    name: Option<String>,
    address: String,
}

impl Sender {
    /// Of mails that do not leave this machine.
    pub(crate) fn local() -> Sender {
        Sender { name: Some("Sarsen".to_owned()), address: "sarsen@localhost".to_owned() }
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What stands before the `@`.
    pub(crate) fn user(&self) -> &str {
        self.address.rsplit_once('@').map_or("", |(user, _)| user)
    }

    /// The domain of its address.
    pub fn domain(&self) -> &str {
        self.address.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

/// A text that is no sender.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidSender;

impl FromStr for Sender {
    type Err = InvalidSender;

    fn from_str(text: &str) -> Result<Sender, InvalidSender> {
        let text = text.trim();
        let (name, address) = match text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')) {
            Some((name, address)) => (name.trim().trim_matches('"').trim(), address),
            None => ("", text),
        };
        let name = Some(name).filter(|name| !name.is_empty()).map(str::to_owned);
        if let Some(name) = &name {
            field("name", name).map_err(|_| InvalidSender)?;
        }
        let address = parse_address("", address).map_err(|_| InvalidSender)?.to_string();
        Ok(Sender { name, address })
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(out, "{name} <{}>", self.address),
            None => out.write_str(&self.address),
        }
    }
}

/// A mail as it is sent.
pub(crate) struct Written {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) bytes: Vec<u8>,
}

impl Message {
    /// Who gets the reports of failure.
    pub(crate) fn envelope_from<'m>(&'m self, sender: &'m Sender) -> &'m str {
        self.envelope_from.as_deref().unwrap_or(&sender.address)
    }

    /// The bytes of a mail from `sender` at this time, in milliseconds since 1970.
    pub(crate) fn write(&self, sender: &Sender, now_ms: i64) -> Result<Written, Refused> {
        let invalid = |why: &str| Refused::at(Step::Message, format!("the mail is not valid: {why}"));
        let is_id = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
        if self.id.is_empty() || self.id.len() > 64 || !self.id.bytes().all(is_id) {
            return Err(invalid(
                "its id has other characters than letters, digits, - and _, or more than 64",
            ));
        }
        if self.text.len() + self.html.as_ref().map_or(0, String::len) > TEXTS_MAX {
            return Err(invalid("it is too long"));
        }
        let name = self.from_name.as_ref().or(sender.name.as_ref());
        let name = name.map(|name| field("name of the sender", name)).transpose()?;
        let own = parse_address("sender", &sender.address)?;
        let from = parse_address("sender of the envelope", self.envelope_from(sender))?;
        let to = parse_address("recipient", &self.to)?;
        let envelope = Envelope::new(Some(from.clone()), vec![to.clone()]);
        let date = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(now_ms).unwrap_or_default());
        let mut mail = lettre::Message::builder()
            .envelope(envelope.map_err(|_| invalid("it has no recipient"))?)
            .from(Mailbox::new(name, own))
            .to(Mailbox::new(None, to.clone()))
            .subject(field("subject", &self.subject)?)
            .date(date)
            .message_id(Some(format!("<{}@{}>", self.id, sender.domain())))
            // No vacation notice and no other automatic answer comes back (RFC 3834).
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ));
        if let Some(reply_to) = &self.reply_to {
            mail = mail.reply_to(Mailbox::new(None, parse_address("address for answers", reply_to)?));
        }
        let mail = match &self.html {
            Some(html) => mail.multipart(MultiPart::alternative_plain_html(self.text.clone(), html.clone())),
            None => mail.singlepart(lettre::message::SinglePart::plain(self.text.clone())),
        };
        let mail = mail.map_err(|_| invalid("it cannot be written"))?;
        Ok(Written { from, to, bytes: mail.formatted() })
    }
}

/// The text of a header field.
fn field(what: &str, text: &str) -> Result<String, Refused> {
    if text.chars().any(char::is_control) {
        return Err(Refused::at(
            Step::Message,
            format!("the mail is not valid: its {what} has control characters"),
        ));
    }
    let hidden: Vec<usize> = hidden(text).map(|(at, _)| at).collect();
    let shown = text.char_indices().filter(|(at, _)| !hidden.contains(at)).map(|(_, letter)| letter);
    Ok(shown.take(FIELD_MAX).collect())
}

/// An address of ASCII letters, whose domain may be written in any.
fn parse_address(what: &str, text: &str) -> Result<Address, Refused> {
    let invalid = |why: &str| Refused::at(Step::Message, format!("the {what} {why}"));
    let (local, host) = text.rsplit_once('@').ok_or_else(|| invalid("is not an address"))?;
    if !local.is_ascii() {
        return Err(invalid(
            "has letters before the @ that only relays with SMTPUTF8 take, which is not supported",
        ));
    }
    // A host on this machine has no dot.
    let host = domain::to_ascii(host).ok_or_else(|| invalid("has no valid domain"))?;
    let is_local = !local.is_empty()
        && local.bytes().all(|letter| letter.is_ascii_graphic() && !b"<>()[],;:\\\"@".contains(&letter));
    match Address::new(local, host) {
        Ok(address) if is_local => Ok(address),
        _ => Err(invalid("is not an address")),
    }
}

#[cfg(test)]
mod tests;
