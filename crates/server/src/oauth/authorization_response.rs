//! How the answer to an authorization request reaches the client: in the query of a redirect, or in a form that the
//! browser posts (OAuth 2.0 Form Post Response Mode). Each answer carries `state` and `iss` (RFC 9207).

use super::params::Params;
use crate::app::App;
use crate::pages::language::WantedLanguages;
use crate::pages::respond::{see_other, self_posting_page};
use crate::pages::views::FormPost;
use axum::response::Response;
use identity::clients::Client;
use std::sync::Arc;

/// The supported values of `response_mode`.
pub(crate) const RESPONSE_MODES: [&str; 2] = ["query", "form_post"];

/// Where and how a client gets its answer. The redirect URI is registered for the client.
pub(crate) struct ReplyTo {
    client: Arc<Client>,
    redirect_uri: String,
    state: Option<String>,
    form_post: bool,
    app: App,
    wanted: WantedLanguages,
}

impl ReplyTo {
    /// The address of a request whose redirect URI was checked. An unknown `response_mode` counts as `query`: the client
    /// gets the error there.
    pub(crate) fn new(
        app: &App,
        client: &Arc<Client>,
        redirect_uri: &str,
        params: &Params,
        wanted: &WantedLanguages,
    ) -> ReplyTo {
        ReplyTo {
            client: client.clone(),
            redirect_uri: redirect_uri.to_owned(),
            state: params.get("state").map(str::to_owned),
            form_post: params.get("response_mode") == Some("form_post"),
            app: app.clone(),
            wanted: wanted.clone(),
        }
    }

    /// The redirect URI of the request.
    pub(crate) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Sends a code.
    pub(crate) fn accept(&self, code: &str) -> Response {
        self.send(&[("code", code)])
    }

    /// Sends an error.
    pub(crate) fn refuse(&self, error: &str, description: &str) -> Response {
        self.send(&[("error", error), ("error_description", description)])
    }

    fn send(&self, pairs: &[(&str, &str)]) -> Response {
        let state = self.state.as_deref().map(|state| ("state", state));
        let pairs: Vec<(&str, &str)> =
            pairs.iter().copied().chain(state).chain([("iss", &*self.app.settings.issuer)]).collect();
        if self.form_post {
            let brand = &self.client.organization_name;
            let form = FormPost {
                brand,
                product: self.client.product(),
                action: &self.redirect_uri,
                fields: &pairs,
            };
            let language = self.wanted.language(&self.app);
            return self_posting_page(language, form.markup(language));
        }
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let joint = if self.redirect_uri.contains('?') { '&' } else { '?' };
        see_other(&format!("{}{joint}{query}", self.redirect_uri), Vec::new())
    }
}
