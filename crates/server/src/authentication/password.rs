//! The password of an account.
//!
//! Unknown, suspended and passwordless accounts and wrong passwords look the same, take the same time and go through the
//! same lane.

use super::Attempt;
use crate::app::App;
use crate::lanes::Asker;
use crate::limits::failed_sign_ins;
use crate::limits::password_guesses::Outcome;
use crate::pages::browser::Browser;
use identity::authentication::{Authentication, Method};
use identity::ids::UserId;
use identity::organizations::Organization;
use identity::passwords::{self, Verdict};
use identity::users::User;
use identity::{Error, names, users};
use std::sync::atomic::Ordering::Relaxed;

/// Checks a password on the hash lane, and hashes it anew when the parameters have changed.
pub(crate) async fn by_password(
    app: &App,
    organization: &Organization,
    email: &str,
    password: &str,
    browser: &Browser,
) -> Result<Attempt, Error> {
    let now = app.now();
    // All spellings of an address count together. What is no address finds nobody.
    let known = names::known_email(email).ok();
    let (typed, email) = (email.trim().to_lowercase(), known.clone().unwrap_or_default());
    // An attempt that is refused hashes nothing, so an unknown address must take as many reads as a known one.
    let (id, nobody) = (organization.id.clone(), UserId::new(now, app.random()));
    let found = app.store.point(move |snapshot| {
        let user = users::find(snapshot, &id, &email)?;
        let hash = passwords::get(snapshot, user.as_ref().map_or(&nobody, |user| &user.id))?;
        Ok::<_, Error>((user, hash))
    });
    let (user, hash) = found.await?;
    let begun = match &user {
        Some(user) if browser.is_known(app, user) => {
            app.password_guesses.begin_known(&user.id, browser.id(), now)
        }
        _ => app.password_guesses.begin(
            &organization.id,
            known.as_ref().unwrap_or(&typed),
            browser.address,
            now,
        ),
    };
    let attempt = match begun {
        Ok(attempt) => attempt,
        Err(wait) => {
            app.metrics.passwords.refused.fetch_add(1, Relaxed);
            note_failure(app, user.as_ref(), failed_sign_ins::Failure::Refused, browser);
            return Ok(Attempt::Throttled(wait));
        }
    };
    // Longer than any password: an empty one is hashed in its place, so that the time is the same.
    let password = if passwords::is_plausible(password) { password.to_owned() } else { String::new() };
    let stored = hash.clone().unwrap_or_else(|| passwords::DUMMY_HASH.to_owned());
    let tried = password.clone();
    let asker = match &user {
        Some(user) => browser.asker_for(app, &organization.slug, user),
        None => browser.asker(&organization.slug),
    };
    let verdict =
        app.hash_lane.run(asker.clone(), move |memory| passwords::verify(&tried, &stored, memory)).await;
    let verdict = match verdict {
        Ok(verdict) => verdict?,
        Err(full) => return Ok(Attempt::Full(full.retry_after)),
    };
    let user = match user {
        Some(user) if hash.is_some() && verdict != Verdict::Wrong && user.suspended_at.is_none() => user,
        user => {
            attempt.end(Outcome::Wrong, now);
            app.metrics.passwords.wrong.fetch_add(1, Relaxed);
            note_failure(app, user.as_ref(), failed_sign_ins::Failure::Wrong, browser);
            return Ok(Attempt::Wrong);
        }
    };
    attempt.end(Outcome::Right, now);
    app.metrics.passwords.right.fetch_add(1, Relaxed);
    if let (Verdict::Outdated, Some(old)) = (verdict, hash) {
        upgrade(app, &user, password, old, asker).await?;
    }
    let how = Authentication::new(app.now(), &[Method::Password]);
    Ok(Attempt::Proved(user, how))
}

fn note_failure(app: &App, user: Option<&User>, failure: failed_sign_ins::Failure, browser: &Browser) {
    if let Some(user) = user {
        let actor = app.unknown(browser.address);
        app.failed_sign_ins.note(&app.store, user, failure, browser.address, actor);
    }
}

/// Hashes a password with the current parameters. If it was changed meanwhile, the newer one stays.
async fn upgrade(
    app: &App,
    user: &User,
    password: String,
    old: String,
    asker: Asker<'_>,
) -> Result<(), Error> {
    let mut salt = [0; 16];
    app.random().fill(&mut salt);
    let hashed =
        app.hash_lane.run(asker, move |memory| passwords::hash(&password, &Fixed(salt), memory)).await;
    // A full lane must not refuse a correct sign-in: the next one upgrades the hash.
    let Ok(hash) = hashed else { return Ok(()) };
    let (user, hash) = (user.id.clone(), hash?);
    app.store.write("password.upgrade", move |tx| passwords::upgrade(tx, &user, &old, &hash)).await
}

/// Randomness that was drawn before, for a thread that has no source of its own.
pub(crate) struct Fixed(pub [u8; 16]);

impl identity::secrets::Random for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        for (byte, drawn) in bytes.iter_mut().zip(self.0) {
            *byte = drawn;
        }
    }
}
