//! Which GETs change something, and that no HEAD does: a walk through the table of all routes.

use crate::dev_mail::message;
use crate::support::*;
use crate::tenancy::Things;
use http::Method;
use outgoing::Relay;
use serde_json::{Value, json};
use server::testing::{Answer, Kind, Request, Rows, TestBrowser, TestServer, kind};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Sql, args};

/// Every route whose GET changes rows, with one of the tables and the reason. All others change nothing.
const CHANGES: &[(&str, &str, &str)] = &[
    (
        "/auth/authorize",
        "authorization_codes",
        "the client gets a code; its redirect URI and its user are checked",
    ),
    ("/auth/logout", "sessions", "with a hint of this session: only the client of the session has it"),
    ("/demo/{product}", "refresh_tokens", "the sample product renews its own token"),
    ("/demo/{product}/callback", "grants", "the sample product redeems the code of its own request"),
];

/// Every route whose GET notes that somebody was there, at most every few minutes, with the table.
const NOTES: &[(&str, &str)] = &[
    ("/api/subscription", "user_activity"),
    ("/api/user", "user_activity"),
    ("/api/live", "user_activity"),
    ("/api/service/users", "api_key_uses"),
    ("/api/service/state", "api_key_uses"),
];

/// Pages that this server does not have: it has an owner, is not that of `sarsen dev`, and nothing proves that a password may be
/// reset or an address confirmed.
const NOT_HERE: &[&str] = &["/setup", "/dev/sign-in", "/o/{slug}/reset", "/o/{slug}/confirm"];

/// Every route whose GET keeps a place until it ends.
const STREAMS: &[&str] = &["/api/live", "/demo/{product}/live"];

/// The rows of every table but those that a server writes by itself: its leases and the log of changes.
async fn rows_of(server: &TestServer) -> BTreeMap<String, Vec<String>> {
    let columns = match kind() {
        Kind::Sqlite => {
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
        }
        Kind::Postgres => {
            "SELECT table_name::text, column_name::text FROM information_schema.columns
             WHERE table_schema = current_schema()"
        }
        Kind::Mysql => {
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
        }
    };
    let text = |column: &str| match kind() {
        Kind::Sqlite => format!("quote({column})"),
        Kind::Postgres => format!("COALESCE({column}::text, '-')"),
        Kind::Mysql => format!("COALESCE(HEX({column}), '-')"),
    };
    let found = server.app.store.read(move |snapshot| {
        let columns: Vec<(String, String)> =
            snapshot.all(&Sql::dynamic(columns.to_owned()), args![], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (table, column) in columns {
            let is_own =
                ["leases", "change_log", "sarsen_", "sqlite_"].iter().any(|own| table.starts_with(own));
            if !is_own {
                tables.entry(table).or_default().push(text(&column));
            }
        }
        assert!(tables.len() > 40, "{tables:?}");
        let mut rows = BTreeMap::new();
        for (table, columns) in tables {
            let all = match kind() {
                Kind::Mysql => format!("CONCAT_WS('|', {})", columns.join(", ")),
                _ => columns.join(" || '|' || "),
            };
            let sql = Sql::dynamic(format!("SELECT {all} FROM {table}"));
            let mut found: Vec<String> = snapshot.all(&sql, args![], |row| row.get(0))?;
            found.sort();
            rows.insert(table, found);
        }
        Ok::<_, store::Error>(rows)
    });
    found.await.expect("reads")
}

/// The tables that differ, after every write that was asked for until now.
async fn changed_since(server: &TestServer, before: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    HeldWriters::of(server).await.release().await;
    let now = rows_of(server).await;
    now.into_iter().filter(|(table, rows)| before.get(table) != Some(rows)).map(|(table, _)| table).collect()
}

/// People with everything that a route asks for, and one of each thing.
struct World<'s> {
    server: &'s TestServer,
    owner: Admin<'s>,
    /// Of `acme`.
    admin: Admin<'s>,
    things: Things,
    user_token: String,
    /// Ada at `acme` and the owner at `platform`.
    browser: TestBrowser<'s>,
    user_code: String,
    user: String,
}

impl<'s> World<'s> {
    async fn of(server: &'s TestServer) -> World<'s> {
        let owner = Admin::sign_in(server, "owner@sarsen.test", "platform").await;
        let admin = Admin::sign_in(server, "admin@acme.test", "org:acme").await;
        let mut browser = server.browser();
        browser.sign_in("acme", "ada@acme.test").await;
        browser.sign_in("platform", "owner@sarsen.test").await;
        let codes = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
        let user = json!({ "email": "new@acme.test" });
        let user = text(&admin.make("/api/organizations/acme/users", user).await, "id").to_owned();
        World {
            things: Things::of_acme(&admin).await,
            user_token: tokens(server, "ada@acme.test", "openid").await.text("access_token"),
            user_code: codes.text("user_code"),
            user,
            server,
            owner,
            admin,
            browser,
        }
    }

    async fn link(&self, what: &str) -> String {
        let path = format!("/api/organizations/acme/users/{}/{what}", self.user);
        path_of(text(&self.admin.make(&path, Value::Null).await, "url"))
    }

    /// A sign-in at the sample product, up to the answer that it gets.
    async fn callback(&mut self) -> String {
        let asked = self.browser.get("/demo/sketch/login").await;
        let back = self.browser.get(asked.header("location")).await;
        path_of(back.header("location"))
    }

    /// The address of a route, such that its GET does all that it can do.
    async fn address(&mut self, route: &str) -> String {
        match route {
            "/auth/authorize" => Ask::of(self.server, "web").path(),
            "/auth/logout" => {
                let ask = Ask::of(self.server, "spa");
                let hint = tokens_of(self.server, &mut self.browser, &ask).await.text("id_token");
                format!("/auth/logout?id_token_hint={hint}")
            }
            "/api/service/users" => format!("{route}?ids={}", self.user),
            "/activate" => format!("/activate?user_code={}", self.user_code),
            "/invitation" => self.admin.invite("new@acme.test", "member").await,
            "/password" => self.link("password-link").await,
            "/setup" => "/setup?token=x".to_owned(),
            "/o/{slug}/link" => self.link("sign-in-link").await,
            "/o/{slug}/code" => {
                let csrf = self.browser.get("/o/acme/forgot").await.input("csrf");
                let fields = [("csrf", &*csrf), ("email", "ada@acme.test")];
                assert_eq!(self.browser.post("/o/acme/forgot", &fields).await.status, 303);
                "/o/acme/code".to_owned()
            }
            "/o/{slug}/login" => "/o/acme/login?prompt=login".to_owned(),
            "/login" => "/login?prompt=login".to_owned(),
            "/demo/{product}/callback" => self.callback().await,
            "/demo/{product}" => {
                let callback = self.callback().await;
                self.browser.get(&callback).await;
                // The access token has expired.
                self.server.clock.advance(Duration::from_secs(3600));
                "/demo/sketch".to_owned()
            }
            route => {
                let path = self.things.path("acme", route);
                let path =
                    path.replace("{slug}", "acme").replace("{product}", "sketch").replace("{number}", "1");
                assert!(!path.contains('{'), "say here what stands in {route}");
                path
            }
        }
    }

    fn request(&self, method: &str, route: &str, path: &str) -> Request<'s> {
        let request = self.server.request(method, path);
        let token = match route {
            "/api/subscription" | "/api/user" | "/api/live" | "/auth/userinfo" => &self.user_token,
            route if route.starts_with("/api/service/") => &self.server.demo.api_key,
            route if route == "/api/organizations" || route.starts_with("/api/platform/") => {
                &self.owner.token
            }
            route if route.starts_with("/api/") => &self.admin.token,
            _ => return request.header("cookie", &self.browser.cookies.header().unwrap_or_default()),
        };
        request.bearer(token)
    }

    async fn get(&mut self, route: &str, path: &str) -> Answer {
        let answer = self.request("GET", route, path).send().await;
        self.browser.cookies.take_from(answer.headers.iter().map(|(name, value)| (name.as_str(), value)));
        answer
    }

    /// Opens a stream, and closes it when the server has counted it.
    async fn stream(&self, route: &str, path: &str) {
        let open = self.request("GET", route, path).spawn();
        while metric(self.server, "sarsen_streams").await == 0 {
            tokio::task::yield_now().await;
        }
        open.abort();
        while metric(self.server, "sarsen_streams").await > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_get_changes_something_only_by_this_list_and_a_head_never() {
    let (relay, mail) = (Relay::kept(), message("one", "ada@acme.test"));
    relay.send(&mail, 0).await.expect("kept");
    let server = TestServer::start_with(|settings| settings.mail = Some(relay), |_| {}).await;
    let mut world = World::of(&server).await;
    let routes = server::router();
    let gets = routes.listed().iter().filter(|(method, _)| method == Method::GET).map(|(_, route)| *route);
    // The sign-out comes last.
    let (last, mut gets): (Vec<&str>, Vec<&str>) = gets.partition(|route| *route == "/auth/logout");
    gets.extend(last);
    let known = CHANGES.iter().map(|(route, ..)| route).chain(NOTES.iter().map(|(route, _)| route));
    for route in known.chain(STREAMS) {
        assert!(gets.contains(route), "{route} is no route");
    }
    let (mut noted, mut rows) = (Vec::new(), Rows::new());
    for route in gets {
        let row = async {
            let path = world.address(route).await;
            let before = rows_of(&server).await;
            let head = world.request("HEAD", route, &path).send().await;
            assert!(head.status < 400 || NOT_HERE.contains(&route), "{head:?}");
            assert_eq!((&*head.body, head.header("set-cookie")), ("", ""), "{head:?}");
            assert_eq!(changed_since(&server, &before).await, [""; 0], "HEAD {path}");
            assert_eq!(metric(&server, "sarsen_streams").await, 0, "HEAD {path}");

            if STREAMS.contains(&route) {
                world.stream(route, &path).await;
            } else {
                let answer = world.get(route, &path).await;
                assert!(answer.status < 400 || NOT_HERE.contains(&route), "{answer:?}");
            }
            let mut changed = changed_since(&server, &before).await;
            if let Some((_, table)) = NOTES.iter().find(|(known, _)| *known == route) {
                let others = changed.iter().filter(|changed| changed != table).count();
                noted.extend(changed.drain(..).filter(|changed| changed == table));
                assert_eq!(others, 0, "more than a note");
                return;
            }
            match CHANGES.iter().find(|(known, ..)| *known == route) {
                Some((_, table, _)) => assert!(changed.iter().any(|one| one == table), "{changed:?}"),
                None => assert_eq!(changed, [""; 0], "GET {path}"),
            }
        };
        rows.row(route, row).await;
    }
    noted.sort();
    assert_eq!(noted, ["api_key_uses", "user_activity"], "each once");
    server.stop().await;
}
