//! `sarsen dev`: a server for a product that is being developed, and the product with it.
//!
//! It promises that it touches only what it made: the folder `.sarsen`, and its own block of `.env.local`. The settings of
//! other servers (`sarsen.toml`, `SARSEN_…`) do not count here. The server listens on this machine only.
//!
//! - `declaration.rs`: `sarsen.yaml`. `data_dir.rs`: `.sarsen`. `env_file.rs`: `.env.local`. `ports.rs`: where it listens.
//! - `product.rs`: the command that runs beside the server. `summary.rs`: what is printed.

mod data_dir;
mod declaration;
mod env_file;
mod ports;
mod product;
mod summary;

use crate::config::LogFormat;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::{logs, output, server_process};
use data_dir::DataDir;
use declaration::{Source, Watch};
use ports::Port;
use product::Product;
use rustix::process::Signal;
use server::declared::{self, Applied};
use server::outgoing::Relay;
use server::{App, Bound, Limits, RequestLogFormat, Running, Settings, Store};
use std::ffi::OsString;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;
use summary::Summary;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A command that was asked to end has this long.
const GRACE: Duration = Duration::from_secs(10);

/// Run a server for a product that is being developed, and the product with it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n\
                  \x20   sarsen dev --init                     writes a small sarsen.yaml, and starts the server\n\
                  \x20   sarsen dev -- npm run dev             the product and its server, ended together\n\
                  \x20   sarsen dev --ephemeral -- npm test    a server that is gone afterwards\n\
                  \x20   sarsen dev --ephemeral --json         for other test tools: credentials and sign-in links\n\
                  \n\
                  sarsen.yaml says which organization, services, plans, clients and test users there are. The server keeps\n\
                  its data in .sarsen beside it. COMMAND gets OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET in its\n\
                  environment; .env.local has them too. A saved sarsen.yaml is applied at once.")]
pub struct Args {
    /// What the server has; .sarsen and .env.local are beside it
    #[arg(long, value_name = "FILE", default_value = "sarsen.yaml")]
    file: PathBuf,
    /// Write a small sarsen.yaml if there is none
    #[arg(long)]
    init: bool,
    /// Port of the server from now on [default: chosen at the first start]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "ephemeral")]
    port: Option<u16>,
    /// Keep nothing: a temporary folder, any free port, no .env.local
    #[arg(long)]
    ephemeral: bool,
    /// Print one line of JSON when the server is ready
    #[arg(long)]
    json: bool,
    /// The command that starts the product; its exit code is the one of this command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// The folder of the product.
    fn folder(&self) -> &Path {
        self.file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
    }
}

/// Runs it.
pub fn run(args: &Args, context: &Context) -> Result<()> {
    let environment = &context.environment;
    if args.init && declaration::write_example(&args.file)? {
        output::tell(&format!("Wrote {}. Change it as you like.", args.file.display()));
    }
    let source = Source::read(&args.file)?;
    let colours = environment.get("NO_COLOR").is_none();
    let _log = logs::start(environment.get("SARSEN_LOG").unwrap_or("warn"), LogFormat::Text, colours)?;
    let folder = match args.ephemeral {
        true => DataDir::temporary()?,
        false => DataDir::open(args.folder().join(".sarsen"))?,
    };
    let port = match (args.ephemeral, args.port.or(folder.record.port)) {
        (true, _) => Port::Any,
        (false, Some(port)) => Port::Exactly(port),
        (false, None) => Port::of_folder(args.folder()),
    };
    let bound = port.bind()?;
    let database = folder.database();
    let mut options = server::store_options(database.url());
    options.writer = context.writer_limits.clone();
    let store = server_process::open_store(&database, options)?;
    let is_logged = environment.get("SARSEN_REQUEST_LOG") == Some("true");
    let request_log = is_logged.then_some(RequestLogFormat::Text);
    let server = Server { args, folder, store: store.clone(), source, request_log };
    let served = server_process::runtime()?.block_on(server.run(port, bound));
    if !matches!(served, Ok(()) | Err(Error::Ended(_))) {
        store.close();
    }
    served
}

/// The server of a folder.
struct Server<'a> {
    args: &'a Args,
    folder: DataDir,
    store: Store,
    source: Source,
    request_log: Option<RequestLogFormat>,
}

impl Server<'_> {
    /// Serves until the command has ended, or a signal came.
    async fn run(mut self, port: Port, bound: Bound) -> Result<()> {
        let mut signals = Signals::listen()?;
        let (app, running, applied) = self.start(port, bound).await?;
        let started = self.announce(&app, &applied);
        let code = match started {
            Ok(product) => Ok(self.run_product(&app, product, &mut signals).await),
            Err(error) => Err(error),
        };
        running.stop().await;
        match code? {
            0 => Ok(()),
            code => Err(Error::Ended(code)),
        }
    }

    /// Applies the declaration and serves. Another process may listen on the port first: then another one is tried, if it
    /// may be another.
    async fn start(&mut self, port: Port, mut bound: Bound) -> Result<(App, Running, Applied)> {
        loop {
            let number = bound.addresses().first().map_or(0, std::net::SocketAddr::port);
            let issuer = format!("http://localhost:{number}");
            let (request_log, mail) = (self.request_log, Some(Relay::kept()));
            let settings = Settings { request_log, mail, dev_sign_in: true, ..Settings::new(&issuer) };
            let app = server_process::app(self.store.clone(), settings, self.folder.key()?, None)?;
            server::first_start::prepare(&app).await.map_err(Error::domain(server_process::UNUSABLE))?;
            let applied = self.apply(&app).await?;
            match server_process::start(app.clone(), bound, Limits::default()).await {
                Ok(running) => {
                    if self.folder.record.port.replace(number) != Some(number) {
                        self.folder.save()?;
                    }
                    return Ok((app, running, applied));
                }
                Err(error) if error.taken && !matches!(port, Port::Exactly(_)) => bound = port.bind()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Puts what the file declares into the database. The credentials are saved first, so that none is lost.
    async fn apply(&mut self, app: &App) -> Result<Applied> {
        let declaration = &self.source.declaration;
        let record = &mut self.folder.record;
        let completed = record.credentials.clone().completed(app, declaration);
        if record.credentials != completed {
            record.credentials = completed;
            self.folder.save()?;
        }
        let credentials = &self.folder.record.credentials;
        let applied = declared::apply(app, declaration.clone(), credentials).await;
        let applied = applied.map_err(|refusal| self.source.refused(&refusal))?;
        let (names, record) = (declaration.names(), &mut self.folder.record);
        let kept: Vec<String> = record.declared.difference(&names).cloned().collect();
        if !names.is_subset(&record.declared) {
            record.declared.extend(names);
            self.folder.save()?;
        }
        if !kept.is_empty() {
            output::tell(&format!(
                "sarsen: no longer declared, and still on the server: {}. To begin anew, stop the server and remove {}",
                kept.join(", "),
                self.folder.path().display()
            ));
        }
        Ok(applied)
    }

    fn summary<'s>(&'s self, app: &'s App, applied: &'s Applied) -> Summary<'s> {
        Summary {
            issuer: &app.settings.issuer,
            folder: self.folder.path(),
            declaration: &self.source.declaration,
            credentials: &self.folder.record.credentials,
            applied,
        }
    }

    /// Says that the server is ready, and starts the product, if there is one.
    fn announce(&self, app: &App, applied: &Applied) -> Result<Option<Product>> {
        let (args, summary) = (self.args, self.summary(app, applied));
        let variables = summary.variables();
        self.write_env_file(&variables)?;
        if args.json {
            output::print(&format!("{}\n", summary.json()?))?;
        }
        let text = summary.text();
        match (args.command.is_empty(), args.json) {
            (true, true) => {}
            (true, false) => output::print(&format!("{text}{}", self.next_steps()))?,
            (false, true) => {}
            (false, false) => output::tell(text.trim_end()),
        }
        match args.command.is_empty() {
            true => Ok(None),
            false => Product::start(&args.command, &variables).map(Some),
        }
    }

    fn write_env_file(&self, variables: &env_file::Variables) -> Result<()> {
        if self.args.ephemeral {
            return Ok(());
        }
        let folder = self.args.folder();
        env_file::write(&folder.join(env_file::NAME), variables)?;
        if let Some(warning) = env_file::git_warning(folder) {
            output::tell(&format!("sarsen: {warning}"));
        }
        Ok(())
    }

    fn next_steps(&self) -> String {
        let secrets = match self.args.ephemeral {
            true => "With --json it prints ids and secrets.".to_owned(),
            false => format!(
                "Client ids and secrets are in {}.",
                self.args.folder().join(env_file::NAME).display()
            ),
        };
        format!(
            "{secrets} Save {} to change plans, clients and users.\n\
             To start a product with the server: sarsen dev -- COMMAND, such as sarsen dev -- npm run dev\n\
             Ctrl-C ends the server.\n",
            self.args.file.display()
        )
    }

    /// Waits for the end of the product, or for a signal where there is none. Returns the exit code.
    async fn run_product(&mut self, app: &App, mut product: Option<Product>, signals: &mut Signals) -> u8 {
        let mut watch = Watch::new(&self.args.file);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut killed_at: Option<Instant> = None;
        let code = loop {
            let ended = async {
                match &mut product {
                    Some(product) => product.ended().await,
                    None => pending().await,
                }
            };
            let kill = async {
                match killed_at {
                    Some(time) => sleep_until(time).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                code = ended => break code,
                signal = signals.next() => match &product {
                    Some(product) => {
                        product.send(signal);
                        killed_at.get_or_insert_with(|| Instant::now() + GRACE);
                    }
                    None => break 0,
                },
                () = kill => {
                    killed_at = None;
                    if let Some(product) = &product {
                        product.send(Signal::KILL);
                    }
                }
                _ = looks.tick() => {
                    if watch.is_changed() {
                        self.apply_again(app).await;
                    }
                }
            }
        };
        if let Some(product) = product {
            product.clear().await;
        }
        code
    }

    /// Applies a file that was saved. What is wrong with it is said, and the server stays as it is.
    async fn apply_again(&mut self, app: &App) {
        let before = self.folder.record.credentials.clone();
        let done = match Source::read(&self.args.file) {
            Ok(source) => {
                self.source = source;
                match self.apply(app).await {
                    Ok(applied) => self.write_env_file(&self.summary(app, &applied).variables()),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        let file = self.args.file.display();
        output::tell(&match done {
            Err(error) => format!("sarsen: {file} was not applied: {error}"),
            Ok(()) if before != self.folder.record.credentials && !self.args.command.is_empty() => {
                format!(
                    "sarsen: {file} was applied. It has new clients: start sarsen dev again for their ids and secrets"
                )
            }
            Ok(()) => format!("sarsen: {file} was applied"),
        });
    }
}

/// The signals that end this process, or the product.
struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    /// Catches them from now on.
    fn listen() -> Result<Signals> {
        let listen = |kind| unix::signal(kind).map_err(Error::io("cannot listen to signals"));
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hang_up.recv() => Signal::HUP,
        }
    }
}
