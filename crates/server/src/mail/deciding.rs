//! Decides what is sent for what a form was asked. One address at a time, so that its limits hold.

use super::{given, of_queue, problem, sending};
use crate::app::App;
use crate::pages::browser;
use identity::ids::MailRequestId;
use identity::mail::decisions::{self, Decision, Drawn, Rules};
use identity::mail::requests::{self, NewRequest};
use identity::{Error, names};
use live::background::{Task, later};
use live::{Attempt, Effect, Failure, Given, Lane, Problem};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Tx;

/// The decision about a request.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Decide {
    request: String,
    organization: String,
    /// A keyed hash of organization and address.
    subject: String,
}

impl Decide {
    pub(super) fn about(app: &App, request: &NewRequest) -> Decide {
        let address = names::known_email(&request.address).unwrap_or_default();
        Decide {
            request: request.id.to_string(),
            organization: request.organization.to_string(),
            subject: app.secret_key.derive(&["mail", request.organization.as_str(), &address]),
        }
    }

    async fn decide(&self, app: &App) -> identity::Result<()> {
        let id = MailRequestId::parse(&self.request)?;
        let Some(open) = app.store.read(move |snapshot| requests::open(snapshot, &id)).await? else {
            return Ok(());
        };
        let (now, key) = (app.now(), &app.secret_key);
        let drawn = Drawn::new(&open, key, now, app.random())?;
        let known_as = open.open_asker(key)?.and_then(|asker| String::from_utf8(asker).ok());
        let known_as = known_as.unwrap_or_default();
        let rules = Rules {
            sign_up: app.settings.sign_up,
            unproven_per_day_max: app.settings.unproven_mails_per_day_max,
        };
        let (key, given, draw) = (key.clone(), given(app), Draw { of: self.clone() });
        let decided = app.store.write("mail.decide", move |tx| {
            let is_known = |user: &_| browser::is_known_as(&key, &known_as, user);
            let given = given();
            match decisions::decide(tx, &open, &drawn, &is_known, &rules, now)? {
                Decision::Mail(mail, purpose) => {
                    sending::queue_effect(tx, &given, purpose, &mail, &open.organization)?;
                }
                Decision::Waits(at) => drop(later(tx, &given, at, &draw).map_err(of_queue)?),
                Decision::Nothing | Decision::Limited | Decision::Gone => {}
            }
            Ok::<_, Error>(())
        });
        decided.await
    }
}

impl Effect for Decide {
    const NAME: &'static str = "mail.decide";
    const LANE: Lane = Lane { places: 16, places_each: 4, deadline: Duration::from_secs(15) };
    type Outcome = ();

    fn receiver(&self) -> String {
        self.organization.clone()
    }

    fn subject(&self) -> Option<String> {
        Some(self.subject.clone())
    }

    async fn attempt(&self, attempt: &Attempt) -> Result<(), Failure> {
        let app = attempt.state::<App>().ok_or_else(|| Failure::new("defect", "no state"))?;
        self.decide(&app).await.map_err(|error| Failure::from(problem(error)))
    }
}

/// The draw among the requests that wait for mails to the address of this one.
#[derive(Serialize, Deserialize)]
pub(super) struct Draw {
    of: Decide,
}

impl Task for Draw {
    const NAME: &'static str = "mail.draw";

    fn run(&self, tx: &mut Tx<'_>, given: &Given) -> Result<(), Problem> {
        let waiting = MailRequestId::parse(&self.of.request).map_err(problem)?;
        let mut lot = [0; 8];
        lot.copy_from_slice(&given.random()[..8]);
        let drawn = decisions::draw(tx, &waiting, u64::from_le_bytes(lot)).map_err(problem)?;
        if let Some(drawn) = drawn {
            live::queue(tx, given, &Decide { request: drawn.to_string(), ..self.of.clone() })?;
        }
        Ok(())
    }
}
