//! Mail: from a form that asks for one to the relay that takes it.
//!
//! - `asking.rs`: a form notes what it was asked for, and looks nothing up.
//! - `deciding.rs`: an effect decides what is sent for that; `identity::mail::decisions` has the rules.
//! - `sending.rs`: effects that hand mails to the relay, in two lanes: what somebody waits for overtakes notices.
//! - `message.rs`: the text of a mail.
//!
//! Effects have ids in their JSON and no secrets; link and code are sealed in the mail's row.

pub(crate) mod asking;
mod deciding;
mod message;
mod sending;

pub(crate) use sending::queue;

use crate::app::App;
use identity::Error;
use live::background::Work;
use live::{Given, Problem};
use std::sync::Arc;

/// Adds what an instance does about mails.
pub(crate) fn add_to(work: Work, app: &App) -> Work {
    work.with(Arc::new(app.clone()))
        .effect::<deciding::Decide>()
        .effect::<sending::Sending<sending::Urgent>>()
        .effect::<sending::Sending<sending::Notice>>()
        .task::<deciding::Draw>()
}

/// What a command that queues effects is given.
pub(crate) fn given(app: &App) -> impl Fn() -> Given + Clone + Send + Sync + use<> {
    let (now, mut random) = (app.now(), [0; 32]);
    app.random().fill(&mut random);
    move || Given::at(now, random)
}

/// An error of the domain, for an effect.
fn problem(error: Error) -> Problem {
    match error {
        Error::Store(error) => Problem::from(error),
        other => Problem::defect(other),
    }
}

/// An error of the queue, for a command of the domain.
fn of_queue(problem: Problem) -> Error {
    match problem.cause {
        Some(cause) => Error::Store(*cause),
        None => Error::Internal(problem.detail),
    }
}
