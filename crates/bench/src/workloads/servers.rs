//! The servers under test: started by the bench on a throw-away database, or running already.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::fault::InjectedFault;
use crate::cli::{CommonArgs, ServerArgs};
use crate::error::Error;
use crate::http::{RequestDraft, Target, Wire};
use crate::launcher::{Launcher, ServerProcess};
use crate::load::Monitored;
use crate::machine::SERVER_CORE;
use crate::measure::{FsyncCost, measure_fsync};
use crate::report::progress;
use crate::setup::{Client, Credentials};

/// A throw-away folder where servers are started. The cost of an fsync there is measured.
pub struct TestBed<'a> {
    launcher: &'a Launcher,
    folder: TempDir,
    /// The folder of the demo.
    data: PathBuf,
    fsync: FsyncCost,
    core: Option<usize>,
    /// Empty databases for the server under test and for the baseline, in place of files in the folder.
    database: Option<String>,
    baseline_database: Option<String>,
}

/// One server, or several instances, with what is measured of it.
pub struct ServerUnderTest {
    pub targets: Vec<Target>,
    pub monitored: Monitored,
    /// The processes that the bench started.
    processes: Vec<ServerProcess>,
}

impl<'a> TestBed<'a> {
    /// Creates the folder and measures an fsync in it. With `pin`, servers are pinned to one core.
    pub fn open(common: &CommonArgs, launcher: &'a Launcher, pin: bool) -> Result<TestBed<'a>, Error> {
        let test_bed = TestBed::on_files(common.data_dir.as_deref(), launcher)?;
        let (database, baseline_database) = (common.database.clone(), common.baseline_database.clone());
        Ok(TestBed { core: pin.then_some(SERVER_CORE), database, baseline_database, ..test_bed })
    }

    /// The same in the folder `parent`, without a database server and without pinning.
    pub(super) fn on_files(parent: Option<&Path>, launcher: &'a Launcher) -> Result<TestBed<'a>, Error> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("sarsen-bench-");
        let folder = match parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        let folder = folder.map_err(Error::io("cannot make a folder for the throw-away database"))?;
        let fsync = measure_fsync(folder.path())?;
        let data = folder.path().join("demo");
        Ok(TestBed { launcher, folder, data, fsync, core: None, database: None, baseline_database: None })
    }

    /// Uses this folder for the demo, and keeps it.
    pub(super) fn with_data(self, data: PathBuf) -> TestBed<'a> {
        TestBed { data, ..self }
    }

    /// The folder of the demo.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    pub(super) fn fsync(&self) -> &FsyncCost {
        &self.fsync
    }

    /// Starts the bare handler.
    pub async fn floor(&self) -> Result<ServerUnderTest, Error> {
        let arguments = ["floor", "--listen", "127.0.0.1:0"];
        let process =
            self.launcher.for_tools()?.start("floor", &arguments, self.core, self.folder.path()).await?;
        let target = Target::parse(process.ready_text("/listen")?)?;
        Ok(self.under_test("floor", target, None, process))
    }

    /// Starts a server with a demo tenant; also returns its owner.
    pub async fn demo(&self) -> Result<(ServerUnderTest, Credentials), Error> {
        self.start_demo(self.launcher).await
    }

    /// The same with limits of the database's writer that only `sarsen-bench-tools` obeys, as environment variables.
    pub(super) async fn demo_with_limits(
        &self,
        limits: &[(&str, String)],
    ) -> Result<(ServerUnderTest, Credentials), Error> {
        let tools = self.launcher.for_tools()?;
        let launcher = limits.iter().fold(tools, |launcher, (name, value)| launcher.with(name, value));
        self.start_demo(&launcher).await
    }

    async fn start_demo(&self, launcher: &Launcher) -> Result<(ServerUnderTest, Credentials), Error> {
        let mut arguments: Vec<OsString> = vec![
            "demo".into(),
            "--json".into(),
            "--data".into(),
            self.data.clone().into(),
            "--listen".into(),
            "127.0.0.1:0".into(),
        ];
        if let Some(url) = &self.database {
            arguments.extend(["--database".into(), url.into()]);
        }
        progress("set-up: starting the server under test");
        // Users come from addresses of their own (`setup::address_of`), as behind a proxy.
        let launcher = launcher.clone().with("SARSEN_TRUSTED_PROXIES", "127.0.0.1");
        let process = launcher.start("sarsen", &arguments, self.core, self.folder.path()).await?;
        let credentials = Credentials {
            email: process.ready_text("/owner/email")?.to_owned(),
            password: process.ready_text("/owner/password")?.to_owned(),
        };
        let target = Target::parse(process.ready_text("/issuer")?)?;
        Ok((self.under_test("sarsen", target.clone(), Some(target), process), credentials))
    }

    /// The same with further instances on its database, which read lists from `replica`.
    pub async fn suite(
        &self,
        instances: usize,
        replica: Option<&str>,
    ) -> Result<(ServerUnderTest, Credentials), Error> {
        let Some(database) = shared_database(self.database.as_deref(), instances)? else {
            return self.demo().await;
        };
        let (mut under_test, credentials) = self.demo().await?;
        for number in 2..=instances {
            progress(&format!("set-up: starting instance {number} of {instances}"));
            let issuer = under_test.first().origin.clone();
            let name = format!("instance-{number}");
            let (target, process) = self.instance(&name, database, replica, &issuer).await?;
            under_test.add(target, process);
        }
        under_test.monitored.name = format!("sarsen, {instances} instances");
        Ok((under_test, credentials))
    }

    /// Starts one more server with the key and the issuer of the demo, on `database`. It reads lists from `replica`.
    pub(super) async fn instance(
        &self,
        name: &str,
        database: &str,
        replica: Option<&str>,
        issuer: &str,
    ) -> Result<(Target, ServerProcess), Error> {
        self.instance_with(name, database, replica, issuer, &[]).await
    }

    /// The same with more arguments.
    pub(super) async fn instance_with(
        &self,
        name: &str,
        database: &str,
        replica: Option<&str>,
        issuer: &str,
        more: &[String],
    ) -> Result<(Target, ServerProcess), Error> {
        let mut arguments: Vec<OsString> = vec![
            "instance".into(),
            "--database".into(),
            database.into(),
            "--key-file".into(),
            self.data.join("demo.key").into(),
            "--issuer".into(),
            issuer.into(),
        ];
        if let Some(url) = replica {
            arguments.extend(["--replica".into(), url.into()]);
        }
        arguments.extend(more.iter().map(OsString::from));
        let process =
            self.launcher.for_tools()?.start(name, &arguments, self.core, self.folder.path()).await?;
        Ok((Target::parse(process.ready_text("/listen")?)?.under_name(issuer), process))
    }

    /// Starts a server over TLS on the database of the demo, which has stopped.
    pub(super) async fn encrypted(&self, issuer: &str) -> Result<ServerUnderTest, Error> {
        let (certificate, key) = (self.folder.path().join("tls.pem"), self.folder.path().join("tls.key"));
        make_certificate(&certificate, &key)?;
        let own = format!("sqlite:{}", self.data.join("demo.db").display());
        let arguments: Vec<OsString> = vec![
            "instance".into(),
            "--database".into(),
            self.database.clone().unwrap_or(own).into(),
            "--key-file".into(),
            self.data.join("demo.key").into(),
            "--issuer".into(),
            issuer.into(),
            "--tls-certificate".into(),
            certificate.clone().into(),
            "--tls-key".into(),
            key.into(),
        ];
        let launcher = self.launcher.for_tools()?;
        let process = launcher.start("encrypted", &arguments, self.core, self.folder.path()).await?;
        let pem = std::fs::read(&certificate).map_err(Error::io("cannot read the certificate"))?;
        let wire = Wire::tls(&pem).map_err(Error::io("cannot use the certificate"))?;
        let target = Target::parse(process.ready_text("/listen")?)?.under_name(issuer).over(&wire);
        Ok(self.under_test("sarsen over TLS", target, None, process))
    }

    /// Injects a fault into a database server until the value is dropped.
    pub(super) async fn inject_fault(&self, what: &str, database: &str) -> Result<InjectedFault, Error> {
        InjectedFault::begin(self.launcher, what, database, self.folder.path()).await
    }

    /// Starts another program, which prints a line of JSON with `listen` when it is ready.
    pub async fn baseline(&self, program: &Path) -> Result<(ServerUnderTest, Value), Error> {
        let file = self.folder.path().join("baseline.db");
        let database = self.baseline_database.as_ref().map_or(file.into(), OsString::from);
        let process = self.start_baseline(program, database, &[]).await?;
        let target = Target::parse(process.ready_text("/listen")?)?;
        let said = process.ready.clone();
        Ok((self.under_test("baseline", target, None, process), said))
    }

    /// The same on this database, with more arguments.
    pub(super) async fn baseline_on(
        &self,
        program: &Path,
        database: &str,
        more: &[&str],
    ) -> Result<ServerUnderTest, Error> {
        let process = self.start_baseline(program, database.into(), more).await?;
        let target = Target::parse(process.ready_text("/listen")?)?;
        Ok(self.under_test("baseline", target, None, process))
    }

    async fn start_baseline(
        &self,
        program: &Path,
        database: OsString,
        more: &[&str],
    ) -> Result<ServerProcess, Error> {
        let mut arguments: Vec<OsString> =
            vec!["--listen".into(), "127.0.0.1:0".into(), "--database".into(), database];
        arguments.extend(more.iter().map(OsString::from));
        Launcher::new(program).start("baseline", &arguments, self.core, self.folder.path()).await
    }

    /// The throw-away folder.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The core of the servers, when they are pinned.
    pub(super) fn core(&self) -> Option<usize> {
        self.core
    }

    pub(super) fn under_test(
        &self,
        name: &str,
        target: Target,
        metrics: Option<Target>,
        process: ServerProcess,
    ) -> ServerUnderTest {
        let monitored = Monitored {
            name: name.to_owned(),
            pids: vec![process.pid()],
            cores: self.core.map(|_| 1),
            metrics,
            fsync: Some(self.fsync.clone()),
        };
        ServerUnderTest { targets: vec![target], monitored, processes: vec![process] }
    }
}

impl ServerUnderTest {
    /// The servers of `--url`, and their administrator.
    pub async fn running(server: &ServerArgs) -> Result<(ServerUnderTest, Credentials), Error> {
        let (Some(email), Some(password)) = (&server.admin_email, &server.admin_password) else {
            return Err(Error::Usage(
                "--url needs --admin-email and --admin-password (or SARSEN_BENCH_ADMIN_PASSWORD)".to_owned(),
            ));
        };
        let mut targets = Vec::new();
        for url in &server.url {
            targets.push(under_own_name(Target::parse(url)?).await?);
        }
        let metrics = match &server.metrics_url {
            Some(url) => Some(Target::parse(url.trim_end_matches("/metrics"))?),
            None => targets.first().cloned(),
        };
        let monitored = Monitored { name: server.url.join(", "), metrics, ..Monitored::default() };
        let credentials = Credentials { email: email.clone(), password: password.clone() };
        Ok((ServerUnderTest { targets, monitored, processes: Vec::new() }, credentials))
    }

    /// Servers that the bench did not start.
    pub(super) fn without_processes(targets: Vec<Target>, monitored: Monitored) -> ServerUnderTest {
        ServerUnderTest { targets, monitored, processes: Vec::new() }
    }

    /// Adds an instance.
    pub(super) fn add(&mut self, target: Target, process: ServerProcess) {
        self.targets.push(target);
        self.monitored.pids.push(process.pid());
        self.processes.push(process);
    }

    /// The server for set-up.
    pub fn first(&self) -> &Target {
        &self.targets[0]
    }

    /// A text of the line that the first server printed, if the bench started it.
    pub(super) fn ready_text(&self, pointer: &str) -> Result<&str, Error> {
        let process = self.processes.first();
        process.map_or_else(
            || Err(Error::set_up("start", "the bench did not start this server")),
            |process| process.ready_text(pointer),
        )
    }

    /// Stops the processes. A process that has ended before is an error.
    pub async fn stop(self) -> Result<(), Error> {
        for process in self.processes {
            process.stop().await?;
        }
        Ok(())
    }
}

/// Writes a certificate for `localhost` that signs itself, and its key.
fn make_certificate(certificate: &Path, key: &Path) -> Result<(), Error> {
    let made = Command::new("openssl")
        .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '))
        .args("-subj /CN=localhost -addext subjectAltName=DNS:localhost".split(' '))
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .args([certificate, Path::new("-keyout"), key])
        .output()
        .map_err(Error::io("cannot run openssl, which makes the certificate; install it"))?;
    let text = || String::from_utf8_lossy(&made.stderr).trim().to_owned();
    if made.status.success() {
        Ok(())
    } else {
        Err(Error::Ended { server: "openssl".to_owned(), detail: text() })
    }
}

/// The database that `instances` share. `None`: there is one instance. Only a database server can be shared.
pub(super) fn shared_database(database: Option<&str>, instances: usize) -> Result<Option<&str>, Error> {
    const SERVERS: [&str; 4] = ["postgres://", "postgresql://", "mysql://", "mariadb://"];
    match database.filter(|url| SERVERS.iter().any(|scheme| url.starts_with(scheme))) {
        _ if instances < 2 => Ok(None),
        Some(url) => Ok(Some(url)),
        None => Err(Error::Usage(format!(
            "{instances} instances need a database server, because one process owns a SQLite file; use --database \
             postgres://… or mysql://…"
        ))),
    }
}

/// A server behind a TLS proxy may refuse other hosts than that of its issuer.
async fn under_own_name(target: Target) -> Result<Target, Error> {
    let mut client = Client::new(target.clone(), 0);
    let reply = client.send(&RequestDraft::get("/.well-known/openid-configuration")).await?;
    let discovery: Option<Value> = reply.json().ok().filter(|_| reply.status == 200);
    let issuer = discovery.as_ref().and_then(|document| document.get("issuer")?.as_str());
    Ok(issuer.map_or(target.clone(), |issuer| target.under_name(issuer)))
}
