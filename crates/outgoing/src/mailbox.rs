//! Keeps mails in memory in place of sending them: for the demo, for `sarsen dev` and for tests.

use crate::message::{Message, Sender};
use crate::refused::Refused;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many are kept.
const KEPT_MAX: usize = 200;

/// The mails that were sent last. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Mailbox(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    mails: VecDeque<KeptMail>,
    count: u64,
    refused: Option<Refused>,
}

/// A mail that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMail {
    /// Counts from 1.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// The sender as it is shown: a name and an address.
    pub from: String,
    /// Who would get reports of failure.
    pub envelope_from: String,
    /// The mail.
    pub message: Message,
}

impl Mailbox {
    /// All that are kept, newest first.
    pub fn mails(&self) -> Vec<KeptMail> {
        self.0.lock().mails.iter().cloned().collect()
    }

    /// Those to an address, newest first.
    pub fn sent_to(&self, address: &str) -> Vec<KeptMail> {
        let kept = self.0.lock();
        kept.mails.iter().filter(|mail| text::mail::is_same(&mail.message.to, address)).cloned().collect()
    }

    /// The one with this number, if it is still kept.
    pub fn mail(&self, number: u64) -> Option<KeptMail> {
        self.0.lock().mails.iter().find(|mail| mail.number == number).cloned()
    }

    /// From now on every mail is refused with this; none: they are taken again.
    pub fn refuse(&self, refused: Option<Refused>) {
        self.0.lock().refused = refused;
    }

    pub(crate) fn take(&self, sender: &Sender, message: &Message, now_ms: i64) -> Result<u64, Refused> {
        // What a relay could not be given is refused here too.
        message.write(sender, now_ms)?;
        let mut kept = self.0.lock();
        if let Some(refused) = &kept.refused {
            return Err(refused.clone());
        }
        kept.count += 1;
        let (number, name) = (kept.count, message.from_name.as_deref());
        let from = name.map_or_else(|| sender.to_string(), |name| format!("{name} <{}>", sender.address()));
        kept.mails.push_front(KeptMail {
            number,
            at_ms: now_ms,
            from,
            envelope_from: message.envelope_from(sender).to_owned(),
            message: message.clone(),
        });
        kept.mails.truncate(KEPT_MAX);
        Ok(number)
    }
}
