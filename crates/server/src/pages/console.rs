//! `/console`: the first page of an administrator.

use super::account;
use super::browser::Browser;
use super::respond::{PageResult, see_other};
use super::sign_in;
use super::views::{Console, OrgLine};
use crate::app::App;
use axum::extract::State;
use identity::organizations::{self, Organization, PLATFORM, Status};
use identity::{Error, administrators};

/// The most organizations on the page of a platform owner besides their own; the command line lists all.
const OTHERS_MAX: i64 = 200;

pub(crate) async fn get(State(app): State<App>, browser: Browser) -> PageResult {
    let Some(session) = browser.session(&app, PLATFORM).await? else {
        return Ok(see_other(&sign_in::address(PLATFORM, "/console"), Vec::new()));
    };
    let user = app.lookups.user(&session.user, app.now()).await?;
    let id = session.user.clone();
    let found = app.store.read(move |snapshot| {
        let organizations = administrators::of_user(snapshot, &id)?;
        let owner = administrators::is_platform_owner(snapshot, &id)?;
        let others =
            if owner { organizations::list(snapshot, None, None, OTHERS_MAX + 1)? } else { Vec::new() };
        Ok::<_, Error>((organizations, owner, others))
    });
    let (organizations, platform_owner, mut others) = found.await?;
    let more = others.len() > OTHERS_MAX as usize;
    others.truncate(OTHERS_MAX as usize);
    others.retain(|other| organizations.iter().all(|(own, _)| own.id != other.id));
    // Organizations that wait for a decision come first.
    others.sort_by_key(|other| other.status != Status::Pending);
    let lines: Vec<OrgLine<'_>> = organizations
        .iter()
        .map(|(own, role)| line(own, Some(role.as_str())))
        .chain(others.iter().map(|other| line(other, None)))
        .collect();
    let csrf = browser.csrf(&app);
    let view = Console {
        user_email: &user.email,
        organizations: &lines,
        platform_owner,
        more,
        server: &app.settings.issuer,
        csrf: &csrf,
        signout_action: "/o/platform/logout",
        account_href: &account::address(PLATFORM),
    };
    Ok(browser.page(&app, view.markup()))
}

fn line<'a>(organization: &'a Organization, role: Option<&'a str>) -> OrgLine<'a> {
    OrgLine { slug: &organization.slug, name: &organization.name, role, status: organization.status.as_str() }
}
