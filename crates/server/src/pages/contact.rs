//! Whom users of an organization ask for help: the line of its `branding` that its sign-in, its closed sign-up and error pages
//! about it show.
//!
//! An organization that is not active has no text of its own on any page. What cannot be read is left out: every page works
//! without it.

use super::addresses;
use super::views;
use crate::app::App;
use identity::names;
use identity::organizations::{self, Organization, PLATFORM, Status};
use std::sync::Arc;

/// The contact of an organization.
pub(crate) struct Contact {
    /// Whose contact it is; this server's, if that of no organization.
    of: Option<String>,
    text: Arc<str>,
}

impl Contact {
    /// That of an organization.
    pub(crate) async fn of(app: &App, organization: &Organization) -> Option<Contact> {
        if organization.status != Status::Active {
            return None;
        }
        let text = app.lookups.contact(&organization.id, app.now()).await.ok()?;
        let of = (organization.slug != PLATFORM).then(|| organization.name.clone());
        (!text.is_empty()).then_some(Contact { of, text })
    }

    /// That of the organization with this slug.
    pub(super) async fn of_slug(app: &App, slug: &str) -> Option<Contact> {
        let slug = slug.to_owned();
        let found = app.store.point(move |snapshot| organizations::find(snapshot, &slug)).await;
        Contact::of(app, &found.ok()?).await
    }

    /// For its page.
    pub(crate) fn view(&self) -> views::Contact<'_> {
        views::Contact { of: self.of.as_deref(), text: &self.text }
    }
}

/// The slug of the organization that a page is about, by its path.
pub(crate) fn slug_of(path: &str) -> Option<&str> {
    if path == addresses::sign_in_form(PLATFORM) { Some(PLATFORM) } else { slug_below_o(path) }
}

/// The slug in `/o/{slug}/…`.
pub(super) fn slug_below_o(path: &str) -> Option<&str> {
    let slug = path.strip_prefix("/o/")?.split('/').next()?;
    names::slug("slug", slug).is_ok().then_some(slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_organization() {
        for (path, slug) in [
            ("/o/acme/login", Some("acme")),
            ("/o/acme/no/such/page", Some("acme")),
            ("/login", Some("platform")),
            ("/o/Acme%20/login", None),
            ("/o//login", None),
            ("/api/organizations/acme", None),
            ("/auth/authorize", None),
        ] {
            assert_eq!(slug_of(path), slug, "{path}");
        }
    }
}
