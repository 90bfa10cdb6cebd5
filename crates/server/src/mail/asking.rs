//! A form that mails: it writes one row and the effect that decides about it, the same for every address, and keeps in the
//! browser what it needs to go on.

use super::deciding::Decide;
use super::{given, of_queue};
use crate::app::App;
use crate::pages::browser::Browser;
use crate::pages::kept_link::KeptLink;
use http::HeaderValue;
use identity::ids::{MailRequestId, UserId};
use identity::mail::Purpose;
use identity::mail::requests::{self, NewRequest};
use identity::organizations::Organization;
use identity::{Error, Result, secrets};
use serde::{Deserialize, Serialize};
use web::network::Network;

/// The longest address to go on to that fits into the cookie.
const NEXT_LENGTH_MAX: usize = 1800;

/// What a form was asked for.
pub(crate) struct Asking<'a> {
    pub organization: &'a Organization,
    pub address: &'a str,
    pub purpose: Purpose,
    /// The signed-in user, where one proves their address.
    pub user: Option<&'a UserId>,
    /// The name of a new account.
    pub name: &'a str,
    /// Where the browser goes afterwards.
    pub next: &'a str,
    /// The tag of the page's language.
    pub language: &'a str,
}

/// What the browser that asked keeps, sealed for it: the request, and what is to be done after the proof.
#[derive(Serialize, Deserialize)]
pub(crate) struct Asked {
    id: String,
    /// The slug of the organization.
    pub organization: String,
    /// The address as it was entered.
    pub address: String,
    /// The word of its purpose.
    pub purpose: String,
    pub name: String,
    pub next: String,
}

impl Asked {
    /// What this browser has asked for at an organization.
    pub(crate) fn read(app: &App, browser: &Browser, slug: &str) -> Option<Asked> {
        let kept = KeptLink::Asked.read(app, browser)?;
        serde_json::from_str(&kept).ok().filter(|asked: &Asked| asked.organization == slug)
    }

    pub(crate) fn id(&self) -> Result<MailRequestId> {
        MailRequestId::parse(&self.id)
    }
}

/// What only this browser has, as it is stored with a request.
pub(crate) fn hash_of(browser: &Browser) -> secrets::Hash {
    secrets::hash(browser.id().as_bytes())
}

/// Notes what a form was asked for. Returns the cookies by which the browser goes on.
pub(crate) async fn ask(app: &App, browser: &Browser, asking: &Asking<'_>) -> Result<Vec<HeaderValue>> {
    let (now, id) = (app.now(), MailRequestId::new(app.now(), app.random()));
    let known_as = browser.known_as(app);
    let new = NewRequest {
        asker: requests::seal_asker(&id, known_as.as_bytes(), &app.secret_key, app.random())?,
        id: id.clone(),
        organization: asking.organization.id.clone(),
        address: asking.address.to_owned(),
        purpose: asking.purpose,
        user: asking.user.cloned(),
        browser: hash_of(browser),
        network: Network::of(browser.address).customer().to_string(),
        language: asking.language.to_owned(),
    };
    let asked = Asked {
        id: id.to_string(),
        organization: asking.organization.slug.clone(),
        address: asking.address.to_owned(),
        purpose: asking.purpose.as_str().to_owned(),
        name: asking.name.to_owned(),
        next: if asking.next.len() <= NEXT_LENGTH_MAX { asking.next } else { "" }.to_owned(),
    };
    let kept = serde_json::to_string(&asked).map_err(|error| Error::Internal(error.to_string()))?;
    let cookies = KeptLink::Asked.keep(app, browser, &kept)?;
    let effect = Decide::about(app, &new);
    let given = given(app);
    let noted = app.store.write("mail.ask", move |tx| {
        requests::ask(tx, &new, now)?;
        live::queue(tx, &given(), &effect).map_err(of_queue)?;
        Ok::<_, Error>(())
    });
    noted.await?;
    Ok(cookies)
}
