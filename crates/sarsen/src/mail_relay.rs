//! The way out and the mail relay of a configuration: what `sarsen serve`, `sarsen doctor` and `sarsen mail test` send through.

use crate::config::{Config, SMTP_PASSWORD_VARIABLE};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::files;
use server::outgoing::{Connector, Policy, Relay, Trust};

/// The way out. It trusts the certificates of the file `SSL_CERT_FILE`, or the public authorities without one.
pub fn connector(config: &Config, environment: &Environment) -> Result<Connector> {
    let authorities = match environment.get("SSL_CERT_FILE") {
        Some(path) => Some((path, std::fs::read(path).map_err(Error::file("read", path.as_ref()))?)),
        None => None,
    };
    let trust = Trust::new(authorities.as_ref().map(|(_, pem)| &**pem)).map_err(|why| {
        let path = authorities.as_ref().map_or("", |(path, _)| path);
        Error::usage(format!("{path} (SSL_CERT_FILE) cannot be used: {why}; use a PEM file of certificates"))
    })?;
    Ok(Connector::new(Policy {
        allowed: config.outgoing_allow.value.clone(),
        proxy: config.outgoing_proxy.value.clone(),
        dns_servers: config.dns_servers.value.clone(),
        trust,
    }))
}

/// The relay, if one is set.
pub fn relay(config: &Config, environment: &Environment) -> Result<Option<Relay>> {
    let (Some(address), Some(sender)) = (&config.smtp_url.value, &config.mail_from.value) else {
        return Ok(None);
    };
    let connector = connector(config, environment)?;
    let password = address.user().map(|_| password(config)).transpose()?;
    Ok(Some(Relay::smtp(connector, address.clone(), password, sender.clone())))
}

/// From the environment, or the first line of its file.
fn password(config: &Config) -> Result<String> {
    if let Some(password) = &config.smtp_password {
        return Ok(password.clone());
    }
    let Some(path) = &config.smtp_password_file.value else { return Ok(String::new()) };
    let text = files::read(path)?.ok_or_else(|| {
        Error::usage(format!(
            "there is no file {} (smtp_password_file); write the password of the mail relay into it, or set \
             {SMTP_PASSWORD_VARIABLE}",
            path.display()
        ))
    })?;
    match text.lines().next().map(str::trim_end) {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(Error::usage(format!("{} (smtp_password_file) is empty", path.display()))),
    }
}
