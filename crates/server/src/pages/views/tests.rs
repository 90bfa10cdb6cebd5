//! Rules for every page.

use super::samples;
use crate::openapi::DOCUMENT;
use crate::pages::assets::PRODUCT_SCRIPT;
use crate::pages::views;
use texts::Languages;

const STYLESHEET: &str = include_str!("../../../assets/sarsen.css");

/// In every language that is built in.
fn every_page() -> impl Iterator<Item = (&'static str, String)> {
    let docs = [("api-docs", views::ApiDocs(&DOCUMENT).markup(Languages::built_in().english()))];
    let languages = Languages::built_in();
    let pages: Vec<_> = languages
        .offered()
        .iter()
        .flat_map(|language| samples::all(language).into_iter().chain(samples::hostile(language)))
        .chain(docs)
        .collect();
    pages.into_iter().map(|(name, page)| (name, page.into_string()))
}

#[test]
fn no_page_needs_more_than_the_strict_content_security_policy() {
    for (name, page) in every_page() {
        // The policy of a product's page allows the file of the one script that it has.
        let script = format!("<script type=\"module\" src=\"{}\"", PRODUCT_SCRIPT.address());
        let is_signed_in = matches!(name, "product_sea" | "product_clay");
        assert_eq!(page.matches(&script).count(), usize::from(is_signed_in), "{name}");
        let page = page.replace(&script, "");
        for forbidden in ["<script", "<style", " style=", "<img src=x", "javascript:", "http-equiv"] {
            assert!(!page.contains(forbidden), "{name} contains {forbidden}");
        }
    }
}

/// The words of a page, a line for each block: what a reader sees and what a screen reader says.
fn words(page: &str) -> String {
    const INLINE: [&str; 7] = ["a", "b", "bdi", "code", "small", "span", "strong"];
    let (_, page) = page.split_once("<head>").expect("a head");
    let mut words = String::new();
    for (index, piece) in page.split(['<', '>']).enumerate() {
        let tag = piece.trim_start_matches('/').split(' ').next().unwrap_or_default();
        match index % 2 {
            0 => words.push_str(piece),
            _ if INLINE.contains(&tag) => {}
            _ => words.push('\n'),
        }
    }
    words.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_page_is_in_every_language() {
    for language in Languages::built_in().offered() {
        let english_only = |name: &str| ["product_", "demo_", "dev_"].iter().any(|of| name.starts_with(of));
        let pages = samples::all(language).into_iter().filter(|(name, _)| !english_only(name));
        let shown: Vec<String> = pages
            .map(|(name, page)| {
                let page = page.into_string();
                assert!(page.contains(&format!("<html lang=\"{}\">", language.tag())), "{name}");
                format!("= {name}\n{}\n", words(&page))
            })
            .collect();
        insta::assert_snapshot!(format!("pages_{}", language.tag()), shown.join("\n"));
        assert_eq!(language.missing(), 0, "{language:?}");
    }
}

#[test]
fn a_language_that_is_written_from_right_to_left_says_so() {
    let arabic = texts::File {
        name: "ar.toml".to_owned(),
        tag: "ar".to_owned(),
        content: "[language]\ndirection = \"rtl\"".to_owned(),
    };
    let languages = Languages::load(&["ar".to_owned()], &[arabic]).expect("right");
    let (_, page) = samples::all(languages.choose(None, None)).remove(0);
    assert!(page.into_string().contains("<html lang=\"ar\" dir=\"rtl\">"));
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
    for (name, page) in samples::hostile(Languages::built_in().english()) {
        let page = page.into_string();
        assert_eq!(page.contains("aria-invalid"), page.contains("aria-describedby=\"form-error"), "{name}");
        assert!(!page.contains("form-error\"") || page.contains("role=\"alert\""), "{name}");
    }
}

#[test]
fn denying_needs_no_password() {
    for (name, page) in samples::all(Languages::built_in().english()) {
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

#[test]
fn every_text_can_be_read_on_every_ground_in_both_themes() {
    let (light, rest) = STYLESHEET.split_once("prefers-color-scheme: dark").expect("a dark theme");
    let (dark, products) = rest.split_once("\n}").expect("its end");
    let (products, products_dark) = products.split_once("prefers-color-scheme: dark").expect("both");
    let product = |css: &'static str, class: &str| {
        let (_, rule) = css.split_once(&format!(".{class} {{")).expect("the product's colours");
        rule.split('}').next().unwrap_or_default()
    };
    for (theme, own, products) in [("light", "", products), ("dark", dark, products_dark)] {
        for rule in ["", product(products, "sea"), product(products, "clay")] {
            // The last value counts.
            let css = [light, own, rule].concat();
            for (ink, grounds) in [
                ("ink", &["ground", "card", "sunken"][..]),
                ("quiet", &["ground", "card", "sunken"]),
                ("accent", &["ground", "card", "sunken"]),
                ("on-accent", &["accent"]),
                ("bad", &["bad-ground", "ground"]),
                ("accent", &["bad-ground"]),
                ("warn", &["warn-ground", "ground"]),
            ] {
                for ground in grounds {
                    let (one, other) = (brightness(&css, ink), brightness(&css, ground));
                    let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                    assert!(contrast >= 4.5, "{theme}: {ink} on {ground} is {contrast:.2} ({rule})");
                }
            }
        }
    }
}

/// The relative luminance of a colour of the palette (WCAG 2).
fn brightness(css: &str, name: &str) -> f64 {
    let (_, value) = css.rsplit_once(&format!("--{name}: #")).unwrap_or_else(|| panic!("no colour {name}"));
    let part = |at: usize| {
        let byte = value.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).expect("hex");
        let share = f64::from(byte) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
}
