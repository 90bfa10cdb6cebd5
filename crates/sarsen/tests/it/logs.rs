//! Logs are shown to others: they have no secrets and no e-mail addresses.

use crate::browser::Browser;
use crate::support::{Demo, Place, Running};
use crate::survival::traffic::{DeviceClient, TokenAnswer, allow, sign_in, text_at};
use server::testing::TestPlace;

/// The addresses that `localhost` may have.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];

/// The spellings of a secret: as it is, percent-encoded, without dashes, and the secret half of `<id>.<secret>`.
fn spellings(secret: &str) -> Vec<String> {
    let encoded: String = form_urlencoded::byte_serialize(secret.as_bytes()).collect();
    let half = secret.rsplit('.').next().unwrap_or_default();
    vec![secret.to_owned(), encoded, half.to_owned(), secret.replace('-', "")]
}

fn introspect(demo: &Demo, token: &str) -> String {
    let own = |field: &str| demo.text(&format!("/clients/web/{field}"));
    let form = [("client_id", own("client_id")), ("client_secret", own("client_secret")), ("token", token)];
    let answer = ureq::post(format!("{}/auth/introspect", demo.issuer())).send_form(form).expect("an answer");
    answer.into_body().read_to_string().expect("text")
}

#[test]
fn a_log_of_everything_holds_no_secret_and_no_e_mail_address() {
    let (place, database) = (Place::new(), TestPlace::create());
    let mut command = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", "127.0.0.1:0"]);
    command.args(["--database", &database.url()]).env("SARSEN_LOG", "trace");
    command.env("SARSEN_REQUEST_LOG", "true");
    let mut running = Running::start(command, place.path("demo.log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    let demo = Demo { running, says };
    let terminal = DeviceClient::new(&demo.says);
    let mut secrets: Vec<String> = Vec::new();

    let mut ada = Browser::new(demo.issuer());
    let page = ada.open("/o/acme/login?email=ada%40acme.test");
    let wrong = [("email", "ada@acme.test"), ("password", "a-wrong-password-of-hers")];
    assert!(ada.submit(&page, "/o/acme/login", &wrong).text.contains("password"));
    let page = ada.open("/o/acme/signup");
    let taken = [("name", "Ada"), ("email", "ada@acme.test"), ("password", "another-password-of-hers")];
    assert!(ada.submit(&page, "/o/acme/signup", &taken).text.contains("password"));
    sign_in(&mut ada, &demo.says);
    secrets.extend([wrong[1].1, taken[2].1].map(str::to_owned));
    secrets.extend(["/users/0/password", "/clients/web/client_secret"].map(|at| text_at(&demo.says, at)));

    let codes = terminal.post("/auth/device/code", &[("scope", "openid profile email offline_access")]);
    let codes = codes.expect("an answer");
    let device_code = codes.given("device_code");
    assert_eq!(terminal.redeem(&device_code).expect("an answer").text("error"), "authorization_pending");
    allow(&mut ada, &codes.given("user_code"));
    let tokens = terminal.redeem(&device_code).expect("an answer");
    let next = terminal.refresh(&tokens.given("refresh_token")).expect("an answer");
    assert!(introspect(&demo, &next.given("access_token")).contains("active"));
    let last = terminal.refresh(&next.given("refresh_token")).expect("an answer");
    // A used refresh token is logged as a warning, and its grant is revoked.
    assert_eq!(terminal.refresh(&tokens.text("refresh_token")).expect("an answer").status, 400);
    assert_eq!(terminal.revoke(&last.given("refresh_token")).expect("an answer").status, 200);
    let text = |answer: &TokenAnswer, name: &str| answer.given(name);
    secrets.extend([text(&codes, "user_code"), device_code, text(&tokens, "id_token")]);
    for answer in [&tokens, &next, &last] {
        secrets.extend(["access_token", "refresh_token"].map(|name| text(answer, name)));
    }
    assert!(ada.cookies().count() > 0, "ada is signed in");
    secrets.extend(ada.cookies().map(str::to_owned));

    let log = place.path("demo.log");
    assert_eq!(demo.running.stop(), 0);
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("its grant was revoked"), "{log}");
    assert!(log.contains(r#"method=POST route="/o/{slug}/login" status=422"#), "{log}");
    let addresses = ["ada@", "ada%40", "@acme", "%40acme"].map(str::to_owned);
    for spelling in secrets.iter().flat_map(|secret| spellings(secret)).chain(addresses) {
        assert!(spelling.len() > 3 && !log.contains(&spelling), "{spelling:?} stands in\n{log}");
    }
}

#[test]
fn an_address_from_a_proxy_that_is_not_trusted_is_a_warning_once_an_hour() {
    let place = Place::new();
    let mut command = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", "127.0.0.1:0"]);
    command.env("SARSEN_LOG", "warn");
    let mut running = Running::start(command, place.path("demo.log"));
    let says: serde_json::Value = serde_json::from_str(&running.line()).expect("a line of JSON");
    let page = format!("{}/o/acme/login", text_at(&says, "/issuer"));
    for _ in 0..3 {
        let asked = ureq::get(&page).header("x-forwarded-for", "203.0.113.9").call().expect("a page");
        assert_eq!(asked.status(), 200);
    }
    assert_eq!(running.stop(), 0);
    let log = std::fs::read_to_string(place.path("demo.log")).expect("a log");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("X-Forwarded-For")).collect();
    let is_warning = |line: &str| {
        line.contains("trusted_proxies")
            && LOOPBACK.iter().any(|address| line.contains(&format!("peer={address} ")))
    };
    assert!(matches!(lines[..], [line] if is_warning(line)), "{log}");
}

#[test]
fn the_request_log_has_a_line_for_each_request_without_its_query() {
    let place = Place::new();
    let mut command = place.sarsen(&["demo", "--json", "--data", "demo", "--listen", "127.0.0.1:0"]);
    command.env("SARSEN_LOG", "warn,request=info").env("SARSEN_REQUEST_LOG", "true");
    let mut running = Running::start(command, place.path("demo.log"));
    let says = serde_json::from_str(&running.line()).expect("a line of JSON");
    let demo = Demo { running, says };
    let client = demo.text("/clients/cli/client_id").to_owned();
    let get = |path: &str, id: &str| {
        let answer = ureq::get(format!("{}{path}", demo.issuer())).header("x-request-id", id).call();
        answer.map_or(0, |answer| answer.status().as_u16())
    };
    get("/o/acme/login?login_hint=ada-in-the-query", "the-first");
    get("/api/user?token=secret-in-the-query", "the-second");
    get("/secret-in-the-path", "the-third");
    let form = [("client_id", client.as_str()), ("scope", "openid")];
    ureq::post(format!("{}/auth/device/code", demo.issuer())).send_form(form).expect("codes");
    let log = place.path("demo.log");
    assert_eq!(demo.running.stop(), 0);
    let log = std::fs::read_to_string(log).expect("a log");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" request: ")).collect();
    let has = |parts: &[&str]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(
        has(&["method=GET", r#"route="/o/{slug}/login""#, "status=200", r#"request_id="the-first""#]),
        "{log}"
    );
    let of_user =
        |address| has(&[r#"route="/api/user""#, "status=401", "the-second", &format!("address={address}")]);
    assert!(LOOPBACK.into_iter().any(of_user), "{log}");
    assert!(has(&[r#"route="-""#, "status=404", "the-third"]), "{log}");
    let device =
        ["method=POST", r#"route="/auth/device/code""#, "duration_ms=", &format!("client=\"{client}\"")];
    assert!(has(&device), "{log}");
    assert_eq!(lines.len(), 4, "{log}");
    assert!(!log.contains("in-the-"), "{log}");
}
