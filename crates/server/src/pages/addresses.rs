//! Addresses of pages to which others lead. They are below the pages, which lead to one another.

use identity::organizations::PLATFORM;

/// The sign-in form of an organization.
pub(crate) fn sign_in_form(slug: &str) -> String {
    if slug == PLATFORM { "/login".to_owned() } else { format!("/o/{slug}/login") }
}

/// The sign-in page of an organization. It redirects to `next` after a sign-in, and at once for a signed-in user.
pub(crate) fn sign_in(slug: &str, next: &str) -> String {
    format!("{}?next={}", sign_in_form(slug), encoded(next))
}

/// The form of an organization that asks for a mail to set a new password.
pub(crate) fn forgot_form(slug: &str) -> String {
    format!("/o/{slug}/forgot")
}

/// The same form, whose user goes on to `next` in the end.
pub(crate) fn forgot(slug: &str, next: &str) -> String {
    format!("{}?next={}", forgot_form(slug), encoded(next))
}

/// The account page of an organization.
pub(crate) fn account(slug: &str) -> String {
    format!("/o/{slug}/account")
}

/// The question before a sign-out that leads to `next`.
pub(crate) fn sign_out(slug: &str, next: Option<&str>) -> String {
    let path = format!("/o/{slug}/logout");
    next.map_or(path.clone(), |next| format!("{path}?next={}", encoded(next)))
}

/// The address at which another user signs in and comes back.
pub(crate) fn switch(slug: &str, next: &str) -> String {
    sign_out(slug, Some(&sign_in(slug, next)))
}

/// `text` as a part of an address's query.
pub(crate) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
