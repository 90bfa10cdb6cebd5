//! Forms are found and filled in.

use super::{Form, KnownValues, forms};

const KNOWN: KnownValues<'_> =
    KnownValues { email: "ada@acme.test", password: "s3cret & more", user_code: "ABCD-EFGH" };

fn filled(page: &str) -> (String, Vec<(String, String)>, bool) {
    let forms = forms(page);
    let submission = Form::next(&forms, &KNOWN).expect("a form").fill(&KNOWN);
    (submission.action, submission.fields, submission.decides)
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn sign_in() {
    let page = r#"<!doctype html><html><body>
        <form action="/language" method="get"><select name="lang"><option value="en">English</select></form>
        <form method="post" action="/o/acme/login?flow=1&amp;x=2">
          <input type="hidden" name="csrf" value="t&#x2f;k&quot;n">
          <label>E-mail <input name=email type=email required></label>
          <input name='password' type='password'/>
          <input type="checkbox" name="remember" value="yes"><input type="checkbox" name="terms" checked>
          <button>Sign in</button>
        </form></body></html>"#;
    let (action, fields, decides) = filled(page);
    assert_eq!(action, "/o/acme/login?flow=1&x=2");
    assert!(!decides);
    let expected =
        [("csrf", "t/k\"n"), ("email", "ada@acme.test"), ("password", "s3cret & more"), ("terms", "on")];
    assert_eq!(fields, pairs(&expected));
}

#[test]
fn consent_presses_allow_and_nothing_else() {
    let page = r#"
        <form method="POST" action="/logout"><input type="hidden" name="csrf" value="1"><button>Sign out</button></form>
        <FORM METHOD="POST">
          <input type="hidden" name="csrf" value="2">
          <input type="hidden" name="user_code" value="WXYZ-WXYZ">
          <input type="password" name="password">
          <button type="submit" name="decision" value="deny">Deny</button>
          <button type="submit" name="decision" value="allow">Allow</button>
        </FORM>"#;
    let (action, fields, decides) = filled(page);
    assert_eq!(action, "");
    assert!(decides);
    let expected =
        [("csrf", "2"), ("user_code", "WXYZ-WXYZ"), ("password", "s3cret & more"), ("decision", "allow")];
    assert_eq!(fields, pairs(&expected));
}

#[test]
fn a_typed_code() {
    let page = r#"<form method="post" action="/activate"><input name="csrf" type="hidden" value="1">
        <input name="user_code" autocomplete="one-time-code"><button name="go" value="1">Continue</button></form>"#;
    let (_, fields, _) = filled(page);
    assert_eq!(fields, pairs(&[("csrf", "1"), ("user_code", "ABCD-EFGH"), ("go", "1")]));
}

#[test]
fn what_only_looks_like_a_form_is_none() {
    let page = r#"<!-- <form method="post"><input name="email"></form> -->
        <script>document.write('<form method="post"><input name="email"></form>')</script>
        <p>3 < 4 and <em>text</em> <form-like method="post"></form-like></p>"#;
    assert!(forms(page).is_empty());
}

#[test]
fn broken_pages_end() {
    for page in [
        "<form",
        "<form method=\"post",
        "<form><input name='a",
        "<",
        "<!--",
        "<script>",
        "&#",
        "<form><input value=&#xffffffff;>",
    ] {
        let _ = forms(page);
    }
}

#[test]
fn typed_values_replace_those_of_the_page_and_press_a_button() {
    let page = r#"<form method="post" action="/activate"><input type="hidden" name="csrf" value="1">
        <input name="user_code" value="ABCD-EFGH"><button name="decision" value="deny">Deny</button></form>"#;
    let form = &forms(page)[0];
    let submission = form.with(&[("user_code", "WXYZ-WXYZ"), ("decision", "allow")]);
    assert_eq!(submission.fields, pairs(&[("csrf", "1"), ("user_code", "WXYZ-WXYZ"), ("decision", "allow")]));
    assert!(submission.decides && !form.with(&[]).decides);
}
