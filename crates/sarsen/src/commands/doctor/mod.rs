//! `sarsen doctor`: does what `sarsen serve` does up to the first request, and changes nothing (`--key-copy` notes that the
//! secret key has a copy). It calls the functions that `serve` calls. One line a check, with advice. A check that takes longer
//! than five seconds fails.
//!
//! `machine.rs`: disk, files, clock. `database.rs`: the database, without opening it. `issuer.rs`: the public address and
//! the proxies. `mail.rs`: the mail relay. `backups.rs`: backups, and the copy of the secret key.

mod backups;
mod database;
mod issuer;
mod machine;
mod mail;

use super::findings::{self, Finding, State, fail, ok, warn};
use super::rekey;
use crate::api_client;
use crate::config::{Config, Flags, Origin};
use crate::environment::Environment;
use crate::error::Result;
use crate::secret_key;
use crate::{files, tls};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// A check that takes longer fails.
const CHECK_MAX: Duration = Duration::from_secs(5);
/// What to do where a file keeps a check waiting.
const HANGING_FILE: &str =
    "a file of it does not answer; check that it is a file, and the disk or share that it is on";

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

/// Runs it.
pub fn run(args: &Args, environment: &Environment) -> Result<()> {
    if let Some(copy) = &args.key_copy {
        return backups::confirm(&Config::load(&args.flags, environment)?, copy);
    }
    let (flags, variables) = (args.flags.clone(), environment.clone());
    let findings = match within(move || Config::load(&flags, &variables)) {
        Ok(Ok(config)) => check(&config, environment),
        Ok(Err(error)) => vec![fail("configuration", error.to_string())],
        Err(late) => vec![fail("configuration", late.advising(HANGING_FILE))],
    };
    findings::print(&findings, args.json, environment)
}

/// Why a check has no result.
enum Unfinished {
    Late,
    Panicked,
}

impl Unfinished {
    fn advising(self, advice: &str) -> String {
        match self {
            Unfinished::Late => format!("no result within {} seconds: {advice}", CHECK_MAX.as_secs()),
            Unfinished::Panicked => "the check ended with a fault of this program; report it".to_owned(),
        }
    }
}

/// The result of some work that may hang. Its thread ends with the process.
fn within<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::result::Result<T, Unfinished> {
    let (done, result) = channel();
    std::thread::spawn(move || {
        // After the time limit the receiver is gone, so the result is dropped.
        let _ = done.send(work());
    });
    result.recv_timeout(CHECK_MAX).map_err(|error| match error {
        RecvTimeoutError::Timeout => Unfinished::Late,
        RecvTimeoutError::Disconnected => Unfinished::Panicked,
    })
}

/// The checks of one configuration, each with its limit of time.
struct Checks<'a> {
    config: &'a Config,
    environment: &'a Environment,
    findings: Vec<Finding>,
}

impl Checks<'_> {
    /// Adds what a check finds. `hanging` says what to do if it finds nothing in time.
    fn add<F: IntoIterator<Item = Finding>>(
        &mut self,
        check: &'static str,
        hanging: &str,
        work: impl FnOnce(&Config, &Environment) -> F + Send + 'static,
    ) {
        let (config, environment) = (self.config.clone(), self.environment.clone());
        let found = within(move || work(&config, &environment).into_iter().collect::<Vec<_>>());
        self.findings.extend(found.unwrap_or_else(|late| vec![fail(check, late.advising(hanging))]));
    }
}

/// A finding, or the error that kept a check from one.
fn or_error(check: &'static str, found: Result<Finding>) -> [Finding; 1] {
    [found.unwrap_or_else(|error| fail(check, error.to_string()))]
}

fn check(config: &Config, environment: &Environment) -> Vec<Finding> {
    const UNREACHED: &str =
        "its host or its name server does not answer; check that it runs, and what stands between";
    let mut checks = Checks { config, environment, findings: Vec::new() };
    checks.add("configuration", HANGING_FILE, |config, _| [configuration(config)]);
    checks.add("secret key", HANGING_FILE, |config, _| [secret_key(config)]);
    checks.add("copy of key", HANGING_FILE, |config, _| [backups::key_copy(config)]);
    checks.add("tls", HANGING_FILE, |config, _| [certificate(config, api_client::now())]);
    match config.database.value.path() {
        Some(_) => checks.add(database::CHECK, HANGING_FILE, |config, _| database::file(config)),
        None => checks.add(database::CHECK, UNREACHED, |config, _| database::server(config)),
    }
    if config.database_direct.value.is_some() {
        checks.add("direct", UNREACHED, |config, _| database::direct(config));
    }
    for replica in config.replicas.value.clone() {
        checks.add("replica", UNREACHED, move |_, _| [database::replica(&replica)]);
    }
    checks.add("backups", HANGING_FILE, |config, _| [backups::newest(config)]);
    checks.add("disk", HANGING_FILE, |config, _| [machine::disk(&secret_key::beside_data(config))]);
    checks.add("leftovers", HANGING_FILE, |config, _| machine::leftovers(config));
    checks.add("open files", "try again", |config, _| [machine::open_files(config.connections_max.value)]);
    checks.add("clock", "try again", |_, _| [machine::clock()]);
    checks.add("listen", UNREACHED, |config, _| [issuer::listen(config)]);
    checks.add("proxies", UNREACHED, |config, environment| {
        or_error("proxies", issuer::proxies(config, environment))
    });
    checks.add("metrics", "try again", |config, _| [issuer::metrics(config)]);
    checks.add("issuer", UNREACHED, |config, environment| {
        or_error("issuer", issuer::check(config, environment))
    });
    checks.add("mail", UNREACHED, |config, environment| or_error("mail", mail::relay(config, environment)));
    checks.add("mail domain", UNREACHED, |config, environment| {
        mail::records(config, environment)
            .unwrap_or_else(|error| vec![fail("mail domain", error.to_string())])
    });
    checks.findings
}

fn configuration(config: &Config) -> Finding {
    const CHECK: &str = "configuration";
    let file = config.file.display();
    let modes = config.has_secrets_in_file().then(|| machine::shared_secret_file(CHECK, &config.file));
    if let Some(finding) = modes.filter(|finding| finding.state != State::Ok) {
        finding
    } else if config.file.exists() {
        ok(CHECK, format!("{file} is valid; sarsen serve --print-config shows all settings"))
    } else {
        ok(CHECK, format!("there is no {file}; the defaults apply"))
    }
}

fn secret_key(config: &Config) -> Finding {
    const CHECK: &str = "secret key";
    if let Err(error) = rekey::check_finished(config).and_then(|()| secret_key::read(config)) {
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
        if let Err(error) = files::check_private_folder(&config.acme_cache.value) {
            return fail(CHECK, error.to_string());
        }
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
