//! `/console`: what those who administer see first.

use super::browser::Browser;
use super::respond::{PageResult, see_other};
use super::sign_in;
use super::views::{Console, OrgLine};
use crate::app::App;
use axum::extract::State;
use identity::organizations::PLATFORM;
use identity::{Error, administrators};

pub(crate) async fn get(State(app): State<App>, browser: Browser) -> PageResult {
    let Some(session) = browser.session(&app, PLATFORM).await? else {
        return Ok(see_other(&sign_in::address(PLATFORM, "/console"), Vec::new()));
    };
    let user = app.directory.user(&session.user, app.now()).await?;
    let id = session.user.clone();
    let found = app.store.read(move |snapshot| {
        let organizations = administrators::of_user(snapshot, &id)?;
        let owner = administrators::is_platform_owner(snapshot, &id)?;
        Ok::<_, Error>((organizations, owner))
    });
    let (organizations, platform_owner) = found.await?;
    let lines: Vec<OrgLine<'_>> = organizations
        .iter()
        .map(|(organization, role)| OrgLine {
            slug: &organization.slug,
            name: &organization.name,
            role: role.as_str(),
            status: organization.status.as_str(),
        })
        .collect();
    let csrf = browser.csrf(&app);
    let view = Console {
        user_email: &user.email,
        organizations: &lines,
        platform_owner,
        csrf: &csrf,
        signout_action: "/o/platform/logout",
    };
    Ok(browser.page(&app, view.markup()))
}
