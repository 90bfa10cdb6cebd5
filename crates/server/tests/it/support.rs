//! Short words for what stories need beside `TestServer`: a client that sends people here for a code, the
//! tokens of those who administer, and what they make.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use identity::secrets;
use serde_json::{Value, json};
use server::testing::{Answer, Request, TestBrowser, TestServer};
use std::sync::mpsc::Sender;
use tokio::task::JoinHandle;

/// Where the demo's `web` and `spa` listen for codes.
pub const CALLBACK: &str = "http://127.0.0.1:9999/callback";
/// Where the console does.
pub const CONSOLE: &str = "http://127.0.0.1:7070/console";
/// The PKCE verifier of every request.
pub const VERIFIER: &str = "a-verifier-that-is-long-enough-for-RFC-7636";
/// What the issuer is.
pub const ISSUER: &str = "http://127.0.0.1:7070";

/// An authorization request that is being made: complete and right until the test changes it.
#[derive(Clone)]
pub struct Ask(Vec<(String, String)>);

impl Ask {
    /// As one of the demo's clients would ask.
    pub fn of(server: &TestServer, client: &str) -> Ask {
        Ask::by(server.client(client), CALLBACK)
    }

    /// As any client would.
    pub fn by(client_id: &str, redirect_uri: &str) -> Ask {
        let challenge = URL_SAFE_NO_PAD.encode(secrets::hash(VERIFIER.as_bytes()));
        let fields = [
            ("response_type", "code"),
            ("client_id", client_id),
            ("redirect_uri", redirect_uri),
            ("scope", "openid profile email"),
            ("state", "the-state"),
            ("nonce", "the-nonce"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        Ask(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }

    /// With another value for a parameter, or one parameter more.
    pub fn with(mut self, name: &str, value: &str) -> Ask {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    /// Without a parameter.
    pub fn without(mut self, name: &str) -> Ask {
        self.0.retain(|(known, _)| known != name);
        self
    }

    /// The parameters as a form.
    pub fn query(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }

    /// Where to send the user.
    pub fn path(&self) -> String {
        format!("/auth/authorize?{}", self.query())
    }

    /// The parameters as fields of a POST.
    pub fn fields(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// The code that a user who is signed in brings home.
pub async fn code(browser: &mut TestBrowser<'_>, ask: &Ask) -> String {
    let answer = browser.get(&ask.path()).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.redirect_param("code").unwrap_or_else(|| panic!("a code: {answer:?}"))
}

/// A public client redeems a code.
pub async fn redeem(server: &TestServer, client_id: &str, redirect_uri: &str, code: &str) -> Answer {
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", client_id),
        ("redirect_uri", redirect_uri),
        ("code", code),
        ("code_verifier", VERIFIER),
    ];
    server.post("/auth/token", &fields).send().await
}

/// A user signs in at the demo's organization and his tokens go to the client `spa`.
pub async fn tokens(server: &TestServer, email: &str, scope: &str) -> Answer {
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("acme", email).await.status, 303);
    tokens_of(server, &mut browser, &Ask::of(server, "spa").with("scope", scope)).await
}

/// The tokens that a public client gets for a user who is signed in.
pub async fn tokens_of(server: &TestServer, browser: &mut TestBrowser<'_>, ask: &Ask) -> Answer {
    until_both_keys_sign(server).await;
    let code = code(browser, ask).await;
    let fields = ask.fields();
    let own = |name: &str| fields.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
    let answer = redeem(server, own("client_id"), own("redirect_uri"), &code).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// The access token of somebody who administers, for a scope like `org:acme` or `platform`.
pub async fn admin_token(server: &TestServer, email: &str, scope: &str) -> String {
    let mut browser = server.browser();
    assert_eq!(browser.sign_in("platform", email).await.status, 303);
    let ask = Ask::by("console", CONSOLE).with("scope", scope);
    tokens_of(server, &mut browser, &ask).await.text("access_token")
}

/// ID tokens are signed by an RSA key, which is made in the background.
pub async fn until_both_keys_sign(server: &TestServer) {
    while server.get("/.well-known/jwks.json").send().await.json()["keys"].as_array().map(Vec::len) < Some(2)
    {
        tokio::task::yield_now().await;
    }
}

/// Somebody who administers, with a token.
pub struct Admin<'s> {
    pub server: &'s TestServer,
    pub token: String,
}

impl<'s> Admin<'s> {
    /// Signs in for a scope.
    pub async fn sign_in(server: &'s TestServer, email: &str, scope: &str) -> Admin<'s> {
        Admin { server, token: admin_token(server, email, scope).await }
    }

    /// A request with his token.
    pub fn request(&self, method: &str, path: &str) -> Request<'s> {
        self.server.request(method, path).bearer(&self.token)
    }

    /// The answer to a request, with a JSON body unless it is null.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = self.request(method, path);
        let request = if body.is_null() { request } else { request.json(body) };
        request.send().await
    }

    /// Reads something that is there.
    pub async fn read(&self, path: &str) -> Value {
        let answer = self.call("GET", path, &Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Makes something, and gives it as it was shown.
    pub async fn make(&self, path: &str, body: Value) -> Value {
        let answer = self.call("POST", path, &body).await;
        assert_eq!(answer.status, 201, "{path}: {answer:?}");
        answer.json()
    }

    /// Changes something.
    pub async fn change(&self, method: &str, path: &str, body: Value) -> Answer {
        let answer = self.call(method, path, &body).await;
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer
    }

    /// Makes a client of the demo's service `sketch`.
    pub async fn make_client(&self, kind: &str, redirect_uris: &[&str]) -> Value {
        let body =
            json!({ "service": "sketch", "kind": kind, "name": "A client", "redirect_uris": redirect_uris });
        self.make("/api/organizations/acme/clients", body).await
    }
}

/// The owner of the server, who administers this organization, lets people create accounts at it.
pub async fn open_sign_up(server: &TestServer, organization: &str) {
    let owner = Admin::sign_in(server, "owner@sarsen.test", &format!("org:{organization}")).await;
    let path = format!("/api/organizations/{organization}");
    let changed = owner.change("PATCH", &path, json!({ "sign_up": true })).await;
    assert_eq!(changed.json()["sign_up"], true);
}

/// Where the invitations of the demo's organization are.
pub const INVITATIONS: &str = "/api/organizations/acme/invitations";

impl Admin<'_> {
    /// Invites somebody; the path of the link.
    pub async fn invite(&self, email: &str, role: &str) -> String {
        path_of(text(&self.make(INVITATIONS, json!({ "email": email, "role": role })).await, "url"))
    }
}

/// Opens the link of an invitation in a browser; the page that it leads to.
pub async fn open_invitation(browser: &mut TestBrowser<'_>, link: &str) -> Answer {
    let opened = browser.get(link).await;
    assert_eq!((opened.status, opened.header("location")), (303, "/invitation"), "{opened:?}");
    browser.get("/invitation").await
}

/// Opens the link of an invitation and creates an account with this password; the answer to the form.
pub async fn accept_as_new(browser: &mut TestBrowser<'_>, link: &str, password: &str) -> Answer {
    let page = open_invitation(browser, link).await;
    send_invitation(browser, &page, &[("name", "Somebody New"), ("password", password)]).await
}

/// Opens a link whose secret moves into a cookie of the browser; the page, or why there is none.
pub async fn open_link(browser: &mut TestBrowser<'_>, link: &str) -> Answer {
    let opened = browser.get(link).await;
    match opened.header("location").to_owned() {
        here if here.is_empty() => opened,
        here => {
            assert!(opened.status == 303 && link.starts_with(&format!("{here}?token=")), "{opened:?}");
            assert_eq!(opened.header("referrer-policy"), "no-referrer");
            browser.get(&here).await
        }
    }
}

/// Opens the link of a sign-in and sends its form; the answer to the form.
pub async fn use_sign_in_link(browser: &mut TestBrowser<'_>, link: &str) -> Answer {
    let page = open_link(browser, link).await;
    let fields = [("csrf", &*page.input("csrf")), ("link", &*page.input("link"))];
    browser.post("/o/acme/link", &fields).await
}

/// Sends the form of an invitation, as its page has it but for these fields.
pub async fn send_invitation(browser: &mut TestBrowser<'_>, page: &Answer, typed: &[(&str, &str)]) -> Answer {
    let (csrf, invitation) = (page.input("csrf"), page.input("invitation"));
    let fields = [&[("csrf", &*csrf), ("invitation", &*invitation)], typed].concat();
    browser.post("/invitation", &fields).await
}

/// What the metrics say.
pub async fn metric(server: &TestServer, name: &str) -> u64 {
    let text = server.get("/metrics").send().await.body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
}

/// The header `WWW-Authenticate` of a refusal. On the API it names the metadata too (RFC 9728 section 5.1).
pub fn challenge(path: &str, error: Option<&str>) -> String {
    let error = error.map(|error| format!("error=\"{error}\""));
    let metadata = format!("resource_metadata=\"{ISSUER}/.well-known/oauth-protected-resource/api\"");
    let parts: Vec<String> = error.into_iter().chain(path.starts_with("/api/").then_some(metadata)).collect();
    format!("Bearer {}", parts.join(", ")).trim_end().to_owned()
}

/// What comes after the issuer in a link.
pub fn path_of(url: &str) -> String {
    url.strip_prefix(ISSUER).expect("an address of ours").to_owned()
}

/// A text field of a JSON object.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// The claims of a token, unverified.
pub fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
    payload.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

/// A command on each of a server's writers, which does not end before the test says so: those that come after it wait.
pub struct HeldWriters(Vec<HeldWriter>);

struct HeldWriter {
    release: Sender<()>,
    command: JoinHandle<Result<(), store::Error>>,
}

impl HeldWriters {
    pub async fn of(server: &TestServer) -> HeldWriters {
        let writers = match store::testing::kind() {
            store::testing::Kind::Sqlite => 1,
            _ => store::Options::new("", &[]).writers,
        };
        let mut all = Vec::new();
        for _ in 0..writers {
            let (release, released) = std::sync::mpsc::channel::<()>();
            let (started, has_started) = tokio::sync::oneshot::channel::<()>();
            let command = std::sync::Mutex::new((released, Some(started)));
            let store = server.app.store.clone();
            let holding = tokio::spawn(async move {
                let held = store.write("test.hold", move |_| {
                    let mut command = command.lock().expect("one holds it");
                    command.1.take().map(|started| started.send(()));
                    // It ends when the test lets go of the other end.
                    let _ = command.0.recv();
                    Ok::<_, store::Error>(())
                });
                held.await
            });
            has_started.await.expect("the writer is busy");
            all.push(HeldWriter { release, command: holding });
        }
        HeldWriters(all)
    }

    pub async fn release(self) {
        for held in self.0 {
            drop(held.release);
            held.command.await.expect("ends").expect("commits");
        }
    }
}
