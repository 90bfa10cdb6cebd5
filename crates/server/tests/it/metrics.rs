//! `/metrics`: what it counts, that its text is right, and that the manual and the alert rules name what it has.

use crate::device::signed_in;
use crate::support::metric;
use server::testing::TestServer;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

const ALERTS: &str = include_str!("../../../../deploy/alerts.yaml");
const MANUAL: &str = include_str!("../../../../docs/operate/monitoring.md");
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The names of the page, from their types.
fn names(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
}

/// The name of a sample's metric: histograms have three kinds of samples.
fn metric_of<'n>(sample: &'n str, names: &BTreeSet<&str>) -> Option<&'n str> {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| sample.strip_suffix(suffix));
    [Some(sample), base].into_iter().flatten().find(|name| names.contains(name))
}

/// The words of a text that may be names of metrics.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sample_has_help_and_a_type_and_a_client_chooses_the_format() {
    let server = TestServer::start().await;
    server.get("/api/subscription").send().await;
    let plain = server.get("/metrics").send().await;
    assert_eq!(plain.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let names = names(&plain.body);
    let lines: Vec<&str> = plain.body.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].starts_with("# TYPE ")) {
        let (help, kind) = (pair[0].split(' ').collect::<Vec<_>>(), pair[1].split(' ').collect::<Vec<_>>());
        assert!(help[1] == "HELP" && help[2] == kind[2] && help.len() > 3, "{pair:?}");
        assert_eq!(kind[2].ends_with("_total"), kind[3] == "counter", "{pair:?}");
    }
    for line in lines.iter().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        assert!(metric_of(name, &names).is_some(), "{line}");
        let value = line.rsplit(' ').next().expect("a value");
        assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
    }
    let open =
        server.get("/metrics").header("accept", "application/openmetrics-text;version=1.0.0").send().await;
    assert_eq!(open.header("content-type"), OPENMETRICS);
    assert!(open.body.ends_with("# EOF\n") && open.body.contains("# TYPE sarsen_http_requests counter\n"));
    let version = format!("sarsen_build_info{{version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"));
    assert!(open.body.contains(&version) && plain.body.contains(&version));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_measured_by_route() {
    let server = TestServer::start().await;
    server.get("/api/subscription").send().await;
    server.get("/api/organizations/one").send().await;
    server.get("/api/organizations/two").send().await;
    server.get("/no/such/page").send().await;
    let count = |method: &str, route: &str| {
        format!("sarsen_http_request_duration_seconds_count{{method=\"{method}\",route=\"{route}\"}}")
    };
    assert_eq!(metric(&server, &count("GET", "/api/subscription")).await, 1);
    assert_eq!(
        metric(&server, &count("GET", "/api/organizations/{org}")).await,
        2,
        "no series for each path"
    );
    assert_eq!(metric(&server, &count("-", "-")).await, 1);
    let refused = "sarsen_http_requests_total{method=\"GET\",route=\"/api/subscription\",status=\"4xx\"}";
    assert_eq!(metric(&server, refused).await, 1);
    let body = server.get("/metrics").send().await.body;
    assert!(!body.contains("route=\"/auth/token\""), "a route that nobody used has no samples");
    let of_route = |line: &&str| line.starts_with("sarsen_http_requests_total{");
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok());
    let total: u64 = body.lines().filter(of_route).filter_map(value).sum();
    let answers = body.lines().filter(|line| line.starts_with("sarsen_http_answers_total{"));
    assert_eq!(answers.filter_map(value).sum::<u64>(), total, "both count every response");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_passwords_and_housekeeping_are_measured() {
    let server = TestServer::start().await;
    assert_eq!(metric(&server, "sarsen_ready").await, 1);
    assert_eq!(metric(&server, "sarsen_housekeeping_last_success_timestamp_seconds").await, 0);
    assert!(server.tidy().await.expect("housekeeping"));
    assert!(metric(&server, "sarsen_housekeeping_last_success_timestamp_seconds").await > 1_000_000_000);
    for (earlier, later) in [
        ("sarsen_store_commits_total", "sarsen_store_commit_duration_seconds_count"),
        ("sarsen_store_batches_total", "sarsen_store_commits_total"),
    ] {
        let before = metric(&server, earlier).await;
        assert!(before > 0 && metric(&server, later).await >= before, "{earlier}");
    }
    let waits = "sarsen_store_queue_wait_seconds_count{queue=\"commands\"}";
    assert!(metric(&server, waits).await > 0);
    assert!(metric(&server, "sarsen_store_write_duration_seconds_count").await > 0);
    signed_in(&server, "ada@acme.test").await;
    assert_eq!(metric(&server, "sarsen_password_checks_total{result=\"right\"}").await, 1);
    assert_eq!(metric(&server, "sarsen_lane_wait_seconds_count{lane=\"hash\"}").await, 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manual_names_every_metric_and_no_other() {
    let server = TestServer::start().await;
    let page = server.get("/metrics").send().await.body;
    let quoted = MANUAL.split('`').skip(1).step_by(2).filter_map(|code| words(code).next());
    let manual: BTreeSet<&str> =
        quoted.filter(|word| word.starts_with("sarsen_") && !word.ends_with('_')).collect();
    assert_eq!(manual, names(&page));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn alert_rules_name_metrics_that_exist_and_the_manual_says_what_to_do() {
    let server = TestServer::start().await;
    let page = server.get("/metrics").send().await.body;
    let names = names(&page);
    let field = |name: &'static str| ALERTS.lines().filter_map(move |line| line.trim().strip_prefix(name));
    let (alerts, expressions): (Vec<_>, Vec<_>) = (field("- alert: ").collect(), field("expr: ").collect());
    assert!(
        alerts.len() > 20 && alerts.len() == expressions.len(),
        "each rule has its expression on one line"
    );
    for (alert, expression) in alerts.iter().zip(expressions) {
        assert!(MANUAL.contains(&format!("`{alert}`")), "{alert} is not in docs/operate/monitoring.md");
        // Those of back ends are tested there.
        let prefix = |word: &&str| {
            ["sarsen_", "live_", "store_", "http_"].iter().any(|prefix| word.starts_with(prefix))
        };
        let named: Vec<&str> = words(expression).filter(prefix).collect();
        assert!(!named.is_empty() || expression.starts_with("up{"), "{alert} names no metric");
        for name in named.into_iter().filter(|name| name.starts_with("sarsen_")) {
            assert!(metric_of(name, &names).is_some(), "{alert} names {name}, which is not on the page");
        }
    }
    server.stop().await;
}

/// Runs `promtool check …` over an input.
fn promtool(check: &[&str], input: &str) {
    let mut promtool = Command::new("promtool");
    let promtool = promtool.arg("check").args(check).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut promtool = promtool.stderr(Stdio::piped()).spawn().expect("promtool runs");
    promtool.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    let output = promtool.wait_with_output().expect("it ends");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{check:?}: {said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs promtool, of the Debian package prometheus"]
async fn soak_promtool_accepts_the_page_and_the_alert_rules() {
    let server = TestServer::start().await;
    server.get("/api/subscription").send().await;
    let page = server.get("/metrics").send().await.body;
    // Names that go with the next release have no standard unit.
    let deprecated: Vec<&str> = page
        .lines()
        .filter(|line| line.contains(" Deprecated: "))
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    let is_kept = |line: &&str| !deprecated.iter().any(|name| words(line).any(|word| word == *name));
    let kept: String = page.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    assert_eq!(names(&page).len(), names(&kept).len() + deprecated.len());
    promtool(&["metrics"], &kept);
    promtool(&["rules", concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/alerts.yaml")], "");
    server.stop().await;
}
