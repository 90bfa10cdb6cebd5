//! Rules that every page keeps.

use super::samples;

const STYLESHEET: &str = include_str!("../../../assets/sarsen.css");

fn every_page() -> impl Iterator<Item = (&'static str, String)> {
    samples::all().into_iter().chain(samples::hostile()).map(|(name, page)| (name, page.into_string()))
}

#[test]
fn no_page_needs_more_than_the_strict_content_security_policy() {
    for (name, page) in every_page() {
        for forbidden in ["<script", "<style", " style=", "<img src=x", "javascript:", "http-equiv"] {
            assert!(!page.contains(forbidden), "{name} contains {forbidden}");
        }
    }
}

#[test]
fn every_form_is_a_post_with_a_csrf_token() {
    for (name, page) in every_page() {
        for form in page.split("<form").skip(1) {
            let form = form.split("</form>").next().unwrap_or_default();
            assert!(form.contains("method=\"post\""), "{name}");
            assert!(form.contains("name=\"csrf\" value=\"token\""), "{name}");
        }
    }
}

#[test]
fn every_page_has_one_heading_and_at_most_one_field_with_the_focus() {
    for (name, page) in every_page() {
        assert_eq!(page.matches("<h1>").count(), 1, "{name}");
        assert!(page.matches(" autofocus").count() <= 1, "{name}");
    }
}

#[test]
fn an_error_is_announced_and_tied_to_its_fields() {
    for (name, page) in samples::hostile() {
        let page = page.into_string();
        assert_eq!(page.contains("aria-invalid"), page.contains("aria-describedby=\"form-error"), "{name}");
        assert!(!page.contains("form-error\"") || page.contains("role=\"alert\""), "{name}");
    }
}

#[test]
fn denying_needs_no_password() {
    for (name, page) in samples::all() {
        let page = page.into_string();
        if page.contains("value=\"deny\"") {
            assert!(page.contains("name=\"decision\" value=\"deny\" formnovalidate"), "{name}");
        }
    }
}

#[test]
fn every_class_is_in_the_stylesheet_and_the_stylesheet_stays_small() {
    assert!(STYLESHEET.len() < 12 * 1024);
    let bare = ["narrow"];
    for (name, page) in every_page() {
        for classes in page.split("class=\"").skip(1) {
            for class in classes.split('"').next().unwrap_or_default().split_whitespace() {
                assert!(
                    STYLESHEET.contains(&format!(".{class}")) || bare.contains(&class),
                    "{name}: {class}"
                );
            }
        }
    }
}
