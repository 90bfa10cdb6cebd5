//! The errors of forms: sentences for people, and the one field that is marked and has the focus.

use crate::support::*;
use serde_json::{Value, json};
use server::testing::{Answer, Rows, TestServer};
use std::time::Duration;

/// The error's text, and the fields that are invalid and that have the focus.
fn shown(answer: &Answer) -> (String, Vec<String>, Vec<String>) {
    let (_, notice) =
        answer.body.split_once("role=\"alert\">").unwrap_or_else(|| panic!("no error: {answer:?}"));
    let text = notice.split('<').next().unwrap_or_default().trim().to_owned();
    let with = |attribute: &str| {
        let inputs =
            answer.body.split("<input ").skip(1).map(|input| input.split('>').next().unwrap_or_default());
        let inputs = inputs.filter(|input| input.contains(attribute));
        inputs.filter_map(|input| Some(input.split_once("id=\"")?.1.split('"').next()?.to_owned())).collect()
    };
    (text, with("aria-invalid=\"true\""), with(" autofocus"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_says_what_is_wrong_in_a_sentence_and_marks_that_field() {
    let server = TestServer::start().await;
    let admin = Admin::sign_in(&server, "admin@acme.test", "org:acme").await;
    let invitation = admin.invite("new@acme.test", "admin").await;
    let made = admin.make("/api/organizations/acme/users", json!({ "email": "new@acme.test" })).await;
    let user = format!("/api/organizations/acme/users/{}", text(&made, "id"));
    let link = path_of(text(&admin.make(&format!("{user}/password-link"), Value::Null).await, "url"));
    let empty = TestServer::start_empty().await;
    let set_up = path_of(&server::first_start::link(&empty.app).await.expect("asks").expect("no owner yet"));

    const SHORT: &str =
        "The password was not accepted: use at least 8 characters; 15 or more are recommended.";
    const NO_EMAIL: &str =
        "The e-mail address was not accepted: this is not an e-mail address; use one like ada@example.com.";
    const LONG: &str = "The name was not accepted: use 1 to 100 characters on one line.";
    const TAKEN: &str = "There is an account with this e-mail address already.";
    let long = "n".repeat(101);
    let person = |name, email, password| vec![("name", name), ("email", email), ("password", password)];
    let (good, address) = ("correct horse battery", "x@acme.test");
    let (at_up, at_set_up, at_change) = ("/o/acme/signup", &*set_up, "/o/acme/account/password");
    let mut rows = Rows::new();
    for (path, typed, sentence, field) in [
        (at_up, person("Grace", address, "short"), SHORT, "password"),
        (at_up, person("Grace", "grace", good), NO_EMAIL, "email"),
        (at_up, person("  ", address, good), "Enter your name.", "name"),
        (at_up, person(&long, address, good), LONG, "name"),
        (at_up, person("Ada", "ada@acme.test", good), TAKEN, "email"),
        (at_set_up, person("Olga", "olga@sarsen.test", "short"), SHORT, "password"),
        (at_set_up, person("Olga", "olga", good), NO_EMAIL, "email"),
        (at_set_up, person("  ", "olga@sarsen.test", good), "Enter your name.", "name"),
        (&invitation, person("Grace", "", "short"), SHORT, "password"),
        (&invitation, person("  ", "", good), "Enter your name.", "name"),
        (&link, vec![("password", "short")], SHORT, "password"),
        (at_change, vec![("password", "wrong"), ("new_password", "short")], SHORT, "new_password"),
        (
            at_change,
            vec![("password", "wrong"), ("new_password", good)],
            "The current password is wrong.",
            "password",
        ),
    ] {
        let row = async {
            let server = if path == at_set_up { &empty } else { &server };
            let mut browser = server.browser();
            if path == at_change {
                browser.sign_in("acme", "ada@acme.test").await;
                server.clock.advance(Duration::from_secs(601));
            }
            let page = open_link(&mut browser, path).await;
            let mut forms = browser::forms(&page.body).into_iter().filter(|form| form.is_post);
            let form = forms.next_back().expect("a form");
            let hidden = form.fields.iter().map(|field| (&*field.name, &*field.value));
            let hidden =
                hidden.filter(|(name, _)| *name != "later" && !typed.iter().any(|(other, _)| other == name));
            let fields: Vec<(&str, &str)> = hidden.chain(typed.iter().copied()).collect();
            let answer = browser.post(&form.action, &fields).await;
            assert_eq!(answer.status, 422, "{answer:?}");
            let field = vec![field.to_owned()];
            assert_eq!(shown(&answer), (sentence.to_owned(), field.clone(), field));
        };
        rows.row(format!("{path} {typed:?}"), row).await;
    }
    let page = server.browser().get(at_up).await;
    assert_eq!(
        page.body.matches("maxlength=\"100\"").count(),
        1,
        "a name has 100 characters at most: {page:?}"
    );
    server.stop().await;
    empty.stop().await;
}
