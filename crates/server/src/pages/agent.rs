//! A name for people of a `User-Agent`, such as "Firefox on Windows". Browsers send the names of several others before
//! their own.

use texts::Language;

/// Browsers by a word of their user agent. An earlier entry may also contain the words of later ones.
const BROWSERS: [(&str, &str); 9] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Vivaldi/", "Vivaldi"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
];
/// Operating systems, in the same way: the word, the name, and the key of the text.
const SYSTEMS: [(&str, &str, &str); 8] = [
    ("iPhone", "iPhone", "agent.on_iphone"),
    ("iPad", "iPad", "agent.on_ipad"),
    ("Android", "Android", "agent.on_system"),
    ("Windows", "Windows", "agent.on_system"),
    ("CrOS", "ChromeOS", "agent.on_system"),
    ("Macintosh", "Mac", "agent.on_mac"),
    ("Linux", "Linux", "agent.on_system"),
    ("BSD", "BSD", "agent.on_system"),
];

/// The name of a user agent. One that is not a browser's gets its first word.
pub(crate) fn name(language: &Language, agent: &str) -> String {
    let browser = BROWSERS.iter().find(|(word, _)| agent.contains(word)).map(|(_, name)| *name);
    let system = SYSTEMS.iter().find(|(word, ..)| agent.contains(word));
    match (browser, system) {
        (Some(browser), Some((_, system, key))) => {
            language.fill(key, &[("browser", browser), ("system", system)])
        }
        (Some(browser), None) => browser.to_owned(),
        (None, _) => match agent.split([' ', '/']).next().unwrap_or_default() {
            "" => language.text("agent.unknown").to_owned(),
            program => program.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use texts::Languages;

    fn name(agent: &str) -> String {
        super::name(Languages::built_in().english(), agent)
    }

    #[test]
    fn browsers_go_by_their_own_names_and_not_by_their_ancestors() {
        let webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
        for (agent, expected) in [
            (
                format!("Mozilla/5.0 (X11; Linux x86_64) {webkit} Chrome/156.0.0.0 Safari/537.36"),
                "Chrome on Linux",
            ),
            (
                format!("Mozilla/5.0 (Windows NT 10.0; Win64) {webkit} Chrome/156.0 Safari/537.36 Edg/156.0"),
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0".to_owned(),
                "Firefox on Windows",
            ),
            (
                format!("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) {webkit} Version/18.0 Safari/605.1"),
                "Safari on a Mac",
            ),
            (
                format!("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) {webkit} CriOS/150 Safari/6"),
                "Chrome on an iPhone",
            ),
            (
                format!("Mozilla/5.0 (Linux; Android 15) {webkit} Chrome/150.0 Mobile Safari/537.36"),
                "Chrome on Android",
            ),
        ] {
            assert_eq!(name(&agent), expected, "{agent}");
        }
    }

    #[test]
    fn what_is_no_browser_goes_by_its_first_word() {
        assert_eq!(
            ["curl/8.9.1", "sarsen/0.1 (linux)", "node", ""].map(name),
            ["curl", "sarsen", "node", "Unknown"]
        );
    }
}
