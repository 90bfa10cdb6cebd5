//! The workloads of `sarsen bench` on the examples, for a second each: every answer is accepted, every event arrives.

use crate::client::TestApp;
use clap::Parser;
use live::Settings;
use live::auth::LocalIssuer;
use serde_json::{Value, json};
use store::testing::TestPlace;

#[derive(Parser)]
struct Bench {
    #[command(subcommand)]
    workload: bench::Command,
}

/// Runs the workload against the app and returns its JSON.
async fn measure(app: &TestApp, line: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("result.json");
    let line = format!("bench {line} --url http://{} --json {}", app.address, json.display());
    let Bench { workload } = Bench::try_parse_from(line.split_whitespace()).expect("a valid command");
    let run = move || bench::run(workload, bench::Launcher::new("sarsen"));
    tokio::task::spawn_blocking(run).await.expect("no panic").expect("the workload succeeds");
    serde_json::from_slice(&std::fs::read(json).expect("a result")).expect("JSON")
}

fn assert_all_accepted(run: &Value) {
    for what in ["failures", "refusals", "warm_up_failures"] {
        assert_eq!(run[what], json!([]), "{what}");
    }
    assert!(run["total"]["accepted"].as_u64() > Some(0), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn durable_writes() {
    let app = TestApp::start(request_log::app()).await;
    let report = measure(&app, "writes --connections 1,16 --duration 500ms --warmup 100ms").await;
    report["levels"].as_array().expect("levels").iter().for_each(assert_all_accepted);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saved_answers() {
    let place = TestPlace::create();
    let settings = Settings::new(place.url(), ([127, 0, 0, 1], 0).into());
    exam_attempts::seed(&settings, 200).await.expect("filled");
    let app = TestApp::start_on(place, exam_attempts::app()).await;
    let line = "attempts --rates 50 --attempts 200 --connections 8 --duration 1s --warmup 100ms";
    let report = measure(&app, line).await;
    assert_all_accepted(&report["rates"]["runs"][0]);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn live_queries() {
    let app = TestApp::start(counters::with_issuer(
        counters::app(),
        LocalIssuer::temporary("counters").expect("an issuer"),
    ))
    .await;
    let line = "live --users 12 --step 12 --connections 24 --counters 4 --interval 100ms --duration 1s --warmup 200ms";
    let report = measure(&app, line).await;
    for level in report["levels"].as_array().expect("levels") {
        assert_all_accepted(&level["run"]);
        assert_eq!(level["stream_failures"], json!({}));
        assert!(level["write_to_frame_count"].as_u64() > Some(0), "{level}");
    }
    assert_eq!(report["end_state"]["watchers"], 24);
    app.stop().await;
}
