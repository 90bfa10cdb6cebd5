//! The language of a page: what its request says about that, and texts with markup in them.

use super::browser::encoded_pairs;
use crate::app::App;
use axum::extract::FromRequestParts;
use http::header::ACCEPT_LANGUAGE;
use http::request::Parts;
use http::{HeaderMap, Uri};
use maud::{Markup, html};
use std::sync::{Arc, OnceLock};
use texts::{Language, Piece};

/// The parameter with the languages that the product asks for (OpenID Connect Core 3.1.2.1).
pub(crate) const UI_LOCALES: &str = "ui_locales";
/// The parameter with the address that a page leads on to, in which the authorization request may be.
const NEXT: &str = "next";
/// How many of these may be in each other: a sign-out that leads to a sign-in that leads to an authorization request.
const DEPTH_MAX: usize = 3;

/// The languages that a request asks for. Extractors and the middleware share it, so that an error page is in the language
/// of the form that failed.
#[derive(Clone, Default)]
pub(crate) struct WantedLanguages(Arc<Asked>);

#[derive(Default)]
struct Asked {
    accept: String,
    /// Of the address or, where that has none, of the form.
    ui_locales: OnceLock<String>,
}

impl WantedLanguages {
    /// What the head of a request says.
    pub(crate) fn of(uri: &Uri, headers: &HeaderMap) -> WantedLanguages {
        let accept: Vec<&str> =
            headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok()).collect();
        let wanted =
            WantedLanguages(Arc::new(Asked { accept: accept.join(","), ui_locales: OnceLock::new() }));
        wanted.note(uri.query().unwrap_or_default());
        wanted
    }

    /// Reads the `ui_locales` of a query or a form.
    pub(crate) fn note(&self, form: &str) {
        if let Some(ui_locales) = ui_locales_of(form, DEPTH_MAX) {
            self.0.ui_locales.get_or_init(|| ui_locales);
        }
    }

    /// The language for this reader.
    pub(crate) fn language<'a>(&self, app: &'a App) -> &'a Language {
        app.settings.languages.choose(self.0.ui_locales.get().map(String::as_str), Some(&self.0.accept))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WantedLanguages {
    type Rejection = std::convert::Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<WantedLanguages, Self::Rejection> {
        let known = parts.extensions.get::<WantedLanguages>().cloned();
        Ok(known.unwrap_or_else(|| WantedLanguages::of(&parts.uri, &parts.headers)))
    }
}

/// The parameter itself, or that of the address in `next`.
fn ui_locales_of(form: &str, depth: usize) -> Option<String> {
    let own = encoded_pairs(form).find(|(name, _)| name == UI_LOCALES);
    if let Some((_, ui_locales)) = own {
        return Some(ui_locales.into_owned());
    }
    let (_, next) = encoded_pairs(form).find(|(name, _)| name == NEXT).filter(|_| depth > 0)?;
    ui_locales_of(next.split_once('?')?.1, depth - 1)
}

/// Texts with markup in place of their placeholders.
pub(crate) trait Html {
    /// The text, escaped, with these values, which are not escaped again.
    fn html(&self, key: &str, values: &[(&str, Markup)]) -> Markup;
}

impl Html for Language {
    fn html(&self, key: &str, values: &[(&str, Markup)]) -> Markup {
        html! {
            @for piece in self.pieces(key) {
                @match piece {
                    Piece::Text(text) => (text),
                    Piece::Value(name) => {
                        @for (_, value) in values.iter().filter(|(known, _)| *known == name) { (value) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_languages_of_an_authorization_request_are_found_where_it_is_carried() {
        let request = "client_id=x&ui_locales=de%20fr";
        let twice = |path: &str, query: &str| {
            format!("next={}", super::super::addresses::encoded(&format!("{path}?{query}")))
        };
        let sign_in = twice("/auth/authorize", request);
        let sign_out = twice("/o/acme/login", &sign_in);
        for form in [request, &*sign_in, &*sign_out, &*twice("/o/acme/logout", &sign_out)] {
            assert_eq!(ui_locales_of(form, DEPTH_MAX).as_deref(), Some("de fr"), "{form}");
        }
        let deep = (0..9).fold(request.to_owned(), |inner, _| twice("/o/acme/login", &inner));
        for form in ["", "client_id=x", "next=%2Fo%2Facme%2Faccount", &*deep] {
            assert_eq!(ui_locales_of(form, DEPTH_MAX), None, "{form}");
        }
    }

    #[test]
    fn markup_takes_the_places_of_placeholders_and_all_else_is_escaped() {
        let languages = texts::Languages::built_in();
        let value = html! { b { "<i>" } };
        let shown = languages.english().html("page.signed_in_as", &[("email", value)]);
        assert_eq!(shown.into_string(), "Signed in as <b>&lt;i&gt;</b>.");
    }
}
