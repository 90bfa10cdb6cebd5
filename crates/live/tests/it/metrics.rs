//! `/metrics` of a back end: the alert rules and the manual name what it has.

use crate::app::start;
use crate::client::Client;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

const ALERTS: &str = include_str!("../../../../deploy/alerts.yaml");
const MANUAL: &str = include_str!("../../../../docs/operate/monitoring.md");

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
}

#[tokio::test(flavor = "multi_thread")]
async fn alert_rules_and_the_manual_name_the_metrics_of_a_back_end() {
    let server = start().await;
    let ada = Client::new(server.running.address, "ada");
    let page = ada.send("GET", "/metrics", &[], "").body;
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    let quoted: BTreeSet<&str> =
        MANUAL.split('`').skip(1).step_by(2).filter_map(|code| words(code).next()).collect();
    for name in &names {
        let shared = format!("sarsen_{name}");
        assert!(quoted.contains(name) || quoted.contains(&*shared), "{name} is not in the manual");
    }
    let is_ours = |word: &&&str| word.starts_with("live_");
    assert_eq!(
        quoted.iter().filter(is_ours).collect::<Vec<_>>(),
        names.iter().filter(is_ours).collect::<Vec<_>>()
    );
    let expressions = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let named: Vec<&str> = expressions
        .flat_map(words)
        .filter(|word| ["live_", "store_", "http_"].iter().any(|prefix| word.starts_with(prefix)))
        .collect();
    assert!(named.len() >= 6, "{named:?}");
    // Only on some databases.
    let elsewhere = |name: &&str| *name != "store_replica_lag_seconds";
    for name in named.into_iter().filter(elsewhere) {
        let base = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(names.contains(base), "an alert names {name}, which is not on the page");
    }
    for sample in [
        "live_ready 1\n",
        "live_sessions_fresh 1\n",
        "http_request_duration_seconds_count{route=\"/metrics\"} ",
        "live_build_info{version=\"",
    ] {
        let page = ada.send("GET", "/metrics", &[], "").body;
        assert!(page.contains(sample), "{sample} is not in\n{page}");
    }
    server.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs promtool, of the Debian package prometheus"]
async fn soak_promtool_accepts_the_page_of_a_back_end() {
    let server = start().await;
    let page = Client::new(server.running.address, "ada").send("GET", "/metrics", &[], "").body;
    let mut promtool = Command::new("promtool");
    let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("promtool runs");
    promtool.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("written");
    let output = promtool.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.running.stop().await;
}
