//! Tenancy: what is one organization's is nobody else's, who may do what in it, and how it is stopped.

use crate::support::*;
use identity::clients::DEVICE_GRANT;
use serde_json::{Value, json};
use server::testing::{Answer, TestBrowser, TestServer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const ROUTES: &str = include_str!("../../src/router.rs");

/// Every route of the table that begins like this, by method and path.
fn routes(prefix: &str) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for route in ROUTES.split(".route(").skip(1) {
        let route = route.split("// ").next().unwrap_or_default();
        let mut parts = route.splitn(3, '"');
        let path = parts.nth(1).unwrap_or_default();
        let handlers = parts.next().unwrap_or_default();
        for (method, call) in
            [("GET", "get("), ("POST", "post("), ("PUT", "put("), ("PATCH", "patch("), ("DELETE", "delete(")]
        {
            // `get(api::…)` is a method; `delete` at the end of a handler's name has no bracket behind it.
            if path.starts_with(prefix) && handlers.contains(&format!("{call}api::")) {
                found.push((method, path));
            }
        }
    }
    assert!(!found.is_empty(), "routes that begin with {prefix}");
    found
}

/// What an organization has, one of each kind.
struct Things {
    administrator: String,
    service: &'static str,
    client: String,
    secret: String,
    plan: &'static str,
    subscription: String,
    user: String,
    customer: String,
}

impl Things {
    async fn of_acme(admin: &Admin<'_>) -> Things {
        let first = async |list: &str, name: &str| {
            let list = admin.read(&format!("/api/organizations/acme/{list}")).await;
            text(&list["items"][0], name).to_owned()
        };
        let client = admin.server.client("web").to_owned();
        Things {
            administrator: first("administrators", "user").await,
            service: "sketch",
            secret: first(&format!("clients/{client}/secrets"), "id").await,
            client,
            plan: "pro",
            subscription: first("subscriptions", "id").await,
            user: first("users?email=ada@acme.test", "id").await,
            customer: first("customers", "id").await,
        }
    }

    /// A path of the route table with these things in it, below the organization `org`.
    fn path(&self, org: &str, route: &str) -> String {
        [
            ("{org}", org),
            ("{user}", if route.contains("/administrators/") { &self.administrator } else { &self.user }),
            ("{service}", self.service),
            ("{client}", &self.client),
            ("{secret}", &self.secret),
            ("{plan}", self.plan),
            ("{subscription}", &self.subscription),
        ]
        .into_iter()
        .fold(route.to_owned(), |path, (name, value)| path.replace(name, value))
    }
}

/// A body that a route takes. A new route must say here what it takes, and is then tested with the others.
fn body(method: &str, route: &str, things: &Things) -> Value {
    match (method, route.strip_prefix("/api/organizations/{org}").unwrap_or(route)) {
        ("GET" | "DELETE", _) | ("POST", "/users/{user}/sign_in_link" | "/clients/{client}/secrets") => {
            Value::Null
        }
        ("PATCH", "" | "/services/{service}" | "/clients/{client}" | "/plans/{plan}" | "/users/{user}") => {
            json!({ "name": "Taken over" })
        }
        ("POST", "/administrators") => json!({ "email": "owner@sarsen.test", "role": "member" }),
        ("PATCH", "/administrators/{user}") => json!({ "role": "member" }),
        ("POST", "/services") => json!({ "slug": "made", "name": "Made" }),
        ("POST", "/clients") => {
            json!({ "service": things.service, "kind": "spa", "name": "Made", "redirect_uris": [CALLBACK] })
        }
        ("POST", "/plans") => {
            json!({ "slug": "made", "name": "Made", "services": [things.service], "price_cents": 1, "currency": "EUR" })
        }
        ("POST", "/subscriptions") => json!({ "user": things.user, "plan": things.plan }),
        ("PATCH", "/subscriptions/{subscription}") => json!({ "status": "canceled" }),
        ("POST", "/users") => json!({ "email": "made@acme.test" }),
        ("PUT", "/users/{user}/suspension") => json!({ "reason": "because" }),
        ("POST", "/api/organizations") => json!({ "slug": "made", "name": "Made" }),
        ("POST", "/api/platform/organizations/{org}/review") => json!({ "decision": "rejected" }),
        ("PUT", "/api/platform/organizations/{org}/suspension") => json!({}),
        other => panic!("{other:?} is a new route: say what it takes"),
    }
}

/// Everything that an administrator can read about an organization.
async fn everything(admin: &Admin<'_>, org: &str) -> Vec<Value> {
    let mut all = Vec::new();
    for list in [
        "",
        "/administrators",
        "/services",
        "/clients",
        "/plans",
        "/customers",
        "/subscriptions",
        "/users",
        "/audit",
    ] {
        all.push(admin.read(&format!("/api/organizations/{org}{list}")).await);
    }
    all
}

/// The platform's owner makes a second organization and administers it.
async fn globex(server: &TestServer) -> Admin<'_> {
    let platform = Admin::sign_in(server, "owner@sarsen.test", "platform").await;
    platform.make("/api/organizations", json!({ "slug": "globex", "name": "Globex" })).await;
    Admin::sign_in(server, "owner@sarsen.test", "org:globex platform").await
}

fn problem(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text("code"))
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_another_organization_is_not_there() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let stranger = globex(&server).await;
    let acme = Things::of_acme(&admin).await;
    let before = everything(&admin, "acme").await;

    let mut tried = 0;
    for (method, route) in routes("/api/organizations/{org}") {
        // Below the own organization, with what is another's.
        if route.matches('{').count() > 1 {
            let path = acme.path("globex", route);
            let answer = stranger.call(method, &path, &body(method, route, &acme)).await;
            assert_eq!(problem(&answer), is(404, "not_found"), "{method} {path}: {answer:?}");
            tried += 1;
        }
        // Below another organization the token is not good.
        let path = acme.path("acme", route);
        let answer = stranger.call(method, &path, &body(method, route, &acme)).await;
        assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{method} {path}: {answer:?}");
        for org in ["nobody", "platform", "ACME", "acme%2f..%2fglobex", "globex%00", "*"] {
            let path = acme.path(org, route);
            let answer = stranger.call(method, &path, &body(method, route, &acme)).await;
            assert_eq!(problem(&answer), is(403, "insufficient_scope"), "{method} {path}: {answer:?}");
        }
    }
    assert!(tried >= 18, "{tried}");

    // Named in a body or a query.
    for (path, made) in [
        ("subscriptions", json!({ "user": acme.user, "plan": "pro" })),
        ("subscriptions", json!({ "customer": acme.customer, "plan": "pro" })),
        ("clients", json!({ "service": "sketch", "kind": "device", "name": "Theirs" })),
    ] {
        let answer = stranger.call("POST", &format!("/api/organizations/globex/{path}"), &made).await;
        assert_eq!(problem(&answer), is(404, "not_found"), "{path} {made}: {answer:?}");
    }
    let plan =
        json!({ "slug": "x2", "name": "X", "services": ["sketch"], "price_cents": 1, "currency": "EUR" });
    let answer = stranger.call("POST", "/api/organizations/globex/plans", &plan).await;
    assert!(matches!(answer.status, 404 | 422), "{answer:?}");
    for query in [
        format!("subscriptions?user={}", acme.user),
        "subscriptions?plan=pro".to_owned(),
        "users?email=ada@acme.test".to_owned(),
    ] {
        let answer = stranger.call("GET", &format!("/api/organizations/globex/{query}"), &Value::Null).await;
        let found = answer.json()["items"].as_array().map_or(0, Vec::len);
        assert!(answer.status == 404 || (answer.status == 200 && found == 0), "{query}: {answer:?}");
    }
    // A cursor from elsewhere moves within one's own things only.
    for list in ["services", "clients", "plans", "customers", "users", "audit"] {
        let answer = stranger.read(&format!("/api/organizations/globex/{list}?cursor=a")).await;
        assert!(
            !answer.to_string().contains("acme") && !answer.to_string().contains(&acme.user),
            "{list}: {answer}"
        );
    }
    assert_eq!(everything(&admin, "acme").await, before, "and nothing of it left a trace");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_only_where_its_audience_says() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&admin).await;
    let service = tokens(&server, "ada@acme.test", "openid profile email").await.text("access_token");
    let machine = [
        ("grant_type", "client_credentials"),
        ("client_id", server.client("machine")),
        ("client_secret", server.secret("machine")),
    ];
    let machine = server.post("/auth/token", &machine).send().await.text("access_token");
    let owner = |scope: &'static str| Admin::sign_in(&server, "owner@sarsen.test", scope);
    let insufficient = is(403, "insufficient_scope");

    let no_admins = [
        ("a service's", service),
        ("a program's", machine),
        ("the platform's", owner("platform").await.token),
        ("one that asked for a role it has not", owner("platform org:acme org:*").await.token),
        ("one for the own account", owner("openid").await.token),
    ];
    for (method, route) in routes("/api/organizations/{org}") {
        let path = things.path("acme", route);
        let body = body(method, route, &things);
        for (whose, token) in &no_admins {
            let other = Admin { server: &server, token: token.clone() };
            let answer = other.call(method, &path, &body).await;
            assert_eq!(problem(&answer), insufficient, "{whose} token, {method} {path}: {answer:?}");
            assert_eq!(answer.header("www-authenticate"), r#"Bearer error="insufficient_scope""#);
        }
        let nobody = server.request(method, &path);
        let nobody = if body.is_null() { nobody } else { nobody.json(&body) };
        let answer = nobody.send().await;
        assert_eq!(problem(&answer), is(401, "unauthenticated"), "{method} {path}: {answer:?}");
    }

    let mut platform_routes = routes("/api/platform/");
    platform_routes.extend([("GET", "/api/organizations"), ("POST", "/api/organizations")]);
    for (method, route) in platform_routes {
        let path = things.path("acme", route);
        let body = body(method, route, &things);
        let no_owners =
            [&no_admins[0], &no_admins[1], &no_admins[4], &("an organization's", admin.token.clone())];
        for (whose, token) in no_owners {
            let other = Admin { server: &server, token: token.clone() };
            let answer = other.call(method, &path, &body).await;
            assert_eq!(problem(&answer), insufficient, "{whose} token, {method} {path}: {answer:?}");
        }
        assert_eq!(server.request(method, &path).send().await.status, 401, "{method} {path}");
        if route.starts_with("/api/platform/") {
            let user = Admin::sign_in(&server, "admin@acme.test", "platform").await;
            let answer = user.call(method, &path, &body).await;
            assert_eq!(problem(&answer), is(403, "forbidden"), "no owner, {method} {path}: {answer:?}");
        }
    }

    // Those who administer have no service, and a program has no user.
    for path in ["/api/subscription", "/api/user"] {
        let answer = admin.call("GET", path, &Value::Null).await;
        assert_eq!(problem(&answer), insufficient, "{path}: {answer:?}");
        let answer = server.get(path).bearer(&no_admins[1].1).send().await;
        assert_eq!(problem(&answer), insufficient, "{path}: {answer:?}");
    }
    assert_eq!(server.get("/auth/userinfo").bearer(&no_admins[1].1).send().await.status, 403);
    server.stop().await;
}

/// Makes an account of one who administers.
async fn hire(server: &TestServer, email: &str) {
    let mut browser = server.browser();
    let csrf = browser.get("/o/platform/signup").await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", email), ("password", PASSWORD)];
    assert_eq!(browser.post("/o/platform/signup", &fields).await.status, 303);
}

const PASSWORD: &str = "correct horse battery";

async fn hired<'s>(server: &'s TestServer, email: &str, scope: &str) -> Admin<'s> {
    let mut browser = server.browser();
    assert_eq!(browser.sign_in_with("platform", email, PASSWORD).await.status, 303);
    let answer = tokens_of(server, &mut browser, &Ask::by("console", CONSOLE).with("scope", scope)).await;
    Admin { server, token: answer.text("access_token") }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_administers_a_hundred_organizations_has_a_short_token_for_all_of_them() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    for number in 0..100 {
        let slug = format!("customer-with-a-long-name-{number}");
        platform.make("/api/organizations", json!({ "slug": slug, "name": slug })).await;
    }
    let owner = Admin::sign_in(&server, "owner@sarsen.test", "platform org:*").await;
    assert!(owner.token.len() < 2000, "{} bytes", owner.token.len());
    owner.read("/api/organizations/customer-with-a-long-name-73/users").await;
    let elsewhere = owner.call("GET", "/api/organizations/acme/users", &Value::Null).await;
    assert_eq!(problem(&elsewhere), is(404, "not_found"), "no role there: {elsewhere:?}");
}

const ADMINISTRATORS: &str = "/api/organizations/acme/administrators";

#[tokio::test(flavor = "multi_thread")]
async fn members_look_admins_change_and_owners_decide_who_does() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&owner).await;
    for (email, role) in [("member@acme.test", "member"), ("second@acme.test", "admin")] {
        hire(&server, email).await;
        owner.make(ADMINISTRATORS, json!({ "email": email, "role": role })).await;
    }
    let member = hired(&server, "member@acme.test", "org:acme").await;
    let admin = hired(&server, "second@acme.test", "org:acme").await;
    let owners_only = |method: &str, route: &str| {
        route.contains("/administrators") && method != "GET"
            || (method, route) == ("PATCH", "/api/organizations/{org}")
    };
    let before = everything(&owner, "acme").await;
    for (method, route) in routes("/api/organizations/{org}") {
        let path = things.path("acme", route);
        let body = body(method, route, &things);
        let looked = member.call(method, &path, &body).await;
        match method {
            "GET" => assert_eq!(looked.status, 200, "{path}: {looked:?}"),
            _ => assert_eq!(problem(&looked), is(403, "forbidden"), "{method} {path}: {looked:?}"),
        }
        if owners_only(method, route) {
            let answer = admin.call(method, &path, &body).await;
            assert_eq!(problem(&answer), is(403, "forbidden"), "{method} {path}: {answer:?}");
        }
    }
    assert_eq!(everything(&owner, "acme").await, before);

    // Nobody raises himself.
    let own = |admin: &Admin<'_>| format!("{ADMINISTRATORS}/{}", text(&claims(&admin.token), "sub"));
    for caller in [&member, &admin] {
        for role in ["owner", "admin"] {
            let answer = caller.call("PATCH", &own(caller), &json!({ "role": role })).await;
            assert_eq!(problem(&answer), is(403, "forbidden"), "{answer:?}");
            let again = json!({ "email": "second@acme.test", "role": role });
            assert_eq!(problem(&caller.call("POST", ADMINISTRATORS, &again).await), is(403, "forbidden"));
        }
    }
    let unknown = owner.call("PATCH", &own(&admin), &json!({ "role": "root" })).await;
    assert_eq!(problem(&unknown), is(422, "invalid"), "{unknown:?}");

    // The last owner stays one.
    for (method, body) in [
        ("DELETE", Value::Null),
        ("PATCH", json!({ "role": "admin" })),
        ("PATCH", json!({ "role": "member" })),
    ] {
        let answer = owner.call(method, &own(&owner), &body).await;
        assert_eq!(problem(&answer), is(409, "last_owner"), "{method}: {answer:?}");
    }
    // A role is looked up each time, also for tokens that are out already.
    owner.change("PATCH", &own(&member), json!({ "role": "admin" })).await;
    let made = member
        .call("POST", "/api/organizations/acme/services", &json!({ "slug": "atlas", "name": "Atlas" }))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    owner.change("PATCH", &own(&member), json!({ "role": "member" })).await;
    let gone = member.call("DELETE", "/api/organizations/acme/services/atlas", &Value::Null).await;
    assert_eq!(problem(&gone), is(403, "forbidden"), "{gone:?}");
    owner.change("DELETE", &own(&admin), Value::Null).await;
    let gone = admin.call("GET", "/api/organizations/acme", &Value::Null).await;
    assert_eq!(problem(&gone), is(404, "not_found"), "{gone:?}");
    member.change("DELETE", &own(&member), Value::Null).await;
    assert_eq!(
        member.call("GET", "/api/organizations/acme", &Value::Null).await.status,
        404,
        "left by himself"
    );
    // With another owner, the first may leave.
    owner.make(ADMINISTRATORS, json!({ "email": "second@acme.test", "role": "owner" })).await;
    owner.change("DELETE", &own(&owner), Value::Null).await;
    let last = admin.call("DELETE", &own(&admin), &Value::Null).await;
    assert_eq!(problem(&last), is(409, "last_owner"), "{last:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_in_the_audit_trail() {
    let server = TestServer::start().await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let things = Things::of_acme(&owner).await;
    hire(&server, "new@acme.test").await;
    let mut covered = BTreeSet::new();
    let mut made = BTreeMap::new();
    for (method, route, action) in [
        ("PATCH", "", "organization.renamed"),
        ("POST", "/administrators", "administrator.added"),
        ("PATCH", "/administrators/{user}", "administrator.changed"),
        ("DELETE", "/administrators/{user}", "administrator.removed"),
        ("POST", "/services", "service.created"),
        ("PATCH", "/services/{service}", "service.renamed"),
        ("POST", "/clients", "client.created"),
        ("PATCH", "/clients/{client}", "client.changed"),
        ("POST", "/clients/{client}/secrets", "client.secret_added"),
        ("DELETE", "/clients/{client}/secrets/{secret}", "client.secret_deleted"),
        ("DELETE", "/clients/{client}", "client.deleted"),
        ("POST", "/plans", "plan.created"),
        ("PATCH", "/plans/{plan}", "plan.changed"),
        ("PATCH", "/subscriptions/{subscription}", "subscription.changed"),
        ("DELETE", "/subscriptions/{subscription}", "subscription.deleted"),
        ("POST", "/subscriptions", "subscription.created"),
        ("POST", "/users", "user.created"),
        ("PATCH", "/users/{user}", "user.renamed"),
        ("POST", "/users/{user}/sign_in_link", "user.sign_in_link_made"),
        ("DELETE", "/users/{user}/sessions", "user.sessions_ended"),
        ("PUT", "/users/{user}/suspension", "user.suspended"),
        ("DELETE", "/users/{user}/suspension", "user.activated"),
        ("DELETE", "/plans/{plan}", "plan.deleted"),
        ("DELETE", "/services/{service}", "service.deleted"),
    ] {
        let route = format!("/api/organizations/{{org}}{route}");
        let mut path = things.path("acme", &route);
        // What was made here is what is deleted here.
        if let ("DELETE", Some((list, name))) = (method, path.clone().rsplit_once('/'))
            && let Some(own) = made.get(list)
            && name != "suspension"
        {
            path = format!("{list}/{own}");
        }
        let mut body = body(method, &route, &things);
        if route.ends_with("/administrators") {
            body = json!({ "email": "new@acme.test", "role": "member" });
        }
        if route.ends_with("/administrators/{user}") {
            path = format!("{ADMINISTRATORS}/{}", made[ADMINISTRATORS]);
        }
        // Entries of one millisecond have no order among them.
        server.clock.advance(Duration::from_millis(1));
        let answer = owner.change(method, &path, body).await;
        if answer.status == 201 {
            let name = ["user", "client_id", "slug", "id"]
                .into_iter()
                .find_map(|name| answer.json()[name].as_str().map(str::to_owned));
            let name = if path.ends_with("/subscriptions") { Some(answer.text("id")) } else { name };
            made.insert(path.clone(), name.unwrap_or_default());
        }
        let newest = &owner.read("/api/organizations/acme/audit?limit=1").await["items"][0];
        assert_eq!(newest["action"], action, "{method} {path}");
        assert_eq!(newest["actor"], claims(&owner.token)["sub"], "{method} {path}");
        assert_eq!(newest["address"], "127.0.0.1");
        assert_ne!(newest["target"], "");
        covered.insert((method, route));
    }
    for (method, route) in routes("/api/organizations/{org}") {
        assert!(
            method == "GET" || covered.contains(&(method, route.to_owned())),
            "{method} {route} is not covered"
        );
    }

    // What is refused leaves no trace; what the platform does, leaves one too.
    let trail = owner.read("/api/organizations/acme/audit?limit=200").await;
    owner.call("DELETE", "/api/organizations/acme/services/nobody", &Value::Null).await;
    owner
        .call("POST", "/api/organizations/acme/services", &json!({ "slug": "sketch", "name": "Twice" }))
        .await;
    assert_eq!(owner.read("/api/organizations/acme/audit?limit=200").await, trail);
    for (method, action) in [("PUT", "organization.suspended"), ("DELETE", "organization.activated")] {
        let body = if method == "PUT" { json!({ "reason": "late with the rent" }) } else { Value::Null };
        for _ in 0..2 {
            server.clock.advance(Duration::from_millis(1));
            platform.change(method, "/api/platform/organizations/acme/suspension", body.clone()).await;
        }
        let newest = &owner.read("/api/organizations/acme/audit?limit=2").await["items"];
        assert_eq!(
            (&newest[0]["action"], &newest[0]["actor"]),
            (&json!(action), &claims(&platform.token)["sub"])
        );
        assert_ne!(newest[1]["action"], action, "the second time changed nothing");
    }
    server.stop().await;
}

/// A user with everything that can be taken from him: a browser, tokens that were used, and a device that
/// he has just allowed.
struct SignedIn<'s> {
    server: &'s TestServer,
    browser: TestBrowser<'s>,
    access: String,
    refresh: String,
    device: String,
}

impl<'s> SignedIn<'s> {
    async fn ada(server: &'s TestServer) -> SignedIn<'s> {
        let mut browser = server.browser();
        browser.sign_in("acme", "ada@acme.test").await;
        let ask = Ask::of(server, "spa").with("scope", "openid offline_access");
        let tokens = tokens_of(server, &mut browser, &ask).await;
        let codes = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
        let allowed = browser.decide(&codes.text("user_code"), "allow").await;
        assert!(allowed.body.contains("signed in"), "{allowed:?}");
        let (access, refresh) = (tokens.text("access_token"), tokens.text("refresh_token"));
        SignedIn { server, browser, access, refresh, device: codes.text("device_code") }
    }

    async fn call(&self, path: &str) -> u16 {
        self.server.get(path).bearer(&self.access).send().await.status
    }

    async fn refresh(&self) -> Answer {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", self.server.client("spa")),
            ("refresh_token", &self.refresh),
        ];
        self.server.post("/auth/token", &fields).send().await
    }

    async fn poll(&self) -> Answer {
        let fields = [
            ("grant_type", DEVICE_GRANT),
            ("client_id", self.server.client("cli")),
            ("device_code", &self.device),
        ];
        self.server.post("/auth/token", &fields).send().await
    }

    async fn introspect(&self, token: &str) -> Answer {
        let fields = [
            ("client_id", self.server.client("web")),
            ("client_secret", self.server.secret("web")),
            ("token", token),
        ];
        self.server.post("/auth/introspect", &fields).send().await
    }

    /// Everything works, and the answers are in the caches.
    async fn assert_in(&self) {
        for path in ["/api/subscription", "/api/user", "/auth/userinfo"] {
            assert_eq!(self.call(path).await, 200, "{path}");
        }
        assert_eq!(self.introspect(&self.access).await.json()["active"], true);
    }

    /// Nothing works, and the clock has not moved.
    async fn assert_out(&self) {
        for path in ["/api/subscription", "/api/user", "/auth/userinfo"] {
            assert_eq!(self.call(path).await, 401, "{path}");
        }
        assert_eq!(self.refresh().await.error(), (400, "invalid_grant".to_owned()));
        let polled = self.poll().await.error();
        assert!(polled.0 == 400 && ["invalid_grant", "access_denied"].contains(&&*polled.1), "{polled:?}");
        for token in [&self.access, &self.refresh] {
            let inactive = self.introspect(token).await;
            assert!(inactive.status == 401 || inactive.json() == json!({ "active": false }), "{inactive:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_organization_loses_everything_at_once() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    let owner = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let mut ada = SignedIn::ada(&server).await;
    ada.assert_in().await;
    let credentials = [
        ("grant_type", "client_credentials"),
        ("client_id", server.client("machine")),
        ("client_secret", server.secret("machine")),
    ];
    let machine = server.post("/auth/token", &credentials).send().await.text("access_token");
    let program = async || {
        let token = machine.as_str();
        let fields = [
            ("client_id", server.client("machine")),
            ("client_secret", server.secret("machine")),
            ("token", token),
        ];
        server.post("/auth/introspect", &fields).send().await.json()["active"].clone()
    };
    assert_eq!(program().await, true);
    let code = code(&mut ada.browser, &Ask::of(&server, "spa")).await;
    let pending = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;

    platform.change("PUT", "/api/platform/organizations/acme/suspension", json!({ "reason": "rent" })).await;
    ada.assert_out().await;
    assert_eq!(program().await, false);
    assert_ne!(server.post("/auth/token", &credentials).send().await.status, 200);
    let redeemed = redeem(&server, server.client("spa"), CALLBACK, &code).await;
    assert_eq!(redeemed.error(), (400, "invalid_grant".to_owned()));
    let asked = ada.browser.get(&Ask::of(&server, "spa").path()).await;
    assert_eq!(asked.redirect_param("error").as_deref(), Some("access_denied"), "{asked:?}");
    ada.browser.decide(&pending.text("user_code"), "allow").await;
    let late = SignedIn { device: pending.text("device_code"), ..ada };
    assert_ne!(late.poll().await.status, 200, "allowed after the suspension");
    for page in ["/o/acme/login", "/o/acme/signup", "/o/acme/link?token=x"] {
        assert_eq!(server.get(page).send().await.status, 403, "{page}");
    }
    let mut nobody = server.browser();
    let csrf = nobody.get("/activate").await.input("csrf");
    let password = server.password("ada@acme.test");
    let fields = [("csrf", &*csrf), ("email", "ada@acme.test"), ("password", password)];
    assert_eq!(nobody.post("/o/acme/login", &fields).await.status, 403);

    // Its administrators may look, and change nothing.
    let things = Things::of_acme(&owner).await;
    for (method, route) in routes("/api/organizations/{org}") {
        // Who administers it may still be changed, and what it is called: that needs no service.
        if route.contains("/administrators") || route.ends_with("{org}") {
            continue;
        }
        let answer = owner.call(method, &things.path("acme", route), &body(method, route, &things)).await;
        match method {
            "GET" => assert_eq!(answer.status, 200, "{route}: {answer:?}"),
            _ => assert_eq!(
                problem(&answer),
                is(409, "organization_not_active"),
                "{method} {route}: {answer:?}"
            ),
        }
    }
    // Others do not notice.
    assert_eq!(owner.call("GET", "/api/organizations/acme", &Value::Null).await.text("status"), "suspended");
    assert_eq!(platform.call("GET", "/api/platform/organizations", &Value::Null).await.status, 200);

    platform.change("DELETE", "/api/platform/organizations/acme/suspension", Value::Null).await;
    late.assert_in().await;
    assert_eq!(program().await, true);
    assert_eq!(late.refresh().await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_user_and_one_who_was_signed_out_lose_everything_at_once() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let things = Things::of_acme(&admin).await;
    let user = format!("/api/organizations/acme/users/{}", things.user);
    for (what, method, path) in [("suspension", "PUT", "suspension"), ("signing out", "DELETE", "sessions")] {
        let mut ada = SignedIn::ada(&server).await;
        let mut grace = server.browser();
        grace.sign_in("acme", "grace@acme.test").await;
        let code = code(&mut ada.browser, &Ask::of(&server, "spa")).await;
        ada.assert_in().await;
        let body = if method == "PUT" { json!({}) } else { Value::Null };
        admin.change(method, &format!("{user}/{path}"), body).await;
        ada.assert_out().await;
        assert_eq!(ada.browser.get("/o/acme/account").await.status, 303, "{what}: the browser is signed out");
        let redeemed = redeem(&server, server.client("spa"), CALLBACK, &code).await;
        assert_eq!(redeemed.error(), (400, "invalid_grant".to_owned()), "{what}");
        assert_eq!(grace.get("/o/acme/account").await.status, 200, "{what}: others stay");
        if method == "PUT" {
            assert_eq!(ada.browser.sign_in("acme", "ada@acme.test").await.status, 422);
            admin.change("DELETE", &format!("{user}/suspension"), Value::Null).await;
            ada.assert_out().await;
        }
        assert_eq!(ada.browser.sign_in("acme", "ada@acme.test").await.status, 303, "{what}");
    }
    // Whoever administers can be stopped too.
    let mut browser = server.browser();
    browser.sign_in("platform", "admin@acme.test").await;
    let store = &server.app.store;
    let sub = identity::ids::UserId::parse(text(&claims(&admin.token), "sub")).expect("a user");
    let actor = server.app.system();
    let suspended = store.write("test.suspend", move |tx| {
        let user = identity::users::get(tx.snapshot(), &sub)?;
        identity::users::suspend(tx, &user, None, &actor)
    });
    suspended.await.expect("suspends");
    assert_eq!(admin.call("GET", "/api/organizations/acme", &Value::Null).await.status, 401);
    assert_eq!(browser.get("/console").await.status, 303);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_one_of_its_own_organization_only() {
    let server = TestServer::start().await;
    globex(&server).await;
    let mut mallory = server.browser();
    let csrf = mallory.get("/o/globex/signup").await.input("csrf");
    let fields = [("csrf", &*csrf), ("email", "mallory@globex.test"), ("password", PASSWORD)];
    assert_eq!(mallory.post("/o/globex/signup", &fields).await.status, 303);
    let codes = server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send().await;
    let own =
        mallory.cookies.iter().find(|(name, _)| name == "sarsen_7070_globex").map(|(_, value)| value.clone());
    for name in ["sarsen_7070_acme", "sarsen_7070_platform"] {
        mallory.cookies.push((name.to_owned(), own.clone().expect("a session")));
    }
    let activate = format!("/activate?user_code={}", codes.text("user_code"));
    for path in [
        "/o/acme/account",
        "/console",
        &Ask::of(&server, "spa").path(),
        &Ask::by("console", CONSOLE).path(),
        &activate,
    ] {
        let answer = mallory.get(path).await;
        let location = answer.header("location");
        assert!(
            location.starts_with("/o/acme/login?") || location.starts_with("/login?"),
            "{path}: {answer:?}"
        );
    }
    assert_eq!(mallory.get("/o/globex/account").await.status, 200, "at home she is");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_slug_gets_into_the_way_of_another_cookie() {
    let server = TestServer::start().await;
    let platform = Admin::sign_in(&server, "owner@sarsen.test", "platform").await;
    platform.make("/api/organizations", json!({ "slug": "browser", "name": "Browser" })).await;
    let mut user = server.browser();
    for email in ["one@browser.test", "two@browser.test"] {
        let csrf = user.get("/o/browser/signup").await.input("csrf");
        let fields = [("csrf", &*csrf), ("email", email), ("password", PASSWORD)];
        assert_eq!(user.post("/o/browser/signup", &fields).await.status, 303);
        assert!(user.get("/o/browser/account").await.body.contains(email));
    }
    assert_eq!(user.sign_in("acme", "ada@acme.test").await.status, 303);
    assert_eq!(user.get("/o/browser/account").await.status, 200, "one browser, several organizations");
    server.stop().await;
}
