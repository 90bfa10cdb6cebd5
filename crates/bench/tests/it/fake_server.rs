//! The part of Sarsen that the bench uses: device flow, pages with cookies and CSRF, administration. It is as strict as
//! Sarsen.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http_server::{Answer, Asked, serve};

pub const PASSWORD: &str = "correct horse & battery";
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

#[derive(Default)]
pub struct World {
    next: usize,
    organizations: Vec<String>,
    /// User id to organization and plan.
    users: HashMap<String, (String, String)>,
    links: HashMap<String, String>,
    /// Cookie to user id.
    sessions: HashMap<String, String>,
    /// Device code to (user code, client, approving user).
    codes: HashMap<String, (String, String, Option<String>)>,
    /// Access token to user id and organizations that it covers.
    tokens: HashMap<String, (String, Vec<String>)>,
    refresh_tokens: HashMap<String, (String, String)>,
    /// Users and organizations.
    suspended: HashSet<String>,
    /// The last change of a user or an organization.
    changed: HashMap<String, Instant>,
    /// The cache of the other instance: access token to plan.
    remembered: HashMap<String, String>,
    /// How long that cache is stale after a change.
    pub lag: Duration,
    /// Requests to the other instance.
    pub other_asked: usize,
    /// The lifetime of access tokens in seconds.
    pub token_life_s: u64,
    /// Answer 429 to this many requests of the set-up first.
    pub not_now: usize,
    /// Answer every n-th device code with 503 and Retry-After.
    pub refuse_every: Option<usize>,
    pub refreshed: usize,
    pub redeemed: usize,
    pub device_codes: usize,
    pub addresses: std::collections::BTreeSet<String>,
}

impl World {
    pub fn new() -> Arc<Mutex<World>> {
        Arc::new(Mutex::new(World { token_life_s: 600, ..World::default() }))
    }

    pub fn users(&self) -> usize {
        self.users.len()
    }

    pub fn organizations(&self) -> usize {
        self.organizations.len()
    }

    fn id(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}_{}", self.next)
    }

    fn tokens_for(&mut self, user: &str, client: &str) -> Answer {
        let (access, refresh) = (self.id("at"), self.id("rt"));
        let reach = if user == "owner" { self.organizations.clone() } else { Vec::new() };
        self.tokens.insert(access.clone(), (user.to_owned(), reach));
        self.refresh_tokens.insert(refresh.clone(), (user.to_owned(), client.to_owned()));
        Answer::json(
            200,
            json!({ "access_token": access, "refresh_token": refresh, "token_type": "Bearer",
                    "expires_in": self.token_life_s, "scope": "openid platform org:x" }),
        )
    }

    fn answer(&mut self, asked: &Asked, port: u16) -> Answer {
        if let Some(address) = asked.header("X-Forwarded-For") {
            self.addresses.insert(address.to_owned());
        }
        let path = asked.path.split('?').next().unwrap().to_owned();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (asked.method.as_str(), parts.as_slice()) {
            ("GET", [".well-known", "openid-configuration"]) => {
                Answer::json(200, json!({ "issuer": "https://auth.example.test" }))
            }
            ("GET", ["metrics"]) => {
                Answer::new(200, "", &format!("sarsen_store_commands_total {}\n", self.device_codes))
            }
            ("POST", ["auth", "device", "code"]) => self.device_code(asked, port),
            ("POST", ["auth", "token"]) => self.token(asked),
            ("POST", ["auth", "revoke"]) => self.revoke(asked),
            ("GET" | "POST", ["activate" | "login" | "link", ..]) => self.page(asked, &parts),
            ("GET", ["api", "subscription" | "user"]) => self.read(asked, parts[1]),
            ("POST", ["api", "organizations", rest @ ..]) => self.administer(asked, rest, port),
            (method, ["api", "organizations" | "platform", ..]) => self.change(asked, method, &parts),
            _ => Answer::json(404, json!({ "code": "not_found" })),
        }
    }

    fn device_code(&mut self, asked: &Asked, port: u16) -> Answer {
        self.device_codes += 1;
        if self
            .refuse_every
            .is_some_and(|every| self.device_codes.is_multiple_of(every) && self.device_codes > 20)
        {
            return Answer::new(503, "Retry-After: 1\r\n", r#"{"error":"temporarily_unavailable"}"#);
        }
        let (Some(client), code) = (asked.field("client_id"), self.id("dc")) else {
            return Answer::json(400, json!({ "error": "invalid_request" }));
        };
        let user_code = format!("CODE-{:04}", self.next);
        self.codes.insert(code.clone(), (user_code.clone(), client.clone(), None));
        let uri = format!("http://localhost:{port}/activate");
        let mut body = json!({ "device_code": code, "user_code": user_code, "verification_uri": uri,
                               "expires_in": 600, "interval": 1 });
        // For the client of the platform the code is typed.
        if client != "cli" {
            body["verification_uri_complete"] = json!(format!("{uri}?user_code={user_code}"));
        }
        Answer::json(200, body)
    }

    fn token(&mut self, asked: &Asked) -> Answer {
        let client = asked.field("client_id").unwrap_or_default();
        let error = |error: &str| Answer::json(400, json!({ "error": error }));
        if asked.field("grant_type").as_deref() == Some("refresh_token") {
            let token = asked.field("refresh_token").unwrap_or_default();
            return match self.refresh_tokens.remove(&token) {
                Some((user, owner)) if owner == client => {
                    self.refreshed += 1;
                    self.tokens_for(&user, &client)
                }
                _ => error("invalid_grant"),
            };
        }
        assert_eq!(asked.field("grant_type").as_deref(), Some(DEVICE_GRANT));
        let code = asked.field("device_code").unwrap_or_default();
        match self.codes.get(&code).cloned() {
            Some((_, owner, Some(user))) if owner == client => {
                self.codes.remove(&code);
                self.redeemed += 1;
                self.tokens_for(&user, &client)
            }
            Some((_, owner, None)) if owner == client => error("authorization_pending"),
            _ => error("invalid_grant"),
        }
    }

    fn revoke(&mut self, asked: &Asked) -> Answer {
        let refresh = asked.field("token").unwrap_or_default();
        let Some((user, client)) = self.refresh_tokens.remove(&refresh) else {
            return Answer::json(400, json!({ "error": "unknown in this test" }));
        };
        assert_eq!(asked.field("client_id"), Some(client));
        self.end_tokens(&user);
        Answer::new(200, "", "")
    }

    fn end_tokens(&mut self, user: &str) {
        self.tokens.retain(|_, (owner, _)| owner != user);
        self.refresh_tokens.retain(|_, (owner, _)| owner != user);
        self.changed.insert(user.to_owned(), Instant::now());
    }

    fn end_sessions(&mut self, user: &str) {
        self.end_tokens(user);
        self.sessions.retain(|_, owner| owner != user);
    }

    /// Changes of an administrator.
    fn change(&mut self, asked: &Asked, method: &str, parts: &[&str]) -> Answer {
        assert_eq!(self.caller(asked).map(|(user, _)| user.as_str()), Some("owner"));
        match (method, &parts[1..]) {
            ("DELETE", ["organizations", _, "users", user, "sessions"]) => self.end_sessions(user),
            ("PUT", ["organizations", _, "users", user, "suspension"]) => {
                self.end_sessions(user);
                self.suspended.insert((*user).to_owned());
            }
            ("PUT", ["platform", "organizations", organization, "suspension"]) => {
                self.suspended.insert((*organization).to_owned());
                let inside = self.users.iter().filter(|(_, (owner, _))| owner == organization);
                let inside: Vec<String> = inside.map(|(user, _)| user.clone()).collect();
                inside.into_iter().for_each(|user| {
                    self.changed.insert(user, Instant::now());
                });
            }
            ("DELETE", [.., who, "suspension"]) => assert!(self.suspended.remove(*who)),
            ("PATCH", ["organizations", _, "subscriptions", id]) => {
                let user = id.strip_prefix("sub_of_").expect("one of ours");
                let body: Value = serde_json::from_str(&asked.body).unwrap();
                self.users.get_mut(user).expect("a user").1 =
                    body["plan"].as_str().expect("a plan").to_owned();
                self.changed.insert(user.to_owned(), Instant::now());
            }
            _ => return Answer::json(404, json!({ "code": "not_found" })),
        }
        Answer::new(204, "", "")
    }

    /// The other instance answers from its cache until that is invalidated.
    fn other_answer(&mut self, asked: &Asked, port: u16) -> Answer {
        self.other_asked += 1;
        let token = asked.header("Authorization").and_then(|value| value.strip_prefix("Bearer "));
        let Some(token) = token.filter(|_| asked.path == "/api/subscription").map(str::to_owned) else {
            return self.answer(asked, port);
        };
        if let Some((user, plan)) = self.remembered.get(&token).and_then(|known| known.split_once(' ')) {
            let heard = self.changed.get(user).is_none_or(|changed| changed.elapsed() > self.lag);
            if !heard {
                return Answer::json(200, json!({ "service": "app", "plan": plan }));
            }
        }
        self.remembered.remove(&token);
        if let Some((user, _)) = self.tokens.get(&token)
            && let Some((_, plan)) = self.users.get(user)
        {
            self.remembered.insert(token, format!("{user} {plan}"));
        }
        self.answer(asked, port)
    }

    fn page(&mut self, asked: &Asked, parts: &[&str]) -> Answer {
        let posts = asked.method == "POST";
        let html =
            |body: &str| Answer::new(200, "Content-Type: text/html\r\nSet-Cookie: seen=1; Path=/\r\n", body);
        if posts && (asked.field("csrf").as_deref() != Some("c&s") || asked.header("Origin").is_none()) {
            return Answer::json(403, json!({ "code": "csrf" }));
        }
        let csrf = r#"<input type="hidden" name="csrf" value="c&amp;s">"#;
        let cookie = asked.header("Cookie").and_then(|cookies| {
            cookies.split("; ").find_map(|pair| pair.strip_prefix("sid=")).map(str::to_owned)
        });
        let user = cookie.and_then(|cookie| self.sessions.get(&cookie).cloned());
        match (posts, parts, user) {
            (false, ["link", code], _) if self.links.contains_key(*code) => html(&format!(
                r#"<form method="post" action="/link/{code}">{csrf}<button>Sign in</button></form>"#
            )),
            (true, ["link", code], _) => match self.links.remove(*code) {
                Some(user) => self.start_session(user, "/o/x/account"),
                None => Answer::json(410, json!({ "code": "gone" })),
            },
            (false, ["login"], _) => html(&format!(
                r#"<form method="post" action="/login?next={}">{csrf}<input name="email"><input name="password"
                   type="password"><button>Go</button></form>"#,
                asked.field("next").unwrap_or_default()
            )),
            (true, ["login"], _) => {
                assert_eq!(asked.field("email").as_deref(), Some("owner@sarsen.test"));
                assert_eq!(asked.field("password").as_deref(), Some(PASSWORD));
                self.start_session("owner".to_owned(), "/activate")
            }
            (_, ["activate"], None) => Answer::new(303, "Location: /login?next=activate\r\n", ""),
            (posts, ["activate"], Some(user)) => self.activate(asked, posts, &user, csrf, html),
            _ => Answer::json(404, json!({ "code": "not_found" })),
        }
    }

    fn activate(
        &mut self,
        asked: &Asked,
        posts: bool,
        user: &str,
        csrf: &str,
        html: impl Fn(&str) -> Answer,
    ) -> Answer {
        let Some(user_code) = asked.field("user_code").filter(|code| !code.is_empty()) else {
            return html(&format!(
                r#"<form method="post" action="/activate">{csrf}<input name="user_code"><button>Next</button></form>"#
            ));
        };
        if posts && asked.field("decision").as_deref() == Some("allow") {
            if user == "owner" && asked.field("password").as_deref() != Some(PASSWORD) {
                return html("<p>wrong password</p>");
            }
            let Some((_, _, approved)) = self.codes.values_mut().find(|(code, _, _)| *code == user_code)
            else {
                return Answer::json(400, json!({ "code": "unknown_code" }));
            };
            *approved = Some(user.to_owned());
            return html("<h1>Done</h1>");
        }
        let password = if user == "owner" { r#"<input type="password" name="password">"# } else { "" };
        html(&format!(
            r#"<form method="post" action="/activate">{csrf}{password}
               <input type="hidden" name="user_code" value="{user_code}">
               <button name="decision" value="deny">Deny</button>
               <button name="decision" value="allow">Allow</button></form>"#
        ))
    }

    fn start_session(&mut self, user: String, next: &str) -> Answer {
        let cookie = self.id("sid");
        self.sessions.insert(cookie.clone(), user);
        Answer::new(303, &format!("Set-Cookie: sid={cookie}; HttpOnly; Path=/\r\nLocation: {next}\r\n"), "")
    }

    fn caller(&self, asked: &Asked) -> Option<&(String, Vec<String>)> {
        self.tokens.get(asked.header("Authorization")?.strip_prefix("Bearer ")?)
    }

    fn read(&mut self, asked: &Asked, what: &str) -> Answer {
        let Some((user, _)) = self.caller(asked) else {
            return Answer::json(401, json!({ "code": "unauthorized" }));
        };
        let Some((organization, plan)) = self.users.get(user) else {
            return Answer::json(403, json!({ "code": "wrong_audience" }));
        };
        if self.suspended.contains(organization) || self.suspended.contains(user) {
            return Answer::json(401, json!({ "code": "invalid_token" }));
        }
        Answer::json(
            200,
            match what {
                "subscription" => {
                    json!({ "service": "app", "plan": plan, "features": ["reports"], "status": "active" })
                }
                _ => {
                    json!({ "id": user, "email": "x@y.test", "org": organization, "customer": { "id": "cus_1" } })
                }
            },
        )
    }

    fn administer(&mut self, asked: &Asked, rest: &[&str], port: u16) -> Answer {
        if self.not_now > 0 {
            self.not_now -= 1;
            return Answer::new(429, "Retry-After: 0\r\n", r#"{"code":"slow"}"#);
        }
        let Some((user, reach)) = self.caller(asked).cloned() else {
            return Answer::json(401, json!({ "code": "unauthorized" }));
        };
        assert_eq!(user, "owner");
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        let text = |name: &str| body[name].as_str().unwrap_or_else(|| panic!("{name} in {body}")).to_owned();
        if let [organization, ..] = rest
            && !reach.iter().any(|slug| slug == organization)
        {
            return Answer::json(404, json!({ "code": "not_found" }));
        }
        match rest {
            [] => {
                self.organizations.push(text("slug"));
                Answer::json(201, json!({ "slug": text("slug") }))
            }
            [_, "services" | "plans"] => Answer::json(201, json!({ "slug": text("slug") })),
            [organization, "clients"] => {
                assert_eq!((text("kind").as_str(), text("service").as_str()), ("device", "app"));
                Answer::json(201, json!({ "client_id": format!("client-{organization}") }))
            }
            [organization, "users"] => {
                let id = self.id("user");
                assert!(text("email").contains('@'));
                self.users.insert(id.clone(), ((*organization).to_owned(), "free".to_owned()));
                Answer::json(201, json!({ "id": id }))
            }
            [_, "subscriptions"] => {
                self.users.get_mut(&text("user")).expect("a user").1 = text("plan");
                Answer::json(201, json!({ "id": format!("sub_of_{}", text("user")) }))
            }
            [_, "users", id, "sign-in-link"] => {
                let code = self.id("link");
                self.links.insert(code.clone(), (*id).to_owned());
                Answer::json(201, json!({ "url": format!("http://localhost:{port}/link/{code}") }))
            }
            _ => Answer::json(404, json!({ "code": "not_found" })),
        }
    }
}

/// Serves `world` on a port of its own.
pub fn start(world: &Arc<Mutex<World>>) -> SocketAddr {
    start_as(world, World::answer)
}

/// A second instance, whose cache is invalidated late.
pub fn start_other(world: &Arc<Mutex<World>>) -> SocketAddr {
    start_as(world, World::other_answer)
}

fn start_as(world: &Arc<Mutex<World>>, answer: fn(&mut World, &Asked, u16) -> Answer) -> SocketAddr {
    let world = world.clone();
    let port = Arc::new(Mutex::new(0));
    let known = port.clone();
    let address = serve(move |asked| answer(&mut world.lock().unwrap(), asked, *known.lock().unwrap()));
    *port.lock().unwrap() = address.port();
    address
}
