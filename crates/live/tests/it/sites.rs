//! Pages of other sites, which may call a back end, but not by the place of their reader in the network.

use crate::app::serve_with;
use crate::client::Client;
use store::testing::TestPlace;

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_has_a_token_or_asks_for_a_name() {
    let database = TestPlace::create();
    let running = serve_with(database.url(), |settings| {
        settings.allowed_hosts = vec!["board.example.com".to_owned()];
    });
    let running = running.await;
    let (stranger, ada) = (Client::new(running.address, ""), Client::new(running.address, "ada"));
    let ask = |client: &Client<'_>, headers: &[(&str, &str)]| {
        let answer = client.send("POST", "/rpc/hour", headers, "{}");
        (answer.status, answer.json()["code"].as_str().map(str::to_owned))
    };
    let elsewhere = ("sec-fetch-site", "cross-site");
    let refused = (403, Some("forbidden".to_owned()));
    assert_eq!(ask(&stranger, &[elsewhere]), refused);
    for path in ["/live", "/live/poll", "/live/ticket"] {
        assert_eq!(stranger.send("POST", path, &[elsewhere], "{}").status, 403, "{path}");
    }
    let pretended = stranger.send("POST", "/rpc/hour?ticket=", &[elsewhere], "{}");
    assert_eq!(pretended.status, 403, "a ticket is for a stream");
    assert_eq!(ask(&stranger, &[elsewhere, ("origin", "https://other.example")]), refused);
    assert_eq!(ask(&ada, &[elsewhere]).0, 200, "a token says who calls");
    // On plain HTTP a browser says no more than where the page is from.
    for origin in ["http://other.example", "null", "http://192.0.2.1:8080"] {
        assert_eq!(ask(&stranger, &[("origin", origin)]), refused, "{origin}");
    }
    for headers in [
        &[] as &[(&str, &str)],
        &[("sec-fetch-site", "same-origin")],
        // The development server of the same machine.
        &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:5173")],
        &[elsewhere, ("origin", "http://127.0.0.1:5173")],
        &[("origin", "http://127.0.0.1:5173")],
        &[elsewhere, ("x-forwarded-for", "192.0.2.7")],
    ] {
        assert_eq!(ask(&stranger, headers).0, 200, "{headers:?}");
    }
    running.stop().await;
}
