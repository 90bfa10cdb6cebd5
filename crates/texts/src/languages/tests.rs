//! Built-in texts, files of operators, and the choice.

use super::*;
use crate::file::Text;
use std::collections::BTreeMap;

fn tags(tags: &[&str]) -> Vec<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

fn file(tag: &str, content: &str) -> File {
    File { name: format!("texts/{tag}.toml"), tag: tag.to_owned(), content: content.to_owned() }
}

/// What stops the start when the directory has this file.
fn refused(tag: &str, content: &str) -> String {
    let languages = Languages::load(&tags(&["en", "de", "fr", "pl"]), &[file(tag, content)]);
    languages.map(|_| ()).expect_err("a wrong file").to_string()
}

#[test]
fn the_built_in_languages_have_the_same_texts_with_the_same_placeholders() {
    let english = built_in(ENGLISH).expect("readable").expect("built in");
    let keys: BTreeMap<&str, &Text> = english.texts.iter().map(|(key, text)| (key.as_str(), text)).collect();
    for (tag, name, content) in BUILT_IN {
        let file = File { name: name.to_owned(), tag: tag.to_owned(), content: content.to_owned() };
        let entries = checked(&file, &english, &rules(rules_of(tag))).expect("a right file");
        let own: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        let lacking: Vec<&&str> = keys.keys().filter(|key| !own.contains(*key)).collect();
        assert!(lacking.is_empty(), "{name} lacks {lacking:?}");
    }
}

#[test]
fn german_has_german_quotes_and_addresses_people_formally() {
    let (_, _, german) = BUILT_IN[1];
    let texts: String = german.lines().filter(|line| line.contains(" = ")).collect();
    for wrong in ["\\\"", " du ", " dein", " dich ", "Account", "Login", "Email"] {
        assert!(!texts.contains(wrong), "{wrong}");
    }
}

#[test]
fn a_reader_gets_the_first_language_that_we_have() {
    let languages = Languages::built_in();
    for (ui_locales, accept, expected) in [
        (None, None, "en"),
        (None, Some("de"), "de"),
        (None, Some("de-AT,de;q=0.9,en;q=0.8"), "de"),
        (None, Some("en;q=0.5, DE-ch;q=0.6"), "de"),
        (None, Some("fr, nl;q=0.9"), "en"),
        (None, Some("fr, *;q=0.1"), "en"),
        (None, Some("de;q=0, en"), "en"),
        (None, Some("\u{fffd};;;=,,de;q=1"), "de"),
        (Some("de"), Some("en"), "de"),
        (Some("fr de en"), Some("en"), "de"),
        (Some("fr"), Some("de"), "de"),
        (Some(""), Some("de"), "de"),
        (Some("<script>"), None, "en"),
        (Some("de-x-private-use"), None, "de"),
    ] {
        let found = languages.choose(ui_locales, accept).tag();
        assert_eq!(found, expected, "{ui_locales:?} {accept:?}");
    }
    let endless = format!("de{}", "-x".repeat(10_000));
    assert_eq!(languages.choose(Some(&endless), None).tag(), "en");
}

#[test]
fn a_variety_stands_in_for_its_language_and_the_first_language_for_all() {
    let files = [file("pt-BR", ""), file("fr", "")];
    let languages = Languages::load(&tags(&["fr", "pt-BR", "de"]), &files).expect("right");
    assert_eq!(languages.choose(None, Some("pt")).tag(), "pt-BR");
    assert_eq!(languages.choose(None, Some("pt-PT")).tag(), "pt-BR");
    assert_eq!(languages.choose(None, Some("en")).tag(), "fr", "English is not offered here");
    assert_eq!(languages.choose(None, Some("de;q=0.3,*;q=0.5")).tag(), "fr");
}

#[test]
fn a_mail_is_in_the_language_of_its_user_or_of_who_asked() {
    let languages = Languages::built_in();
    assert_eq!(languages.for_mail(Some("de-DE"), Some("en")).tag(), "de");
    assert_eq!(languages.for_mail(None, Some("de")).tag(), "de");
    assert_eq!(languages.for_mail(Some("fr"), Some("de")).tag(), "de");
    assert_eq!(languages.for_mail(None, None).tag(), "en");
}

#[test]
fn numbers_choose_the_form_by_the_rules_of_the_language() {
    let polish = "[time]\nminutes = { one = \"minutę\", few = \"{count} minuty\", many = \"{count} minut\", other = \"{count} minuty\" }";
    let languages = Languages::load(&tags(&["de", "pl"]), &[file("pl", polish)]).expect("right");
    let (german, polish) = (&languages.offered()[0], &languages.offered()[1]);
    let minutes = |language: &Language| [1, 3, 5, 22].map(|count| language.count("time.minutes", count, &[]));
    assert_eq!(minutes(german), ["einer Minute", "3 Minuten", "5 Minuten", "22 Minuten"]);
    assert_eq!(minutes(polish), ["minutę", "3 minuty", "5 minut", "22 minuty"]);
    // A text that falls back has the forms of English.
    assert_eq!(polish.count("time.seconds", 22, &[]), "22 seconds");
}

#[test]
fn an_operator_changes_single_texts_and_what_a_language_lacks_is_english_and_counted() {
    let files = [
        file("fr", "[sign_in]\ntitle = \"Connexion\"\nto_client = \"pour continuer vers {client}\""),
        file("de", "[sign_in]\ntitle = \"Zugang\""),
        file("en", "[sign_out]\nstay = \"Stay\""),
    ];
    let languages = Languages::load(&tags(&["de", "fr"]), &files).expect("right");
    let (german, french) = (&languages.offered()[0], &languages.offered()[1]);
    assert_eq!(german.text("sign_in.title"), "Zugang");
    assert_eq!(german.text("page.sign_in"), "Anmelden");
    assert_eq!(french.text("sign_in.title"), "Connexion");
    assert_eq!(french.fill("sign_in.to_client", &[("client", "{x}")]), "pour continuer vers {x}");
    assert_eq!((german.missing(), french.missing()), (0, 0));
    assert_eq!(french.text("sign_out.stay"), "Stay", "in the English of this operator");
    assert_eq!((german.missing(), french.missing()), (0, 1));
    assert!(french.lacks().contains(&"sign_out.stay") && !french.lacks().contains(&"sign_in.title"));
    assert!(german.lacks().is_empty());
}

#[test]
fn a_wrong_file_says_where_and_what_would_be_right() {
    for (tag, content, expected) in [
        (
            "fr",
            "[sign_in]\n\ntitel = \"Connexion\"",
            "texts/fr.toml line 3: there is no text sign_in.titel; use sign_in.title",
        ),
        (
            "fr",
            "[nothing]\nat_all_like_this = \"x\"",
            "texts/fr.toml line 2: there is no text nothing.at_all_like_this; remove it, or use a key of the built-in en.toml",
        ),
        (
            "fr",
            "[sign_in]\nto_client = \"continuer\"",
            "texts/fr.toml line 2: sign_in.to_client lacks the placeholder {client}; use {client}",
        ),
        (
            "de",
            "[sign_in]\ntitle = \"Weiter zu {client}\"",
            "texts/de.toml line 2: sign_in.title has the placeholder {client}; use none",
        ),
        (
            "fr",
            "[sign_in]\nto_client = \"vers {client\"",
            "texts/fr.toml line 2: sign_in.to_client has a brace that belongs to no placeholder; a placeholder is like {email}",
        ),
        (
            "fr",
            "[sign_in]\ntitle = 7",
            "texts/fr.toml line 2: sign_in.title is of the type integer; use a text in quotes",
        ),
        (
            "fr",
            "[time]\nminutes = \"minutes\"",
            "texts/fr.toml line 2: time.minutes depends on a number; use a table of the forms one, many, other",
        ),
        (
            "pl",
            "[time]\nminutes = { one = \"minutę\" }",
            "texts/pl.toml line 2: time.minutes lacks the form other; use one, few, many, other",
        ),
        (
            "de",
            "[time.minutes]\nfew = \"{count} x\"\nother = \"{count} y\"",
            "texts/de.toml line 1: time.minutes has the form few, which no number of this language has; use one, other",
        ),
        (
            "de",
            "[sign_in.title]\nother = \"x\"",
            "texts/de.toml line 1: sign_in.title depends on no number; use one text",
        ),
        (
            "fr",
            "[language]\ndirection = \"up\"",
            "texts/fr.toml line 2: language.direction is \"up\"; use \"ltr\" or \"rtl\"",
        ),
        (
            "nl",
            "",
            "texts/nl.toml is of the language nl, which languages does not list ([\"en\", \"de\", \"fr\", \"pl\"]); add it there, or \
             remove the file",
        ),
        (
            "no language",
            "",
            "texts/no language.toml is not named for a language; use a name like de.toml or pt-BR.toml",
        ),
    ] {
        assert_eq!(refused(tag, content), expected);
    }
    let syntax = refused("fr", "[sign_in]\ntitle = Connexion");
    assert!(syntax.starts_with("texts/fr.toml line 2: this is not valid TOML: "), "{syntax}");
    assert_eq!(syntax.lines().count(), 1);
}

#[test]
fn a_language_without_texts_stops_the_start() {
    let error = Languages::load(&tags(&["en", "fr"]), &[]).expect_err("no French");
    let expected =
        "languages has fr, which is not built in (en, de are); put a file fr.toml into languages_directory";
    assert_eq!(error.to_string(), expected);
    assert!(Languages::load(&[], &[]).is_err());
}

#[test]
fn a_language_is_written_in_its_direction() {
    let files = [file("ar", "[language]\ndirection = \"rtl\""), file("fr", "")];
    let languages = Languages::load(&tags(&["ar", "fr", "de"]), &files).expect("right");
    let directions: Vec<&str> = languages.offered().iter().map(Language::direction).collect();
    assert_eq!(directions, ["rtl", "ltr", "ltr"]);
}

#[test]
fn tags_are_written_in_their_own_way() {
    assert_eq!(tag_of("pt-br").as_deref(), Some("pt-BR"));
    assert_eq!(tag_of("DE").as_deref(), Some("de"));
    for wrong in ["", "german language", "und", "1", "../de"] {
        assert_eq!(tag_of(wrong), None, "{wrong}");
    }
}
