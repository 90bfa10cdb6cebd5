//! Sources of settings, and errors.

use super::*;
use std::path::Path;

struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn with(text: &str) -> Case {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("sarsen.toml"), text).expect("written");
        Case { folder }
    }

    fn load(&self, variables: &[(&str, &str)]) -> Result<Config> {
        let flags = Flags::with_config(self.folder.path().join("sarsen.toml"));
        Config::load(&flags, &Environment::of(variables))
    }

    /// The message, without the folder's own name.
    fn refusal(&self, variables: &[(&str, &str)]) -> String {
        let error = self.load(variables).expect_err("refused");
        assert!(matches!(error, Error::Usage(_)));
        error.to_string().replace(&format!("{}/", self.folder.path().display()), "")
    }
}

#[test]
fn the_defaults_are_for_this_machine_only() {
    let config = Case::with("").load(&[]).expect("good");
    assert_eq!(config.listen.value, [LISTEN]);
    assert_eq!(config.issuer_at(&config.listen.value), "http://localhost:7070");
    assert_eq!(config.settings(&config.listen.value).session_life.as_secs(), 30 * 86_400);
}

#[test]
fn the_environment_wins_over_the_file_and_paths_of_the_file_are_beside_it() {
    let case = Case::with(
        "listen = [\"127.0.0.1:1\", \"[::1]:1\"]\ndatabase = \"sqlite:data/x.db\"\nsign_up = false\n",
    );
    let config = case.load(&[("SARSEN_LISTEN", "127.0.0.1:2,127.0.0.1:3")]).expect("good");
    assert_eq!(config.listen.value.len(), 2);
    assert_eq!(config.listen.value[0].port(), 2);
    assert_eq!(config.listen.source, Source::Environment("SARSEN_LISTEN".to_owned()));
    assert!(!config.sign_up.value);
    let folder = case.folder.path();
    assert_eq!(config.database.value.path(), Some(folder.join("data/x.db").as_path()));
    assert_eq!(config.secret_key_file.value, folder.join("sarsen.key"));
    let config = case.load(&[("SARSEN_DATABASE", "sqlite:y.db")]).expect("good");
    assert_eq!(config.database.value.path(), Some(Path::new("y.db")), "from where it was started");
}

#[test]
fn an_error_is_one_line_with_the_source_and_what_is_allowed() {
    let refusals: Vec<String> = [
        ("listn = \"x\"", &[][..]),
        ("\n\nhash_threads = \"many\"", &[]),
        ("hash_threads = 0", &[]),
        ("listen = 7070", &[]),
        ("listen = []", &[]),
        ("sign_up = 1", &[]),
        ("database = \"oracle://ada:hunter2@db/x\"", &[]),
        ("replicas = [\"postgres://ada:hunter2@db/x\"]", &[]),
        ("database = \"postgres://db/x\"\nreplicas = [\"mysql://ada:hunter2@db/x\"]", &[]),
        ("database = \"mysql://db/x\"\ndatabase_direct = \"postgres://ada:hunter2@db/x\"", &[]),
        ("issuer = \"https://id.example.com/\"", &[]),
        ("issuer = \"http://id.example.com\"", &[]),
        ("listen = \"0.0.0.0:7070\"", &[]),
        ("[listen]\nport = 1", &[]),
        ("languages = []", &[]),
        ("languages = [\"de\", \"DE\"]", &[]),
        ("languages = [\"en\", \"fr\"]", &[]),
        ("languages = [\"german language\"]", &[]),
        ("log = \"=\"", &[]),
        ("a = ", &[]),
        ("", &[("SARSEN_SESSION_DAYS", "never")]),
        ("", &[("SARSEN_SESION_DAYS", "3")]),
        ("", &[("SARSEN_METRICS_TOKEN", "hunter2")]),
    ]
    .iter()
    .map(|(text, variables)| Case::with(text).refusal(variables))
    .collect();
    assert!(refusals.iter().all(|text| text.lines().count() == 1 && !text.contains("hunter2")));
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn texts_of_the_directory_replace_those_of_the_program_and_a_wrong_one_stops_the_start() {
    let case = Case::with("languages = [\"fr\", \"de\"]\nlanguages_directory = \"texts\"");
    let write = |name: &str, content: &str| {
        std::fs::write(case.folder.path().join("texts").join(name), content).expect("written");
    };
    std::fs::create_dir(case.folder.path().join("texts")).expect("made");
    write("fr.toml", "[sign_in]\ntitle = \"Connexion\"\n");
    write("notes.txt", "no texts");
    let config = case.load(&[]).expect("good");
    let settings = config.settings(&config.listen.value);
    let shown = |accept| settings.languages.choose(None, Some(accept)).text("sign_in.title").to_owned();
    assert_eq!([shown("fr-CH, de"), shown("de"), shown("en")], ["Connexion", "Anmelden", "Connexion"]);
    write("fr.toml", "[sign_in]\n\ntitel = \"Connexion\"\n");
    let expected = "texts/fr.toml line 3: there is no text sign_in.titel; use sign_in.title";
    assert_eq!(case.refusal(&[]), expected);
    write("fr.toml", &"#".repeat((1 << 20) + 1));
    assert!(case.refusal(&[]).contains("a file of texts may have"));
    std::fs::remove_dir_all(case.folder.path().join("texts")).expect("removed");
    assert!(case.load(&[]).expect_err("no folder").to_string().contains("texts"));
}

#[test]
fn variables_that_are_no_settings_are_ignored() {
    let variables = [
        ("SARSEN_TEST_BATCH_MAX", "3"),
        ("SARSEN_SERVICE_HOST", "10.0.0.1"),
        ("SARSEN_PORT", "tcp://x"),
        ("SARSEN_LOG", ""),
        ("SARSEN_MOVE_FROM", "sqlite:sarsen.db"),
        ("SARSEN_MOVE_TO", "postgres://db/x"),
        ("SARSEN_KEY", "sarsen_sk_x"),
        // A service of Kubernetes with the name sarsen-postgres, beside the server.
        ("SARSEN_POSTGRES_SERVICE_HOST", "10.0.0.2"),
        ("SARSEN_POSTGRES_SERVICE_PORT", "5432"),
        ("SARSEN_POSTGRES_SERVICE_PORT_SQL", "5432"),
        ("SARSEN_POSTGRES_PORT", "tcp://10.0.0.2:5432"),
        ("SARSEN_POSTGRES_PORT_5432_TCP", "tcp://10.0.0.2:5432"),
        ("SARSEN_POSTGRES_PORT_5432_TCP_ADDR", "10.0.0.2"),
    ];
    let config = Case::with("").load(&variables).expect("good");
    assert_eq!(config.log.value, "info");
    // Without such a service it is a mistake.
    let refused = Case::with("").refusal(&[("SARSEN_LISTEN_PORT", "7070")]);
    assert!(refused.starts_with("unknown setting listen_port (environment SARSEN_LISTEN_PORT)"), "{refused}");
}

/// The help of every command.
const HELP: &str = include_str!("../../tests/it/snapshots/it__help__every_command_explains_itself.snap");

/// The words in a text that begin like a setting in the environment.
fn variables(text: &str) -> Vec<&str> {
    let ends = |word: &str| word.find(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
    text.match_indices("SARSEN_")
        .map(|(start, _)| &text[start..])
        .map(|rest| &rest[..ends(rest).unwrap_or(rest.len())])
        .filter(|word| word.len() > "SARSEN_".len() && !word.ends_with('_'))
        .collect()
}

#[test]
fn every_variable_of_the_documentation_and_of_the_commands_may_be_set() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let (mut folders, mut texts) = (vec![docs], vec![HELP.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                texts.push(std::fs::read_to_string(path).expect("a text"));
            }
        }
    }
    let mut found: Vec<&str> = texts.iter().flat_map(|text| variables(text)).collect();
    found.sort_unstable();
    found.dedup();
    assert!(found.len() > 10, "{found:?}");
    let is_known = |name: &&str| {
        !sources::is_setting(name, &Environment::default())
            || settings::find(&name["SARSEN_".len()..].to_lowercase()).is_some()
    };
    let unknown: Vec<&&str> = found.iter().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "they stop the start of the server: {unknown:?}");
}

#[test]
fn a_file_that_was_given_must_exist() {
    let error = Config::load(&Flags::with_config("no/such.toml".into()), &Environment::default())
        .expect_err("missing");
    assert_eq!(error.to_string(), "there is no file no/such.toml; `sarsen init` writes one");
}

#[test]
fn printed_settings_are_valid_and_have_no_secret() {
    let text = "listen = \"127.0.0.1:9\"\ndatabase = \"postgres://ada:hunter2@db/x\"\nmetrics_token = \"hunter2hunter2hunter2\"\n";
    let config = Case::with(text).load(&[(SECRET_KEY_VARIABLE, "hunter2")]).expect("good");
    let printed = print(&config);
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(printed.parse::<toml::Table>().is_ok(), "{printed}");
    assert!(printed.contains("issuer = \"http://localhost:9\""), "{printed}");
}

#[test]
fn a_size_has_a_unit_and_a_range() {
    let parsed = ["16M", "256M", "2G", "15M", "1025G", "256", "M", "-1G", "256MB", "18014398509481984G"];
    let expected = [Some(16 << 20), Some(256 << 20), Some(2 << 30), None, None, None, None, None, None, None];
    assert_eq!(parsed.map(super::value::parse_size), expected);
    let texts = [256 << 20, 2 << 30, 1536 << 20].map(super::value::size_text);
    assert_eq!(texts, ["256M", "2G", "1536M"]);
}
