//! The client of the API: HTTP with the saved sign-in of this terminal.
//!
//! - `http.rs`: requests and answers. `oauth.rs`: the device flow. `credentials.rs`: the saved sign-ins.

mod credentials;
mod http;
mod oauth;

pub use credentials::{CredentialsFile, Login};
pub use http::{BEARER, Body, HttpClient, bearer};
pub use oauth::{discover, now, revoke};

use crate::environment::Environment;
use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::Method;

/// A token is refreshed when it expires within these seconds.
const MARGIN_S: i64 = 30;

/// A server that this terminal is signed in to.
pub struct ApiClient {
    http: HttpClient,
    credentials_file: CredentialsFile,
    server: String,
    login: Login,
}

impl ApiClient {
    /// The named server, or the current one.
    pub fn open(environment: &Environment, server: Option<&str>) -> Result<ApiClient> {
        let credentials_file = CredentialsFile::new(environment)?;
        let mut saved = credentials_file.read()?;
        let named = server.map(|server| server.trim_end_matches('/').to_owned());
        let Some(server) = named.or(saved.current) else {
            return Err(Error::failed("this terminal is not signed in; run sarsen login --server URL"));
        };
        let Some(login) = saved.servers.remove(&server) else { return Err(not_signed_in(&server)) };
        Ok(ApiClient { http: HttpClient::new(environment)?, credentials_file, server, login })
    }

    /// The server's issuer.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The saved sign-in.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// Sends a request and returns the body of a successful answer.
    pub fn send(&mut self, method: &Method, path: &str, body: &Body<'_>) -> Result<Value> {
        if self.login.expires_at - MARGIN_S <= oauth::now() {
            self.refresh()?;
        }
        match self.send_once(method, path, body) {
            // The token may be older than the organization that it should cover, or revoked: a new one may do.
            Err(Error::Refused { code, .. }) if ["insufficient_scope", "invalid_token"].contains(&&*code) => {
                self.refresh()?;
                self.send_once(method, path, body)
            }
            other => other,
        }
    }

    fn send_once(&self, method: &Method, path: &str, body: &Body<'_>) -> Result<Value> {
        let bearer = http::bearer(&self.login.access_token);
        self.http.send(method, &format!("{}{path}", self.server), &[(http::BEARER, &bearer)], body)?.ok()
    }

    /// Gets new tokens. They cover the organizations that exist by now.
    pub fn refresh(&mut self) -> Result<()> {
        let (http, server, mine) = (&self.http, &self.server, &self.login);
        let renewed = self.credentials_file.change(|saved| {
            let Some(kept) = saved.servers.get(server).cloned() else { return Ok(None) };
            // Another process has used the refresh token, which works once.
            if kept.refresh_token != mine.refresh_token {
                return Ok(Some(kept));
            }
            let renewed = oauth::refresh(http, &kept)?;
            match &renewed {
                Some(login) => saved.servers.insert(server.clone(), login.clone()),
                None => saved.servers.remove(server),
            };
            Ok(renewed)
        })?;
        self.login = renewed.ok_or_else(|| ended(&self.server))?;
        Ok(())
    }
}

fn not_signed_in(server: &str) -> Error {
    Error::failed(format!("this terminal is not signed in to {server}; run sarsen login --server {server}"))
}

fn ended(server: &str) -> Error {
    Error::failed(format!("the sign-in to {server} has ended; run sarsen login --server {server}"))
}

/// Reads an answer as its type. An error names the field and shows no value: that may be a secret.
pub fn parse<T: DeserializeOwned>(json: &Value) -> Result<T> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let (path, what) = (error.path().to_string(), error.inner().to_string());
        let what = match what.starts_with("missing field") {
            true => what,
            false => format!("field `{path}` has the wrong type"),
        };
        Error::failed(format!(
            "the server answered in a form that this version of sarsen cannot read: {what}; use the version of the server"
        ))
    })
}

/// `text` as one part of a path.
pub fn segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}
