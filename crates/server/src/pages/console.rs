//! `/console`: the first page of an administrator.

use super::addresses;
use super::browser::Browser;
use super::respond::{PageResult, see_other};
use super::views::{Console, OrgLine};
use crate::app::App;
use axum::extract::State;
use identity::organizations::{self, Organization, PLATFORM, Status};
use identity::{Error, administrators};

/// The most organizations on the page of each kind: own ones, pending ones, and others; the command line lists all.
const SHOWN_MAX: usize = 200;

pub(crate) async fn get(State(app): State<App>, browser: Browser) -> PageResult {
    let Some(session) = browser.session(&app, PLATFORM).await? else {
        return Ok(see_other(&addresses::sign_in(PLATFORM, "/console"), Vec::new()));
    };
    let user = app.lookups.user(&session.user, app.now()).await?;
    let id = session.user.clone();
    let found = app.store.read(move |snapshot| {
        let own = administrators::of_user(snapshot, &id)?;
        let owner = administrators::is_platform_owner(snapshot, &id)?;
        let mut all = |status| match owner {
            true => organizations::list(snapshot, None, status, None, SHOWN_MAX as i64 + 1),
            false => Ok(Vec::new()),
        };
        // Read by themselves: among all organizations of a server they could be on any page.
        let pending = all(Some(Status::Pending))?;
        Ok::<_, Error>((own, owner, pending, all(None)?))
    });
    let (mut own, platform_owner, mut pending, mut others) = found.await?;
    let more = [own.len(), pending.len(), others.len()].into_iter().any(|found| found > SHOWN_MAX);
    let is_first = others.iter().all(|other| other.slug == PLATFORM);
    others.truncate(SHOWN_MAX);
    others.retain(|other| other.status != Status::Pending && own.iter().all(|(own, _)| own.id != other.id));
    pending.truncate(SHOWN_MAX);
    let role_of = |wanted: &Organization| {
        own.iter().find(|(own, _)| own.id == wanted.id).map(|(_, role)| role.as_str())
    };
    let roles: Vec<Option<&str>> = pending.iter().map(role_of).collect();
    if platform_owner {
        own.retain(|(own, _)| own.status != Status::Pending);
    }
    own.truncate(SHOWN_MAX);
    let waiting = pending.iter().zip(roles).map(|(pending, role)| line(pending, role));
    let lines: Vec<OrgLine<'_>> = waiting
        .chain(own.iter().map(|(own, role)| line(own, Some(role.as_str()))))
        .chain(others.iter().map(|other| line(other, None)))
        .collect();
    let csrf = browser.csrf(&app);
    let view = Console {
        user_email: &user.email,
        organizations: &lines,
        platform_owner,
        is_first: platform_owner && is_first,
        more,
        server: &app.settings.issuer,
        csrf: &csrf,
        signout_action: "/o/platform/logout",
        account_href: &addresses::account(PLATFORM),
    };
    Ok(browser.page(&app, view.markup(browser.language(&app))))
}

fn line<'a>(organization: &'a Organization, role: Option<&'a str>) -> OrgLine<'a> {
    OrgLine { slug: &organization.slug, name: &organization.name, role, status: organization.status.as_str() }
}
