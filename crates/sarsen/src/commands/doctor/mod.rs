//! `sarsen doctor`: checks what the server needs and changes nothing (`--key-copy` notes that the secret key has a copy).
//! One line a check, with advice.
//!
//! `machine.rs`: disk, files, clock. `database.rs`: the database, without opening it. `issuer.rs`: the public address and
//! the proxies. `backups.rs`: backups, and the copy of the secret key.

mod backups;
mod database;
mod issuer;
mod machine;

pub use backups::fingerprint;

use super::serve;
use crate::api_client;
use crate::config::{Config, Flags, Origin};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::{output, tls};
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// Check the configuration, the files and the machine. It changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Exit code 1 when a check fails; warnings do not count.")]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Compare this copy of the secret key (-: stdin) with the key, note that it exists, and exit
    #[arg(long, value_name = "FILE", help_heading = None::<&str>)]
    key_copy: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = None::<&str>)]
    json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Warn,
    Fail,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            State::Ok => "32",
            State::Warn => "33",
            State::Fail => "31",
        }
    }
}

/// A check and its result.
struct Finding {
    check: &'static str,
    state: State,
    /// What was found, and what to do.
    message: String,
}

fn ok(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, state: State::Ok, message: message.into() }
}

fn warn(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, state: State::Warn, message: message.into() }
}

fn fail(check: &'static str, message: impl Into<String>) -> Finding {
    Finding { check, state: State::Fail, message: message.into() }
}

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    if let Some(copy) = &args.key_copy {
        return backups::confirm(&Config::load(&args.flags, environment)?, copy);
    }
    let findings = match Config::load(&args.flags, environment) {
        Ok(config) => check(&config, environment)?,
        Err(error) => vec![fail("configuration", error.to_string())],
    };
    if args.json {
        let all = findings.iter().map(|finding| {
            serde_json::json!({ "check": finding.check, "state": finding.state.word(), "says": finding.message })
        });
        output::print_json(&all.collect::<Vec<_>>().into())?;
    } else {
        let colours = std::io::stdout().is_terminal() && environment.get("NO_COLOR").is_none();
        output::print(&findings.iter().map(|finding| line(finding, colours)).collect::<String>())?;
    }
    if findings.iter().any(|finding| finding.state == State::Fail) {
        Err(Error::AlreadyReported)
    } else {
        Ok(())
    }
}

fn check(config: &Config, environment: &Environment) -> Result<Vec<Finding>> {
    let file = config.file.display();
    let modes =
        config.has_secrets_in_file().then(|| machine::shared_secret_file("configuration", &config.file));
    let configuration = if let Some(finding) = modes.filter(|finding| finding.state != State::Ok) {
        finding
    } else if config.file.exists() {
        ok("configuration", format!("{file} is valid; sarsen serve --print-config shows all settings"))
    } else {
        ok("configuration", format!("there is no {file}; the defaults apply"))
    };
    let mut findings = vec![
        configuration,
        secret_key(config),
        backups::key_copy(config),
        certificate(config, api_client::now()),
    ];
    findings.extend(database::check(config));
    findings.push(backups::newest(config));
    findings.push(machine::disk(&serve::beside_data(config)));
    findings.extend(machine::leftovers(config));
    findings.push(machine::open_files(config.connections_max.value));
    findings.push(machine::clock());
    findings.push(issuer::proxies(config, environment)?);
    findings.push(issuer::metrics(config));
    findings.push(issuer::check(config, environment)?);
    Ok(findings)
}

fn secret_key(config: &Config) -> Finding {
    const CHECK: &str = "secret key";
    if let Err(error) = serve::secret_key(config) {
        return fail(CHECK, error.to_string());
    }
    match &config.secret_key {
        Some(_) => ok(CHECK, "SARSEN_SECRET_KEY is set"),
        None => machine::secret_file(CHECK, &config.secret_key_file.value),
    }
}

/// A certificate that ends sooner than this should have been renewed.
const RENEWED_BEFORE: i64 = 14 * 24 * 3600;

/// The certificate as `serve` reads it.
fn certificate(config: &Config, now: i64) -> Finding {
    const CHECK: &str = "tls";
    const REREAD: &str = "and the server uses the new files within seconds";
    if !config.acme_domains.value.is_empty() {
        let (names, directory) = (config.acme_domains.value.join(", "), &config.acme_directory.value);
        return ok(
            CHECK,
            format!("the certificate for {names} is from {directory}, which must reach port 443"),
        );
    }
    let time = |seconds| jiff::Timestamp::from_second(seconds).unwrap_or_default();
    match tls::Files::read(config) {
        Err(error) => fail(CHECK, error.to_string()),
        Ok(None) => ok(CHECK, "the server speaks plain HTTP; a proxy has to end https for other machines"),
        Ok(Some(files)) => {
            let left = files.tls().ends().map_or(i64::MAX, |ends| ends - now);
            let modes = config.tls_key.value.as_ref().map(|key| machine::shared_secret_file(CHECK, key));
            match modes {
                Some(finding) if finding.state == State::Fail => finding,
                _ if left <= 0 => fail(
                    CHECK,
                    format!("the certificate has ended, so clients refuse it; renew it, {REREAD}"),
                ),
                _ if !is_for_issuer(config, &files.tls()) => {
                    let host = config.issuer.value.as_ref().map_or("", Origin::host);
                    fail(
                        CHECK,
                        format!(
                            "the certificate is not for {host}, the host of the issuer; use another, {REREAD}"
                        ),
                    )
                }
                _ if left < RENEWED_BEFORE => {
                    warn(CHECK, format!("the certificate ends at {}; renew it, {REREAD}", time(now + left)))
                }
                Some(finding) => finding,
                None => ok(CHECK, "the certificate fits its key"),
            }
        }
    }
}

/// Whether clients that ask for the issuer's host accept the certificate.
fn is_for_issuer(config: &Config, tls: &server::Tls) -> bool {
    config.issuer.value.as_ref().is_none_or(|issuer| tls.is_for(issuer.host()))
}

fn line(finding: &Finding, colours: bool) -> String {
    let word = format!("{:<4}", finding.state.word());
    let word = if colours { format!("\u{1b}[{}m{word}\u{1b}[0m", finding.state.colour()) } else { word };
    format!("{word}  {:<13}  {}\n", finding.check, output::sanitize(&finding.message))
}
