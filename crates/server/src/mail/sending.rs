//! Hands mails to the relay, at least once. What somebody waits for has a lane of its own, so that it overtakes notices; and an
//! organization has a few places of a lane, so that one with many mails holds up no other.
//!
//! A refusal that stays is noted, others are tried again with growing pauses until the mail is too old: its link would not work
//! any more.

use super::{message, of_queue, problem};
use crate::app::App;
use identity::Time;
use identity::ids::{MailId, OrganizationId};
use identity::mail::{self, NewMail, Next, Purpose, State};
use live::{Attempt, Effect, Failure, Given, Lane, Problem};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::time::Duration;
use store::{Backoff, Tx};

/// More than the relay takes for one.
const DEADLINE: Duration = Duration::from_secs(45);
const PAUSE_MIN: Duration = Duration::from_secs(2);

/// One of the two lanes.
pub(super) trait Kind: Send + Sync + 'static {
    const NAME: &'static str;
    const LANE: Lane;
    /// The longest pause between two attempts.
    const PAUSE_MAX: Duration;
}

/// Of mails that somebody waits for.
pub(super) enum Urgent {}

impl Kind for Urgent {
    const NAME: &'static str = "mail.urgent";
    const LANE: Lane = Lane { places: 32, places_each: 8, deadline: DEADLINE };
    const PAUSE_MAX: Duration = Duration::from_secs(60);
}

/// Of mails that nobody waits for.
pub(super) enum Notice {}

impl Kind for Notice {
    const NAME: &'static str = "mail.notice";
    const LANE: Lane = Lane { places: 8, places_each: 2, deadline: DEADLINE };
    const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
}

/// A mail that is to be sent.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Sending<K> {
    mail: String,
    organization: String,
    #[serde(skip)]
    kind: PhantomData<K>,
}

/// How an attempt ended that is not repeated.
pub(super) enum Outcome {
    /// The relay has decided about the mail with this subject.
    Ended(State, String, Option<String>),
    /// It is not to be sent, for this reason.
    Dropped(&'static str),
    /// There is nothing to send.
    Gone,
}

/// Queues a mail.
pub(crate) fn queue(tx: &mut Tx<'_>, given: &Given, new: &NewMail) -> identity::Result<()> {
    mail::queue(tx, new, given.now)?;
    queue_effect(tx, given, new.purpose, &new.id, &new.organization)
}

/// Queues the effect for a mail whose row was written.
pub(super) fn queue_effect(
    tx: &mut Tx<'_>,
    given: &Given,
    purpose: Purpose,
    mail: &MailId,
    organization: &OrganizationId,
) -> identity::Result<()> {
    let queued = match purpose {
        Purpose::PasswordChanged => live::queue(tx, given, &Sending::<Notice>::of(mail, organization)),
        Purpose::Reset | Purpose::SignUp | Purpose::HasAccount | Purpose::Verify => {
            live::queue(tx, given, &Sending::<Urgent>::of(mail, organization))
        }
    };
    queued.map(drop).map_err(of_queue)
}

impl<K> Sending<K> {
    fn of(mail: &MailId, organization: &OrganizationId) -> Sending<K> {
        Sending { mail: mail.to_string(), organization: organization.to_string(), kind: PhantomData }
    }

    async fn send(&self, attempt: &Attempt) -> Result<Outcome, Failure> {
        let app = attempt.state::<App>().ok_or_else(|| Failure::new("defect", "no state"))?;
        let failed = |error| Failure::from(problem(error));
        let (id, now) = (MailId::parse(&self.mail).map_err(failed)?, app.now());
        let next = app.store.read(move |snapshot| mail::next(snapshot, &id, now)).await.map_err(failed)?;
        let mail = match next {
            Next::Send(mail) => mail,
            Next::Drop(why) => return Ok(Outcome::Dropped(why)),
            Next::Gone => return Ok(Outcome::Gone),
        };
        let Some(relay) = app.relay() else {
            return Err(Failure::new("mail_off", "this instance has no relay; set smtp_url"));
        };
        let message = message::of(&app, &mail).map_err(failed)?;
        match relay.send(&message, now.millis()).await {
            Ok(_) => Ok(Outcome::Ended(State::Sent, message.subject, None)),
            Err(refused) if refused.is_final() => {
                let why = [Some(refused.word()), refused.status()].into_iter().flatten();
                let why = why.collect::<Vec<_>>().join(" ");
                Ok(Outcome::Ended(State::Refused, message.subject, Some(why)))
            }
            Err(refused) => Err(Failure::new(refused.word(), refused)),
        }
    }

    fn note(&self, tx: &mut Tx<'_>, now: Time, outcome: &Outcome) -> Result<(), Problem> {
        let id = MailId::parse(&self.mail).map_err(problem)?;
        match outcome {
            Outcome::Ended(state, subject, why) => {
                mail::end(tx, &id, *state, Some(subject), why.as_deref(), now).map_err(problem)?;
            }
            Outcome::Dropped(why) => {
                mail::end(tx, &id, State::Dropped, None, Some(why), now).map_err(problem)?;
            }
            Outcome::Gone => {}
        }
        Ok(())
    }
}

impl<K: Kind> Effect for Sending<K> {
    const NAME: &'static str = K::NAME;
    const LANE: Lane = K::LANE;
    type Outcome = Outcome;

    fn receiver(&self) -> String {
        self.organization.clone()
    }

    async fn attempt(&self, attempt: &Attempt) -> Result<Outcome, Failure> {
        self.send(attempt).await
    }

    fn done(&self, tx: &mut Tx<'_>, given: &Given, outcome: &Outcome) -> Result<(), Problem> {
        self.note(tx, given.now, outcome)
    }

    fn failed(&self, tx: &mut Tx<'_>, _: &Given, failure: &Failure, _: bool) -> Result<(), Problem> {
        let id = MailId::parse(&self.mail).map_err(problem)?;
        mail::note_failure(tx, &id, failure.code()).map_err(problem)
    }

    fn pause(&self, attempts: u32, _: &Failure) -> Option<Duration> {
        Some(Backoff::new(PAUSE_MIN, K::PAUSE_MAX).after(attempts.saturating_sub(1)).peek())
    }
}
