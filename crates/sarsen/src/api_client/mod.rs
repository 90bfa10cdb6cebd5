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
use server::{SystemRandom, random_secret};
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
        let key = (*method == Method::POST).then(|| random_secret(&SystemRandom));
        let sent = match self.send_once(method, path, key.as_deref(), body) {
            // The token may be older than the organization that it should cover, or revoked: a new one may do.
            Err(Error::Refused { code, .. }) if ["insufficient_scope", "invalid_token"].contains(&&*code) => {
                self.refresh()?;
                self.send_once(method, path, key.as_deref(), body)
            }
            other => other,
        };
        sent.map_err(|error| match error {
            Error::Refused { code, .. } if [http::IN_PROGRESS, "idempotency_answer_lost"].contains(&&*code) => {
                Error::failed(
                    "the server stopped before it answered; the change was made, or is being made: look at the list before \
                     you try again",
                )
            }
            error => error,
        })
    }

    fn send_once(&self, method: &Method, path: &str, key: Option<&str>, body: &Body<'_>) -> Result<Value> {
        let bearer = http::bearer(&self.login.access_token);
        let url = format!("{}{path}", self.server);
        let mut headers = vec![(http::BEARER, &*bearer)];
        headers.extend(key.map(|key| (http::IDEMPOTENCY_KEY, key)));
        let answer = self.http.send(method, &url, &headers, body)?;
        match answer.needs_no_key() {
            // Once: without a key, a second try could make the change twice.
            true => self.http.send_once(method, &url, &headers[..1], body)?.ok(),
            false => answer.ok(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::{JoinHandle, spawn};

    /// Gives these answers, one to each request. Returns the `Idempotency-Key` of each.
    fn answer(listener: TcpListener, answers: &'static [&'static str]) -> JoinHandle<Vec<Option<String>>> {
        spawn(move || {
            let answer = |text: &&str| {
                let (stream, _) = listener.accept().expect("a connection");
                let mut reader = BufReader::new(stream);
                let (mut key, mut length) = (None, 0);
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).expect("a line");
                    let Some((name, value)) = line.trim_end().split_once(": ") else {
                        if line.trim_end().is_empty() {
                            break;
                        }
                        continue;
                    };
                    match name.to_lowercase().as_str() {
                        "idempotency-key" => key = Some(value.to_owned()),
                        "content-length" => length = value.parse().expect("a length"),
                        _ => {}
                    }
                }
                reader.read_exact(&mut vec![0; length]).expect("a body");
                reader.get_mut().write_all(text.as_bytes()).expect("writes");
                key
            };
            answers.iter().map(answer).collect()
        })
    }

    fn client(listener: &TcpListener) -> ApiClient {
        let environment = Environment::of(&[("HOME", "/nonexistent")]);
        let server = format!("http://{}", listener.local_addr().expect("an address"));
        let login = Login {
            email: "ada@acme.test".to_owned(),
            scope: "org:acme".to_owned(),
            access_token: "token".to_owned(),
            refresh_token: "token".to_owned(),
            expires_at: oauth::now() + 3600,
            token_endpoint: format!("{server}/auth/token"),
            revocation_endpoint: None,
        };
        let credentials_file = CredentialsFile::new(&environment).expect("a place");
        ApiClient { http: HttpClient::new(&environment).expect("a client"), credentials_file, server, login }
    }

    const UNAVAILABLE: &str =
        "HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const IN_PROGRESS: &str = "HTTP/1.1 409 x\r\nretry-after: 0\r\ncontent-type: application/problem+json\r\n\
        content-length: 34\r\nconnection: close\r\n\r\n{\"code\":\"idempotency_in_progress\"}";
    const NO_MORE_KEYS: &str = "HTTP/1.1 429 x\r\nretry-after: 900\r\ncontent-type: application/problem+json\r\n\
        content-length: 36\r\nconnection: close\r\n\r\n{\"code\":\"too_many_idempotency_keys\"}";
    const DONE: &str = "HTTP/1.1 201 x\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\
        connection: close\r\n\r\n{\"id\":\"1\"}";

    #[test]
    fn a_change_that_is_sent_again_has_the_same_key() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let mut client = client(&listener);
        let answering = answer(listener, &[UNAVAILABLE, IN_PROGRESS, DONE, DONE, DONE]);
        for _ in 0..2 {
            let made = client.send(&Method::POST, "/api/x", &Body::Json(&Value::Null)).expect("an answer");
            assert_eq!(made["id"], "1");
        }
        client.send(&Method::GET, "/api/x", &Body::None).expect("an answer");
        let keys = answering.join().expect("five requests");
        let [Some(first), second, third, Some(next), None] = keys.as_slice() else { panic!("{keys:?}") };
        assert!(second.as_ref() == Some(first) && third.as_ref() == Some(first), "{keys:?}");
        assert!(first != next && first.len() > 20, "{keys:?}");
    }

    #[test]
    fn a_change_goes_without_a_key_when_the_server_keeps_no_more_of_them() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let mut client = client(&listener);
        // After a try whose end is not known, only the key says whether the change was made.
        let answering =
            answer(listener, &[NO_MORE_KEYS, DONE, NO_MORE_KEYS, UNAVAILABLE, UNAVAILABLE, NO_MORE_KEYS]);
        let made = client.send(&Method::POST, "/api/x", &Body::None).expect("an answer");
        assert_eq!(made["id"], "1");
        for _ in 0..2 {
            client.send(&Method::POST, "/api/x", &Body::None).expect_err("no answer");
        }
        let keys = answering.join().expect("six requests");
        let [Some(_), None, Some(_), None, Some(third), again] = keys.as_slice() else { panic!("{keys:?}") };
        assert_eq!(again.as_ref(), Some(third));
    }

    #[test]
    fn a_change_whose_answer_was_lost_is_not_repeated_blindly() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let mut client = client(&listener);
        let answering = answer(listener, &[UNAVAILABLE, IN_PROGRESS, IN_PROGRESS, IN_PROGRESS]);
        let refused = client.send(&Method::POST, "/api/x", &Body::None).expect_err("no answer").to_string();
        assert!(refused.contains("look at the list before you try again"), "{refused}");
        answering.join().expect("four requests");
    }
}
