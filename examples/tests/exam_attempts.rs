//! Exams and attempts.

use crate::client::TestApp;
use live::Settings;
use serde_json::json;
use store::testing::TestPlace;

async fn start() -> TestApp {
    let app = TestApp::start(exam_attempts::app()).await;
    let exam = app.json("POST", "/exams", &json!({ "title": "Algebra", "questions": 40 })).await;
    assert_eq!((exam.status, exam.json()), (201, json!({ "id": 1 })));
    app
}

async fn begin(app: &TestApp, student: &str) -> String {
    let attempt = app.json("POST", "/exams/1/attempts", &json!({ "student": student })).await;
    assert_eq!(attempt.status, 201, "{attempt:?}");
    format!("/attempts/{}", attempt.json()["id"])
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_saved_until_the_attempt_is_submitted() {
    let app = start().await;
    let path = begin(&app, "Ada").await;
    let answers = json!({ "answers": { "1": [1], "2": [2, 3], "3": [] } });
    let saved = app.json("PATCH", &path, &answers).await;
    assert_eq!((saved.status, &saved.json()["answered"]), (200, &json!(2)), "{saved:?}");
    let attempt = app.get(&path).await.json();
    assert_eq!(attempt["answers"], answers["answers"]);
    assert_eq!(attempt["submitted_at"], json!(null));

    let submit = format!("{path}/submit");
    let elsewhere = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    assert_eq!(app.send("POST", &submit, &elsewhere, "").await.status, 403, "another site's form");
    let submitted = app.send("POST", &submit, &[], "").await;
    assert!(submitted.status == 200 && submitted.json()["submitted_at"].is_i64(), "{submitted:?}");
    let refused = (409, "already_submitted".to_owned());
    assert_eq!(app.json("PATCH", &path, &json!({ "answers": {} })).await.problem(), refused);
    assert_eq!(app.send("POST", &submit, &[], "").await.problem(), refused);
    assert_eq!(app.get(&path).await.json()["answers"], answers["answers"]);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_refused() {
    let app = start().await;
    let path = begin(&app, "Ada").await;
    let many: serde_json::Map<_, _> = (0..50_000).map(|number| (number.to_string(), json!([1]))).collect();
    let cases = [
        ("POST", "/exams", json!({ "title": " ", "questions": 1 })),
        ("POST", "/exams", json!({ "title": "Algebra", "questions": 0 })),
        ("POST", "/exams", json!({ "title": "Algebra" })),
        ("POST", "/exams/1/attempts", json!({ "student": "" })),
        ("POST", "/exams/x/attempts", json!({ "student": "Ada" })),
        ("PATCH", &path, json!({ "answers": [1] })),
        ("PATCH", &path, json!({ "answers": { "one": [1] } })),
        ("PATCH", &path, json!({ "answers": { "1": [-1] } })),
        ("PATCH", &path, json!({ "answer": {} })),
        ("PATCH", &path, json!({ "answers": { "0": [1] } })),
        ("PATCH", &path, json!({ "answers": { "501": [1] } })),
        ("PATCH", &path, json!({ "answers": { "1": vec![1; 21] } })),
        ("PATCH", &path, json!({ "answers": {}, "revision": 0 })),
        ("PATCH", &path, json!({ "answers": {}, "revision": 9_007_199_254_740_992_i64 })),
        ("POST", "/exams", json!({ "title": "Algebra", "questions": 4, "minutes": 0 })),
        ("POST", "/exams", json!({ "title": "Algebra", "questions": 4, "sheet": "x".repeat(100_001) })),
    ];
    for (method, path, body) in cases {
        assert_eq!(app.json(method, path, &body).await.problem().0, 400, "{method} {path}");
    }
    let named = app.json("PATCH", &path, &json!({ "answers": { "501": [1] } })).await.json();
    assert_eq!(named["errors"][0]["field"], "answers", "{named}");
    let too_large = app.json("PATCH", &path, &json!({ "answers": many })).await;
    assert_eq!(too_large.problem(), (413, "body_too_large".to_owned()));
    let not_found = (404, "not_found".to_owned());
    for path in ["/attempts/7", "/attempts/0"] {
        assert_eq!(app.json("PATCH", path, &json!({ "answers": {} })).await.problem(), not_found);
        assert_eq!(app.send("POST", &format!("{path}/submit"), &[], "").await.problem(), not_found);
        assert_eq!(app.get(path).await.problem(), not_found);
    }
    assert_eq!(
        app.json("POST", "/exams/7/attempts", &json!({ "student": "Ada" })).await.problem(),
        not_found
    );
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_teacher_sees_progress_live() {
    let app = start().await;
    let ada = begin(&app, "Ada").await;
    assert!(app.get("/").await.body.contains("New exam"));
    let about = json!({ "title": "Algebra", "questions": 40, "sheet": null, "minutes": null });
    assert_eq!(app.get("/exams/1/about").await.json(), about);
    let wrong = app.call("", "exam_progress", &json!({ "exam": "one" })).await;
    assert_eq!(
        (wrong.status, &wrong.json()["detail"]),
        (400, &json!("exam: the value is a string; use an integer."))
    );
    let page = app.get("/exams/1").await;
    assert!(
        page.body.contains("exam_progress") && page.header("content-type").starts_with("text/html"),
        "{page:?}"
    );
    assert_eq!(page.header("content-security-policy"), "frame-ancestors 'none'");

    // As the script of the page does.
    let ticket = app.send("POST", "/live/ticket", &[], "").await.json();
    let sub =
        "%7B%22key%22%3A%22p%22%2C%22query%22%3A%22exam_progress%22%2C%22args%22%3A%7B%22exam%22%3A1%7D%7D";
    let address = format!("/live?ticket={}&sub={sub}", ticket["ticket"].as_str().expect("a ticket"));
    let mut events = app.events("GET", &address, &[], "").await;
    events.until(|rows| rows[0]["student"] == "Ada" && rows[0]["answered"] == 0).await;
    app.json("PATCH", &ada, &json!({ "answers": { "1": [1] } })).await;
    events.until(|rows| rows[0]["answered"] == 1).await;
    begin(&app, "Grace").await;
    events.until(|rows| rows[1]["student"] == "Grace").await;
    app.send("POST", &format!("{ada}/submit"), &[], "").await;
    events.until(|rows| rows[0]["submitted_at"].is_i64()).await;
    drop(events);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn students_with_many_answers_do_not_break_the_page_of_the_teacher() {
    let app = start().await;
    let most = json!({ "answers": (1..=500).map(|question| (question.to_string(), json!(vec![u32::MAX; 20])))
        .collect::<serde_json::Map<_, _>>() });
    let frame_bytes_max = live::Limits::default().frame_bytes_max;
    for number in 1..=frame_bytes_max / most.to_string().len() + 1 {
        let path = begin(&app, &format!("Student {number}")).await;
        assert_eq!(app.json("PATCH", &path, &most).await.status, 200);
    }
    let wanted =
        json!({ "subscriptions": [{ "key": "p", "query": "exam_progress", "args": { "exam": 1 } }] });
    let mut events = app.events("POST", "/live", &[], &wanted.to_string()).await;
    events.next("hello").await;
    let (name, data) = events.any().await;
    assert_eq!(name, "value", "{data:.300}");
    let rows = &data["value"];
    assert_eq!((&rows[0]["student"], &rows[0]["answered"]), (&json!("Student 1"), &json!(500)));
    assert!(rows.to_string().len() < 10_000, "only what the page shows");
    drop(events);
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_fills_the_database_for_load_tests() {
    let place = TestPlace::create();
    let settings = Settings::new(place.url(), "127.0.0.1:0".parse().expect("an address"));
    exam_attempts::seed(&settings, 1_200).await.expect("seeded");
    let app = TestApp::start_on(place, exam_attempts::app()).await;
    for id in [1, 600, 1_200] {
        let saved = app.json("PATCH", &format!("/attempts/{id}"), &json!({ "answers": { "1": [1] } })).await;
        assert_eq!(saved.status, 200, "{saved:?}");
    }
    assert_eq!(app.get("/attempts/1201").await.status, 404);
    let page = app.call("", "exam_progress", &json!({ "exam": 1, "after": 50 })).await.json();
    let ids: Vec<_> = page["value"].as_array().expect("rows").iter().map(|row| row["id"].clone()).collect();
    assert_eq!(ids, (51..=100).map(|id| json!(id)).collect::<Vec<_>>());
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_opened_before_its_exam_shows_it_later() {
    let app = TestApp::start(exam_attempts::app()).await;
    let wanted =
        json!({ "subscriptions": [{ "key": "a", "query": "exam_progress", "args": { "exam": 1 } }] });
    let mut events = app.events("POST", "/live", &[], &wanted.to_string()).await;
    events.next("error").await;
    app.json("POST", "/exams", &json!({ "title": "Algebra", "questions": 40 })).await;
    assert_eq!(events.next("value").await["value"], json!([]));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_save_that_arrives_late_changes_nothing() {
    let app = start().await;
    let path = begin(&app, "Ada").await;
    let (older, newer) = (json!({ "1": [1], "2": [1] }), json!({ "1": [1], "2": [1], "3": [1] }));
    let save = async |answers: &serde_json::Value, revision: i64| {
        app.json("PATCH", &path, &json!({ "answers": answers, "revision": revision })).await
    };
    let first = save(&newer, 7).await;
    assert_eq!((first.status, &first.json()["revision"]), (200, &json!(7)));
    let late = save(&older, 6).await;
    assert_eq!(late.problem(), (409, "stale".to_owned()));
    assert_eq!(late.json()["revision"], 7, "the current one: {late:?}");
    // The same again, because its answer was lost; and another page that has counted as far.
    let again = save(&newer, 7).await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    let other = save(&older, 7).await;
    assert_eq!((other.problem(), &other.json()["revision"]), ((409, "stale".to_owned()), &json!(7)));
    let attempt = app.get(&path).await.json();
    assert_eq!((&attempt["answers"], &attempt["revision"]), (&newer, &json!(7)));
    // Without a revision the last save wins, and the revision stays.
    assert_eq!(app.json("PATCH", &path, &json!({ "answers": older })).await.status, 200);
    assert_eq!(app.get(&path).await.json()["answers"], older);
    assert_eq!(save(&newer, 7).await.problem().1, "stale", "what was saved with 7 is not there any more");
    assert_eq!(save(&newer, 8).await.status, 200);
    // Of many at once the greatest is left.
    let own = |revision: i64| json!({ "1": [revision] });
    let (a, b, c, d, e) = (own(28), own(12), own(27), own(9), own(20));
    let saves = tokio::join!(save(&a, 28), save(&b, 12), save(&c, 27), save(&d, 9), save(&e, 20));
    let statuses = [saves.0, saves.1, saves.2, saves.3, saves.4].map(|answer| answer.status);
    assert!(statuses.iter().all(|status| [200, 409].contains(status)) && statuses[0] == 200, "{statuses:?}");
    assert_eq!(app.get(&path).await.json()["answers"], own(28));
    let submit = format!("{path}/submit");
    assert_eq!(app.send("POST", &submit, &[], "").await.status, 200);
    assert_eq!(save(&newer, 99).await.problem().1, "already_submitted");
    assert_eq!(save(&json!({ "1": [28] }), 28).await.status, 200, "this is what is there");
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_a_key_are_done_once() {
    let app = start().await;
    let key = [("content-type", "application/json"), ("idempotency-key", "5f0c7c1e9b7d4a3fa5d1e2b3")];
    let student = json!({ "student": "Ada" }).to_string();
    let first = app.send("POST", "/exams/1/attempts", &key, &student).await;
    let second = app.send("POST", "/exams/1/attempts", &key, &student).await;
    assert_eq!((first.status, second.status, first.json()), (201, 201, second.json()));
    assert_eq!(app.get("/attempts/2").await.status, 404, "one attempt");
    let submitted = app.send("POST", "/attempts/1/submit", &key[1..], "").await;
    let again = app.send("POST", "/attempts/1/submit", &key[1..], "").await;
    assert_eq!((submitted.status, again.status, submitted.json()), (200, 200, again.json()));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_ends_with_its_time() {
    let place = TestPlace::create();
    let clock = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(1_800_000_000_000));
    let shown = clock.clone();
    let settings = Settings {
        clock: std::sync::Arc::new(move || {
            store::Time::from_millis(shown.load(std::sync::atomic::Ordering::Relaxed))
        }),
        check: true,
        ..Settings::new(place.url(), "127.0.0.1:0".parse().expect("an address"))
    };
    let app = TestApp::start_with(place, exam_attempts::app(), settings).await;
    let pass = |seconds: i64| clock.fetch_add(seconds * 1_000, std::sync::atomic::Ordering::Relaxed);
    let exam =
        json!({ "title": "Algebra", "questions": 2, "minutes": 30, "sheet": "1 + 1?\n2\n3\n\n2 * 2?\n4\n5" });
    assert_eq!(app.json("POST", "/exams", &exam).await.status, 201);
    let path = begin(&app, "Ada").await;
    let page = app.get(&format!("{path}/page")).await;
    assert!(page.header("content-type").starts_with("text/html") && page.body.contains("fieldset"));
    assert_eq!(app.get(&path).await.json()["ends_at"], 1_800_000_000_000_i64 + 30 * 60_000);
    pass(30 * 60 + 5);
    for (revision, status) in [(Some(1), 200), (None, 200)] {
        let body = json!({ "answers": { "1": [1] }, "revision": revision });
        assert_eq!(app.json("PATCH", &path, &body).await.status, status, "the last save was on its way");
    }
    pass(6);
    for revision in [Some(2), None] {
        let body = json!({ "answers": {}, "revision": revision });
        assert_eq!(app.json("PATCH", &path, &body).await.problem(), (409, "time_over".to_owned()));
    }
    assert_eq!(app.send("POST", &format!("{path}/submit"), &[], "").await.status, 200);
    assert_eq!(app.get(&path).await.json()["answers"], json!({ "1": [1] }));
    app.stop().await;
}
