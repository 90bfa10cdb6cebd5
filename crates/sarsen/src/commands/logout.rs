//! `sarsen logout`: revokes the tokens of this terminal and deletes the sign-in.

use crate::api_client::{self, CredentialsFile, HttpClient};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::output;

/// Sign this terminal out, here and at the server.
#[derive(clap::Args)]
pub struct Args {
    /// The server's address [default: the current one]
    #[arg(long, value_name = "URL", env = "SARSEN_SERVER", hide_env_values = true)]
    server: Option<String>,
}

/// Runs it. The sign-in is deleted here even when the server cannot be reached.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    let (credentials_file, http) = (CredentialsFile::new(environment)?, HttpClient::new(environment)?);
    let (server, login) = credentials_file.change(|saved| {
        let server = args.server.as_deref().map(|server| server.trim_end_matches('/').to_owned());
        let server = server.or(saved.current.clone());
        let found = server.and_then(|server| saved.servers.remove_entry(&server));
        let (server, login) = found.ok_or_else(|| {
            Error::failed("this terminal is not signed in; there is nothing to sign out of")
        })?;
        if saved.current.as_ref() == Some(&server) {
            saved.current = saved.servers.keys().next().cloned();
        }
        Ok((server, login))
    })?;
    api_client::revoke(&http, &login).map_err(|error| {
        Error::failed(format!("the sign-in was deleted here, but its tokens were not revoked: {error}"))
    })?;
    output::tell(&format!("Signed out of {server}."));
    Ok(())
}
