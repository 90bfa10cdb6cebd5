//! The closed and the open loop against servers that answer, refuse, send wrong bodies, close and stall.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::http::{Connection, RequestDraft, Target};
use bench::load::{Monitored, Plan, measure};
use bench::report::{RunReport, render};
use bench::workloads::FloorLoad;

use crate::http_server::{Answer, Asked, serve};

fn plan(users: usize, duration_ms: u64) -> Plan {
    Plan {
        users,
        think: Duration::ZERO,
        rate: None,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(duration_ms),
        timeout: Duration::from_secs(5),
        seed: 1,
    }
}

fn load(plan: &Plan, answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> RunReport {
    let target = Target::parse(&format!("http://{}", serve(answer))).unwrap();
    load_target(plan, target)
}

fn load_target(plan: &Plan, target: Target) -> RunReport {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let load = Rc::new(FloorLoad::new(&target));
        measure("floor", &[target], &Monitored::default(), plan, load).await
    })
}

fn only_cause(report: &RunReport) -> &str {
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    &report.failures[0].cause
}

#[test]
fn a_closed_loop_counts_what_the_server_counts() {
    let served = Arc::new(AtomicUsize::new(0));
    let counter = served.clone();
    let report = load(&plan(8, 400), move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Answer::new(200, "", "ok")
    });
    let served = served.load(Ordering::Relaxed) as u64;
    assert!(report.total.accepted > 100, "{}", report.total.accepted);
    // The server has also seen the warm-up.
    assert!(report.total.accepted <= served);
    assert_eq!(report.not_accepted(), 0);
    assert!(render(&report).contains("failures: none"));
}

#[test]
fn think_time_is_kept() {
    let plan = Plan { think: Duration::from_millis(100), ..plan(10, 500) };
    let report = load(&plan, |_| Answer::new(200, "", "ok"));
    let rate = report.total.per_second;
    assert!((50.0..=101.0).contains(&rate), "10 users that think 100 ms: at most 100 a second, not {rate}");
}

#[test]
fn a_connection_that_the_server_closes_after_an_answer_is_no_failure() {
    let report = load(&plan(4, 300), |_| Answer::new(200, "Connection: close\r\n", "ok"));
    assert!(report.total.accepted > 20);
    assert_eq!(report.not_accepted(), 0);
}

#[test]
fn each_way_to_fail_has_its_name() {
    let hang_up = load(&plan(2, 300), |_| Answer::HangUp);
    assert!(["closed without an answer", "reset"].contains(&only_cause(&hang_up)));
    let wrong = load(&plan(2, 300), |_| Answer::new(200, "", "not ok"));
    assert_eq!(only_cause(&wrong), "bad body: not ok");
    let problem = r#"{"type":"about:blank","status":500,"code":"internal_error"}"#;
    let broken = load(&plan(2, 300), move |_| Answer::new(500, "", problem));
    assert_eq!(only_cause(&broken), "500 internal_error");
    // Without Retry-After it is a failure.
    let rude = load(&plan(2, 300), |_| Answer::new(503, "", r#"{"error":"temporarily_unavailable"}"#));
    assert_eq!(only_cause(&rude), "503 temporarily_unavailable");
    let gibberish = load(&plan(2, 300), |_| Answer::Raw(b"SSH-2.0-hello\r\n\r\n".to_vec()));
    assert_eq!(only_cause(&gibberish), "not HTTP: head is not HTTP/1.1");
    let chatty = load(&plan(1, 300), |_| {
        Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n".to_vec())
    });
    assert_eq!(only_cause(&chatty), "unexpected bytes");
}

#[test]
fn a_closed_port_is_a_failure_by_name() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let report = load_target(&plan(2, 300), Target::parse(&format!("http://{unused}")).unwrap());
    assert_eq!(only_cause(&report), "connect: refused");
    assert_eq!(report.total.accepted, 0);
}

#[test]
fn a_refusal_is_honoured() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let report = load(&plan(3, 600), move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Answer::new(503, "Retry-After: 2\r\n", r#"{"code":"overloaded"}"#)
    });
    assert_eq!(asked.load(Ordering::Relaxed), 3, "each user asks once and stays away for two seconds");
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert!(report.warm_up_failures.iter().all(|row| row.cause == "503 overloaded"));
}

#[test]
fn an_open_loop_keeps_its_schedule() {
    let plan = Plan { rate: Some(400.0), ..plan(8, 1_000) };
    let report = load(&plan, |_| Answer::new(200, "", "ok"));
    // A request of the warm-up may be in flight when the window opens.
    assert!((400..=404).contains(&report.total.count), "{}", report.total.count);
    assert_eq!(report.not_accepted(), 0);
}

/// A server that stalls once for half a second delays all operations that are scheduled meanwhile, not just one.
#[test]
fn a_stall_delays_all_operations_that_are_scheduled_meanwhile() {
    const STALL: Duration = Duration::from_millis(500);
    let begun = Instant::now();
    let stalled = Mutex::new(false);
    let plan = Plan { rate: Some(200.0), ..plan(1, 1_000) };
    let report = load(&plan, move |_| {
        let ok = Answer::new(200, "", "ok");
        let mut stalled = stalled.lock().unwrap();
        if !*stalled && begun.elapsed() > Duration::from_millis(300) {
            *stalled = true;
            return Answer::After(STALL, Box::new(ok));
        }
        ok
    });
    assert!((200..=202).contains(&report.total.count), "{}", report.total.count);
    let latency = report.total.latency;
    assert!(latency.max_us >= 490_000, "{latency:?}");
    // Half of the operations fall into the stall, and the median one of these waits about a quarter second.
    assert!(latency.p90_us >= 250_000, "{latency:?}");
}

#[test]
fn a_dead_server_cannot_hide() {
    for rate in [None, Some(100.0)] {
        let plan = Plan { rate, timeout: Duration::from_millis(300), ..plan(4, 500) };
        let report = load(&plan, |_| Answer::Silence);
        assert_eq!(report.total.accepted, 0);
        assert!(report.total.failed > 0);
        assert!(report.failures.iter().any(|row| row.cause == "timeout"), "{:?}", report.failures);
        assert!(report.failures.iter().all(|row| row.is_wait), "{:?}", report.failures);
        assert!(report.total.latency.p50_us >= 290_000, "{:?}", report.total.latency);
    }
}

#[test]
fn sources_spread_over_the_loopback() {
    let target = Target::parse("http://127.0.0.1:80").unwrap();
    assert_eq!(target.source(9_999), None);
    assert_eq!(target.source(10_000).unwrap().to_string(), "127.0.0.2");
    assert_eq!(target.source(29_999).unwrap().to_string(), "127.0.0.3");
}

#[test]
fn a_connection_from_another_source_works() {
    let target = Target::parse(&format!("http://{}", serve(|_| Answer::new(200, "", "ok")))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let patience = Duration::from_secs(5);
        let mut connection = Connection::open(&target, 20_000, patience).await.unwrap();
        let request = RequestDraft::get("/").encode(&target.host);
        connection.exchange(&request, patience).await.unwrap();
        assert_eq!(connection.response().unwrap().body, b"ok");
        assert!(!connection.is_closed());
    });
}

#[test]
fn names_of_targets() {
    let target = Target::parse("http://localhost:7070/").unwrap();
    assert_eq!((target.host.as_str(), target.address.ip().is_loopback()), ("localhost:7070", true));
    let named = target.under_name("https://auth.example.com/");
    assert_eq!(
        (named.address, named.host.as_str(), named.origin.as_str()),
        (target.address, "auth.example.com", "https://auth.example.com")
    );
    for wrong in ["https://localhost", "localhost:1", "http://", "http://a/b", "http://u@localhost"] {
        assert!(Target::parse(wrong).is_err(), "{wrong}");
    }
}
