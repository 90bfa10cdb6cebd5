//! A full server: it says so quickly, and nothing is lost by asking again.

use super::{reads, refresh, token};
use crate::device::{ada_allows, ada_on_a_device, codes, error, poll, refusal};
use crate::support::{Ask, CONSOLE, HeldWriters, code, redeem};
use identity::clients;
use server::WriterLimits;
use server::testing::{TestServer, at_once};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A database so slow that a handful of commands fill it.
fn slow() -> WriterLimits {
    WriterLimits {
        batch_max: 1,
        commit_delay: Duration::from_millis(60),
        deadline: Duration::from_millis(300),
        ..WriterLimits::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_says_so_and_when_to_come_back() {
    let server = TestServer::start_on(slow()).await;
    let asked = || server.post("/auth/device/code", &[("client_id", server.client("cli"))]).send();
    let answers = at_once((0..40).map(|_| asked())).await;
    let (given, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
    assert!(!given.is_empty() && !refused.is_empty(), "{answers:?}");
    for answer in refused {
        assert_eq!(refusal(answer), error(503, "temporarily_unavailable"));
        let wait: u32 = answer.header("retry-after").parse().expect("whole seconds");
        assert!((1..10).contains(&wait), "{answer:?}");
    }

    let first = ada_on_a_device(&server).await.text("refresh_token");
    let answers = at_once((0..40).map(|_| refresh(&server, &first))).await;
    for answer in &answers {
        match answer.status {
            200 => assert!(!answer.text("refresh_token").is_empty() && reads(&server, answer).await == 200),
            _ => {
                assert_eq!(refusal(answer), error(503, "temporarily_unavailable"));
                assert_ne!(answer.header("retry-after"), "", "{answer:?}");
            }
        }
    }
    assert!(answers.iter().any(|answer| answer.status == 503), "{answers:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_not_spent_for_tokens_that_cannot_be_given() {
    let server = TestServer::start_on(WriterLimits::default()).await;
    let mut admin = server.browser();
    admin.sign_in("platform", "admin@acme.test").await;
    let code = code(&mut admin, &Ask::by("console", CONSOLE).with("scope", "org:acme")).await;
    // A request for data that the user administers waits behind these.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let blocked: Vec<_> = (0..64)
        .map(|_| {
            let (store, held) = (server.app.store.clone(), held.clone());
            tokio::spawn(async move {
                store
                    .read(move |_| {
                        let _ = held.lock().map(|held| held.recv());
                        Ok::<_, store::Error>(())
                    })
                    .await
            })
        })
        .collect();
    while server.app.store.read(|_| Ok::<_, store::Error>(())).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let refused = redeem(&server, "console", CONSOLE, &code).await;
    assert_eq!(refusal(&refused), error(503, "temporarily_unavailable"));
    drop(release);
    for read in blocked {
        let _ = read.await.expect("joins");
    }
    let given = redeem(&server, "console", CONSOLE, &code).await;
    assert_eq!(given.status, 200, "{given:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_at_a_full_server_is_told_to_slow_down() {
    let server = TestServer::start_on(WriterLimits::default()).await;
    let approved = codes(&server).await;
    ada_allows(&server, &approved).await;
    let writers = HeldWriters::of(&server).await;
    let polls = at_once((0..10).map(|_| poll(&server, &approved))).await;
    for answer in &polls {
        assert_eq!(refusal(answer), error(400, "slow_down"));
        assert_ne!(answer.header("retry-after"), "", "{answer:?}");
    }
    writers.release().await;
    // The code was not lost by that.
    let later = poll(&server, &approved).await;
    assert_eq!(later.status, 200, "{later:?}");

    // A poll gets no 503 even when the database is gone.
    server.app.store.close();
    for client in ["cli", "notes", "machine"] {
        let fields = [
            ("grant_type", clients::DEVICE_GRANT),
            ("device_code", &approved.text("device_code")),
            ("client_id", server.client(client)),
        ];
        let answer = token(&server, &fields).send().await;
        assert_eq!(refusal(&answer).0 / 100, 4, "{client}: {answer:?}");
    }
    server.stop().await;
}
