//! The languages of a server, in the order of its setting `languages`, and which of them a reader gets.

use crate::check::{Wrong, checked};
use crate::file::{Entry, File};
use crate::language::{Catalog, Language, rules};
use crate::wanted::{of_accept_language, of_ui_locales};
use icu_locale_core::Locale;
use icu_plurals::PluralRulesPreferences;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// The language in which every text exists.
const ENGLISH: &str = "en";
/// The languages of this program: all their texts are in the tree, and tests check them.
const BUILT_IN: [(&str, &str, &str); 2] = [
    (ENGLISH, "crates/texts/texts/en.toml", include_str!("../texts/en.toml")),
    ("de", "crates/texts/texts/de.toml", include_str!("../texts/de.toml")),
];
/// The longest tag that is looked up.
const TAG_LENGTH_MAX: usize = 64;

static DEFAULT: LazyLock<Arc<Languages>> = LazyLock::new(|| {
    let tags = BUILT_IN.map(|(tag, ..)| tag.to_owned());
    Arc::new(Languages::load(&tags, &[]).expect("the texts of the tree are right, which tests check"))
});

/// The languages.
pub struct Languages {
    /// At least one.
    offered: Vec<Language>,
    /// What pages are in that exist in English only.
    english: Language,
}

impl Languages {
    /// English and German, as they are in the program.
    pub fn built_in() -> Arc<Languages> {
        DEFAULT.clone()
    }

    /// The languages of these tags, with the texts of the operator's files in place of ours. The first is the default.
    pub fn load(tags: &[String], files: &[File]) -> Result<Languages, Wrong> {
        if tags.is_empty() {
            return Err(Wrong("languages is empty; name at least one, like [\"en\"]".to_owned()));
        }
        let model = Arc::new(built_in(ENGLISH)?.unwrap_or_else(|| Catalog::empty(rules_of(ENGLISH))));
        let mut own: HashMap<String, Catalog> = HashMap::new();
        for file in files {
            let tag = tag_of(&file.tag).ok_or_else(|| {
                Wrong(format!(
                    "{} is not named for a language; use a name like de.toml or pt-BR.toml",
                    file.name
                ))
            })?;
            if tag != ENGLISH && !tags.contains(&tag) {
                let listed = tags.join("\", \"");
                return Err(Wrong(format!(
                    "{} is of the language {tag}, which languages does not list ([\"{listed}\"]); add it there, or remove the file",
                    file.name
                )));
            }
            let own_rules = rules_of(&tag);
            let entries = checked(file, &model, &rules(own_rules))?;
            own.entry(tag).or_insert_with(|| Catalog::empty(own_rules)).add(entries);
        }
        let mut complete = |tag: &str| -> Result<Option<Arc<Catalog>>, Wrong> {
            let (ours, theirs) = (built_in(tag)?, own.remove(tag));
            Ok(match (ours, theirs) {
                (Some(mut ours), Some(theirs)) => {
                    ours.texts.extend(theirs.texts);
                    Some(Arc::new(ours))
                }
                (ours, theirs) => ours.or(theirs).map(Arc::new),
            })
        };
        let english = complete(ENGLISH)?.unwrap_or(model);
        let mut offered = Vec::with_capacity(tags.len());
        for tag in tags {
            let catalog = match tag.as_str() {
                ENGLISH => english.clone(),
                tag => complete(tag)?.ok_or_else(|| {
                    Wrong(format!(
                        "languages has {tag}, which is not built in (en, de are); put a file {tag}.toml into languages_directory"
                    ))
                })?,
            };
            offered.push(Language::new(tag.clone(), catalog, english.clone()));
        }
        let english = Language::new(ENGLISH.to_owned(), english.clone(), english);
        Ok(Languages { offered, english })
    }

    /// The language of a page: the first that we have of `ui_locales`, of `Accept-Language`, or of the setting.
    pub fn choose(&self, ui_locales: Option<&str>, accept_language: Option<&str>) -> &Language {
        let asked = ui_locales.and_then(|tags| of_ui_locales(tags).find_map(|tag| self.find(tag)));
        asked
            .or_else(|| of_accept_language(accept_language?).into_iter().find_map(|tag| self.find(tag)))
            .unwrap_or(self.default())
    }

    /// The language of a mail: the user's own, or else the one of the page where the mail was asked for.
    pub fn for_mail(&self, locale: Option<&str>, asked_in: Option<&str>) -> &Language {
        let wanted = [locale, asked_in].into_iter().flatten();
        wanted.into_iter().find_map(|tag| self.find(tag)).unwrap_or(self.default())
    }

    /// English, for pages that exist in no other language.
    pub fn english(&self) -> &Language {
        &self.english
    }

    /// All that readers can get, the default first.
    pub fn offered(&self) -> &[Language] {
        &self.offered
    }

    fn default(&self) -> &Language {
        self.offered.first().unwrap_or(&self.english)
    }

    /// The language of a tag by RFC 4647's lookup: `de-AT` finds `de`. Where that finds none, another variety of the language
    /// does: `pt` finds `pt-BR`.
    fn find(&self, tag: &str) -> Option<&Language> {
        if tag.len() > TAG_LENGTH_MAX {
            return None;
        }
        if tag == "*" {
            return Some(self.default());
        }
        let mut rest = tag;
        loop {
            if let Some(found) =
                self.offered.iter().find(|language| language.tag().eq_ignore_ascii_case(rest))
            {
                return Some(found);
            }
            match rest.rsplit_once('-') {
                Some((shorter, _)) => rest = shorter,
                None => break,
            }
        }
        let is_variety = |language: &&Language| {
            language.tag().split('-').next().is_some_and(|primary| primary.eq_ignore_ascii_case(rest))
        };
        self.offered.iter().find(is_variety)
    }
}

impl fmt::Debug for Languages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offered.fmt(out)
    }
}

impl Catalog {
    fn empty(rules: PluralRulesPreferences) -> Catalog {
        Catalog { texts: HashMap::new(), rules }
    }

    fn add(&mut self, entries: Vec<Entry>) {
        self.texts.extend(entries.into_iter().map(|Entry { key, text, .. }| (key, text)));
    }
}

/// The tag as it is written (`pt-BR` for `pt-br`), if it is one.
pub fn tag_of(text: &str) -> Option<String> {
    let locale = Locale::try_from_str(text).ok()?;
    (!locale.id.language.is_unknown()).then(|| locale.to_string())
}

fn built_in(tag: &str) -> Result<Option<Catalog>, Wrong> {
    let Some((tag, name, content)) = BUILT_IN.into_iter().find(|(known, ..)| *known == tag) else {
        return Ok(None);
    };
    let file = File { name: name.to_owned(), tag: tag.to_owned(), content: content.to_owned() };
    let mut catalog = Catalog::empty(rules_of(tag));
    catalog.add(file.read()?);
    Ok(Some(catalog))
}

/// Whose plural rules a language follows. One that Unicode has no rules for has a single form.
fn rules_of(tag: &str) -> PluralRulesPreferences {
    Locale::try_from_str(tag).map(|locale| (&locale).into()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
