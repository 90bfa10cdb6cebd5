//! The small back ends of `examples/` as servers under test: on a throw-away database, or running already.

mod postgres;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::servers::{ServerUnderTest, TestBed, shared_database};
use crate::cli::{BackEndArgs, CommonArgs};
use crate::error::Error;
use crate::http::Target;
use crate::launcher::Launcher;
use crate::load::Monitored;
use crate::report::progress;
use postgres::Cluster;
pub(crate) use postgres::postgres_version;

/// A place for the databases of a run.
pub(super) struct Site<'a> {
    pub test_bed: TestBed<'a>,
    launcher: &'a Launcher,
    /// The server of `--postgres`, or the one that a baseline needs.
    cluster: Option<Cluster>,
    data_dir: Option<PathBuf>,
    postgres_programs: Option<PathBuf>,
}

/// Where a program finds its data.
#[derive(Debug, Clone)]
pub(super) struct Database {
    pub url: String,
    pub replica: Option<String>,
}

impl<'a> Site<'a> {
    pub async fn open(
        args: &BackEndArgs,
        common: &CommonArgs,
        launcher: &'a Launcher,
        with_standby: bool,
    ) -> Result<Site<'a>, Error> {
        let test_bed = TestBed::open(common, launcher, common.pin)?;
        let (data_dir, postgres_programs) = (common.data_dir.clone(), args.postgres_programs.clone());
        let mut site = Site { test_bed, launcher, cluster: None, data_dir, postgres_programs };
        if args.postgres {
            site.cluster = Some(site.cluster(with_standby).await?);
        }
        Ok(site)
    }

    async fn cluster(&self, with_standby: bool) -> Result<Cluster, Error> {
        Cluster::start(self.data_dir.as_deref(), self.postgres_programs.as_deref(), with_standby).await
    }

    /// The database of the back end `name`: that of `--database`, one on the server of `--postgres`, or a SQLite file.
    pub fn database(&self, name: &str, common: &CommonArgs) -> Result<Database, Error> {
        match (&common.database, &self.cluster) {
            (Some(url), _) => Ok(Database { url: url.clone(), replica: None }),
            (None, Some(cluster)) => {
                Ok(Database { url: cluster.create(name)?, replica: cluster.standby_url(name) })
            }
            (None, None) => {
                let file = absolute(&self.test_bed.folder().join(format!("{name}.db")))?;
                Ok(Database { url: format!("sqlite:{}", file.display()), replica: None })
            }
        }
    }

    /// An empty PostgreSQL database for a baseline: that of `--baseline-database`, or a throw-away one.
    pub async fn baseline_database(&mut self, name: &str, common: &CommonArgs) -> Result<String, Error> {
        if let Some(url) = &common.baseline_database {
            return Ok(url.clone());
        }
        let cluster = match self.cluster.take() {
            Some(cluster) => cluster,
            None => self.cluster(false).await?,
        };
        self.cluster.insert(cluster).create(name)
    }

    /// Starts `instances` of the program on `database`.
    pub async fn start(
        &self,
        name: &str,
        args: &BackEndArgs,
        database: &Database,
    ) -> Result<ServerUnderTest, Error> {
        shared_database(Some(&database.url), args.instances)?;
        let launcher = self.program(name, args)?;
        let mut under_test: Option<ServerUnderTest> = None;
        for number in 1..=args.instances {
            progress(&format!("set-up: starting {name} ({number} of {})", args.instances));
            let mut arguments: Vec<OsString> = vec![
                "--listen".into(),
                "127.0.0.1:0".into(),
                "--database".into(),
                database.url.clone().into(),
            ];
            if let Some(replica) = &database.replica {
                arguments.extend(["--replica".into(), replica.into()]);
            }
            let log = format!("{name}-{number}");
            let process = launcher
                .start_back_end(&log, &arguments, self.test_bed.core(), self.test_bed.folder())
                .await?;
            let target = Target::parse(process.ready_text("/listen")?)?;
            match &mut under_test {
                None => {
                    let metrics = Some(target.clone());
                    under_test = Some(self.test_bed.under_test(name, target, metrics, process));
                }
                Some(under_test) => under_test.add(target, process),
            }
        }
        let mut under_test =
            under_test.ok_or_else(|| Error::Usage("use at least one instance".to_owned()))?;
        under_test.monitored.name = self.describe(name, args, database);
        Ok(under_test)
    }

    /// Runs a subcommand of the program to its end, such as one that fills the database.
    pub fn run(&self, name: &str, args: &BackEndArgs, arguments: &[&str]) -> Result<(), Error> {
        let mut command = self.program(name, args)?.command(arguments, None);
        let output = command
            .current_dir(self.test_bed.folder())
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io(format!("cannot run {name} {}", arguments.first().unwrap_or(&""))))?;
        if output.status.success() {
            return Ok(());
        }
        // Progress ends with a carriage return; the last line is the error.
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.trim_end().rsplit(['\n', '\r']).next().unwrap_or_default().to_owned();
        Err(Error::Ended { server: name.to_owned(), detail: format!("{}: {last}", output.status) })
    }

    /// The program of `--program`, or the one beside `sarsen`.
    fn program(&self, name: &str, args: &BackEndArgs) -> Result<Launcher, Error> {
        let beside = || self.launcher.program.with_file_name(name);
        let program = args.program.clone().unwrap_or_else(beside);
        ensure_program(
            &program,
            &format!("build it with `cargo build --release -p {name}`, or use --program"),
        )?;
        // The program runs in another folder.
        let program = absolute(&program)?;
        Ok(Launcher { program, ..self.launcher.clone() })
    }

    fn describe(&self, name: &str, args: &BackEndArgs, database: &Database) -> String {
        let version = self.cluster.as_ref().map(Cluster::version);
        let kind = match database.url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "postgres" | "postgresql" => version.unwrap_or("PostgreSQL"),
            "mysql" | "mariadb" => "MySQL",
            _ => "SQLite",
        };
        let replica = if database.replica.is_some() { " with a replica" } else { "" };
        match args.instances {
            1 => format!("{name} ({kind}{replica})"),
            many => format!("{name}, {many} instances ({kind}{replica})"),
        }
    }
}

/// The servers of `--url`.
pub(super) fn running(name: &str, args: &BackEndArgs) -> Result<ServerUnderTest, Error> {
    let targets: Vec<Target> = args.url.iter().map(|url| Target::parse(url)).collect::<Result<_, _>>()?;
    let metrics = targets.first().cloned();
    let monitored =
        Monitored { name: format!("{name} at {}", args.url.join(", ")), metrics, ..Monitored::default() };
    Ok(ServerUnderTest::without_processes(targets, monitored))
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(Error::io(format!("cannot find {}", path.display())))
}

/// Fails if the program is missing, with the way to get it.
pub(super) fn ensure_program(path: &Path, how: &str) -> Result<(), Error> {
    if path.is_file() {
        return Ok(());
    }
    Err(Error::Usage(format!("{} is missing; {how}", path.display())))
}
