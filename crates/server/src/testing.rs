//! A whole server for tests: on a free port, with a throw-away database, a clock that the test sets, and
//! the demo's tenant in it. And a client that speaks plain HTTP/1.1, so that nothing helps or hides.

pub mod fixture;
pub mod full_lane;
pub mod parsers;

use crate::dev::demo::{self, Credentials, Demo};
use crate::openapi::contract;
/// Objects as the description of the API has them, for tests above this crate.
pub use crate::openapi::contract::examples as described_examples;
use crate::{
    App, Clock, Limits, Running, SecretKey, Settings, SystemRandom, WriterLimits, first_start, serve,
};
use browser::{Cookies, Form, forms};
use fixture::Fixture;
use identity::Time;
use identity::keys::{self, Algorithm, NewKey};
use identity::secrets::Random;
use live::background::{Failure, Work};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;
/// Throw-away databases, for tests above this crate.
pub use store::testing::{
    Kind, TestPlace, change_file, galera, held::Held, kind, own::End, own::OwnDatabase,
    own_mariadb::OwnMariaDb, own_server::OwnServer, own_server::free_port, pooler::Pooler, rows::Rows,
    say_skipped,
};
use store::{Sql, Store, Tx, sql};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

static ALL_ARE_DUE: Sql = sql("UPDATE live_schedules SET next_ms = 0");

/// The secret key of all servers.
const SECRET_KEY: [u8; 32] = [7; 32];

/// Every route of the server by method and path, in the order of its table.
pub fn routes() -> Vec<(&'static str, &'static str)> {
    static ALL: OnceLock<Vec<(http::Method, &'static str)>> = OnceLock::new();
    let all = ALL.get_or_init(|| crate::router().listed().to_vec());
    all.iter().map(|(method, path)| (method.as_str(), *path)).collect()
}

/// A clock that stands still until the test moves it.
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Moves it forward.
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(span.as_millis() as i64, Ordering::SeqCst);
    }

    /// Sets it back, as an administrator or NTP does, or as another instance has it.
    pub fn set_back(&self, span: Duration) {
        self.0.fetch_sub(span.as_millis() as i64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A busy machine is no reason to refuse a command, but where that is the test.
fn patient() -> WriterLimits {
    let long = Duration::from_secs(30);
    WriterLimits { deadline: long, command_time: long, ..WriterLimits::default() }
}

#[expect(clippy::expect_used, reason = "a test that cannot start its server has failed")]
async fn listen(app: &App, limits: &Limits) -> (Running, SocketAddr) {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let running = serve(app.clone(), &[loopback], limits.clone()).await.expect("serves");
    let address = running.addresses[0];
    (running, address)
}

/// Stores an RSA key, which all servers of a process share: generating one takes a tenth of a second.
#[expect(clippy::expect_used, reason = "a test that cannot start its server has failed")]
async fn add_rsa_key(app: &App) {
    static KEY: OnceLock<NewKey> = OnceLock::new();
    let now = app.now();
    let made = || keys::generate(Algorithm::Rs256, now, app.random(), &SecretKey::new(&SECRET_KEY));
    let key = KEY.get_or_init(|| made().expect("a key"));
    app.store.write("key.add", move |tx| keys::add_if_due(tx, key, now)).await.expect("stores the key");
}

/// The demo's organization. Its users have the same passwords in all servers of a process, because hashing is slow by
/// design.
#[expect(clippy::expect_used, reason = "a test that cannot start its server has failed")]
async fn seed(app: &App) -> Credentials {
    static PASSWORDS: Mutex<BTreeMap<String, demo::Password>> = Mutex::new(BTreeMap::new());
    let password_of = |email: &str| {
        let mut known = PASSWORDS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(password) = known.get(email) {
            return Ok(password.clone());
        }
        let password = demo::new_password(app)?;
        known.insert(email.to_owned(), password.clone());
        Ok(password)
    };
    demo::seed_with(app, None, password_of).await.expect("seeds")
}

/// With replicas, where the environment names some: then every test is one of them too.
#[expect(clippy::expect_used, reason = "a test that cannot start its server has failed")]
fn open_store(place: &TestPlace, writer: WriterLimits) -> Store {
    let mut options = crate::store_options(place.url());
    options.replicas = place.replica_url().into_iter().collect();
    (options.writer, options.check) = (writer, true);
    Store::open(options).expect("opens")
}

/// A server that runs for one test.
pub struct TestServer {
    /// What handlers touch.
    pub app: App,
    /// The clock.
    pub clock: Arc<ManualClock>,
    /// The demo's people, clients and products.
    pub demo: Credentials,
    /// Where it listens.
    pub address: SocketAddr,
    work: Work,
    running: Running,
    place: Arc<TestPlace>,
    limits: Limits,
}

impl TestServer {
    /// A server with the usual settings.
    pub async fn start() -> TestServer {
        TestServer::start_with(|_| {}, |_| {}).await
    }

    /// A server whose settings and limits the test changes.
    pub async fn start_with(
        change: impl FnOnce(&mut Settings),
        limit: impl FnOnce(&mut Limits),
    ) -> TestServer {
        TestServer::open(patient(), change, limit, true).await
    }

    /// The same with a database whose writer the test makes slow or small.
    pub async fn start_on(writer: WriterLimits) -> TestServer {
        TestServer::open(writer, |_| {}, |_| {}, true).await
    }

    /// A server whose ids and secrets come from the test.
    pub async fn start_drawing(
        random: Arc<dyn Random>,
        change: impl FnOnce(&mut Settings),
        with_demo: bool,
    ) -> TestServer {
        let place = Arc::new(TestPlace::create());
        TestServer::open_at(place, patient(), random, change, |_| {}, with_demo).await
    }

    /// A server as it comes out of the box: nobody is there, and no demo.
    pub async fn start_empty() -> TestServer {
        TestServer::open(patient(), |_| {}, |_| {}, false).await
    }

    /// A server of this version on the database of an earlier one.
    pub async fn start_upgraded(fixture: &Fixture) -> TestServer {
        let place = Arc::new(TestPlace::create());
        fixture.create_in(&place).await;
        let server =
            TestServer::open_at(place, patient(), Arc::new(SystemRandom), |_| {}, |_| {}, false).await;
        TestServer { demo: fixture.demo.clone(), ..server }
    }

    /// Its database, for [`store::Options`] and for programs.
    pub fn database_url(&self) -> String {
        self.place.url()
    }

    async fn open(
        writer: WriterLimits,
        change: impl FnOnce(&mut Settings),
        limit: impl FnOnce(&mut Limits),
        with_demo: bool,
    ) -> TestServer {
        let (place, random) = (Arc::new(TestPlace::create()), Arc::new(SystemRandom));
        TestServer::open_at(place, writer, random, change, limit, with_demo).await
    }

    #[expect(clippy::expect_used, reason = "a test that cannot start its server has failed")]
    async fn open_at(
        place: Arc<TestPlace>,
        writer: WriterLimits,
        random: Arc<dyn Random>,
        change: impl FnOnce(&mut Settings),
        limit: impl FnOnce(&mut Limits),
        with_demo: bool,
    ) -> TestServer {
        let store = open_store(&place, writer);
        let clock = Arc::new(ManualClock(AtomicI64::new(1_800_000_000_000)));
        let mut settings = Settings::new("http://127.0.0.1:7070");
        settings.trusted_proxies = vec![std::net::IpAddr::from([127, 0, 0, 1]).into()];
        // The `Host` of tests that send raw bytes.
        settings.allowed_hosts = vec!["test".to_owned()];
        // The test runs it, so that nothing depends on the speed of the machine.
        settings.housekeeping = false;
        // At the lowest priority, a busy machine would have no time for it at all.
        settings.hash_nice = 0;
        change(&mut settings);
        // No proxy is in front of a test, and each of them stops its server.
        let mut limits = Limits { last_request_time: Duration::ZERO, ..Limits::default() };
        limit(&mut limits);
        let key = SecretKey::new(&SECRET_KEY);
        let demo = with_demo.then(|| Demo::new("sarsen"));
        let app = App::new(store, settings, key, clock.clone(), random, demo).expect("ciphers");
        first_start::prepare(&app).await.expect("prepares");
        let demo = if with_demo { seed(&app).await } else { Credentials::default() };
        add_rsa_key(&app).await;
        let (running, address) = listen(&app, &limits).await;
        let work = app.work();
        TestServer { app, clock, demo, address, work, running, place, limits }
    }

    /// Another instance on the same database, with the same clock; none where one process owns the database.
    #[expect(clippy::expect_used, reason = "a test that cannot start its server has failed")]
    pub async fn another(&self) -> Option<TestServer> {
        if !self.place.is_shared() {
            return None;
        }
        let store = open_store(&self.place, patient());
        let (settings, key) = (self.app.settings.clone(), SecretKey::new(&SECRET_KEY));
        let app = App::new(store, settings, key, self.clock.clone(), Arc::new(SystemRandom), None)
            .expect("ciphers");
        first_start::prepare(&app).await.expect("prepares");
        let (running, address) = listen(&app, &self.limits).await;
        let (clock, demo) = (self.clock.clone(), self.demo.clone());
        Some(TestServer {
            work: app.work(),
            app,
            clock,
            demo,
            address,
            running,
            place: self.place.clone(),
            limits: self.limits.clone(),
        })
    }

    /// One turn of each step of housekeeping, as if the time of each had come. Returns whether there was one.
    pub async fn tidy(&self) -> Result<bool, Failure> {
        self.app.failed_sign_ins.write_due(&self.app.store, self.app.now(), self.app.random());
        let due = self.app.store.write("test.due", |tx: &mut Tx<'_>| tx.exec(&ALL_ARE_DUE, &[]));
        due.await.map_err(|error: store::Error| Failure::from(error))?;
        Ok(!self.tidy_if_due().await?.is_empty())
    }

    /// The steps of housekeeping that are due by the clock and that no other instance has. Returns their names.
    pub async fn tidy_if_due(&self) -> Result<Vec<&'static str>, Failure> {
        self.work.run_due().await
    }

    /// One turn of the schedule of backups.
    pub async fn back_up(&self) {
        if let Some(mut backups) = self.app.backups() {
            backups.turn().await;
        }
    }

    /// One turn of its presence, as of an instance that serves.
    pub async fn renew_presence(&self) -> identity::Result<()> {
        self.app.presence.renew().await
    }

    /// How far the clock of the database server is ahead of this server's; none for a file.
    pub async fn clock_skew_ms(&self) -> identity::Result<Option<i64>> {
        self.app.presence.clock_skew_ms().await
    }

    /// Nobody can write to this table of its database until the value is dropped. None for a file.
    pub fn hold(&self, table: &str) -> Option<Held> {
        self.place.hold(table)
    }

    /// From now on the reader of events is stuck, so that streams of services get no place. No stream is open yet.
    pub fn hold_events(&self) {
        self.app.streams.hub.hold();
    }

    /// The reader of events goes on.
    pub fn release_events(&self) {
        self.app.streams.hub.release(self.app.log());
    }

    /// Stops it and starts it again on the same database, with the usual settings. The clock goes on.
    pub async fn restart(self) -> TestServer {
        self.running.stop().await;
        let again =
            TestServer::open_at(self.place, patient(), Arc::new(SystemRandom), |_| {}, |_| {}, false).await;
        again.clock.0.store(self.clock.0.load(Ordering::SeqCst), Ordering::SeqCst);
        TestServer { demo: self.demo, ..again }
    }

    /// Stops it; its database goes with the last instance.
    pub async fn stop(self) {
        self.running.stop().await;
        let place = self.place;
        // Dropping a database on a server waits for that server.
        let _ = tokio::task::spawn_blocking(move || drop(place)).await;
    }

    /// A request to it.
    pub fn request(&self, method: &str, path: &str) -> Request<'_> {
        Request {
            server: self,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// A GET.
    pub fn get(&self, path: &str) -> Request<'_> {
        self.request("GET", path)
    }

    /// A POST with a form.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Request<'_> {
        self.request("POST", path).form(fields)
    }

    /// A browser without cookies.
    pub fn browser(&self) -> TestBrowser<'_> {
        TestBrowser { server: self, cookies: Cookies::default(), languages: "" }
    }

    /// The `client_id` of a client of the demo: `web`, `spa`, `cli`, `machine`.
    pub fn client(&self, name: &str) -> &str {
        self.demo.clients.get(name).map_or("", |client| &client.client_id)
    }

    /// The secret of a client of the demo.
    pub fn secret(&self, name: &str) -> &str {
        self.demo.clients.get(name).and_then(|client| client.client_secret.as_deref()).unwrap_or_default()
    }

    /// Ada's password.
    pub fn password(&self, email: &str) -> &str {
        let logins = self.demo.users.iter().chain([&self.demo.owner, &self.demo.organization.admin]);
        logins.into_iter().find(|login| login.email == email).map_or("", |login| &login.password)
    }

    /// Sends bytes as they are and reads until the server closes.
    pub async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        exchange(self.address, bytes).await
    }
}

#[expect(clippy::expect_used, reason = "a test without a connection has failed")]
#[expect(clippy::disallowed_methods, reason = "a test connects to its own server")]
async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    // The server may answer and close before it has read all.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

/// Waits for all of them, each on its way while the others are.
pub async fn at_once<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut ready = true;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(done) => *output = Some(done),
                Poll::Pending => ready = false,
            }
        }
        if ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

/// A request that is being made.
pub struct Request<'s> {
    server: &'s TestServer,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request<'_> {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a bearer token.
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// Sends a form.
    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.body("application/x-www-form-urlencoded", body.into_bytes())
    }

    /// Sends JSON.
    pub fn json(self, value: &Value) -> Self {
        self.body("application/json", value.to_string().into_bytes())
    }

    /// Sends any body.
    pub fn body(mut self, media_type: &str, body: Vec<u8>) -> Self {
        self.body = body;
        self.header("content-type", media_type)
    }

    /// Sends it and reads the answer, which must be one that the description of the API has.
    pub async fn send(self) -> Answer {
        let answer = Answer::parse(&self.server.raw(&self.to_bytes()).await);
        contract::check(&self.method, &self.path, &answer);
        answer
    }

    /// The same beside the test, which goes on and may stop the server meanwhile.
    pub fn spawn(self) -> JoinHandle<Answer> {
        let (address, bytes) = (self.server.address, self.to_bytes());
        tokio::spawn(async move { Answer::parse(&exchange(address, &bytes).await) })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == "POST" {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(&self.body);
        bytes
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl Answer {
    /// Reads what came over the wire; status 0 when that was nothing.
    pub fn parse(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Answer { status: status.unwrap_or(0), headers, body: body.to_owned() }
    }

    /// A header's value, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// A text field of the JSON body, or nothing.
    pub fn text(&self, field: &str) -> String {
        self.json().get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Status and OAuth error, as the tables of attacks have them: `(400, "invalid_grant")`.
    pub fn error(&self) -> (u16, String) {
        (self.status, self.text("error"))
    }

    /// The value of a form's input in a page.
    pub fn input(&self, name: &str) -> String {
        let fields = forms(&self.body).into_iter().flat_map(|form| form.fields);
        fields
            .filter(|field| !field.is_button && field.name == name)
            .map(|field| field.value)
            .next()
            .unwrap_or_default()
    }

    /// The first form of a page.
    pub fn form(&self) -> Option<Form> {
        forms(&self.body).into_iter().next()
    }

    /// The parameters in the address that it redirects to.
    pub fn redirect_param(&self, name: &str) -> Option<String> {
        let query = self.header("location").split_once('?')?.1.to_owned();
        let found = form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == name);
        found.map(|(_, value)| value.into_owned())
    }
}

/// A browser that follows nothing by itself.
pub struct TestBrowser<'s> {
    server: &'s TestServer,
    /// Those that it has now.
    pub cookies: Cookies,
    /// Its `Accept-Language`.
    pub languages: &'static str,
}

impl TestBrowser<'_> {
    /// Opens a page.
    pub async fn get(&mut self, path: &str) -> Answer {
        let request = self.server.get(path);
        self.send(request).await
    }

    /// Sends a form with exactly these fields.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let request = self.server.post(path, fields);
        self.send(request).await
    }

    async fn send(&mut self, request: Request<'_>) -> Answer {
        let request = match self.cookies.header() {
            Some(cookies) => request.header("cookie", &cookies),
            None => request,
        };
        let request = match self.languages {
            "" => request,
            languages => request.header("accept-language", languages),
        };
        let answer = request.send().await;
        self.cookies.take_from(answer.headers.iter().map(|(name, value)| (name.as_str(), value)));
        answer
    }

    /// Signs in at an organization; the answer to the form.
    pub async fn sign_in(&mut self, organization: &str, email: &str) -> Answer {
        let password = self.server.password(email).to_owned();
        self.sign_in_with(organization, email, &password).await
    }

    /// Signs in with a password of the test's own.
    pub async fn sign_in_with(&mut self, organization: &str, email: &str, password: &str) -> Answer {
        let path = format!("/o/{organization}/login");
        // A signed-in user gets the form too.
        let page = self.get(&format!("{path}?prompt=select_account")).await;
        let csrf = page.input("csrf");
        self.post(&path, &[("csrf", &csrf), ("email", email), ("password", password)]).await
    }

    /// Types a user code; the page that this leads to.
    pub async fn type_code(&mut self, user_code: &str) -> Answer {
        let csrf = self.get("/activate").await.input("csrf");
        self.enter_code(&[("csrf", &*csrf), ("user_code", user_code)]).await
    }

    /// Opens the link with a user code and goes on; the page that this leads to.
    pub async fn open_code(&mut self, user_code: &str) -> Answer {
        let page = self.get(&format!("/activate?user_code={user_code}")).await;
        let (csrf, code) = (page.input("csrf"), page.input("user_code"));
        self.enter_code(&[("csrf", &*csrf), ("user_code", &code), ("link", &page.input("link"))]).await
    }

    async fn enter_code(&mut self, fields: &[(&str, &str)]) -> Answer {
        let sent = self.post("/activate", fields).await;
        if sent.status == 303 { self.get(sent.header("location")).await } else { sent }
    }

    /// Types a user code and decides about it on its confirm page.
    pub async fn decide(&mut self, user_code: &str, decision: &str) -> Answer {
        let page = self.type_code(user_code).await;
        let (csrf, session, code) = (page.input("csrf"), page.input("session"), page.input("user_code"));
        let fields = [("csrf", &*csrf), ("session", &session), ("user_code", &code), ("decision", decision)];
        self.post("/activate", &fields).await
    }
}
