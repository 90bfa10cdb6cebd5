//! Characters that are not visible, or that reorder the visible ones (bidirectional controls). Two texts that look the
//! same could differ by such characters, and one of them could change the text after it.
//!
//! A few of them are part of how people write. They stay where they do something that a reader sees:
//!
//! - U+200C, which separates two letters that would join, and U+200D, which joins them, by RFC 5892, appendices A.1 and
//!   A.2. Both letters belong to one script. At the end of a word U+200D makes a chillu of Malayalam.
//! - U+200D between two pictographs: one emoji.
//! - A variation selector behind a character that has variants: an emoji, a keycap, an ideograph, a letter of Mongolian.

use icu_properties::props::{
    CanonicalCombiningClass, DefaultIgnorableCodePoint, EmojiModifier, ExtendedPictographic, GeneralCategory,
    GeneralCategoryGroup, JoiningType, Script,
};
use icu_properties::{CodePointMapData, CodePointSetData};

const NON_JOINER: char = '\u{200c}';
const JOINER: char = '\u{200d}';

/// The characters that hide something from a reader, each with its place in bytes.
pub fn hidden(text: &str) -> impl Iterator<Item = (usize, char)> {
    let letters = if text.is_ascii() { "" } else { text };
    letters.char_indices().filter(move |(at, letter)| may_hide(*letter) && !belongs(text, *at, *letter))
}

fn may_hide(letter: char) -> bool {
    // Separators of lines, controls of the text's direction that are no default ignorables, annotations.
    matches!(letter, '\u{61c}' | '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{fff9}'..='\u{fffb}')
        || (!letter.is_ascii() && CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(letter))
}

/// Whether the character at `at` does something there that a reader sees.
fn belongs(text: &str, at: usize, letter: char) -> bool {
    let before = || text[..at].chars().rev();
    let after = || text[at + letter.len_utf8()..].chars();
    match letter {
        NON_JOINER => follows_virama(before(), after()) || separates_joined_letters(before(), after()),
        JOINER => {
            follows_virama(before(), after())
                || makes_chillu(before(), after())
                || joins_pictographs(before(), after())
        }
        '\u{fe00}'..='\u{fe02}' | '\u{e0100}'..='\u{e01ef}' => {
            before().next().is_some_and(|base| script(base) == Script::Han)
        }
        '\u{fe0e}' | '\u{fe0f}' => {
            let is_keycap =
                |base: char| matches!(base, '0'..='9' | '#' | '*') && after().next() == Some('\u{20e3}');
            before().next().is_some_and(|base| is_pictograph(base) || is_keycap(base))
        }
        '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            before().next().is_some_and(|base| is_letter(base) && script(base) == Script::Mongolian)
        }
        _ => false,
    }
}

/// A letter with a virama, then another letter of its script: `before` runs backwards.
fn follows_virama(before: impl Iterator<Item = char>, mut after: impl Iterator<Item = char>) -> bool {
    let next = after.next().filter(|next| is_letter(*next));
    letter_with_virama(before).is_some_and(|letter| next.is_some_and(|next| script(next) == script(letter)))
}

/// A consonant of Malayalam with a virama at the end of a word.
fn makes_chillu(before: impl Iterator<Item = char>, mut after: impl Iterator<Item = char>) -> bool {
    let is_malayalam = letter_with_virama(before).is_some_and(|letter| script(letter) == Script::Malayalam);
    is_malayalam && after.next().is_none_or(|next| !may_hide(next))
}

/// The letter before a virama.
fn letter_with_virama(mut before: impl Iterator<Item = char>) -> Option<char> {
    let class = CodePointMapData::<CanonicalCombiningClass>::new();
    before.next().filter(|virama| class.get(*virama) == CanonicalCombiningClass::Virama)?;
    before.find(|letter| !is_mark(*letter)).filter(|letter| is_letter(*letter))
}

/// Two letters of one script, of which the first would join to the second. Marks may stand between.
fn separates_joined_letters(
    mut before: impl Iterator<Item = char>,
    mut after: impl Iterator<Item = char>,
) -> bool {
    let joining = |letter: char| CodePointMapData::<JoiningType>::new().get(letter);
    let is_solid = |letter: &char| joining(*letter) != JoiningType::Transparent;
    let (Some(left), Some(right)) = (before.find(is_solid), after.find(is_solid)) else { return false };
    [JoiningType::LeftJoining, JoiningType::DualJoining].contains(&joining(left))
        && [JoiningType::RightJoining, JoiningType::DualJoining].contains(&joining(right))
        && is_letter(left)
        && is_letter(right)
        && script(left) == script(right)
}

/// A pictograph, perhaps with a colour of skin or a variation selector, and another one behind.
fn joins_pictographs(mut before: impl Iterator<Item = char>, mut after: impl Iterator<Item = char>) -> bool {
    let is_addition =
        |letter: char| letter == '\u{fe0f}' || CodePointSetData::new::<EmojiModifier>().contains(letter);
    before.find(|letter| !is_addition(*letter)).is_some_and(is_pictograph)
        && after.next().is_some_and(is_pictograph)
}

fn is_pictograph(letter: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(letter)
}

fn is_letter(letter: char) -> bool {
    GeneralCategoryGroup::Letter.contains(CodePointMapData::<GeneralCategory>::new().get(letter))
}

fn is_mark(letter: char) -> bool {
    GeneralCategoryGroup::Mark.contains(CodePointMapData::<GeneralCategory>::new().get(letter))
}

fn script(letter: char) -> Script {
    CodePointMapData::<Script>::new().get(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joiners_and_variants_stay_where_a_reader_sees_them() {
        for visible in [
            // Persian: Ali-Reza; with a mark before the separator.
            "علی\u{200c}رضا",
            "می\u{64e}\u{200c}روم",
            // Sinhala: Chris. Devanagari: a half form, and a virama that stays visible.
            "ක්\u{200d}රිස්",
            "क्\u{200d}ष",
            "क्\u{200c}ष",
            // With a nukta between letter and virama.
            "क\u{93c}्\u{200d}य",
            // Malayalam: a chillu at the end of a name and before a space.
            "അരുണ്\u{200d}",
            "അരുണ്\u{200d} കുമാര്\u{200d}",
            // Emoji: a profession, with a colour of skin, a heart, a family.
            "👩\u{200d}💻 Ada",
            "👩🏽\u{200d}💻",
            "❤\u{fe0f}\u{200d}🔥",
            "👨\u{200d}👩\u{200d}👧",
            "1\u{fe0f}\u{20e3}",
            // Japanese: a variant of an ideograph.
            "葛\u{e0100}城",
            "Zoë a\u{301} 株式会社 שלום Ада 🙂",
        ] {
            assert_eq!(hidden(visible).next(), None, "{visible:?}");
        }
    }

    #[test]
    fn everything_else_invisible_is_found() {
        for (text, at) in [
            ("Ada\u{200c}Lovelace", 3),
            ("Ada\u{200d}Lovelace", 3),
            ("Ада\u{200c}Лав", 6),
            ("\u{200c}علی", 0),
            ("علی\u{200c}", 6),
            ("علی\u{200c} رضا", 6),
            ("علی\u{200c}\u{200c}رضا", 6),
            ("علی\u{200d}رضا", 6),
            // The first letter joins to no letter behind it.
            ("دا\u{200c}د", 4),
            // Letters of two scripts.
            ("علی\u{200c}ада", 6),
            ("क्\u{200d}a", 6),
            ("क्\u{200d}", 6),
            ("क\u{200d}ष", 3),
            ("്\u{200d}", 3),
            ("ണ്\u{200d}\u{200d}", 6),
            ("👩\u{200d}", 4),
            ("👩\u{200d}a", 4),
            ("a\u{200d}💻", 1),
            ("🏽a\u{200d}💻", 5),
            ("Ada\u{fe0f}", 3),
            ("1\u{fe0f}", 1),
            ("Ada\u{e0100}", 3),
            ("a\u{180b}", 1),
        ] {
            assert_eq!(hidden(text).next().map(|(at, _)| at), Some(at), "{text:?}");
        }
        let always = "\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200b}\u{200e}\u{200f}\u{2028}\u{202a}\u{202e}\u{2060}\
                      \u{2066}\u{2069}\u{3164}\u{feff}\u{ffa0}\u{fff9}\u{1d173}\u{e0001}\u{e0041}";
        assert_eq!(hidden(always).count(), always.chars().count());
    }

    #[test]
    fn a_long_text_takes_a_time_in_proportion() {
        // Each separator is looked at with the marks around it, once from each side.
        let long = "ع".to_owned() + &("\u{64e}".repeat(1000) + "\u{200c}").repeat(200);
        let begun = std::time::Instant::now();
        assert_eq!(hidden(&long).count(), 200);
        assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}
