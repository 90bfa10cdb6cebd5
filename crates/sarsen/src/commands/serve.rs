//! `sarsen serve`: the server, with its configuration.

use super::{owner, rekey};
use crate::config::{self, Config, Flags, LogFormat};
use crate::context::Context;
use crate::control::{self, Answer, ControlSocket, Request};
use crate::error::{Error, Result};
use crate::secret_key;
use crate::server_process;
use crate::tls::Certificate;
use crate::{files, logs, mail_relay, output};
use server::{App, Bound, Limits};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Run the server until SIGTERM or Ctrl-C. Another Ctrl-C, from a second later on, stops it at once.
#[derive(clap::Args)]
#[command(
    after_help = "A setting comes from the file, the environment or a flag. A flag overrides the environment, which overrides the\n\
                  file:\n\
                  \x20   session_days = 7          in sarsen.toml\n\
                  \x20   SARSEN_SESSION_DAYS=7     in the environment\n\
                  \x20   --session-days 7          as a flag\n\
                  \n\
                  The first start writes a one-time link for the first owner to setup-link.txt beside the database."
)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Print the effective settings with their sources, and exit
    #[arg(long, help_heading = None::<&str>)]
    print_config: bool,
}

/// Where the set-up link is written, beside the database.
const LINK_FILE: &str = "setup-link.txt";

/// Runs it. Its last line is of the format of the log too.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let format = Config::log_format(&args.flags, &context.environment);
    serve_until_stopped(args, context).map_err(|error| error.in_log(format))
}

fn serve_until_stopped(args: &Args, context: &Context) -> Result<()> {
    let environment = &context.environment;
    let config = Config::load(&args.flags, environment)?;
    if args.print_config {
        return output::print(&config::print(&config));
    }
    let colours = environment.get("NO_COLOR").is_none();
    let _log = logs::start(&config.log.value, config.log_format.value, colours)?;
    server_process::keep_files_private();
    let link = secret_key::beside_data(&config).join(LINK_FILE);
    files::clear_for_a_server(config.database.value.path(), &[&config.secret_key_file.value, &link]);
    rekey::check_finished(&config)?;
    let key = secret_key::read(&config)?;
    warn_of_readers(&config);
    warn_of_lacking_texts(&config);
    if let Some(folder) = &config.backup_directory.value {
        files::private_folder(folder)?;
    }
    let certificate = Certificate::open(&config, environment)?;
    let mail = mail_relay::relay(&config, environment)?;
    let bound = server_process::bind(&config.listen.value)?;
    let options = config.store_options(context.writer_limits.clone());
    let store = server_process::open_store_of(&config.database.value, options, &key)?;
    let mut settings = config.settings(bound.addresses());
    settings.mail = mail;
    let app = server_process::app(store.clone(), settings, key, None)?;
    let served = server_process::runtime()?.block_on(serve(&config, app, bound, certificate));
    if served.is_err() {
        // The server did not start, so it has not closed the database.
        store.close();
    }
    served
}

/// Names the languages that have not all texts.
fn warn_of_lacking_texts(config: &Config) {
    for language in config.texts.offered() {
        let lacks = language.lacks();
        if let Some(first) = lacks.first() {
            tracing::warn!(
                language = language.tag(),
                texts = lacks.len(),
                first,
                "a language lacks texts, which are shown in English"
            );
        }
    }
}

async fn serve(config: &Config, app: App, bound: Bound, certificate: Option<Certificate>) -> Result<()> {
    server::first_start::prepare(&app).await.map_err(Error::domain(server_process::UNUSABLE))?;
    let link_file = write_link(config, &app).await?;
    let limits = Limits {
        connections: config.connections_max.value,
        connections_per_network: config.connections_per_network_max.value,
        tls: certificate.as_ref().map(Certificate::tls),
        ..Limits::default()
    };
    let signals = server_process::signals()?;
    let running = server_process::start(app.clone(), bound, limits).await?;
    let follows = certificate.map(|certificate| tokio::spawn(certificate.follow()));
    serve_commands(config, &app);
    let removes_link = link_file.map(|written| tokio::spawn(remove_used_link(written, app.clone())));
    for address in &running.addresses {
        tracing::info!(%address, issuer = app.settings.issuer, "listening");
    }
    server_process::until_stopped(running, signals, config.log_format.value).await;
    for task in [follows, removes_link].into_iter().flatten() {
        task.abort();
    }
    Ok(())
}

/// Listens for commands on this machine, while this process owns a SQLite file. Without the socket the server serves all
/// the same.
fn serve_commands(config: &Config, app: &App) {
    let Some(database) = config.database.value.path() else { return };
    match ControlSocket::bind(&control::path_beside(database)) {
        Ok(socket) => {
            let app = app.clone();
            tokio::spawn(socket.serve(move |request, uid| answer(app.clone(), request, uid)));
        }
        Err(error) => tracing::warn!(%error, "commands on this machine cannot reach this server"),
    }
}

async fn answer(app: App, request: Request, uid: u32) -> Answer {
    let done = match request {
        Request::RecoverOwner { email } => owner::answer(&app, &email, uid, "over the control socket").await,
    };
    done.map_or_else(|error| Answer::Refused(error.to_string()), Answer::Done)
}

/// Until the server has an owner, a file has the link for the first one. No log has it. Returns the file and what
/// is in it.
async fn write_link(config: &Config, app: &App) -> Result<Option<(PathBuf, String)>> {
    let path = secret_key::beside_data(config).join(LINK_FILE);
    let link = server::first_start::link(app).await;
    match link.map_err(|error| Error::failed(format!("cannot make the set-up link: {error}")))? {
        None => files::remove(&path).map(|()| None),
        Some(link) => {
            let content = format!("{link}\n");
            files::replace_private(&path, &content)?;
            let text = format!(
                "This server has no owner yet. Open the link in {} to become the owner. It works once, for one hour.",
                path.display()
            );
            match config.log_format.value {
                LogFormat::Json => tracing::warn!("{text}"),
                // The file has it too, if nobody reads this.
                LogFormat::Text => drop(writeln!(std::io::stderr(), "{text}")),
            }
            Ok(Some((path, content)))
        }
    }
}

/// Removes the file with the link when the server has an owner, whom this instance or another one has let in: a used link
/// is worthless, and its file would make people look for what it is good for. Another server whose configuration is in the
/// same folder may have written its own link there, which stays.
async fn remove_used_link((file, content): (PathBuf, String), app: App) {
    const EVERY: Duration = Duration::from_secs(2);
    loop {
        tokio::time::sleep(EVERY).await;
        // While the database does not answer, the next look may succeed.
        if matches!(server::first_start::has_owner(&app).await, Ok(true)) {
            if std::fs::read_to_string(&file).is_ok_and(|found| found != content) {
                return;
            }
            match files::remove(&file) {
                Ok(()) => tracing::info!("the server has an owner; the file of the set-up link is removed"),
                Err(error) => tracing::warn!(%error, "the file of the used set-up link stays"),
            }
            return;
        }
    }
}

/// Warns of files with secrets that other users of this machine may read. Containers mount such files, so the server starts.
fn warn_of_readers(config: &Config) {
    let key = config.secret_key.is_none().then_some(&*config.secret_key_file.value);
    let database = config.database.value.path();
    let password =
        config.smtp_password.is_none().then_some(config.smtp_password_file.value.as_deref()).flatten();
    let files =
        [("the secret key", key), ("the database", database), ("the password of the mail relay", password)];
    for (what, path) in files.into_iter().filter_map(|(what, path)| Some((what, path?))) {
        if let Some(mode) = files::open_to_others(path) {
            tracing::warn!(
                file = %path.display(),
                mode = format!("{mode:o}"),
                "other users can use the file of {what}; run chmod 600 on the file"
            );
        }
    }
}
