//! A stream that goes on from a cursor catches up, or is reset.

use super::{Live, STATE, ada, back_end, owner, set_plan};
use crate::support::text;
use serde_json::json;
use server::testing::TestServer;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_catches_up_shows_how_far_it_is() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (_, subscription) = ada(&owner).await;
    let cursor = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    let foreign =
        r#"{"kind":"user","user":"user_01kdzyqw3xft5r0000000000pq","organization":"org_of_others"}"#;
    let now = server.app.now();
    let append = move |tx: &mut store::Tx<'_>| {
        (0..1000).try_for_each(|_| tx.append(&identity::events::EVENTS, now, foreign))
    };
    let appended = server.app.store.write("test", append).await;
    appended.map_err(|error: store::Error| error).expect("appends");
    set_plan(&owner, &subscription, "starter").await;

    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    let mut cursors = Vec::new();
    let changed = loop {
        let event = live.next().await.expect("the stream goes on");
        match &*event.name {
            "progress" => cursors.push(event.id.expect("a cursor")),
            _ => break event,
        }
    };
    assert_eq!(changed.name, "subscription.changed");
    assert_eq!(cursors.len(), 5, "{cursors:?}");
    cursors.dedup();
    assert_eq!(cursors.len(), 5, "each is further");
    let end = live.joined().await;
    assert!(!cursors.contains(&end));
    // From there on it comes back.
    drop(live);
    let mut live = Live::open(&server, &sketch.token, Some(&cursors[3])).await;
    assert_eq!(live.expect("progress").await.id.as_ref(), Some(&cursors[4]));
    live.expect("subscription.changed").await;
    assert_eq!(live.joined().await, end);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_waits_for_its_place_reads_by_itself() {
    let quick = |settings: &mut server::Settings| settings.stream_heartbeat = Duration::from_millis(20);
    let server = TestServer::start_with(quick, |_| {}).await;
    let owner = owner(&server).await;
    let (_, subscription) = ada(&owner).await;
    server.hold_events();
    let mut live = Live::open(&server, &server.demo.api_key, None).await;
    for plan in ["starter", "pro"] {
        // Signs of life without a cursor: the stream has not joined.
        for _ in 0..3 {
            let beat = live.next_or_beat().await.expect("a sign of life");
            assert_eq!((&*beat.name, beat.id), ("", None));
        }
        set_plan(&owner, &subscription, plan).await;
        assert_eq!(text(&live.expect("subscription.changed").await.data["state"], "plan"), plan);
    }
    server.release_events();
    loop {
        let beat = live.next_or_beat().await.expect("a sign of life");
        assert_eq!(beat.name, "", "{beat:?}");
        if beat.id.is_some() {
            break;
        }
    }
    set_plan(&owner, &subscription, "starter").await;
    assert_eq!(text(&live.expect("subscription.changed").await.data["state"], "plan"), "starter");
    server.stop().await;
}

/// Each user is a member of their own customer, as if it were a team.
static MEMBER: store::Sql = store::sql(
    "INSERT INTO customer_members (customer_id, user_id, role, created_at)
     SELECT id, user_id, 'member', created_at FROM customers WHERE user_id IS NOT NULL",
);

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_cannot_go_on_from_its_cursor_is_reset() {
    let server = TestServer::start().await;
    let (owner, sketch) = (owner(&server).await, back_end(&server));
    let (_, subscription) = ada(&owner).await;
    let cursor = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    for wrong in ["rubbish", "0-1-1", "ffff-0-0", "0-999999-5"] {
        let mut live = Live::open(&server, &sketch.token, Some(wrong)).await;
        let reset = live.expect("reset").await;
        assert_eq!(reset.id.as_deref(), Some(""), "the client forgets its cursor");
        assert!(live.next().await.is_none());
    }
    // Without teams a user has one subscription for a service, and a price decides nothing.
    let mut live = Live::open(&server, &sketch.token, Some(&cursor)).await;
    live.joined().await;
    owner.change("PATCH", "/api/organizations/acme/plans/pro", json!({ "price_cents": 1 })).await;
    live.expect("service.changed").await;
    // Of the several ones of a member it decides which one counts.
    let joined = server.app.store.write("test.member", |tx| {
        tx.changed(store::Key::table("customer_members"));
        tx.exec(&MEMBER, store::args![]).map(drop)
    });
    joined.await.map_err(|error: store::Error| error).expect("a member");
    owner.change("PATCH", "/api/organizations/acme/plans/pro", json!({ "price_cents": 2 })).await;
    assert_eq!(live.expect("reset").await.data["reason"], "plan_changed");
    assert!(live.next().await.is_none());

    // Older than what is kept.
    set_plan(&owner, &subscription, "starter").await;
    let quiet = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    server.tidy().await.expect("tidies");
    let mut live = Live::open(&server, &sketch.token, Some(&quiet)).await;
    live.joined().await;
    drop(live);
    server.clock.advance(Duration::from_secs(8 * 24 * 3600));
    // The newest entry stays until there is a newer one, such as that of the day.
    for _ in 0..2 {
        server.tidy().await.expect("tidies");
    }
    let mut live = Live::open(&server, &sketch.token, Some(&quiet)).await;
    assert_eq!(live.expect("reset").await.data["reason"], "cursor_too_old");
    let fresh = text(&sketch.read(STATE).await, "last_event_id").to_owned();
    Live::open(&server, &sketch.token, Some(&fresh)).await.joined().await;
    server.stop().await;
}
