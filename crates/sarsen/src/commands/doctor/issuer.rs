//! Whether the public address leads to this server.

use super::{Finding, fail, ok, warn};
use crate::api_client::{self, Body, HttpClient};
use crate::config::Config;
use crate::environment::Environment;
use crate::error::Result;
use crate::files::{self, Holder};
use ureq::http::Method;

const CHECK: &str = "issuer";

/// A server that does not run is nothing to worry about; one that runs and cannot be reached is.
pub(super) fn check(config: &Config, environment: &Environment) -> Result<Finding> {
    let issuer = config.issuer_at(&config.listen.value);
    let http = HttpClient::new(environment)?;
    let lock = config.database.value.path().map(|path| files::with_suffix(path, "-lock"));
    let runs = lock.and_then(|lock| Holder::of(&lock)).is_some();
    Ok(match http.send(&Method::GET, &format!("{issuer}/healthz"), &[], &Body::None) {
        Err(error) if runs => {
            fail(CHECK, format!("the server runs, but its address does not lead to it: {error}"))
        }
        Err(_) => warn(CHECK, format!("nobody answers at {issuer}; start sarsen serve and run this again")),
        Ok(answer) if answer.status != 200 => {
            fail(CHECK, format!("{issuer}/healthz answers {}; does the proxy lead here?", answer.status))
        }
        Ok(_) => match api_client::discover(&http, &issuer) {
            Ok(_) => ok(CHECK, format!("{issuer} answers, and by that name")),
            Err(error) => fail(CHECK, error.to_string()),
        },
    })
}
