//! `sarsen owner recover`: a link that sets the password of a platform owner, made on the server's own machine.

use crate::app::App;
use identity::ids::LinkId;
use identity::links::{self, NewLink, Purpose};
use identity::organizations::{self, PLATFORM};
use identity::{Error, Result, Time, administrators, names, users};

/// The link for an owner.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The owner's e-mail address.
    pub email: String,
    /// The URL. It is the only copy of the link's secret.
    pub url: String,
    /// The expiry time.
    pub expires_at: Time,
}

/// Makes a link for the platform owner with this e-mail address. `asked_by` goes to the audit trail.
pub async fn link(app: &App, email: &str, asked_by: &str) -> Result<Recovery> {
    let email = names::known_email(email)?;
    let wanted = email.clone();
    let owner = app.store.point(move |snapshot| {
        let platform = organizations::find(snapshot, PLATFORM)?;
        let no_owner = Error::NotFound { what: "platform owner with this e-mail address" };
        let user = users::find(snapshot, &platform.id, &wanted)?.ok_or(no_owner)?;
        require_owner(administrators::is_platform_owner(snapshot, &user.id)?)?;
        Ok::<_, Error>(user)
    });
    let owner = owner.await?;
    let (now, actor, details) = (app.now(), app.system(), format!("asked by {asked_by}"));
    let (id, expires_at) = (LinkId::new(now, app.random()), now + links::LIFE);
    let new = NewLink::generate(id, Purpose::Password, Some(owner.id.clone()), expires_at, app.random());
    let url = app.url(&format!("/password?token={}", new.token));
    let made = app.store.write("owner.recover", move |tx| {
        require_owner(administrators::is_platform_owner(tx.snapshot(), &owner.id)?)?;
        let owner = users::get(tx.snapshot(), &owner.id)?;
        links::create_recovery(tx, &owner, &new, &details, &actor.clone())
    });
    made.await?;
    Ok(Recovery { email, url, expires_at })
}

fn require_owner(is_owner: bool) -> Result<()> {
    if is_owner { Ok(()) } else { Err(Error::NotFound { what: "platform owner with this e-mail address" }) }
}
