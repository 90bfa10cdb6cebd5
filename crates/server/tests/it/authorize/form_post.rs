//! `response_mode=form_post`: the answer comes as a form that posts itself.

use super::*;

/// The form of the page: where it goes, and its fields.
fn form_of(page: &Answer) -> (String, Vec<(String, String)>) {
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{page:?}");
    assert_eq!((page.header("cache-control"), page.header("location")), ("no-store", ""));
    let form = page.form().unwrap_or_else(|| panic!("a form: {page:?}"));
    let fields = form.fields.into_iter().filter(|field| !field.is_button);
    (form.action, fields.map(|field| (field.name, field.value)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_and_an_error_are_posted() {
    let server = TestServer::start().await;
    let mut ada = ada(&server).await;
    let ask = Ask::of(&server, "spa").with("response_mode", "form_post").with("state", "\"><script>\u{e4}&=");
    let page = ada.get(&ask.path()).await;
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'sha256-"), "{policy}");
    assert!(!page.body.contains("\"><script>"), "{page:?}");
    let (action, fields) = form_of(&page);
    assert_eq!(action, CALLBACK);
    let code = fields.iter().find(|(name, _)| name == "code").expect("a code").1.clone();
    assert_eq!(fields.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["code", "state", "iss"]);
    assert_eq!((&*fields[1].1, &*fields[2].1), ("\"><script>\u{e4}&=", ISSUER));
    until_both_keys_sign(&server).await;
    assert_eq!(redeem(&server, server.client("spa"), CALLBACK, &code).await.status, 200);

    for wrong in [
        ask.clone().with("response_type", "token"),
        ask.clone().without("code_challenge"),
        ask.clone().with("max_age", "x"),
    ] {
        let (action, fields) = form_of(&ada.get(&wrong.path()).await);
        let names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!((&*action, names), (CALLBACK, vec!["error", "error_description", "state", "iss"]));
    }
    let unreadable = format!("{}&x=%ff", ask.path());
    assert_eq!(form_of(&ada.get(&unreadable).await).1[0], ("error".to_owned(), "invalid_request".to_owned()));
    // The error of an unknown mode goes the ordinary way.
    let unknown = ada.get(&Ask::of(&server, "spa").with("response_mode", "fragment").path()).await;
    assert_eq!(refusal(&unknown), "invalid_request");
    // A redirect URI that is not registered gets nothing.
    let evil = ask.with("redirect_uri", "https://evil.example/");
    assert_shown_here(&ada.get(&evil.path()).await, "evil");
    server.stop().await;
}
