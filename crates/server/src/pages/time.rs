//! Times in words: how long to wait, and how long ago.

use texts::Language;

/// "30 seconds", "2 minutes": how long to wait.
pub(crate) fn wait(language: &Language, seconds: u64) -> String {
    match seconds {
        0..=90 => language.count("time.seconds", seconds.max(1), &[]),
        _ => language.count("time.minutes", seconds.div_ceil(60), &[]),
    }
}

/// "2 minutes ago".
pub(crate) fn ago(language: &Language, seconds: u64) -> String {
    let (key, count) = match seconds {
        0..5 => return language.text("time.now").to_owned(),
        5..60 => ("time.seconds_ago", seconds),
        60..3600 => ("time.minutes_ago", seconds / 60),
        3600..172_800 => ("time.hours_ago", seconds / 3600),
        _ => ("time.days_ago", seconds / 86_400),
    };
    language.count(key, count, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use texts::Languages;

    #[test]
    fn times_are_in_the_words_of_the_language() {
        let languages = Languages::built_in();
        let german = languages.choose(Some("de"), None);
        let ago_in = |seconds| [languages.english(), german].map(|language| ago(language, seconds));
        assert_eq!(ago_in(4), ["just now", "gerade eben"]);
        assert_eq!(ago_in(59), ["59 seconds ago", "vor 59 Sekunden"]);
        assert_eq!(ago_in(60), ["a minute ago", "vor einer Minute"]);
        assert_eq!(ago_in(7199), ["an hour ago", "vor einer Stunde"]);
        assert_eq!(ago_in(172_799), ["47 hours ago", "vor 47 Stunden"]);
        assert_eq!(ago_in(172_800), ["2 days ago", "vor 2 Tagen"]);
        let wait_in = |seconds| [languages.english(), german].map(|language| wait(language, seconds));
        assert_eq!(wait_in(0), ["a second", "einer Sekunde"]);
        assert_eq!(wait_in(90), ["90 seconds", "90 Sekunden"]);
        assert_eq!(wait_in(91), ["2 minutes", "2 Minuten"]);
    }
}
