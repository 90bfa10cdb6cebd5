//! A program that serves an app: its arguments, the line that says where it answers, and its end.

use crate::serve::{Error, Settings, serve};
use crate::{App, Problem};
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::pin::Pin;
use tracing_appender::non_blocking::NonBlockingBuilder;
use web::host::is_name;
use web::{Cidr, Signals};

/// Lines of the log that may wait for stderr; more are dropped.
const LOG_LINES_MAX: usize = 8192;

/// A program with the options `--listen`, `--database`, `--replica`, `--allowed-hosts`,
/// `--trusted-proxies`, `--typescript`, `--openapi`, `--version` and `--help`, and commands of its own.
///
/// ```no_run
/// # async fn example() -> Result<(), live::Error> {
/// let program = live::Program::new("counters", "Counters that users share.", "127.0.0.1:8080");
/// program.run(live::App::new()).await
/// # }
/// ```
pub struct Program {
    name: &'static str,
    about: &'static str,
    listen: &'static str,
    version: &'static str,
    commands: Vec<Command>,
    change: Option<ChangeSettings>,
}

type ChangeSettings = Box<dyn Fn(&mut Settings)>;

struct Command {
    name: &'static str,
    about: &'static str,
    run: Box<dyn FnOnce(Settings) -> Work>,
}

type Work = Pin<Box<dyn Future<Output = Result<(), Problem>>>>;

/// What the arguments ask for.
enum Asked {
    Help,
    Version,
    /// The types for `@sarsen/client`.
    TypeScript,
    /// The description for other clients.
    OpenApi,
    /// The settings, and the command if there is one.
    Run(Box<Settings>, Option<String>),
}

impl Program {
    /// A program that listens on this address unless `--listen` says otherwise. Its database is the file `<name>.db`
    /// unless `--database` says otherwise.
    pub fn new(name: &'static str, about: &'static str, listen: &'static str) -> Program {
        Program { name, about, listen, version: "0.0.0", commands: Vec::new(), change: None }
    }

    /// Its version, for `--version` and `--openapi`: `env!("CARGO_PKG_VERSION")`.
    #[must_use]
    pub fn version(self, version: &'static str) -> Program {
        Program { version, ..self }
    }

    /// Changes the settings that the arguments begin with, for example by environment variables: limits, an operator token, a
    /// database whose URL has a password. An argument wins.
    #[must_use]
    pub fn settings(self, change: impl Fn(&mut Settings) + 'static) -> Program {
        Program { change: Some(Box::new(change)), ..self }
    }

    /// Adds a command, which runs instead of the server: `<name> <command>`.
    #[must_use]
    pub fn command<W>(
        mut self,
        name: &'static str,
        about: &'static str,
        run: impl FnOnce(Settings) -> W + 'static,
    ) -> Program
    where
        W: Future<Output = Result<(), Problem>> + 'static,
    {
        self.commands.push(Command { name, about, run: Box::new(|settings| Box::pin(run(settings))) });
        self
    }

    /// Does what the arguments of the process ask for: serves the app until SIGTERM or SIGINT, and prints one line with
    /// its address when it answers. The log goes to stderr.
    pub async fn run(self, app: App) -> Result<(), Error> {
        self.run_with(app, Ok).await
    }

    /// The same for an app that needs files or other servers, which `complete` adds: only to serve it, not for `--help` or
    /// what describes it.
    pub async fn run_with(
        self,
        app: App,
        complete: impl FnOnce(App) -> Result<App, Error>,
    ) -> Result<(), Error> {
        let (settings, command) = match self.parse(std::env::args().skip(1))? {
            Asked::Help => {
                print(&self.help());
                return Ok(());
            }
            Asked::Version => {
                print(&format!("{} {}", self.name, self.version));
                return Ok(());
            }
            Asked::TypeScript => return print_whole(&app.typescript()?),
            Asked::OpenApi => return print_whole(&app.openapi(self.name, self.version)?),
            Asked::Run(settings, command) => (*settings, command),
        };
        // By a thread of its own: nobody waits for a terminal or a pipe that is not read, and none fails with it.
        let queue = NonBlockingBuilder::default().buffered_lines_limit(LOG_LINES_MAX);
        let (writer, _log) = queue.finish(std::io::stderr());
        let log = tracing_subscriber::fmt().with_writer(writer).with_max_level(tracing::Level::INFO);
        let log = log.with_ansi(std::io::stderr().is_terminal());
        // A program with a log of its own keeps it.
        let _ = log.try_init();
        if let Some(command) = self.commands.into_iter().find(|known| Some(known.name) == command.as_deref())
        {
            return (command.run)(settings).await.map_err(|problem| Error::Command(problem.words()));
        }
        let running = serve(complete(app)?, settings).await?;
        // A script may stop the program as soon as it has read the line.
        let signals = Signals::listen();
        print(&format!("{} answers at http://{}", self.name, running.address));
        running.until(signals).await;
        Ok(())
    }

    fn parse(&self, arguments: impl Iterator<Item = String>) -> Result<Asked, Error> {
        let wrong = |what: String| Error::Arguments(format!("{what}; see {} --help", self.name));
        let address = |text: &str| {
            let parsed: Result<SocketAddr, _> = text.parse();
            parsed.map_err(|_| wrong(format!("{text:?} is not an address; use one like {:?}", self.listen)))
        };
        let host = |text: String| match is_name(&text) {
            true => Ok(text),
            false => Err(wrong(format!(
                "{text:?} is not the name of a host; use one like {}.example.com, without a port",
                self.name
            ))),
        };
        let network = |text: String| {
            let parsed: Result<Cidr, _> = text.parse();
            parsed.map_err(|_| {
                wrong(format!("{text:?} is not an address or a network; use one like 10.0.0.7 or 10.0.0.0/8"))
            })
        };
        let mut settings = Settings::new(format!("sqlite:{}.db", self.name), address(self.listen)?);
        if let Some(change) = &self.change {
            change(&mut settings);
        }
        let (mut arguments, mut command) = (arguments, None);
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            let mut value = || {
                value
                    .clone()
                    .or_else(|| arguments.next())
                    .ok_or_else(|| wrong(format!("{name} needs a value")))
            };
            match &*name {
                "--help" | "-h" => return Ok(Asked::Help),
                "--version" | "-V" => return Ok(Asked::Version),
                "--typescript" => return Ok(Asked::TypeScript),
                "--openapi" => return Ok(Asked::OpenApi),
                "--listen" => settings.listen = address(&value()?)?,
                "--database" => settings.database = value()?,
                "--replica" => settings.replicas.push(value()?),
                "--allowed-hosts" => settings.allowed_hosts.push(host(value()?)?),
                "--trusted-proxies" => settings.trusted_proxies.push(network(value()?)?),
                _ if command.is_none() && self.commands.iter().any(|known| known.name == name) => {
                    command = Some(name);
                }
                _ => return Err(wrong(format!("{name:?} is not an option"))),
            }
        }
        Ok(Asked::Run(Box::new(settings), command))
    }

    fn help(&self) -> String {
        let Program { name, about, listen, commands, .. } = self;
        let mut text = format!("{about}\n\nUsage: {name} [OPTIONS]\n");
        for command in commands {
            text.push_str(&format!("       {name} {} [OPTIONS]   {}\n", command.name, command.about));
        }
        text.push_str(&format!(
            "\nOptions:
  --listen ADDRESS   The address to listen on [default: {listen}]
  --database URL     sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE, or the same with mysql://
                     [default: sqlite:{name}.db]
  --replica URL      A replica of a PostgreSQL database, for live queries. May be given several times
  --allowed-hosts NAME
                     A host name under which browsers reach it, like {name}.example.com. May be given several times
  --trusted-proxies ADDRESS
                     A proxy before it, like 127.0.0.1 or 10.0.0.0/8, whose `X-Forwarded-For` says who the client is.
                     May be given several times
  --typescript       Print the types of the queries and mutations, for @sarsen/client
  --openapi          Print a description of the queries and mutations (OpenAPI 3.1), for clients in other languages
  --version          Print the version
  --help             Print this"
        ));
        text
    }
}

/// Prints what goes into a file: what was not written must not look complete.
fn print_whole(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Error::Command(format!("cannot write the description: {error}")))
}

/// Prints what people and scripts read. A program whose output is full or closed goes on without it.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Asked, String> {
        let program = Program::new("notes", "Notes.", "127.0.0.1:8080");
        let program = program.command("seed", "Makes notes.", |_| async { Ok(()) });
        program.parse(arguments.iter().map(|text| (*text).to_owned())).map_err(|error| error.to_string())
    }

    fn settings(arguments: &[&str]) -> (Settings, Option<String>) {
        match parse(arguments).expect("valid") {
            Asked::Run(settings, command) => (*settings, command),
            _ => panic!("no settings"),
        }
    }

    #[test]
    fn a_program_changes_the_defaults_and_arguments_win() {
        let program = Program::new("notes", "Notes.", "127.0.0.1:8080").settings(|settings| {
            settings.database = "postgres://db/notes".to_owned();
            settings.limits.streams_max = 7;
        });
        let found = |arguments: &[&str]| match program.parse(arguments.iter().map(|text| (*text).to_owned()))
        {
            Ok(Asked::Run(settings, _)) => (settings.database, settings.limits.streams_max),
            _ => panic!("no settings"),
        };
        assert_eq!(found(&[]), ("postgres://db/notes".to_owned(), 7));
        assert_eq!(found(&["--database", "sqlite:x.db"]), ("sqlite:x.db".to_owned(), 7));
    }

    #[test]
    fn options_change_the_defaults() {
        let (found, command) = settings(&[]);
        assert_eq!(
            (&*found.database, found.listen.to_string(), command),
            ("sqlite:notes.db", "127.0.0.1:8080".into(), None)
        );
        let arguments = [
            "seed",
            "--listen=[::1]:9",
            "--database",
            "postgres:///a?b=c",
            "--replica",
            "x",
            "--replica=y",
            "--allowed-hosts=notes.example.com",
            "--trusted-proxies=127.0.0.1",
            "--trusted-proxies",
            "10.0.0.0/8",
        ];
        let (found, command) = settings(&arguments);
        assert_eq!(found.allowed_hosts, ["notes.example.com"]);
        let proxies: Vec<String> = found.trusted_proxies.iter().map(ToString::to_string).collect();
        assert_eq!(proxies, ["127.0.0.1", "10.0.0.0/8"]);
        assert_eq!((&*found.database, found.listen.to_string()), ("postgres:///a?b=c", "[::1]:9".into()));
        assert_eq!(
            (found.replicas, command.as_deref()),
            (vec!["x".to_owned(), "y".to_owned()], Some("seed"))
        );
        assert!(matches!(parse(&["--database", "x", "--help"]), Ok(Asked::Help)));
        assert!(matches!(parse(&["--typescript"]), Ok(Asked::TypeScript)));
        assert!(matches!(parse(&["--openapi"]), Ok(Asked::OpenApi)));
        assert!(matches!(parse(&["--version"]), Ok(Asked::Version)));
    }

    #[test]
    fn wrong_arguments_are_refused_with_what_to_do() {
        for (arguments, expected) in [
            (&["--listen"] as &[_], "--listen needs a value; see notes --help"),
            (
                &["--listen", "8080"],
                "\"8080\" is not an address; use one like \"127.0.0.1:8080\"; see notes --help",
            ),
            (&["--port", "1"], "\"--port\" is not an option; see notes --help"),
            (
                &["--allowed-hosts", "https://notes.example.com"],
                "\"https://notes.example.com\" is not the name of a host; use one like notes.example.com, without a port; \
                 see notes --help",
            ),
            (
                &["--trusted-proxies", "10.0.0.1/8"],
                "\"10.0.0.1/8\" is not an address or a network; use one like 10.0.0.7 or 10.0.0.0/8; see notes --help",
            ),
            (&["seed", "seed"], "\"seed\" is not an option; see notes --help"),
        ] {
            assert_eq!(parse(arguments).err().as_deref(), Some(expected));
        }
    }
}
